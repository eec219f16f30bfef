"""Loss, duplication, corruption, latency and partitions do what they say, and nothing else."""

from __future__ import annotations

import asyncio

import pytest

from overlay.errors import UsageError
from overlay.virtual import Latency, Network

from .helpers import Recorder, listen

ONE, TWO, THREE = "127.0.0.2", "127.0.0.3", "127.0.0.4"
MANY = 4000


async def send_many(source: Recorder, target: Recorder, count: int = MANY) -> None:
    """Number `count` datagrams, send them at once, and wait until all have arrived or are lost."""
    for number in range(count):
        source.transport.sendto(number.to_bytes(4, "big"), tuple(target.address))
    await asyncio.sleep(100)


def received_of(net: Network, count: int = MANY) -> list[int]:
    async def main() -> list[int]:
        one, two = await listen(ONE), await listen(TWO)
        await send_many(one, two, count)
        return [int.from_bytes(data, "big") for data in two.payloads]

    return net.run(main())


def test_without_faults_everything_arrives_once_and_in_order() -> None:
    assert received_of(Network(seed=1)) == list(range(MANY))


def test_loss_loses_its_share_and_no_more(seed: int) -> None:
    net = Network(seed, loss=0.2)
    received = received_of(net)
    assert received == sorted(set(received))
    assert net.stats.lost == MANY - len(received) == net.stats.lost_by["chance"]
    assert 0.16 < net.stats.lost / MANY < 0.24


def test_duplicates_arrive_twice(seed: int) -> None:
    net = Network(seed, duplicate=0.1)
    received = received_of(net)
    assert sorted(set(received)) == list(range(MANY))
    assert max(received.count(number) for number in range(MANY)) == 2
    assert len(received) - MANY == net.stats.duplicated
    assert 0.07 < net.stats.duplicated / MANY < 0.13


def test_corruption_changes_one_byte_and_never_the_length(seed: int) -> None:
    async def main() -> list[bytes]:
        one, two = await listen(ONE), await listen(TWO)
        for _ in range(1000):
            one.transport.sendto(bytes(10), tuple(two.address))
        await asyncio.sleep(1)
        return two.payloads

    net = Network(seed, corrupt=0.3)
    received = net.run(main())
    spoiled = [data for data in received if data != bytes(10)]
    assert len(received) == 1000
    assert len(spoiled) == net.stats.corrupted
    assert 200 < len(spoiled) < 400
    assert all(len(data) == 10 and data.count(0) == 9 for data in spoiled)
    assert len({data.strip(b"\0") for data in spoiled}) > 50


@pytest.mark.parametrize(
    ("latency", "least", "mean"),
    [
        (Latency.constant(0.25), 0.25, 0.25),
        (Latency.uniform(0.1, 0.3), 0.1, 0.2),
        (Latency.exponential(0.1, 0.3), 0.1, 0.3),
        (Latency.lognormal(0.2, 0.5), 0.0, 0.2 * 2.718281828 ** (0.5**2 / 2)),
    ],
    ids=lambda value: value.name if isinstance(value, Latency) else "",
)
def test_latency_follows_its_model(latency: Latency, least: float, mean: float) -> None:
    async def main() -> list[float]:
        one, two = await listen(ONE), await listen(TWO)
        await send_many(one, two)
        return [time for time, _, _ in two.received]

    delays = Network(seed=5, latency=latency).run(main())
    assert len(delays) == MANY
    assert min(delays) >= least
    assert sum(delays) / MANY == pytest.approx(mean, rel=0.05)


def test_a_varying_latency_reorders(seed: int) -> None:
    received = received_of(Network(seed, latency=Latency.uniform(0.01, 0.02)))
    assert received != sorted(received)
    assert sorted(received) == list(range(MANY))


@pytest.mark.parametrize("one_way", [True, False])
def test_a_link_has_its_own_latency_and_loss(one_way: bool) -> None:
    async def main() -> None:
        one, two, three = await listen(ONE), await listen(TWO), await listen(THREE)
        one.transport.sendto(b"sent before the change", tuple(two.address))
        await asyncio.sleep(1)
        net.link(ONE, TWO, latency=Latency.constant(2), one_way=one_way)
        net.link(TWO, THREE, loss=1.0, one_way=one_way)
        for source in (one, two, three):
            for target in (one, two, three):
                source.transport.sendto(source.address.host.encode(), tuple(target.address))
        await asyncio.sleep(10)
        return [
            {data.decode(): round(time - 1, 6) for time, data, _ in node.received if time > 1}
            for node in (one, two, three)
        ]

    net = Network(seed=1)
    at_one, at_two, at_three = net.run(main())
    assert at_one == {ONE: 0.001, TWO: 0.001 if one_way else 2, THREE: 0.001}
    assert at_two == {ONE: 2, TWO: 0.001} | ({THREE: 0.001} if one_way else {})
    assert at_three == {ONE: 0.001, THREE: 0.001}


async def reach(nodes: list[Recorder]) -> set[tuple[str, str]]:
    """Which host reaches which."""
    for node in nodes:
        node.received.clear()
    for source in nodes:
        for target in nodes:
            source.transport.sendto(source.address.host.encode(), tuple(target.address))
    await asyncio.sleep(1)
    return {(data.decode(), node.address.host) for node in nodes for data in node.payloads}


def test_a_partition_cuts_the_groups_apart_until_it_heals() -> None:
    async def main() -> None:
        nodes = [await listen(host) for host in (ONE, TWO, THREE)]
        everything = await reach(nodes)
        assert len(everything) == 9
        net.partition({ONE, TWO}, {THREE})
        assert everything - await reach(nodes) == {
            (ONE, THREE),
            (TWO, THREE),
            (THREE, ONE),
            (THREE, TWO),
        }
        net.heal()
        assert await reach(nodes) == everything

    net = Network(seed=1)
    net.run(main())
    assert net.stats.lost == net.stats.lost_by["partition"] == 4


def test_healing_leaves_the_links_as_they_are() -> None:
    async def main() -> set[tuple[str, str]]:
        net.link(ONE, TWO, loss=1.0, one_way=True)
        net.partition([ONE], [THREE])
        net.heal()
        return await reach([await listen(host) for host in (ONE, TWO, THREE)])

    net = Network(seed=1)
    assert len(net.run(main())) == 8


def test_three_groups_are_each_alone() -> None:
    async def main() -> set[tuple[str, str]]:
        net.partition([ONE], [TWO], [THREE])
        return await reach([await listen(host) for host in (ONE, TWO, THREE)])

    net = Network(seed=1)
    assert net.run(main()) == {(host, host) for host in (ONE, TWO, THREE)}


def test_a_one_way_partition_lets_the_other_direction_through() -> None:
    async def main() -> set[tuple[str, str]]:
        net.partition([ONE], [TWO], one_way=True)
        return await reach([await listen(host) for host in (ONE, TWO)])

    net = Network(seed=1)
    assert net.run(main()) == {(ONE, ONE), (TWO, TWO), (TWO, ONE)}


def test_a_partition_cuts_off_what_is_on_its_way() -> None:
    async def main() -> list[bytes]:
        one, two = await listen(ONE), await listen(TWO)
        one.transport.sendto(b"on its way", tuple(two.address))
        await asyncio.sleep(0.5)
        net.partition([ONE], [TWO])
        await asyncio.sleep(1)
        one.transport.sendto(
            b"into the cut, which heals before it would arrive", tuple(two.address)
        )
        net.heal()
        one.transport.sendto(b"after", tuple(two.address))
        await asyncio.sleep(2)
        return two.payloads

    net = Network(seed=1, latency=Latency.constant(1))
    assert net.run(main()) == [b"after"]
    assert net.stats.lost_by["partition"] == 2


@pytest.mark.parametrize("field", ["loss", "duplicate", "corrupt"])
@pytest.mark.parametrize("value", [-0.1, 1.1, float("nan")])
def test_a_probability_out_of_range_is_refused(field: str, value: float) -> None:
    with pytest.raises(UsageError, match=f"{field} is a probability"):
        Network(1, **{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("model", "parameters"),
    [
        ("constant", (-1.0,)),
        ("uniform", (0.2, 0.1)),
        ("exponential", (0.2, 0.2)),
        ("lognormal", (0.0, 1.0)),
    ],
)
def test_an_impossible_latency_is_refused(model: str, parameters: tuple[float, ...]) -> None:
    with pytest.raises(UsageError, match=model):
        getattr(Latency, model)(*parameters)


@pytest.mark.parametrize("host", ["10.0.0.1", "127.0.0", "127.0.0.256", "127.0.0.01", "localhost"])
def test_a_host_outside_of_the_loopback_network_is_refused(host: str) -> None:
    net = Network(seed=1)
    for refused in (net.crash, net.restart, lambda host: net.slow(host, 2)):
        with pytest.raises(UsageError, match="is not a virtual host"):
            refused(host)
