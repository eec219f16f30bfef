"""Whole networks on the virtual network: exact, through deaths, loss and hostile peers.

The default runs are small; the sweeps have the sizes and the limits that the DHT is held to.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Coroutine
from typing import Any

import pytest

from overlay.contact import Contact, PeerId
from overlay.dht import DhtConfig
from overlay.dht.messages import FindNode, FindValue, FoundNodes, Ping, Pong, join_contacts
from overlay.virtual import Latency, Network, nth_host
from tests.overlay.dht.rogue import Rogue
from tests.overlay.dht.swarm import Member, Swarm, key

LATENCY = Latency.constant(0.05)


async def timed(net: Network, work: Coroutine[Any, Any, Any]) -> tuple[Any, float]:
    started = net.now
    return await work, net.now - started


async def look_up(
    swarm: Swarm, names: list[str], draw: random.Random
) -> list[tuple[bool, float, Member]]:
    """Look for each name from some member, all at once: was it exact, how long did it take, who asked."""
    askers = [draw.choice(swarm.members) for _ in names]
    found = await asyncio.gather(
        *(timed(swarm.net, m.dht.closest(key(name))) for m, name in zip(askers, names, strict=True))
    )
    return [
        (contacts == swarm.closest(key(name)), seconds, asker)
        for name, (contacts, seconds), asker in zip(names, found, askers, strict=True)
    ]


def exact_lookups(seed: int, size: int, lookups: int) -> tuple[float, float]:
    """All lookups of a network are exact; mean hops and mean requests of one."""
    net = Network(seed, latency=LATENCY)

    async def main() -> tuple[float, float]:
        swarm = Swarm(net)
        await swarm.grow(size, at_once=32)
        draw = random.Random(seed)
        hops = requests = 0
        for number in range(lookups):
            asker = draw.choice(swarm.members)
            place = key(number)
            assert await asker.dht.closest(place) == swarm.closest(place), f"lookup {number}"
            hops += asker.dht.last_lookup.hops
            requests += asker.dht.last_lookup.requests
        return hops / lookups, requests / lookups

    return net.run(main())


def test_every_lookup_finds_the_twenty_closest_nodes(seed: int) -> None:
    hops, requests = exact_lookups(seed, size=80, lookups=60)
    assert hops < 2.5
    assert requests < 25


@pytest.mark.sweep
def test_every_lookup_of_a_thousand_nodes_is_exact(seed: int) -> None:
    hops, requests = exact_lookups(seed, size=1000, lookups=300)
    print(f"1,000 nodes: {hops:.2f} hops and {requests:.1f} requests a lookup")
    assert hops < 2.5
    assert requests < 25


def deaths(seed: int, size: int, values: int, loss: float, limit: float) -> None:
    """30 % die at once: lookups stay exact and under `limit` seconds, values stay, then all is normal."""
    net = Network(seed, latency=LATENCY, loss=loss)

    async def main() -> None:
        swarm = Swarm(net)
        await swarm.grow(size, at_once=32)
        draw = random.Random(seed)
        for number in range(values):
            outcome = await draw.choice(swarm.members).dht.put(
                key(("value", number)), b"v", 1, 3600.0
            )
            assert outcome.replicas >= 19
        for victim in draw.sample(swarm.members, int(0.3 * size)):
            swarm.crash(victim)
        first = await look_up(swarm, [f"first {n}" for n in range(40)], draw)
        assert max(seconds for _, seconds, _ in first) < limit
        assert all(exact for exact, _, _ in first)
        gets = [draw.choice(swarm.members).dht.get(key(("value", n))) for n in range(values)]
        found = sum(record is not None for record in await asyncio.gather(*gets))
        assert found >= 0.999 * values
        await asyncio.sleep(120)
        later = await look_up(swarm, [f"later {n}" for n in range(40)], draw)
        assert all(exact for exact, _, _ in later)
        slow = [seconds for _, seconds, _ in later if seconds > 0.5]
        assert loss > 0 or not slow, f"the dead are known by now, and lookups took {slow} s"

    net.run(main())


def test_lookups_and_values_survive_the_death_of_a_third(seed: int) -> None:
    deaths(seed, size=64, values=40, loss=0.0, limit=1.5)


@pytest.mark.sweep
def test_lookups_and_values_of_256_nodes_survive_the_death_of_a_third(seed: int) -> None:
    deaths(seed, size=256, values=300, loss=0.0, limit=1.5)


@pytest.mark.sweep
@pytest.mark.parametrize("loss", [0.1, 0.2])
def test_the_same_under_loss_only_slower(loss: float, seed: int) -> None:
    deaths(seed, size=64, values=40, loss=loss, limit=8.0)


@pytest.mark.parametrize("loss", [0.1, 0.2])
def test_lookups_are_exact_under_loss_reordering_and_duplication(seed: int, loss: float) -> None:
    net = Network(seed, latency=Latency.uniform(0.005, 0.05), loss=loss, duplicate=0.05)

    async def main() -> None:
        swarm = Swarm(net)
        await swarm.grow(40)
        results = await look_up(swarm, [f"{n}" for n in range(40)], random.Random(seed))
        assert sum(exact for exact, _, _ in results) >= 39
        for number in range(20):
            member = swarm.members[number]
            assert (await member.dht.put(key(number), b"v", 1, 600.0)).replicas >= 19
            assert await swarm.members[-number].dht.get(key(number)) is not None

    net.run(main())


class Hostile:
    """Peers that take part in a network and answer in bad faith."""

    def __init__(self, draw: random.Random) -> None:
        self._draw = draw

    def invents(self, sender: Contact, request: object) -> object:
        """Names nodes that are not there, closer to whatever is looked for than any that are."""
        if isinstance(request, FindNode | FindValue):
            goal = request.target if isinstance(request, FindNode) else request.key
            contacts = []
            for _ in range(20):
                near = int.from_bytes(goal, "big") ^ self._draw.getrandbits(100)
                host = f"127.66.{self._draw.randrange(0, 250)}.{self._draw.randrange(1, 250)}"
                contacts.append(Contact(PeerId(near.to_bytes(20, "big")), host, 4000))
            return FoundNodes(b"t", join_contacts(contacts))
        return Pong(b"t", False)

    def silent(self, sender: Contact, request: object) -> object | None:
        """Answers pings, so as to be entered, and nothing else."""
        return Pong(b"t", False) if isinstance(request, Ping) else None

    def malformed(self, sender: Contact, request: object) -> object:
        return Pong(b"t", False) if isinstance(request, Ping) else self._draw.randbytes(30)

    def oversized(self, sender: Contact, request: object) -> object:
        """Names as many contacts as a datagram holds, and more than was asked for."""
        if isinstance(request, Ping):
            return Pong(b"t", False)
        ghosts = [Contact(key(n), f"127.77.0.{n + 1}", 4000) for n in range(40)]
        return FoundNodes(b"t", join_contacts(ghosts))


@pytest.mark.parametrize("kind", ["invents", "silent", "malformed", "oversized"])
def test_hostile_peers_cost_time_and_nothing_else(kind: str, seed: int) -> None:
    """A sixth of the network is hostile: nothing raises, and the honest nodes find each other exactly."""
    net = Network(seed, latency=LATENCY)

    async def main() -> None:
        swarm = Swarm(net, DhtConfig(k=8))
        await swarm.grow(40)
        draw = random.Random(seed)
        rogues = [
            await Rogue.open(nth_host(500 + n), getattr(Hostile(draw), kind)) for n in range(8)
        ]
        for rogue in rogues:
            for member in swarm.members:
                rogue.request(member.contact.address, Ping())
        await asyncio.sleep(2)
        assert any(r.contact in m.dht.known_contacts() for r in rogues for m in swarm.members)
        hostile = {rogue.contact for rogue in rogues}
        for number in range(25):
            asker = draw.choice(swarm.members)
            found = await asker.dht.closest(key(number), 16)
            honest = [contact for contact in found if contact not in hostile]
            assert honest[:8] == swarm.closest(key(number), 8), f"lookup {number}"
            assert asker.dht.last_lookup.requests <= 12 * 16
            assert await asker.dht.get(key(("none", number))) is None
        for member in swarm.members:
            assert member.metrics.as_dict()["handler_errors"] == {}

    net.run(main())


def test_a_network_with_verified_ids_works_like_any_other(seed: int) -> None:
    net = Network(seed, latency=LATENCY, loss=0.05)

    async def main() -> None:
        swarm = Swarm(net, DhtConfig(verify_ids=True))
        await swarm.grow(30)
        results = await look_up(swarm, [f"{n}" for n in range(20)], random.Random(seed))
        assert all(exact for exact, _, _ in results)
        assert (await swarm.members[0].dht.put(key("k"), b"v", 1, 60.0)).replicas == 20

    net.run(main())


def test_runs_with_the_same_seed_are_the_same(seed: int) -> None:
    def once() -> str:
        net = Network(seed, latency=Latency.uniform(0.005, 0.05), loss=0.1)

        async def main() -> None:
            swarm = Swarm(net)
            await swarm.grow(12)
            await swarm.members[0].dht.put(key("k"), b"v", 1, 60.0)
            await asyncio.sleep(100)

        net.run(main())
        return net.trace_hash

    assert once() == once()
