"""What an endpoint drops: forged, replayed, altered, malformed; each under its own counter, none raised."""

from __future__ import annotations

import asyncio
import logging

import pytest

from overlay.contact import Address, Contact
from overlay.errors import UsageError
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.transport.config import EndpointConfig
from overlay.transport.endpoint import Endpoint, FrameKind
from overlay.transport.frame import SEALED, PlainEnvelope, frame_head
from overlay.virtual import Latency, Network
from tests.overlay.endpoint_parties import (
    KEY,
    OTHER_KEY,
    Insider,
    Runner,
    on_every_loop,
    party,
    raw_send,
    two,
)


@on_every_loop
def test_a_wrong_key_is_dropped_and_counted(run: Runner) -> None:
    async def main() -> None:
        async with party(keys=(KEY,)) as alice:
            async with party(keys=(OTHER_KEY,)) as mallory:
                mallory.send(alice, b"x")
                await raw_send(alice)
            assert alice.received == []
            assert alice.count("dropped_in") == {"not_authentic": 1}

    run(main())


@on_every_loop
def test_a_replayed_datagram_is_dropped_and_counted(run: Runner) -> None:
    async def main() -> None:
        async with party(keys=(KEY,)) as alice:
            insider = Insider(alice.endpoint)
            insider.open()
            datagram = insider.wrap([frame_head(FrameKind.DATAGRAM, 1), b"x"])
            await raw_send(alice, datagram, datagram, datagram)
            assert len(alice.received) == 1
            assert alice.count("dropped_in", "replayed") == 2

    run(main())


@on_every_loop
def test_a_member_that_poses_as_another_is_dropped_and_counted(run: Runner) -> None:
    async def main() -> None:
        victim = Identity.create()
        async with party(keys=(KEY,)) as alice:
            poser = Identity.create()
            poser.id, poser.public_key = victim.id, victim.public_key
            async with party(keys=(KEY,), identity=poser) as mallory:
                mallory.send(alice, b"I am the victim")
                await raw_send(alice)
            assert alice.received == []
            # A busy machine sends the opening again.
            assert alice.count("dropped_in").keys() == {"not_authentic"}

    run(main())


@on_every_loop
def test_a_flipped_bit_is_dropped_and_counted(run: Runner) -> None:
    async def main() -> None:
        async with party(keys=(KEY,)) as alice:
            insider = Insider(alice.endpoint)
            insider.open()
            datagrams = [insider.wrap([frame_head(FrameKind.DATAGRAM, 1), b"x"]) for _ in range(20)]
            flipped = [
                datagram[:place] + bytes([datagram[place] ^ 1]) + datagram[place + 1 :]
                for datagram, place in zip(datagrams, range(16, 36), strict=True)
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
            while not bob.received:
                alice.send(bob, b"0")
                await asyncio.sleep(1)
            bob.received.clear()
            before = net.stats.corrupted
            for number in range(200):
                alice.send(bob, b"%d" % number)
                await asyncio.sleep(0)
            await asyncio.sleep(1)
            dropped = sum(bob.count("dropped_in").values())
            assert 20 < net.stats.corrupted - before <= dropped + len(alice.count("dropped_in"))
            assert len(bob.received) >= 200 - (net.stats.corrupted - before)
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
            plain = stranger.wrap([frame_head(FrameKind.DHT, 1), b"x"])
            await raw_send(
                alice,
                b"\x07" + plain[1:],
                plain[:1] + b"\x07" + plain[2:],
                plain[:-1],
                plain[:10],
                stranger.wrap([]),
                plain[:1] + bytes([SEALED]) + plain[2:],
                PlainEnvelope(identity.id).wrap([frame_head(FrameKind.DHT, 0)]),
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
        datagram = PlainEnvelope(Identity.create().id).wrap([frame_head(FrameKind.DHT, 0)])
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
                alice.endpoint.send(address, FrameKind.DHT, b"x")
            alice.endpoint.send(Address("127.0.0.1", 1), FrameKind.DHT, b"nobody listens there")
            alice.send(bob, b"hello")
            await bob.has(1)
            assert alice.count("dropped_out", "bad_address") == len(nowhere)

    run(main())


@on_every_loop
def test_errors_of_the_socket_are_counted_and_surface_nowhere(run: Runner) -> None:
    async def main() -> None:
        async with two() as (alice, bob):
            # The network refuses a broadcast to those who did not ask for it.
            alice.endpoint.transport._protocol.error_received(  # type: ignore[attr-defined]
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
        endpoint.on(FrameKind.DHT, fail)
        endpoint.on(FrameKind.DATAGRAM, lambda sender, body: heard.set())
        async with party() as alice:
            for _ in range(5):
                alice.endpoint.send(endpoint.contact.address, FrameKind.DHT, b"x")
            alice.endpoint.send(endpoint.contact.address, FrameKind.DATAGRAM, b"x")
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
                alice.endpoint.on(FrameKind.DHT, lambda sender, body: None)

    asyncio.run(main())
