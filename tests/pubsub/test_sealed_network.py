"""What outsiders and members cannot do to whole nodes of a sealed network."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from overlay.contact import Contact
from overlay.errors import CamcastError
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.transport.config import EndpointConfig
from overlay.transport.endpoint import Endpoint, FrameKind
from overlay.transport.frame import ANSWER, SEALED
from overlay.virtual import Latency, Network, nth_host
from overlay.wire import encode
from pubsub import Archive, Node
from pubsub.archive.protocol.messages import Negotiation

KEYS = (bytes(range(32)),)
FOREVER = 1e9


def address(number: int) -> str:
    return f"{nth_host(number)}:4000"


def contact_of(node: Node) -> Contact:
    return node.attachment.contact


class Town:
    """Sealed nodes with a subscription to /t each, on hosts that can crash and restart."""

    def __init__(self, seed: int, **settings: Any) -> None:
        self.net = Network(seed=seed, latency=Latency.constant(0.005))
        self.settings = settings
        self.nodes: dict[str, Node] = {}
        self.got: list[tuple[str, Any]] = []

    async def live(self, name: str, number: int, identity: Identity | None = None) -> None:
        bootstrap = [address(0)] if number else []
        async with Node(
            listen=address(number),
            bootstrap=bootstrap,
            keys=KEYS,
            identity=identity,
            **self.settings,
        ) as node:
            self.nodes[name] = node
            async with node.subscribe("/t") as events:
                async for event in events:
                    self.got.append((name, event.data))

    async def settle(self, name: str, number: int, identity: Identity | None = None) -> None:
        self.net.spawn(nth_host(number), self.live(name, number, identity))
        await asyncio.sleep(5)

    async def publish(self, name: str, number: int, data: str) -> None:
        await self.net.spawn(nth_host(number), self._publish(name, data))

    async def _publish(self, name: str, data: str) -> None:
        await self.nodes[name].publish("/t", data)

    async def say_from(self, number: int, datagrams: list[bytes], to: list[int]) -> None:
        """Send datagrams as they are from another host, as an outsider does."""

        async def outsider() -> None:
            transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
                asyncio.DatagramProtocol, local_addr=(nth_host(number), 666)
            )
            for victim in to:
                for datagram in datagrams:
                    transport.sendto(datagram, (nth_host(victim), 4000))
                    await asyncio.sleep(0.01)
            await asyncio.sleep(5)

        await self.net.spawn(nth_host(number), outsider())


@pytest.mark.parametrize("links", ["datagram", "channel"])
def test_what_was_recorded_is_taken_by_nobody_later(links: str) -> None:
    town = Town(1, links=links)
    recorded: list[bytes] = []
    bob = Identity(b"B" * 32)

    def listen(packet: Any) -> None:
        if (packet.source.host, packet.destination.host) == (nth_host(1), nth_host(2)):
            recorded.append(packet.data)

    async def main() -> None:
        await town.settle("first", 0)
        with town.net.rule(listen):
            await town.settle("alice", 1)
            await town.settle("bob", 2, bob)
            await town.publish("alice", 1, "pay 100")
            await asyncio.sleep(20)
        town.net.crash(nth_host(1))
        await asyncio.sleep(600)
        town.net.restart(nth_host(2))
        await town.settle("bob again", 2, bob)
        await town.settle("carol", 3)
        before = {name: town.nodes[name].metrics.as_dict() for name in ("bob again", "carol")}
        await town.say_from(6, recorded, to=[2, 3])
        for name, counters in before.items():
            dropped = town.nodes[name].metrics.as_dict()["dropped_in"]
            was = counters["dropped_in"]
            assert isinstance(dropped, dict)
            assert isinstance(was, dict)
            of_sessions = sum(datagram[1] in (SEALED, ANSWER) for datagram in recorded)
            assert dropped["unknown_session"] - was.get("unknown_session", 0) == of_sessions > 0
        assert ("bob", "pay 100") in town.got
        assert not {("bob again", "pay 100"), ("carol", "pay 100")} & set(town.got)

    town.net.run(main(), limit=10_000)


async def poser(victim: Identity, number: int) -> Endpoint:
    """A member of the network that says it is the victim, of which it knows all but the secret."""
    identity = Identity(bytes([number]) * 32)
    identity.id, identity.public_key = victim.id, victim.public_key
    return await Endpoint.open(
        EndpointConfig(f"{nth_host(number)}:666", keys=KEYS), identity, Metrics()
    )


def test_a_member_cannot_make_a_durable_publish_safe_in_the_archives_name() -> None:
    net = Network(seed=1, latency=Latency.constant(0.005))
    box: dict[str, Any] = {}
    archive_identity = Identity(b"A" * 32)

    async def archive() -> None:
        async with Archive(
            ["/t"], store="memory:", listen=address(0), keys=KEYS, identity=archive_identity
        ) as box["archive"]:
            await asyncio.sleep(FOREVER)

    async def publisher() -> None:
        async with Node(listen=address(1), bootstrap=[address(0)], keys=KEYS) as box["node"]:
            await box["node"].publish("/t", 1, durable=True)
            await box["go"].wait()
            try:
                await box["node"].publish("/t", "the lost one", durable=True, deadline=10)
                box["outcome"] = "safe"
            except CamcastError as error:
                box["outcome"] = type(error).__name__

    async def member() -> None:
        for pose in (True, False):
            endpoint = (
                await poser(archive_identity, 6)
                if pose
                else await Endpoint.open(
                    EndpointConfig(f"{nth_host(6)}:667", keys=KEYS), Identity.create(), Metrics()
                )
            )
            publishers = box["node"]._durability.publishers._managed.values()
            stream = next(iter(publishers)).core.stream  # an insider may know it
            forged = encode(Negotiation("/t", stream, (2,), 1, (), 0))
            for _ in range(3):
                victim: Contact = contact_of(box["node"])
                endpoint.send(victim, FrameKind.DATAGRAM, forged)
                await asyncio.sleep(1)

    async def main() -> None:
        box["go"] = asyncio.Event()
        net.spawn(nth_host(0), archive())
        await asyncio.sleep(3)
        net.spawn(nth_host(1), publisher())
        await asyncio.sleep(10)
        net.partition([nth_host(0)], [nth_host(1)])
        box["go"].set()
        await net.spawn(nth_host(6), member())
        await asyncio.sleep(10)
        assert box["outcome"] != "safe"

    net.run(main(), limit=300)


def test_a_member_cannot_silence_another() -> None:
    town = Town(2)
    victim = Identity(b"V" * 32)

    async def member() -> None:
        endpoint = await poser(victim, 6)
        for name in ("first", "carol"):
            endpoint.send(contact_of(town.nodes[name]), FrameKind.CHANNEL, b"\x00" * 17)
        await asyncio.sleep(10)

    async def main() -> None:
        await town.settle("first", 0)
        await town.settle("victim", 1, victim)
        await town.settle("carol", 2)
        await asyncio.sleep(5)
        await town.publish("victim", 1, "before")
        await asyncio.sleep(2)
        await town.net.spawn(nth_host(6), member())
        for number in range(5):
            await town.publish("victim", 1, f"after {number}")
            await asyncio.sleep(60)
        for name in ("first", "carol"):
            heard = [data for who, data in town.got if who == name]
            assert heard == ["before", *(f"after {number}" for number in range(5))]
            dropped = town.nodes[name].metrics.as_dict()["dropped_in"]
            assert isinstance(dropped, dict)
            assert dropped["not_authentic"] >= 1

    town.net.run(main(), limit=1000)


def test_the_status_says_who_is_who_and_what_is_lacking_without_a_key() -> None:
    async def main() -> None:
        async with (
            Node(listen=address(0), keys=KEYS) as one,
            Node(listen=address(1), keys=KEYS, bootstrap=[address(0)]) as other,
        ):
            protection = one.status()["protection"]
            assert protection["sealed"]
            assert protection["lacks"] == []
            assert protection["sessions"] == [str(contact_of(other))]
        async with Node(listen=address(2)) as plain:
            protection = plain.status()["protection"]
            assert not protection["sealed"]
            assert any("identity" in what for what in protection["lacks"])

    Network(seed=1).run(main())


@pytest.mark.sweep
def test_a_hundred_sealed_nodes_of_one_host_that_start_at_once_join_unhindered() -> None:
    """No cookie is asked for, nothing is taken for a flood, and a join opens a bounded number of sessions."""
    count = 100
    net = Network(seed=1, latency=Latency.uniform(0.001, 0.01))
    at = [f"{nth_host(0)}:{4000 + number}" for number in range(count)]
    nodes: list[Node] = []
    got: list[str] = []

    async def live(number: int) -> None:
        async with (
            Node(listen=at[number], bootstrap=at[:1] if number else [], keys=KEYS) as node,
            node.subscribe("/t") as events,
        ):
            nodes.append(node)
            async for event in events:
                got.append(event.data)

    async def main() -> None:
        for number in range(count):
            net.spawn(nth_host(0), live(number))
        await asyncio.sleep(5)
        assert len(nodes) == count
        await nodes[7].publish("/t", "hello")
        await asyncio.sleep(3)
        assert got == ["hello"] * (count - 1)
        metrics: list[Any] = [node.metrics.as_dict() for node in nodes]
        assert sum(one["floods"] for one in metrics) == 0
        outcomes = [one["handshakes"] for one in metrics]
        assert not any("asked_to_prove" in one or "unanswered" in one for one in outcomes)
        opened = sum(one.get("opened", 0) for one in outcomes)
        assert opened < 40 * count, "a join opens too many sessions"

    net.run(main())
