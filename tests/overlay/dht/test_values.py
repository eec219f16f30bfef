"""Values: versions, lives, replicas, and what `put` refuses."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any

import pytest
from kademlia.utils import digest

from overlay.dht import Dht, DhtConfig, PutOutcome, ValueTooLarge
from overlay.dht.messages import MAX_VALUE_BYTES, StoredValue
from overlay.errors import ClosedError, UsageError
from overlay.virtual import Latency, Network, nth_host
from tests.overlay.dht.both import on_both
from tests.overlay.dht.stock import open_stock
from tests.overlay.dht.swarm import Swarm, key, open_member

Observe = Callable[[Network], Coroutine[Any, Any, Any]]
Verdict = AbstractContextManager[Any]


async def republished(net: Network) -> Any:
    """An outdated holder publishes again; what does the holder of the newer value have then?"""
    swarm = Swarm(net)
    await swarm.grow(2)
    old, new = swarm.members
    new.protocol.store.offer(key("k"), StoredValue(2, b"new", 7200.0))
    old.protocol.store.offer(key("k"), StoredValue(1, b"old", 7200.0))
    await asyncio.sleep(4000)
    return getattr(new.protocol.store.get(key("k")), "value", None)


async def republished_stock(net: Network) -> Any:
    old, new = await open_stock(nth_host(2)), await open_stock(nth_host(3))
    await old.bootstrap([(nth_host(3), 4000)])
    new.storage[key("k")] = b"new"
    old.storage[key("k")] = b"old"
    await asyncio.sleep(3601)
    await old._refresh_table()
    return new.storage.get(key("k"))


@on_both(republished, republished_stock)
def test_publishing_again_does_not_bring_back_an_old_value(
    subject: Observe, verdict: Verdict, seed: int
) -> None:
    net = Network(seed)
    with verdict:
        assert net.run(subject(net)) == b"new"


async def put_alone(net: Network) -> Any:
    """A node whose only neighbour has just died."""
    swarm = Swarm(net)
    await swarm.grow(2)
    swarm.crash(swarm.members[1])
    return (await swarm.members[0].dht.put(key("k"), b"v", 1, 60.0)).replicas


async def put_alone_stock(net: Network) -> Any:
    server = await open_stock(nth_host(2))
    other = await open_stock(nth_host(3))
    await server.bootstrap([(nth_host(3), 4000)])
    other.stop()
    return int(await server.set("k", b"v")) + 1


@on_both(put_alone, put_alone_stock, fails_with=ValueError)
def test_putting_when_all_neighbours_are_dead_does_not_raise(
    subject: Observe, verdict: Verdict, seed: int
) -> None:
    net = Network(seed)
    with verdict:
        assert net.run(subject(net)) == 1


async def outdated_at_home(net: Network) -> Any:
    """A node holds an old version itself; what does it read?"""
    swarm = Swarm(net)
    await swarm.grow(3)
    reader, *others = swarm.members
    reader.protocol.store.offer(key("k"), StoredValue(1, b"old", 600.0))
    for other in others:
        other.protocol.store.offer(key("k"), StoredValue(2, b"new", 600.0))
    record = await reader.dht.get(key("k"))
    assert record is not None
    return record.value


async def outdated_at_home_stock(net: Network) -> Any:
    reader, other = await open_stock(nth_host(2)), await open_stock(nth_host(3))
    await reader.bootstrap([(nth_host(3), 4000)])
    reader.storage[digest("k")] = b"old"
    other.storage[digest("k")] = b"new"
    return await reader.get("k")


@on_both(outdated_at_home, outdated_at_home_stock)
def test_a_value_at_home_may_be_outdated(subject: Observe, verdict: Verdict, seed: int) -> None:
    net = Network(seed)
    with verdict:
        assert net.run(subject(net)) == b"new"


def with_network(
    seed: int, work: Callable[[Swarm], Coroutine[Any, Any, None]], size: int = 12, **settings: Any
) -> None:
    net = Network(seed, latency=Latency.uniform(0.005, 0.02))

    async def main() -> None:
        swarm = Swarm(net, DhtConfig(**({"k": 5} | settings)))
        await swarm.grow(size)
        await work(swarm)

    net.run(main())


def test_a_value_is_at_the_k_closest_nodes_and_found_from_anywhere(seed: int) -> None:
    async def work(swarm: Swarm) -> None:
        outcome = await swarm.members[3].dht.put(key("k"), b"value", 7, 60.0)
        assert outcome == PutOutcome(replicas=5, newest=7)
        holders = [m.contact for m in swarm.members if m.protocol.store.get(key("k"))]
        assert sorted(holders, key=str) == sorted(swarm.closest(key("k"), 5), key=str)
        for member in swarm.members:
            record = await member.dht.get(key("k"))
            assert record is not None
            assert (record.version, record.value) == (7, b"value")
            assert record.time_to_live <= 60.0
        assert await swarm.members[0].dht.get(key("nothing")) is None

    with_network(seed, work)


def test_an_outdated_put_changes_nothing_and_says_so(seed: int) -> None:
    async def work(swarm: Swarm) -> None:
        await swarm.members[0].dht.put(key("k"), b"new", 5, 60.0)
        outcome = await swarm.members[1].dht.put(key("k"), b"old", 4, 60.0)
        assert outcome == PutOutcome(replicas=0, newest=5)
        record = await swarm.members[2].dht.get(key("k"))
        assert record is not None
        assert record.value == b"new"

    with_network(seed, work)


def test_publishing_again_keeps_a_value_through_churn_but_not_beyond_its_life(seed: int) -> None:
    async def work(swarm: Swarm) -> None:
        started = swarm.net.now
        await swarm.members[0].dht.put(key("k"), b"v", 1, 600.0)
        while swarm.net.now - started < 500:
            for victim in [m for m in swarm.members if m.protocol.store.get(key("k"))][:2]:
                swarm.crash(victim)
                await swarm.add()
            await asyncio.sleep(60)
            assert await swarm.members[0].dht.get(key("k")) is not None
        await asyncio.sleep(600 - (swarm.net.now - started) + 15)
        for member in swarm.members:
            assert await member.dht.get(key("k")) is None
            assert len(member.protocol.store) == 0

    with_network(seed, work, republish_interval=30.0, check_interval=10.0)


async def _member(net: Network) -> Dht:
    return (await open_member(nth_host(2))).dht


@pytest.mark.parametrize(
    ("value", "version", "life", "error"),
    [
        (bytes(MAX_VALUE_BYTES + 1), 1, 60.0, ValueTooLarge),
        ("text", 1, 60.0, UsageError),
        (b"v", -1, 60.0, UsageError),
        (b"v", 2**63, 60.0, UsageError),
        (b"v", 1, 0.0, UsageError),
        (b"v", 1, float("nan"), UsageError),
        (b"v", 1, 86_401.0, UsageError),
    ],
)
def test_put_refuses_what_cannot_work(
    seed: int, value: bytes, version: int, life: float, error: type[Exception]
) -> None:
    net = Network(seed)

    async def main() -> None:
        dht = await _member(net)
        with pytest.raises(error):
            await dht.put(key("k"), value, version, life)

    net.run(main())


def test_a_closed_dht_says_so(seed: int) -> None:
    net = Network(seed)

    async def main() -> None:
        dht = await _member(net)
        dht.close()
        dht.close()
        for call in (
            dht.closest(key(1)),
            dht.get(key(1)),
            dht.put(key(1), b"", 1, 1.0),
            dht.join([]),
        ):
            with pytest.raises(ClosedError):
                await call

    net.run(main())


@pytest.mark.parametrize("count", [0, -1, 65])
def test_closest_refuses_a_count_out_of_range(seed: int, count: int) -> None:
    net = Network(seed)

    async def main() -> None:
        dht = await _member(net)
        with pytest.raises(UsageError):
            await dht.closest(key(1), count)

    net.run(main())


@pytest.mark.parametrize(
    "wrong",
    [
        {"k": 0},
        {"k": 65},
        {"alpha": 21},
        {"read_quorum": 0},
        {"dead_for": -1.0},
        {"max_records": 0},
    ],
)
def test_a_wrong_setting_is_named(wrong: dict[str, Any]) -> None:
    with pytest.raises(UsageError, match=next(iter(wrong))):
        DhtConfig(**wrong)
