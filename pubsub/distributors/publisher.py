"""Publishes to services through distributors.

    async with Publisher(bootstrap=["127.0.0.1:4000"]) as publisher:
        await publisher.create("ticker")
        await publisher.publish("ticker", {"CMC": 17.5})

A message that was acknowledged reaches every distributor, and through it every subscriber that is promised
it, unless its distributor and this publisher both fail before another distributor has it.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, Literal, get_args

from overlay.entropy import entropy
from overlay.errors import UsageError
from pubsub.distributors.client import LightClient, NoDistributor
from pubsub.distributors.content import check_service, pack_application_data
from pubsub.distributors.protocol.publishing import PublishingCore
from pubsub.reliable.runs import RUN_BYTES, source_of

Wait = Literal["sent", "acked", "safe"]

LINGER = 2.0
"""Seconds that closing waits for what was sent to be acknowledged."""


class Publisher(LightClient):
    """A light publisher: it finds a distributor, and another one when that fails."""

    async def create(self, service: str) -> None:
        """Create a service, or use the one that there is; returns when a distributor has acknowledged it.

        `NoDistributor` when none answers."""
        check_service(service)
        core = self._publishing.get(service)
        if core is None:
            runtime = self._open()
            core = self._publishing[service] = PublishingCore(
                runtime.context("datagram"),
                runtime.context("channel"),
                self.config,
                service,
                source_of(runtime.contact.id, entropy().randbytes(RUN_BYTES)),
                progress=self._tell_news,
                want_distributors=self._look_up,
            )
            core.start()
        try:
            await self._connected(core, service)
        except BaseException:
            if not core.was_connected:
                core.stop()
                self._publishing.pop(service, None)
            raise

    async def remove(self, service: str) -> None:
        """Remove a service: all distributors of the group let its messages go, and its subscribers get
        `NoSuchService`. Who publishes to it again creates it again. `NoDistributor` when none answers."""
        await self.create(service)
        core = self._publishing[service]
        answered = asyncio.Event()
        core.remove(answered.set)
        try:
            async with asyncio.timeout(self._connect_timeout):
                await answered.wait()
        except TimeoutError:
            raise NoDistributor(f"no distributor has removed {service!r}") from None
        finally:
            core.stop()
            del self._publishing[service]

    async def publish(self, service: str, data: Any = None, *, wait: Wait = "acked") -> int:
        """Publish a message and return its number; the service is created if it was not before.

        `data` is anything msgpack carries, to 1 MiB. `wait="acked"` returns when a distributor has the
        message, "safe" when all of its view have it, "sent" as soon as there is room for it. While the
        distributors' buffers are full, it waits."""
        if wait not in get_args(Wait):
            raise UsageError(f'wait is "sent", "acked" or "safe", not {wait!r}')
        content = pack_application_data(data)
        core = self._publishing.get(service)
        if core is None or not core.was_connected:
            await self.create(service)
            core = self._publishing[service]
        while not core.has_room:
            await self._next_news()
            self._open()
        number = core.publish(content)
        if wait == "acked":
            while core.received < number:
                await self._next_news()
                self._open()
        elif wait == "safe":
            while core.stable < number:
                await self._next_news()
                self._open()
        return number

    async def close(self) -> None:
        """Wait a moment for what was sent to be received, and stop; more than once is fine."""
        if not self._closed and self._runtime is not None:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(LINGER):
                    for service in list(self._publishing):
                        await self.flush(service)
        await super().close()

    async def flush(self, service: str) -> None:
        """Wait until every message so far has been received by a distributor."""
        core = self._publishing.get(service)
        while core is not None and core.received < core.last:
            await self._next_news()
            self._open()
