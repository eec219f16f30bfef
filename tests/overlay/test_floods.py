"""A flood from one block of addresses costs next to nothing, and its friends and all others are heard."""

from __future__ import annotations

import asyncio
import random
import socket
import sys
from collections.abc import Callable, Iterable

import pytest

from overlay import loops
from overlay.context import Timer
from overlay.metrics import Metrics
from overlay.transport.config import SocketConfig
from overlay.transport.frame import FrameKind, PlainEnvelope, frame_head
from overlay.transport.guard import (
    MAX_BLOCKS,
    MAX_FLOODS,
    MAX_FRIENDS,
    PERIOD,
    QUESTION,
    RUBBISH,
    SAMPLE,
    SAMPLES,
    FloodGuard,
    Friend,
    Refusal,
)
from overlay.transport.kernel_filter import MAX_INSTRUCTIONS, program
from tests.overlay.endpoint_parties import (
    KEY,
    Party,
    Runner,
    acquainted,
    has_ipv6,
    party,
    sealed_or_not,
)

ATTACKER = ("10.0.0.66", 666)
LIMIT = 400
"""Useless datagrams a second: 100 in a period."""


class World:
    """A clock, friends, and a transport that can drop or not."""

    def __init__(self, can_refuse: bool = False) -> None:
        self.time = 0.0
        self.timers: list[tuple[float, Callable[[], None]]] = []
        self.known: list[Friend] = []
        self.refusal: Refusal | None = None
        self.can_refuse = can_refuse
        self.metrics = Metrics()
        self.guard = FloodGuard(LIMIT, self, self.metrics)

    def now(self) -> float:
        return self.time

    def call_at(self, when: float, action: Callable[[], None]) -> Timer:
        self.timers.append((when, action))

        class Forgotten:
            def cancel(self) -> None: ...

        return Forgotten()

    def friends(self) -> Iterable[Friend]:
        return self.known

    def refuse(self, refusal: Refusal | None) -> bool:
        self.refusal = refusal
        return self.can_refuse

    def go_on(self, seconds: float) -> None:
        self.time += seconds
        due = [timer for timer in self.timers if timer[0] <= self.time]
        self.timers = [timer for timer in self.timers if timer[0] > self.time]
        for _, action in due:
            action()

    def receive(self, source: tuple[str, int], data: bytes = b"rubbish.") -> bool:
        """Whether the datagram was looked at; it turns out to be rubbish."""
        if self.guard.floods and self.guard.drops(data, source):
            return False
        self.guard.count(source, RUBBISH)
        return True


def test_a_flood_is_dropped_but_for_a_sample_and_others_are_heard() -> None:
    world = World()
    looked_at = sum(world.receive(ATTACKER) for _ in range(10_000))
    assert looked_at <= LIMIT * PERIOD + 1 + 10_000 / SAMPLE
    assert world.receive(("10.0.1.66", 1)), "another block"
    assert not all(world.receive(("10.0.0.9", 2)) for _ in range(SAMPLE)), "the same block"


def test_as_much_over_a_longer_time_is_not_a_flood() -> None:
    world = World()
    for _ in range(100):
        assert all(world.receive(ATTACKER) for _ in range(90))
        world.go_on(PERIOD)
    assert not world.guard.floods


def test_a_node_that_cannot_keep_up_notices_a_flood_of_a_quarter() -> None:
    world = World()
    assert all(world.receive(ATTACKER) for _ in range(60))
    world.guard.is_behind = True
    assert not all(world.receive(ATTACKER) for _ in range(20))
    world.go_on(PERIOD)
    world.go_on(PERIOD)
    assert not world.guard.floods
    assert all(world.receive(ATTACKER) for _ in range(60)), "it keeps up again"


def test_questions_of_strangers_count_less_than_rubbish() -> None:
    world = World()
    for _ in range(399):
        world.guard.count(ATTACKER, QUESTION)
    assert not world.guard.floods
    world.guard.count(ATTACKER, QUESTION)
    world.guard.count(ATTACKER, QUESTION)
    assert world.guard.floods


@pytest.mark.parametrize("can_refuse", [False, True], ids=["process", "kernel"])
def test_a_block_is_heard_again_soon_after_its_flood_and_not_before(can_refuse: bool) -> None:
    world = World(can_refuse)
    kernel = random.Random(1)
    for _ in range(40):  # 10 s
        for _ in range(1000):
            if (
                world.refusal is None
                or not can_refuse
                or not kernel.randrange(world.refusal.sample)
            ):
                world.receive(ATTACKER)
        assert world.guard.floods
        world.go_on(PERIOD)
    assert world.refusal is not None
    world.go_on(PERIOD)
    world.go_on(PERIOD)
    assert not world.guard.floods
    assert world.refusal is None
    assert world.receive(ATTACKER)


def test_a_larger_flood_costs_no_more_than_a_smaller_one() -> None:
    world = World()
    handled = []
    for many in (500, 1000, 2000, 1000, 500, 0, 0, 500):
        for _ in range(3):
            handled.append(sum(world.receive(ATTACKER) for _ in range(many)))
            world.go_on(PERIOD)
    settled = handled[2::3]
    assert all(SAMPLES / 4 <= count <= 1.2 * SAMPLES for count in settled[:5])
    assert settled[5] == settled[6] == 0
    assert handled[-3] >= LIMIT * PERIOD, "a new flood begins anew"


def test_a_friend_in_the_block_is_heard_in_its_session_only() -> None:
    world = World()
    world.known = [Friend("10.0.0.7", 70, 0x01020304)]
    for _ in range(200):
        world.receive(ATTACKER)
    sealed = b"\x03\x01\x00\x20\x01\x02\x03\x04" + bytes(24)
    drops = world.guard.drops
    assert not any(drops(sealed, ("10.0.0.7", 70)) for _ in range(100))
    assert any(drops(sealed, ("10.0.0.7", 71)) for _ in range(100)), "another port"
    assert any(drops(sealed, ("10.0.0.8", 70)) for _ in range(100)), "another host"
    assert any(drops(bytes(32), ("10.0.0.7", 70)) for _ in range(100)), "another session"


def test_who_forges_a_friends_address_does_not_silence_the_friend() -> None:
    world = World()
    world.known = [Friend("10.0.0.7", 70, 5)]
    for _ in range(5000):
        world.receive(("10.0.0.7", 70))
    assert world.guard.floods
    assert not world.guard.drops(bytes((3, 1, 0, 9, 0, 0, 0, 5, 0)), ("10.0.0.7", 70))


def test_a_friend_that_floods_is_none_until_it_stops() -> None:
    world = World()
    world.known = [Friend("10.0.0.7", 70, 5)]
    datagram = bytes((3, 1, 0, 9, 0, 0, 0, 5, 0))
    taken = 0
    for _ in range(20_000):
        if not (world.guard.floods and world.guard.drops(datagram, ("10.0.0.7", 70))):
            world.guard.count(("10.0.0.7", 70), QUESTION, is_proven=True)
            taken += 1
    assert taken < 20_000 / SAMPLE + 3 * LIMIT
    for _ in range(3):
        world.go_on(PERIOD)
    assert not world.guard.floods


def test_floods_from_everywhere_are_bounded_in_memory() -> None:
    world = World(can_refuse=True)
    for number in range(3 * MAX_BLOCKS):
        source = (f"10.{number >> 8}.{number & 255}.1", 1)
        for _ in range(3):
            world.receive(source)
    guard = world.guard
    assert len(guard._by_block) <= MAX_BLOCKS
    world.go_on(PERIOD)
    world.known = [Friend(f"10.0.0.{n % 250}", n + 1, n) for n in range(3 * MAX_FRIENDS)]
    for number in range(2 * MAX_FLOODS):
        for _ in range(101):
            world.receive((f"10.0.{number}.1", 1))
    assert len(guard.floods) == MAX_FLOODS
    assert world.refusal is not None
    assert len(world.refusal.friends) == MAX_FRIENDS
    assert len(program(world.refusal)) <= 8 * MAX_INSTRUCTIONS


# On real sockets.

on_real_loops = pytest.mark.parametrize("run", [asyncio.run, loops.run], ids=["asyncio", "uvloop"])
only_linux = pytest.mark.skipif(sys.platform != "linux", reason="the filter is of Linux")


def burst(out: socket.socket, to: Party, count: int) -> None:
    for _ in range(count):
        out.sendto(b"rubbish.", tuple(to.contact.address))


@only_linux
@on_real_loops
@sealed_or_not
def test_the_kernel_drops_a_flood_and_a_friend_of_the_same_host_is_heard(
    run: Runner, keys: tuple[bytes, ...]
) -> None:
    async def main() -> None:
        async with (
            party(keys=keys, socket=SocketConfig(flood_limit=LIMIT)) as alice,
            party(keys=keys) as bob,
        ):
            await acquainted(alice, bob)
            alice.endpoint.channel_peers = lambda: [bob.contact]
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
                async with asyncio.timeout(10):
                    while not alice.endpoint._guard.floods:
                        burst(out, alice, 10)
                        await asyncio.sleep(0)
                before = alice.count("datagrams_received")
                burst(out, alice, 2000)
                for number in range(100):
                    bob.send(alice, str(number).encode(), FrameKind.CHANNEL)
                await alice.has(100)
                assert alice.count("floods_filtered") >= 1
                assert alice.count("datagrams_received") - before - 100 < 2000 / SAMPLE * 3

    run(main())


@only_linux
@pytest.mark.parametrize("host", ["127.0.0.1", "::1"])
def test_the_filter_takes_what_the_guard_would_and_a_sample(host: str) -> None:
    if host == "::1" and not has_ipv6():
        pytest.skip("this machine has no IPv6")

    async def main() -> None:
        listen = f"[{host}]:0" if ":" in host else f"{host}:0"
        family = socket.AF_INET6 if ":" in host else socket.AF_INET
        async with party(listen) as alice:
            taken: list[tuple[bytes, int]] = []
            transport = alice.endpoint.transport
            transport._protocol.receive = (  # type: ignore[attr-defined]
                lambda data, source: taken.append((data, source[1]))
            )
            with (
                socket.socket(family, socket.SOCK_DGRAM) as friend,
                socket.socket(family, socket.SOCK_DGRAM) as other,
            ):
                friend.bind((host, 0))
                other.bind((host, 0))
                ours, theirs = friend.getsockname()[1], other.getsockname()[1]
                good, bad = bytes(4) + b"\0\0\0\7" + bytes(8), bytes(4) + b"\0\0\0\6" + bytes(8)
                refusal = Refusal(("10.0.0.0/24", host), (Friend(host, ours, 7),))
                assert transport.refuse(refusal)
                address = tuple(alice.contact.address)
                for _ in range(320):
                    for out in (friend, other):
                        out.sendto(good, address)
                        out.sendto(bad, address)
                    await asyncio.sleep(0)
                assert transport.refuse(None)
                friend.sendto(b"the last", address)
                for _ in range(1000):
                    await asyncio.sleep(0)
                    if (b"the last", ours) in taken:
                        break
            assert taken.count((good, ours)) == 320
            for rest in ((bad, ours), (good, theirs), (bad, theirs)):
                assert taken.count(rest) < 100  # one in 16 of 320

    asyncio.run(main())


@on_real_loops
def test_all_that_waits_in_the_socket_is_read_and_a_closed_socket_is_gone(run: Runner) -> None:
    async def main() -> None:
        async with party() as alice:
            address = tuple(alice.contact.address)
            datagram = PlainEnvelope(bytes(20)).wrap([frame_head(FrameKind.DATAGRAM, 1), b"x"])
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as out:
                for _ in range(100):
                    out.sendto(datagram, address)
            for _ in range(10):  # turns of the loop: one datagram a turn would be ten of them
                await asyncio.sleep(0)
            assert len(alice.bodies) == 100
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as again:
            again.bind(address)

    run(main())


def test_a_member_that_asks_all_the_time_is_noticed() -> None:
    async def main() -> None:
        async with (
            party(keys=(KEY,), socket=SocketConfig(flood_limit=LIMIT)) as alice,
            party(keys=(KEY,)) as bob,
        ):
            await acquainted(alice, bob)
            async with asyncio.timeout(10):
                while not alice.endpoint._guard.floods:
                    bob.send(alice, b"q" * 600, FrameKind.DHT)
                    await asyncio.sleep(0)

    asyncio.run(main())
