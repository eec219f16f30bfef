"""The endpoint: frames arrive, and nothing is left behind when it closes."""

from __future__ import annotations

import asyncio

import pytest

from overlay import loops
from overlay.contact import Contact, PeerId
from overlay.errors import UsageError
from overlay.identity import Identity
from overlay.transport.config import SocketConfig
from overlay.transport.endpoint import SENDS_A_TURN, FrameKind
from overlay.transport.udp import ListenError
from overlay.virtual import Latency, Network
from tests.overlay.endpoint_parties import (
    KEY,
    OTHER_KEY,
    Runner,
    acquainted,
    needs_ipv6,
    on_every_loop,
    party,
    sealed_or_not,
    two,
)


@on_every_loop
@sealed_or_not
def test_frames_arrive_in_order_with_their_sender_and_kind(
    run: Runner, keys: tuple[bytes, ...]
) -> None:
    async def main() -> None:
        async with two(keys=keys) as (alice, bob):
            for number in range(300):
                alice.send(bob, b"%d" % number, FrameKind(1 + number % 3))
            await bob.has(300)
            assert bob.received == [
                (alice.contact, FrameKind(1 + number % 3), b"%d" % number) for number in range(300)
            ]
            assert type(bob.received[0][0].id) is PeerId
            bob.send(alice, b"back")
            await alice.has(1)
            assert alice.received == [(bob.contact, FrameKind.DATAGRAM, b"back")]

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


def test_port_0_that_is_advertised_stands_for_the_bound_one() -> None:
    async def main() -> None:
        async with (
            party("127.0.0.1:0", advertise="127.0.0.9:0") as known_by_host,
            party("127.0.0.1:0") as other,
        ):
            known_by_host.send(other, b"hello")
            await other.has(1)
            bound = other.received[0][0]
            assert known_by_host.contact.address == ("127.0.0.9", bound.port)

    asyncio.run(main())


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


COUNTS = ("datagrams_sent", "frames_sent", "frames_coalesced", "bytes_sent")


@sealed_or_not
def test_small_frames_of_one_turn_leave_together(keys: tuple[bytes, ...]) -> None:
    net = Network(seed=1)

    async def main() -> None:
        async with two(keys=keys) as (alice, bob), party("127.0.0.2:0", keys=keys) as carol:
            await acquainted(alice, bob, carol)
            before = {name: alice.count(name) for name in COUNTS}
            with net.capture() as packets:
                for _ in range(100):
                    alice.send(bob, b"x" * 100)
                alice.send(carol, b"y")
                await bob.has(100)
                await carol.has(1)
            assert max(len(packet.data) for packet in packets) <= 1400
            since = {name: alice.count(name) - before[name] for name in COUNTS}
            assert since["datagrams_sent"] == len(packets) == 100 // 13 + 2
            assert since["frames_sent"] == 101
            assert since["frames_coalesced"] == 101 - len(packets)
            assert since["bytes_sent"] == sum(len(packet.data) for packet in packets)

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
        async with two(socket=SocketConfig(offload=False)) as (alice, bob):
            turns = 0
            datagrams = 10 * SENDS_A_TURN
            for _ in range(datagrams):
                alice.send(bob, b"x" * alice.endpoint.max_body)
            while alice.count("datagrams_sent") < datagrams:
                turns += 1
                await asyncio.sleep(0)
            assert turns >= 10

    run(main())


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
            alice.endpoint.send(bob.address, FrameKind.DATAGRAM, b"hello")
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
