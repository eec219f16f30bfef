"""The endpoint: frames arrive, faults are counted, bounds hold, nothing is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import logging
import socket
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

import pytest

from overlay import loops
from overlay.contact import Address, Contact, PeerId
from overlay.datagram_socket import BURST, ListenError
from overlay.endpoint import SENDS_A_TURN, Endpoint, EndpointConfig, Kind
from overlay.errors import UsageError
from overlay.frame import PlainEnvelope, frame_head
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.seal import SealedEnvelope
from overlay.virtual import Latency, Network

KEY, OTHER_KEY = bytes(range(32)), bytes(range(32, 64))
Runner = Callable[[Coroutine[Any, Any, None]], None]

on_every_loop = pytest.mark.parametrize(
    "run",
    [asyncio.run, loops.run, lambda main: Network(seed=1).run(main)],
    ids=["asyncio", "uvloop", "virtual"],
)
sealed_or_not = pytest.mark.parametrize("keys", [(), (KEY,)], ids=["plain", "sealed"])


def has_ipv6() -> bool:
    with contextlib.suppress(OSError), socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
        probe.bind(("::1", 0))
        return True
    return False


needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


class Party:
    """An endpoint, what it was handed, and a way to wait for more."""

    def __init__(self, endpoint: Endpoint) -> None:
        self.endpoint = endpoint
        self.contact = endpoint.contact
        self.received: list[tuple[Contact, Kind, bytes]] = []
        self._arrived = asyncio.Event()
        for kind in Kind:
            endpoint.on(kind, self._handler(kind))

    def _handler(self, kind: Kind) -> Callable[[Contact, bytes], None]:
        def take(sender: Contact, body: bytes) -> None:
            self.received.append((sender, kind, body))
            self._arrived.set()

        return take

    @property
    def bodies(self) -> list[bytes]:
        return [body for _, _, body in self.received]

    async def has(self, count: int) -> None:
        async with asyncio.timeout(10):
            while len(self.received) < count:
                self._arrived.clear()
                await self._arrived.wait()

    def send(self, to: Party, body: bytes, kind: Kind = Kind.DATAGRAM) -> None:
        self.endpoint.send(to.contact.address, kind, body)

    def count(self, name: str, label: str | None = None) -> Any:
        value = self.endpoint.metrics.as_dict()[name]
        return value if label is None else value.get(label, 0)  # type: ignore[union-attr]


@contextlib.asynccontextmanager
async def party(
    listen: str = "127.0.0.1:0", identity: Identity | None = None, **config: Any
) -> AsyncIterator[Party]:
    endpoint = await Endpoint.open(
        EndpointConfig(listen, **config), identity or Identity.create(), Metrics()
    )
    try:
        yield Party(endpoint)
    finally:
        await endpoint.close()


@contextlib.asynccontextmanager
async def two(**config: Any) -> AsyncIterator[tuple[Party, Party]]:
    async with party(**config) as alice, party(**config) as bob:
        yield alice, bob


async def raw_send(to: Party, *datagrams: bytes) -> None:
    """Send datagrams as they are from one socket, and wait until `to` has looked at all of them."""
    transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
        asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0)
    )
    stranger, keys = Identity.create().id, to.endpoint.config.keys
    envelope = SealedEnvelope(keys, stranger, 1) if keys else PlainEnvelope(stranger)
    last = envelope.wrap([frame_head(Kind.CHANNEL, 4), b"last"])
    before = len(to.received)
    for datagram in (*datagrams, last):
        transport.sendto(datagram, tuple(to.contact.address))
    while b"last" not in to.bodies[before:]:
        await to.has(len(to.received) + 1)
    to.received.pop()
    transport.close()


# Sending and receiving.


@on_every_loop
@sealed_or_not
def test_frames_arrive_in_order_with_their_sender_and_kind(
    run: Runner, keys: tuple[bytes, ...]
) -> None:
    async def main() -> None:
        async with two(keys=keys) as (alice, bob):
            for number in range(300):
                alice.send(bob, b"%d" % number, Kind(1 + number % 3))
            await bob.has(300)
            assert bob.received == [
                (alice.contact, Kind(1 + number % 3), b"%d" % number) for number in range(300)
            ]
            assert type(bob.received[0][0].id) is PeerId
            bob.send(alice, b"back")
            await alice.has(1)
            assert alice.received == [(bob.contact, Kind.DATAGRAM, b"back")]

    run(main())


@needs_ipv6
@pytest.mark.parametrize("run", [asyncio.run, loops.run])
@sealed_or_not
def test_ipv6_works_too(run: Runner, keys: tuple[bytes, ...]) -> None:
    async def main() -> None:
        async with two(listen="[::1]:0", keys=keys) as (alice, bob):
            alice.send(bob, b"hello")
            await bob.has(1)
            assert bob.received[0][0] == alice.contact
            assert alice.contact.host == "::1"

    run(main())


@needs_ipv6
@pytest.mark.parametrize("run", [asyncio.run, loops.run])
def test_an_ipv6_endpoint_speaks_to_ipv4_peers_by_their_ipv4_addresses(run: Runner) -> None:
    async def main() -> None:
        async with (
            party("[::]:0", keys=(KEY,), advertise="127.0.0.1:0") as both,
            party("127.0.0.1:0", keys=(KEY,)) as four,
        ):
            four.send(both, b"hello")
            await both.has(1)
            assert both.received[0][0] == four.contact
            both.send(four, b"back")
            await four.has(1)
            assert four.received[0][0] == both.contact

    run(main())


@sealed_or_not
def test_small_frames_of_one_turn_leave_together(keys: tuple[bytes, ...]) -> None:
    net = Network(seed=1)

    async def main() -> None:
        async with two(keys=keys) as (alice, bob), party("127.0.0.2:0", keys=keys) as carol:
            with net.capture() as packets:
                for _ in range(100):
                    alice.send(bob, b"x" * 100)
                alice.send(carol, b"y")
                await bob.has(100)
                await carol.has(1)
            assert max(len(packet.data) for packet in packets) <= 1400
            assert alice.count("datagrams_sent") == len(packets) == 100 // 13 + 2
            assert alice.count("frames_sent") == 101
            assert alice.count("frames_coalesced") == 101 - len(packets)
            assert alice.count("bytes_sent") == sum(len(packet.data) for packet in packets)
            assert bob.count("frames_received") == 100

    net.run(main())


@on_every_loop
@sealed_or_not
@pytest.mark.parametrize("size", [512, 1400, 60_000])
def test_the_largest_body_fills_a_datagram_and_one_byte_more_is_refused(
    run: Runner, keys: tuple[bytes, ...], size: int
) -> None:
    async def main() -> None:
        async with two(keys=keys, datagram_size=size) as (alice, bob):
            largest = b"x" * alice.endpoint.max_body
            alice.send(bob, largest)
            alice.send(bob, b"")
            with pytest.raises(UsageError, match="max_body"):
                alice.send(bob, largest + b"x")
            await bob.has(2)
            assert bob.bodies == [largest, b""]
            assert alice.count("bytes_sent") > size

    run(main())


@on_every_loop
def test_sending_gives_others_a_turn(run: Runner) -> None:
    async def main() -> None:
        async with two() as (alice, bob):
            turns = 0
            datagrams = 10 * SENDS_A_TURN
            for _ in range(datagrams):
                alice.send(bob, b"x" * alice.endpoint.max_body)
            while alice.count("datagrams_sent") < datagrams:
                turns += 1
                await asyncio.sleep(0)
            assert turns >= 10

    run(main())


# Bounds.


@on_every_loop
def test_too_much_at_once_is_dropped_and_counted_and_drained_waits_for_space(run: Runner) -> None:
    async def main() -> None:
        async with two(outgoing_limit=100_000) as (alice, bob):
            body = b"x" * 1000
            for _ in range(200):
                alice.send(bob, body)
            dropped = alice.count("dropped_out", "queue_full")
            assert dropped == 200 - 100_000 // 1003
            await alice.endpoint.drained()
            for _ in range(40):
                alice.send(bob, body)
            assert alice.count("dropped_out", "queue_full") == dropped
            while alice.count("frames_sent") < 240 - dropped:
                await alice.endpoint.drained()
                await asyncio.sleep(0)

    run(main())


def test_an_endpoint_waits_until_its_socket_can_send_again() -> None:
    async def main() -> None:
        async with two(outgoing_limit=10_000) as (alice, bob):
            protocol = alice.endpoint._socket._transport.get_protocol()  # type: ignore[attr-defined]
            protocol.pause_writing()
            for _ in range(7):
                alice.send(bob, b"x" * 1000)
            waiting = asyncio.ensure_future(alice.endpoint.drained())
            for _ in range(5):
                await asyncio.sleep(0)
            assert alice.count("datagrams_sent") == 0
            assert not waiting.done()
            protocol.resume_writing()
            await waiting
            await bob.has(7)

    asyncio.run(main())


def test_closing_lets_go_of_those_who_wait_for_space() -> None:
    async def main() -> None:
        async with two(outgoing_limit=10_000) as (alice, bob):
            alice.endpoint._socket._transport.get_protocol().pause_writing()  # type: ignore[attr-defined]
            for _ in range(9):
                alice.send(bob, b"x" * 1000)
            waiting = asyncio.ensure_future(alice.endpoint.drained())
            await asyncio.sleep(0)
            assert not waiting.done()
            await alice.endpoint.close()
            async with asyncio.timeout(10):
                await waiting

    asyncio.run(main())


@on_every_loop
def test_a_full_receive_queue_drops_and_counts(run: Runner) -> None:
    async def main() -> None:
        async with party(incoming_limit=10) as alice:
            protocol = alice.endpoint._socket._transport.get_protocol()  # type: ignore[attr-defined]
            datagram = PlainEnvelope(Identity.create().id).wrap([frame_head(Kind.DHT, 1), b"x"])
            for _ in range(30):
                protocol.datagram_received(datagram, ("127.0.0.1", 5))
            await alice.has(10)
            assert alice.count("receive_queue_overflows") == 20
            await raw_send(alice, datagram)
            assert len(alice.received) == 11

    run(main())


@on_every_loop
def test_receiving_gives_others_a_turn(run: Runner) -> None:
    async def main() -> None:
        async with party() as alice:
            protocol = alice.endpoint._socket._transport.get_protocol()  # type: ignore[attr-defined]
            datagram = PlainEnvelope(Identity.create().id).wrap([frame_head(Kind.DHT, 1), b"x"])
            for _ in range(3 * BURST):
                protocol.datagram_received(datagram, ("127.0.0.1", 5))
            seen = [0]
            while seen[-1] < 3 * BURST:
                await asyncio.sleep(0)
                seen.append(len(alice.received))
            assert max(after - before for before, after in itertools.pairwise(seen)) <= BURST + 1

    run(main())


# What is dropped.


@on_every_loop
def test_a_wrong_key_is_dropped_and_counted(run: Runner) -> None:
    async def main() -> None:
        async with party(keys=(KEY,)) as alice:
            mallory = SealedEnvelope((OTHER_KEY,), Identity.create().id, boot=1)
            await raw_send(alice, mallory.wrap([frame_head(Kind.DATAGRAM, 1), b"x"]))
            assert alice.received == []
            assert alice.count("dropped_in") == {"not_authentic": 1}

    run(main())


def sealed_datagrams(count: int, sender: Identity) -> list[bytes]:
    envelope = SealedEnvelope((KEY,), sender.id, boot=1)
    return [envelope.wrap([frame_head(Kind.DATAGRAM, 1), b"x"]) for _ in range(count)]


@on_every_loop
def test_a_replayed_datagram_is_dropped_and_counted(run: Runner) -> None:
    async def main() -> None:
        async with party(keys=(KEY,)) as alice:
            [datagram] = sealed_datagrams(1, Identity.create())
            await raw_send(alice, datagram, datagram, datagram)
            assert len(alice.received) == 1
            assert alice.count("dropped_in", "replayed") == 2

    run(main())


@on_every_loop
def test_a_forged_sender_is_dropped_and_counted(run: Runner) -> None:
    async def main() -> None:
        async with party(keys=(KEY,)) as alice:
            [datagram] = sealed_datagrams(1, Identity.create())
            victim = Identity.create()
            await raw_send(alice, datagram[:2] + victim.id + datagram[22:])
            assert alice.received == []
            assert alice.count("dropped_in", "not_authentic") == 1

    run(main())


@on_every_loop
def test_a_flipped_bit_is_dropped_and_counted(run: Runner) -> None:
    async def main() -> None:
        async with party(keys=(KEY,)) as alice:
            datagrams = sealed_datagrams(20, Identity.create())
            flipped = [
                datagram[:place] + bytes([datagram[place] ^ 1]) + datagram[place + 1 :]
                for datagram, place in zip(datagrams, range(-20, 0), strict=True)
            ]
            await raw_send(alice, *flipped)
            assert alice.received == []
            assert alice.count("dropped_in", "not_authentic") == 20
            await raw_send(alice, *datagrams)
            assert len(alice.received) == 20

    run(main())


def test_corruption_on_the_way_is_noticed_and_the_rest_arrives() -> None:
    net = Network(seed=5, corrupt=0.3)

    async def main() -> None:
        async with two(keys=(KEY,)) as (alice, bob):
            for number in range(200):
                alice.send(bob, b"%d" % number)
                await asyncio.sleep(0)
            await asyncio.sleep(1)
            dropped = sum(bob.count("dropped_in").values())
            assert 20 < dropped < 100
            assert len(bob.received) == 200 - dropped
            assert set(bob.bodies) <= {b"%d" % number for number in range(200)}

    net.run(main())


@pytest.mark.parametrize("seed", range(5))
def test_a_sealed_frame_is_handed_up_at_most_once_whatever_the_network_does(seed: int) -> None:
    net = Network(seed, latency=Latency.uniform(0.001, 0.1), loss=0.2, duplicate=0.3)

    async def main() -> None:
        async with two(keys=(KEY,)) as (alice, bob):
            for number in range(300):
                alice.send(bob, b"%d" % number)
                await asyncio.sleep(0.001)
            await asyncio.sleep(1)
            assert len(bob.bodies) == len(set(bob.bodies)) > 150
            assert bob.count("dropped_in", "replayed") > 20
            assert bob.bodies != sorted(bob.bodies, key=int), "some were overtaken"

    net.run(main())


@on_every_loop
def test_every_reason_to_drop_has_its_counter(run: Runner) -> None:
    stranger = PlainEnvelope(Identity(bytes(32)).id)

    async def main() -> None:
        identity = Identity.create()
        async with party(identity=identity) as alice:
            plain = stranger.wrap([frame_head(Kind.DHT, 1), b"x"])
            await raw_send(
                alice,
                b"\x07" + plain[1:],
                plain[:1] + b"\x07" + plain[2:],
                plain[:-1],
                plain[:10],
                stranger.wrap([]),
                sealed_datagrams(1, Identity.create())[0],
                PlainEnvelope(identity.id).wrap([frame_head(Kind.DHT, 0)]),
                stranger.wrap([frame_head(99, 0)]),
                plain,
            )
            assert alice.count("dropped_in") == {
                "unknown_version": 1,
                "unknown_flags": 1,
                "truncated": 2,
                "empty": 1,
                "sealed": 1,
                "from_self": 1,
                "unknown_kind": 1,
            }
            assert alice.bodies == [b"x"]

    run(main())


def test_frames_without_a_handler_are_counted() -> None:
    async def main() -> None:
        endpoint = await Endpoint.open(EndpointConfig("127.0.0.1:0"), Identity.create(), Metrics())
        datagram = PlainEnvelope(Identity.create().id).wrap([frame_head(Kind.DHT, 0)])
        endpoint.receive(datagram, ("127.0.0.1", 5))
        assert endpoint.metrics.as_dict()["dropped_in"] == {"no_handler": 1}
        for source in [("0.0.0.0", 5), ("127.0.0.1", 0), ("224.0.0.1", 5), ("fe80::1%lo", 5, 0, 1)]:
            endpoint.receive(datagram, source)
        assert endpoint.metrics.as_dict()["dropped_in"] == {"no_handler": 1, "bad_source": 4}
        await endpoint.close()

    asyncio.run(main())


@on_every_loop
def test_sending_to_nowhere_is_counted_and_harms_nobody(run: Runner) -> None:
    async def main() -> None:
        async with two() as (alice, bob):
            nowhere = [
                Address("127.0.0.1", 0),
                Address("127.0.0.1", 70_000),
                Address("127.0.0.1", -1),
                Address("0.0.0.0", 5),
                Address("224.0.0.1", 5),
                Address("::1", 5),
                Address("nonsense", 5),
                Address("", 5),
            ]
            for address in nowhere:
                alice.endpoint.send(address, Kind.DHT, b"x")
            alice.endpoint.send(Address("127.0.0.1", 1), Kind.DHT, b"nobody listens there")
            alice.send(bob, b"hello")
            await bob.has(1)
            assert alice.count("dropped_out", "bad_address") == len(nowhere)

    run(main())


@on_every_loop
def test_errors_of_the_socket_are_counted_and_surface_nowhere(run: Runner) -> None:
    async def main() -> None:
        async with two() as (alice, bob):
            # The network refuses a broadcast to those who did not ask for it.
            alice.endpoint._socket._transport.get_protocol().error_received(  # type: ignore[attr-defined]
                PermissionError(13, "denied")
            )
            alice.send(bob, b"hello")
            await bob.has(1)
            assert alice.count("socket_errors") == {"EACCES": 1}

    run(main())


@on_every_loop
def test_a_handler_that_raises_is_counted_and_the_rest_flows(
    run: Runner, caplog: pytest.LogCaptureFixture
) -> None:
    async def main() -> None:
        endpoint = await Endpoint.open(EndpointConfig("127.0.0.1:0"), Identity.create(), Metrics())

        def fail(sender: Contact, body: bytes) -> None:
            raise RuntimeError("boom")

        heard = asyncio.Event()
        endpoint.on(Kind.DHT, fail)
        endpoint.on(Kind.DATAGRAM, lambda sender, body: heard.set())
        async with party() as alice:
            for _ in range(5):
                alice.endpoint.send(endpoint.contact.address, Kind.DHT, b"x")
            alice.endpoint.send(endpoint.contact.address, Kind.DATAGRAM, b"x")
            async with asyncio.timeout(10):
                await heard.wait()
        await endpoint.close()
        assert endpoint.metrics.as_dict()["handler_errors"] == {"DHT": 5}

    with caplog.at_level(logging.ERROR):
        run(main())
    failures = [record for record in caplog.records if "handler" in record.getMessage()]
    assert len(failures) == 3, "the 1st, 2nd and 4th are logged"
    assert failures[0].exc_info is not None


def test_a_kind_has_one_handler() -> None:
    async def main() -> None:
        async with party() as alice:
            with pytest.raises(UsageError, match="DHT"):
                alice.endpoint.on(Kind.DHT, lambda sender, body: None)

    asyncio.run(main())


# Opening and closing.


@on_every_loop
def test_closing_sends_what_waits_and_leaves_nothing_behind(run: Runner) -> None:
    async def main() -> None:
        before = asyncio.all_tasks()
        async with party() as bob:
            async with party() as alice:
                for _ in range(100):
                    alice.send(bob, b"goodbye" * 100)
            await bob.has(100)
            alice.send(bob, b"too late")
            await alice.endpoint.drained()
            assert alice.count("dropped_out", "closed") == 1
            await asyncio.gather(alice.endpoint.close(), alice.endpoint.close())
            async with party(str(alice.contact.address)) as heir:
                assert heir.contact.address == alice.contact.address
        assert asyncio.all_tasks() == before

    run(main())


@on_every_loop
def test_an_address_in_use_is_a_clear_error(run: Runner) -> None:
    async def main() -> None:
        async with party() as alice:
            address = str(alice.contact.address)
            with pytest.raises(ListenError, match=f"{address}.*port 0"):
                async with party(address):
                    pass

    run(main())


def test_a_restarted_node_is_heard_again() -> None:
    net = Network(seed=3)
    alice_identity = Identity(bytes(32))

    async def hello(bob: Contact) -> None:
        async with party("127.0.0.2:4000", identity=alice_identity, keys=(KEY,)) as alice:
            alice.endpoint.send(bob.address, Kind.DATAGRAM, b"hello")
            await asyncio.sleep(60)

    async def main() -> None:
        async with party(keys=(KEY,)) as bob:
            for life in range(1, 6):
                net.spawn("127.0.0.2", hello(bob.contact))
                await bob.has(life)
                net.crash("127.0.0.2")
                net.restart("127.0.0.2")
            assert bob.count("dropped_in") == {}

    net.run(main())


def test_the_same_seed_gives_the_same_run() -> None:
    def run(seed: int) -> tuple[str, list[bytes]]:
        net = Network(seed, latency=Latency.uniform(0.001, 0.05), loss=0.1, duplicate=0.1)
        seen: list[bytes] = []

        async def main() -> None:
            async with two(keys=(KEY,)) as (alice, bob):
                with net.capture() as packets:
                    for number in range(50):
                        alice.send(bob, b"%d" % number)
                        bob.send(alice, b"%d" % number)
                        await asyncio.sleep(0.01)
                    await asyncio.sleep(1)
                seen.extend(packet.data for packet in packets)

        net.run(main())
        return net.trace_hash, seen

    assert run(1) == run(1)
    assert run(1) != run(2)


@on_every_loop
def test_keys_are_replaced_while_traffic_flows(run: Runner) -> None:
    async def main() -> None:
        async with two(keys=(KEY,)) as (alice, bob):
            count = 0
            for ring in ((KEY, OTHER_KEY), (OTHER_KEY, KEY), (OTHER_KEY,)):
                for node in (alice, bob):
                    node.endpoint.rekey(ring)
                    alice.send(bob, b"to bob")
                    bob.send(alice, b"to alice")
                    count += 1
                    await alice.has(count)
                    await bob.has(count)
        async with party() as plain:
            with pytest.raises(UsageError, match="without a key"):
                plain.endpoint.rekey((KEY,))

    run(main())
