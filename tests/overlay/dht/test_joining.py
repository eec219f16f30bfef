"""Joining: alone, with patience, from memory, and not at all."""

from __future__ import annotations

import asyncio
import logging
import random
from pathlib import Path

import pytest

from overlay.contact import Address, Contact
from overlay.dht import DhtConfig, NoBootstrapAnswer
from overlay.dht.driver import load_contacts
from overlay.dht.upkeep import LONGEST_BACKOFF, backoff
from overlay.virtual import Latency, Network, nth_host
from tests.overlay.dht.swarm import Member, Swarm, key, open_member


def test_the_first_node_needs_no_bootstrap(seed: int) -> None:
    net = Network(seed)

    async def main() -> None:
        first = await open_member(nth_host(2))
        await first.dht.join([])
        await first.dht.join([first.contact.address])
        assert await first.dht.closest(key("x")) == [first.contact]
        assert (await first.dht.put(key("x"), b"v", 1, 60.0)).replicas == 1
        assert (await first.dht.get(key("x"))) is not None

    net.run(main())


def test_nobody_answering_is_an_error_after_retries_that_are_announced(
    seed: int, caplog: pytest.LogCaptureFixture
) -> None:
    net = Network(seed)

    async def main() -> float:
        member = await open_member(nth_host(2), DhtConfig(join_attempts=3, check_interval=1e6))
        with (
            caplog.at_level(logging.WARNING),
            pytest.raises(NoBootstrapAnswer, match=r"127\.0\.0\.77:4000"),
        ):
            await member.dht.join([Address("127.0.0.77", 4000)])
        assert len(member.protocol.exchange) == 0
        return net.now

    assert net.run(main()) > 0.75
    assert sum("trying again" in record.message for record in caplog.records) == 2


def test_joining_succeeds_when_a_bootstrap_node_comes_up_late(seed: int) -> None:
    net = Network(seed)

    async def main() -> None:
        member = await open_member(nth_host(2))
        joining = asyncio.ensure_future(member.dht.join([Address(nth_host(3), 4000)]))
        await asyncio.sleep(6)
        other = await open_member(nth_host(3))
        await joining
        assert member.dht.known_contacts() == [other.contact]

    net.run(main())


def test_back_off_doubles_up_to_a_limit() -> None:
    draw = random.Random(1)
    for attempt in range(12):
        expected = min(0.5 * 2**attempt, LONGEST_BACKOFF)
        pauses = [backoff(0.5, attempt, draw) for _ in range(50)]
        assert all(0.5 * expected <= pause <= 1.5 * expected for pause in pauses)
        assert max(pauses) > min(pauses)


def test_known_contacts_are_used_at_the_next_start(seed: int, tmp_path: Path) -> None:
    net = Network(seed)
    file = tmp_path / "contacts"
    config = DhtConfig(contacts_file=file)

    async def main() -> None:
        swarm = Swarm(net)
        await swarm.grow(8)
        member = await swarm.add(config)
        await member.close()
        saved = load_contacts(file)
        assert sorted(saved, key=str) == sorted((m.contact for m in swarm.members[:8]), key=str)
        swarm.members.remove(member)
        for gone in swarm.members[:4]:
            swarm.crash(gone)
        again = await open_member(nth_host(50), config)
        await again.dht.join([])
        assert len(again.dht.known_contacts()) == 4
        at_last = await open_member(nth_host(51), config)
        await at_last.dht.join([Address("127.0.0.77", 4000)])
        assert len(at_last.dht.known_contacts()) >= 4

    net.run(main())


def test_contacts_are_saved_now_and_then(seed: int, tmp_path: Path) -> None:
    net = Network(seed)
    file = tmp_path / "contacts"

    async def main() -> None:
        swarm = Swarm(net)
        await swarm.grow(2)
        await swarm.add(DhtConfig(contacts_file=file))
        assert load_contacts(file) == []
        await asyncio.sleep(700)
        assert len(load_contacts(file)) == 2

    net.run(main())


@pytest.mark.parametrize(("k", "at_once"), [(6, 5), (16, 7)])
def test_a_joined_node_knows_its_neighbours_and_they_know_it(
    k: int, at_once: int, seed: int
) -> None:
    """The nearest half of its k neighbours, and at least five, know it at once, and it knows them. The others
    learn of it in a round of upkeep each, but for one that nobody had named."""
    net = Network(seed, latency=Latency.uniform(0.005, 0.05), loss=0.1)

    async def main() -> None:
        swarm = Swarm(net, DhtConfig(k=k))
        await swarm.grow(29)
        await swarm.add()
        await asyncio.sleep(2)
        newest = swarm.members[-1]
        nearest = swarm.closest(newest.contact.id, k)[1:]
        assert list(newest.protocol.neighbours(at_once)) == nearest[:at_once]
        assert knowing(swarm, nearest[:at_once], newest) == nearest[:at_once]
        await asyncio.sleep(120)
        assert len(knowing(swarm, nearest, newest)) >= k - 2

    net.run(main())


def knowing(swarm: Swarm, nodes: list[Contact], one: Member) -> list[Contact]:
    """Those of the nodes who have met one of the members."""
    members = {member.contact: member for member in swarm.members}
    return [node for node in nodes if one.contact in members[node].dht.known_contacts()]


def test_newcomers_that_only_meet_each_other_have_not_joined(seed: int) -> None:
    """Four nodes start together and name each other and a running node, which cannot be reached at first."""
    net = Network(seed, latency=Latency.uniform(0.005, 0.2))
    hosts = [nth_host(number) for number in range(2, 6)]
    alone = nth_host(1)

    async def main() -> None:
        first = await net.spawn(alone, open_member(alone))
        await first.dht.join([])
        net.partition([alone], hosts)

        async def start(host: str) -> tuple[float, bool]:
            member = await open_member(host)
            await member.dht.join([Address(other, 4000) for other in [*hosts, alone]])
            return net.now, first.contact in member.dht.known_contacts()

        starting = [net.spawn(host, start(host)) for host in hosts]
        await asyncio.sleep(4)
        net.heal()
        for joined_at, knows_the_first in await asyncio.gather(*starting):
            assert joined_at > 4
            assert knows_the_first

    net.run(main())


@pytest.mark.parametrize("named", ["all", "the next one"])
def test_nodes_that_start_together_without_a_network_found_one(seed: int, named: str) -> None:
    net = Network(seed, latency=Latency.uniform(0.005, 0.2))
    hosts = [nth_host(number) for number in range(1, 8)]

    async def main() -> None:
        async def start(index: int) -> Member:
            others = hosts if named == "all" else [hosts[(index + 1) % len(hosts)]]
            member = await open_member(hosts[index])
            await member.dht.join([Address(host, 4000) for host in others])
            return member

        members = await asyncio.gather(
            *(net.spawn(host, start(index)) for index, host in enumerate(hosts))
        )
        assert net.now < 20
        for member in members:
            assert len(await member.dht.closest(key("x"))) == len(hosts)

    net.run(main())


def test_a_network_is_founded_although_a_named_node_never_comes(seed: int) -> None:
    net = Network(seed)
    hosts = [nth_host(1), nth_host(2)]

    async def main() -> None:
        async def start(host: str) -> Member:
            member = await open_member(host, DhtConfig(join_attempts=2))
            await member.dht.join([Address(other, 4000) for other in [*hosts, "127.0.0.77"]])
            return member

        one, other = await asyncio.gather(*(net.spawn(host, start(host)) for host in hosts))
        assert one.dht.known_contacts() == [other.contact]

    net.run(main())
