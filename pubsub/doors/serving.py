"""What doors share: listening with aiohttp, TLS, and which web pages may use them."""

from __future__ import annotations

import asyncio
import hmac
import ssl
from collections.abc import Sequence
from contextlib import AsyncExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from overlay.contact import Address
from overlay.errors import UsageError, why
from pubsub.doors.sockets import listening_on

if TYPE_CHECKING:
    from aiohttp import web

CLOSING_SECONDS = 2.0
"""How long clients have to take what was written to them when a door closes."""


SILENT_SECONDS = 60.0
"""How long a connection may be open without a whole request, or take nothing of what waits for it."""


async def serve(
    stack: AsyncExitStack,
    app: web.Application,
    at: Address,
    tls: ssl.SSLContext | None,
    what: str,
) -> Address:
    """Serve the application until the stack ends; where it is served, with the port that was free."""
    from aiohttp import web

    runner = web.AppRunner(
        app,
        access_log=None,
        shutdown_timeout=CLOSING_SECONDS,
        keepalive_timeout=SILENT_SECONDS,
    )
    await runner.setup()
    stack.push_async_callback(runner.cleanup)
    listening = listening_on(at, what, takes_within=SILENT_SECONDS)
    await web.SockSite(runner, listening, ssl_context=tls).start()
    return Address(*listening.getsockname()[:2])


def is_own_page(request: web.Request, origins: Sequence[str]) -> bool:
    """Whether a browser may do this for its page: a page of anywhere may not use a door behind its reader's
    back. `origins`: those that may, besides pages of the door itself; `*` for all."""
    origin = request.headers.get("Origin")
    if origin is None or "*" in origins or origin in origins:
        return True
    return origin.partition("://")[2] == request.host


class Bodies:
    """Reads the bodies of requests: so many at a time, each within a time, however many clients dawdle."""

    def __init__(self, most: int, seconds: float) -> None:
        self._most = most
        self._seconds = seconds
        self._reading = 0

    async def read(self, request: web.Request) -> bytes:
        """The body; `HTTPException` when there is no room for it, or it does not come."""
        from aiohttp import web

        if self._reading >= self._most:
            raise web.HTTPServiceUnavailable(
                reason="too many requests are being received; try again"
            )
        self._reading += 1
        try:
            async with asyncio.timeout(self._seconds):
                return await request.read()
        except TimeoutError:
            raise web.HTTPRequestTimeout(reason="the body took too long to come") from None
        finally:
            self._reading -= 1


TOKEN_NEEDED = "a token is needed: Authorization: Bearer TOKEN"
CHALLENGE = {"WWW-Authenticate": "Bearer"}
"""Headers of the answer that says so: HTTP asks for them with 401."""


class Tokens:
    """What a request must bring one of, where there are any."""

    def __init__(self, tokens: Sequence[str]) -> None:
        if any(not token for token in tokens):
            raise UsageError("a token of a door is a text that is not empty")
        self._tokens = [token.encode() for token in tokens]

    def allow(self, request: web.Request) -> bool:
        """Whether the request brings a token, as `Authorization: Bearer TOKEN` or `?token=TOKEN`."""
        if not self._tokens:
            return True
        scheme, _, given = request.headers.get("Authorization", "").partition(" ")
        token = given if scheme.lower() == "bearer" else request.query.get("token", "")
        shown = token.encode("utf-8", "surrogateescape")  # a header may have any bytes
        return any(hmac.compare_digest(shown, one) for one in self._tokens)


def certificate(file: str | Path, key: str | Path) -> ssl.SSLContext:
    """What a door shows its clients; `UsageError` when the files are not a certificate and its key."""
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    try:
        for path in (file, key):
            with open(path):  # what cannot be read is told by its name
                pass
        context.load_cert_chain(file, key)
    except ssl.SSLError:
        raise UsageError(
            f"{file} and {key} are not a certificate and its key: both are to be in PEM, and the key has "
            "to be the certificate's"
        ) from None
    except OSError as error:
        raise UsageError(
            f"{file} and {key} are not a certificate and its key: "
            f"{error.filename} cannot be read: {why(error)}"
        ) from None
    return context
