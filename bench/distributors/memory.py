"""What a subscriber costs its distributor in memory, counted object by object in this process."""

from __future__ import annotations

import asyncio
import gc
import tracemalloc

from overlay.channel import ChannelConfig, Channels
from overlay.contact import Contact, PeerId
from overlay.endpoint import Endpoint, EndpointConfig
from overlay.entropy import entropy
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.runtime import Runtime
from pubsub.distributors.client import runtime_config
from pubsub.distributors.config import DistributorConfig
from pubsub.distributors.messages import Action, Request
from pubsub.distributors.protocol.distributor import DistributorCore

SERVICE = "bench"


def bytes_each_subscriber(count: int) -> float:
    """Bytes that a distributor's memory grows by for each of so many subscribers."""
    return asyncio.run(_subscribers(count))


def bytes_each_channel(count: int) -> float:
    """The same for channels, which a subscriber does without."""
    return asyncio.run(_channels(count))


async def _subscribers(count: int) -> float:
    runtime = await Runtime.open(runtime_config("127.0.0.1:0", (), False, None))
    async with runtime:
        core = DistributorCore(
            runtime.context("channel"),
            runtime.context("datagram"),
            DistributorConfig(found_after=0.01),
            runtime.endpoint.max_body,
        )
        core.create(SERVICE)
        while not core.is_ready:
            core.tick()
            await asyncio.sleep(0.02)
        before = _traced()
        for number in range(count):
            request = Request(number, Action.SUBSCRIBE, SERVICE, False, None)
            core.receive_request(_somebody(number), request)
            if number % 100 == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(0.2)
        assert len(core.services[SERVICE].fanout.subscribers) == count
        return (_traced() - before) / count


async def _channels(count: int) -> float:
    endpoint = await Endpoint.open(EndpointConfig("127.0.0.1:0"), Identity.create(), Metrics())
    channels = Channels(endpoint, ChannelConfig(max_channels=count, max_half_open=count))
    try:
        before = _traced()
        handles = []
        for number in range(count):
            handles.append(channels.to(_somebody(number)))
            handles[-1].ping()
            if number % 100 == 0:
                await asyncio.sleep(0)
        await asyncio.sleep(0.2)
        return (_traced() - before) / count
    finally:
        await channels.close()
        await endpoint.close()


def _somebody(number: int) -> Contact:
    """A contact of its own for each, as datagrams from outside give them; nobody listens there."""
    return Contact(PeerId(entropy().randbytes(20)), f"127.1.{number >> 8}.{number & 255}", 9)


def _traced() -> int:
    gc.collect()
    if not tracemalloc.is_tracing():
        tracemalloc.start()
    return tracemalloc.get_traced_memory()[0]
