"""What a node or a distributor says of itself over HTTP.

`/metrics` is for Prometheus, `/status` everything as JSON, and `/health` says whether the process can do its
work: 200, or 503 with the problems."""

from __future__ import annotations

import asyncio
import json
from typing import Any, Protocol, Self

from overlay.contact import Address
from overlay.errors import NetworkError, why
from overlay.metrics import Metrics

REQUEST_TIMEOUT = 5.0
LONGEST_REQUEST = 8192


class Reporting(Protocol):
    """A process that has counters and a status, as a JSON object."""

    @property
    def metrics(self) -> Metrics: ...

    def status(self) -> dict[str, Any]: ...

    def problems(self) -> list[str]:
        """Why it cannot do its work, in sentences; none when it can."""
        ...


class StatusServer:
    """Serves while it is entered; one short request a connection."""

    def __init__(self, process: Reporting, listen: Address) -> None:
        self._process = process
        self._listen = listen

    async def __aenter__(self) -> Self:
        try:
            self._server = await asyncio.start_server(
                self._serve, self._listen.host, self._listen.port, limit=LONGEST_REQUEST
            )
        except OSError as error:
            raise NetworkError(
                f"metrics cannot be served on {self._listen}: {why(error)}; choose another port"
            ) from None
        host, port = self._server.sockets[0].getsockname()[:2]
        self.address = Address(host, port)
        return self

    async def __aexit__(self, *_: object) -> None:
        self._server.close()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            async with asyncio.timeout(REQUEST_TIMEOUT):
                request = await reader.readuntil(b"\r\n\r\n")
                writer.write(self._answer(request))
                await writer.drain()
        except TimeoutError:
            writer.transport.abort()  # it may take nothing of the answer for ever
        except (OSError, asyncio.IncompleteReadError, asyncio.LimitOverrunError):
            pass  # the client has gone, or what it sent is not a request
        finally:
            writer.close()

    def _answer(self, request: bytes) -> bytes:
        path = request.split(b" ", 2)[1:2]
        if path == [b"/metrics"]:
            return _response(200, "text/plain; version=0.0.4", self._process.metrics.prometheus())
        if path == [b"/status"]:
            return _response(200, "application/json", json.dumps(self._process.status()))
        if path == [b"/health"]:
            problems = self._process.problems()
            body = json.dumps({"healthy": not problems, "problems": problems})
            return _response(503 if problems else 200, "application/json", body)
        return _response(404, "text/plain", "there are /metrics, /health and /status\n")


def _response(code: int, kind: str, text: str) -> bytes:
    body = text.encode()
    reason = {200: "OK", 404: "Not Found", 503: "Service Unavailable"}[code]
    head = (
        f"HTTP/1.1 {code} {reason}\r\nContent-Type: {kind}; charset=utf-8\r\n"
        f"Content-Length: {len(body)}\r\nConnection: close\r\n\r\n"
    )
    return head.encode() + body
