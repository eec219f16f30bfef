"""Sessions while everything happens at once: loss, reordering, renewals by both sides, new network keys, and
an outsider that sends what it has seen again, to anybody, from anywhere."""

from __future__ import annotations

from dataclasses import replace

import pytest

from overlay.contact import Address
from overlay.session import SessionConfig
from overlay.session.session import HEAD
from overlay.transport.frame import OPENING, SEALED
from tests.overlay.session.world import KEY, OTHER_KEY, Peer, World

BUSY = SessionConfig(renew_after=20, end_after=30, renew_count=40, linger=3, give_up_after=5)
"""Renewed every few seconds, by count."""
SEEDS = [1, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in range(2, 20))]
OUTSIDER = Address("10.9.9.9", 1)


def no_number_comes_twice_under_a_key(world: World) -> None:
    sealed: dict[tuple[Address, int, int], bytes] = {}
    for source, _, datagram in world.seen:
        if datagram[1] == SEALED:
            _, _, _, index, counter = HEAD.unpack_from(datagram)
            assert sealed.setdefault((source, index, counter), datagram) == datagram


def talk(world: World, peers: list[Peer], count: int, pause: float = 0.5) -> None:
    """Everybody sends to everybody, both ways at the same moment, and an outsider repeats what it saw."""
    for number in range(count):
        for one in peers:
            for other in peers:
                if one is not other:
                    one.send(other.contact, b"%d at %d" % (number, len(world.seen)))
        for _ in range(4):
            source, to, datagram = world.random.choice(world.seen)
            victim = world.random.choice([to, *(peer.address for peer in peers)])
            world.arrive(datagram, world.random.choice([source, OUTSIDER]), victim)
        world.run(world.random.uniform(0, pause))


def settles(world: World, peers: list[Peer]) -> None:
    """With the network whole again everybody reaches everybody, and nothing is left over."""
    world.loss = world.twice = world.jitter = 0.0
    world.run(BUSY.give_up_after + BUSY.linger + 10)
    for round_ in (b"first", b"last"):
        for one in peers:
            for other in peers:
                if one is not other:
                    one.send(other.contact, round_)
        world.run(2)
    for peer in peers:
        assert sorted(c.id for c, body in peer.received if body == b"last") == sorted(
            other.identity.id for other in peers if other is not peer
        )
        assert not peer.sessions.openings.by_address
        assert peer.sessions.openings.held_bytes == 0
        assert len(peer.sessions.table.by_peer) == len(peers) - 1
        for contact, body in peer.received:
            assert peer.received.count((contact, body)) == 1, "nothing twice"
    no_number_comes_twice_under_a_key(world)


@pytest.mark.parametrize("seed", SEEDS)
def test_sessions_that_both_sides_renew_under_loss_and_replay_hold_every_promise(seed: int) -> None:
    world = World(seed, loss=0.2, twice=0.1, jitter=0.4)
    peers = [Peer(world, number, config=BUSY) for number in range(1, 4)]
    talk(world, peers, 150)
    assert sum(peer.handshakes.get("opened", 0) for peer in peers) > 5
    assert all(len(peer.sessions.table.by_index) < 40 for peer in peers)
    settles(world, peers)


@pytest.mark.parametrize("seed", SEEDS)
def test_the_network_key_changes_under_loss_and_nobody_is_cut_off(seed: int) -> None:
    """Each node takes each step at a time of its own."""
    world = World(seed, loss=0.2, twice=0.1, jitter=0.4)
    peers = [Peer(world, number, config=BUSY) for number in range(1, 4)]
    steps = [(KEY,), (KEY, OTHER_KEY), (OTHER_KEY, KEY), (OTHER_KEY,)]
    for step in steps:
        for peer in world.random.sample(peers, len(peers)):
            peer.sessions.rekey(step)
            talk(world, peers, 10)
        talk(world, peers, 10)
    for peer in peers:
        assert peer.sessions.table.by_index
        for other in peers:
            had = {body for contact, body in peer.received if contact.id == other.identity.id}
            assert other is peer or len(had) >= 8
    settles(world, peers)


@pytest.mark.parametrize("seed", SEEDS)
def test_peers_that_open_at_the_same_time_under_loss_reach_each_other(seed: int) -> None:
    world = World(seed, loss=0.4, twice=0.2, jitter=0.3)
    peers = [Peer(world, number, config=BUSY) for number in range(1, 5)]
    for one in peers:
        for other in peers:
            if one is not other:
                one.send(other.contact, b"hello")
    world.run(BUSY.give_up_after)
    settles(world, peers)


def test_a_flood_of_openings_with_cookies_does_not_keep_members_from_a_session() -> None:
    """A member opens from a thousand addresses that it does receive at; and an outsider repeats openings from
    made-up ones."""
    world = World()
    config = replace(SessionConfig(), answers_a_second=20, max_half_open=16)
    bob = Peer(world, 1, config=config)
    hostile = [Peer(world, 2, address=Address("10.2.0.1", 1000 + n)) for n in range(200)]
    for number, one in enumerate(hostile):
        one.sessions._random.seed(number)  # type: ignore[attr-defined]
        one.send(bob.address, b"flood")
    world.run(0.05)
    recorded = [d for _, to, d in world.seen if to == bob.address and d[1] == OPENING]
    friends = [Peer(world, number) for number in range(3, 13)]
    for second in range(5):
        for number in range(400):
            spoofed = Address(f"10.{number % 250}.{second}.7", number + 1)
            world.arrive(world.random.choice(recorded), spoofed, bob.address)
        for one in hostile:
            one.send(bob.address, b"flood")
        for friend in friends[2 * second : 2 * second + 2]:
            friend.send(bob.contact, b"hello")
        world.run(1)
    world.run(3)
    assert len(bob.sessions.table.answered) <= 16
    assert sum(body == b"hello" for body in bob.bodies) == len(friends)
