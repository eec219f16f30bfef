"""Every datagram is accounted for, per host and in all."""

from __future__ import annotations

import asyncio

from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.virtual import HostStats, Latency, Network, Stats

from .helpers import listen

HOSTS = ["127.0.0.2", "127.0.0.3", "127.0.0.4"]

actions = st.one_of(
    st.tuples(
        st.just("send"), st.sampled_from(HOSTS), st.sampled_from([*HOSTS, "127.0.0.9", "8.8.8.8"])
    ),
    st.tuples(st.just("crash"), st.sampled_from(HOSTS)),
    st.tuples(st.just("restart"), st.sampled_from(HOSTS)),
    st.tuples(st.just("partition"), st.sampled_from(HOSTS)),
    st.tuples(st.just("heal")),
    st.tuples(st.just("slow"), st.sampled_from(HOSTS)),
    st.tuples(st.just("limit"), st.sampled_from(HOSTS)),
    st.tuples(st.just("wait"), st.floats(0, 0.2)),
)


@settings(max_examples=60, deadline=None)
@given(st.lists(actions, max_size=40), st.integers(0, 2**32))
def test_sent_and_duplicated_are_delivered_lost_or_on_their_way(
    schedule: list[tuple[str, ...]], seed: int
) -> None:
    async def main() -> Stats:
        nodes = {host: await listen(host, 4000) for host in HOSTS}
        received = 0
        for name, *arguments in schedule:
            if name == "send":
                source, target = arguments
                nodes[source].transport.sendto(bytes(100), (target, 4000))
            elif name == "restart":
                net.restart(arguments[0])
                received += len(nodes[arguments[0]].received)
                nodes[arguments[0]] = await listen(arguments[0], 4000)
            elif name == "partition":
                net.partition(arguments, [host for host in HOSTS if host not in arguments])
            elif name == "slow":
                net.slow(arguments[0], factor=50)
            elif name == "limit":
                net.limit(arguments[0], bandwidth=10_000)
            elif name == "wait":
                await asyncio.sleep(float(arguments[0]))
            else:
                getattr(net, name)(*arguments)
            stats = net.stats
            assert stats.sent + stats.duplicated >= stats.delivered + stats.lost
        await asyncio.sleep(1000)
        received += sum(len(node.received) for node in nodes.values())
        assert net.stats.delivered == received
        return net.stats

    net = Network(
        seed, latency=Latency.uniform(0.01, 0.1), loss=0.1, duplicate=0.2, receive_buffer=4000
    )
    stats = net.run(main())
    assert stats.sent + stats.duplicated == stats.delivered + stats.lost
    assert stats.lost == sum(stats.lost_by.values())
    for field in ("sent", "delivered", "lost"):
        rows = stats.hosts.values()
        assert sum(getattr(row, field) for row in rows) == getattr(stats, field)
        assert getattr(stats, f"{field}_bytes") == 100 * getattr(stats, field)


def test_each_host_has_its_row() -> None:
    async def main() -> None:
        one, two = await listen(HOSTS[0]), await listen(HOSTS[1])
        one.transport.sendto(bytes(10), tuple(two.address))
        one.transport.sendto(bytes(20), tuple(two.address))
        two.transport.sendto(bytes(5), tuple(one.address))
        two.transport.sendto(bytes(7), (HOSTS[2], 4000))
        two.transport.sendto(bytes(9), ("8.8.8.8", 53))
        await asyncio.sleep(1)

    net = Network(seed=1)
    net.run(main())
    assert net.stats.hosts == {
        HOSTS[0]: HostStats(2, 30, 1, 5, 0, 0),
        HOSTS[1]: HostStats(3, 21, 2, 30, 2, 16),
        HOSTS[2]: HostStats(),
    }
    assert {reason: count for reason, count in net.stats.lost_by.items() if count} == {
        "no_socket": 1,
        "unreachable": 1,
    }
