"""Sessions between peers: what arrives, from whom, and what is never taken."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import replace

import pytest

from overlay.contact import ANYONE, Address, Contact, PeerId
from overlay.identity import Identity
from overlay.session import SessionConfig, packets
from overlay.session.admission import FLOODING_SHARE, OF_ONE_ADDRESS, REPLIES, SHARE
from overlay.session.network_key import NetworkKey, NetworkKeyError
from overlay.session.opening import Opening
from overlay.session.packets import HERE, SIZES, TOKEN_BYTES
from overlay.session.session import HEAD, OVERHEAD
from overlay.session.sessions import ASK_WHERE, FORGED_ANSWERS, LOST_A_SECOND
from overlay.transport.frame import ANSWER, COOKIE, LOST, OPENING, SEALED, VERSION
from tests.overlay.session.world import KEY, OTHER_KEY, Peer, World, pair

SHORT = SessionConfig(renew_after=20, end_after=40)


def test_what_waits_for_a_session_arrives_in_order_under_the_proven_id() -> None:
    world = World()
    alice, bob = pair(world)
    for number in range(5):
        alice.send(bob.contact, b"%d" % number)
    world.run(1)
    assert bob.received == [(alice.contact, b"%d" % number) for number in range(5)]
    bob.send(alice.contact, b"back")
    world.run(1)
    assert alice.received == [(bob.contact, b"back")]
    assert alice.handshakes == {"opened": 1}
    assert bob.handshakes == {"answered": 1}


def test_in_a_flood_nothing_is_computed_for_an_address_that_has_not_proven_itself() -> None:
    world = World()
    alice, bob = pair(world)
    bob.is_flooded = True
    alice.send(bob.contact, b"hello")
    world.run(0.0201)  # there and back
    assert bob.handshakes == {"asked_to_prove": 1}
    world.run(1)
    assert bob.bodies == [b"hello"]
    assert bob.handshakes == {"asked_to_prove": 1, "answered": 1}


def test_who_shows_the_negative_of_its_key_has_the_same_id() -> None:
    """One key of the handshake is one peer: nobody has a second place in the DHT, or a second budget."""
    world = World()
    alice, bob = pair(world)
    key = alice.identity.public_key
    alice.identity.public_key = key[:-1] + bytes((key[-1] ^ 0x80,))
    alice.send(bob.contact, b"it is me")
    world.run(1)
    assert bob.received == [(alice.contact, b"it is me")]


def test_a_session_costs_one_round_trip() -> None:
    world = World()
    alice, bob = pair(world)
    alice.send(bob.contact, b"hello")
    world.run(0.0301)  # three times one way: opening, answer, frames
    assert bob.bodies == [b"hello"]


def test_a_question_that_anybody_may_ask_is_answered_with_the_session() -> None:
    world = World()
    alice, bob = pair(world)
    alice.send(bob.contact, b"there?")
    alice.send(bob.contact, b"hello")
    world.run(0.0201)  # there and back
    assert alice.received == [(bob.contact, b"yes")]
    world.run(1)
    assert bob.bodies == [b"hello"]
    assert bob.asked_early == [(alice.contact, b"there?")]


def test_a_question_in_an_opening_that_is_not_answered_there_is_asked_in_the_session() -> None:
    world = World()
    alice, bob = pair(world)
    bob.answer_early = lambda sender, frame: b""  # type: ignore[method-assign]
    alice.send(bob.contact, b"there?")
    world.run(1)
    assert bob.bodies == [b"there?"]
    assert alice.sessions.openings.held_bytes == 0


def test_who_records_an_opening_has_its_question_answered_to_nobody() -> None:
    """And a frame of an opening is never handed up: nobody has proven to be its sender."""
    world = World()
    alice, bob = pair(world)
    alice.send(bob.contact, b"there?")
    world.run(1)
    opening = next(sent for _, _, sent in world.seen if sent[1] == OPENING)
    thief = Peer(world, 3)
    carol = Peer(world, 4)
    before = len(world.seen)
    world.carry(opening, thief.address, carol.address)
    world.run(1)
    assert carol.asked_early == [(Contact(alice.identity.id, *thief.address), b"there?")]
    assert thief.received == carol.received == []
    sizes = [len(sent) for source, _, sent in world.seen[before:] if source == carol.address]
    assert sum(sizes) <= len(opening)


@pytest.mark.parametrize("to_whom", ["address", "anyone"])
def test_whoever_is_at_an_address_is_found_out(to_whom: str) -> None:
    world = World()
    alice, bob = pair(world)
    to = bob.address if to_whom == "address" else Contact(ANYONE, *bob.address)
    alice.send(to, b"who is there")
    world.run(1)
    alice.send(to, b"still?")
    world.run(1)
    assert bob.bodies == [b"who is there", b"still?"]
    assert alice.sessions.peers == [bob.contact]
    assert alice.handshakes == {"opened": 1}


def test_a_frame_for_one_peer_is_not_given_to_another_at_its_address() -> None:
    world = World()
    alice, bob = pair(world)
    for _ in range(20):
        alice.send(Contact(PeerId(b"v" * 20), *bob.address), b"for the victim")
        world.run(0.1)
    assert bob.received == []
    assert set(alice.dropped_out) == {"another_peer"}
    assert alice.handshakes == {"opened": 1}, "and it is not asked each time who is there"


def test_a_recorded_datagram_is_taken_by_nobody() -> None:
    world = World()
    alice, bob = pair(world)
    carol = Peer(world, 3)
    alice.send(bob.contact, b"pay 100")
    world.run(1)
    recorded = [datagram for source, _, datagram in world.seen if source == alice.address]
    carol.send(bob.contact, b"a session of her own")
    world.run(3600)
    bob_again = bob.restart()
    for victim in (bob, bob_again, carol):
        before = len(victim.received)
        for datagram in recorded * 2:
            victim.take(datagram, Address("10.6.6.6", 666))
        assert victim.received[before:] == []
    assert {"unknown_session"} <= set(bob_again.dropped_in)


def test_nothing_is_taken_twice_within_a_session() -> None:
    world = World()
    alice, bob = pair(world)
    for number in range(3):
        alice.send(bob.contact, b"%d" % number)
    world.run(1)
    for _, to, datagram in world.seen:
        if to == bob.address and datagram[1] == SEALED:
            bob.take(datagram, alice.address)
    assert bob.bodies == [b"0", b"1", b"2"]
    assert bob.dropped_in == ["replayed"] * 3


def test_altered_and_foreign_datagrams_are_dropped() -> None:
    world = World()
    alice, bob = pair(world)
    mallory = Peer(world, 3, keys=(OTHER_KEY,))
    alice.send(bob.contact, b"hello")
    mallory.send(bob.contact, b"let me in")
    world.run(10)
    assert bob.bodies == [b"hello"]
    assert mallory.dropped_out == ["no_session"]
    assert mallory.handshakes == {"unanswered": 1}
    bob.dropped_in.clear()
    datagram = next(d for _, to, d in world.seen if to == bob.address and d[1] == SEALED)
    for place in range(4, len(datagram)):
        bob.take(
            datagram[:place] + bytes([datagram[place] ^ 1]) + datagram[place + 1 :], alice.address
        )
    assert set(bob.dropped_in) == {"not_authentic", "unknown_session", "replayed"}
    assert len(bob.dropped_in) == len(datagram) - 4
    assert bob.bodies == [b"hello"]


def test_a_peer_cannot_pose_as_another() -> None:
    """Mallory has the network key and says that it has Alice's identity, without Alice's secret."""
    world = World()
    alice, bob = pair(world)
    mallory = Peer(world, 3)
    mallory.identity.public_key = alice.identity.public_key
    mallory.identity.id = alice.identity.id
    mallory.send(bob.contact, b"I am Alice")
    world.run(10)
    assert bob.received == []
    assert "not_authentic" in bob.dropped_in
    bob.send(Contact(alice.identity.id, *mallory.address), b"for Alice")
    world.run(10)
    assert mallory.received == []
    assert bob.dropped_out == ["no_session"]


def test_an_answer_that_was_made_up_by_a_member_does_not_end_the_opening() -> None:
    """Who holds the network key and sees an opening can make an answer with a good mac."""
    world = World()
    alice, bob = pair(world)
    alice.send(bob.contact, b"hello")
    (opening,) = alice.sessions.openings.by_address.values()
    assert opening.key is not None
    forged = packets.answer(opening.key, opening.index, 7, bytes(packets.NOISE_BYTES))
    world.arrive(forged, bob.address, alice.address)
    assert alice.dropped_in == ["not_authentic"]
    world.run(1)
    assert bob.bodies == [b"hello"]
    alice.send(Address("10.0.9.1", 4000), b"to nobody")
    (opening,) = alice.sessions.openings.by_address.values()
    forged = packets.answer(opening.key, opening.index, 7, bytes(packets.NOISE_BYTES))
    for _ in range(20):
        world.arrive(forged, bob.address, alice.address)
    assert alice.dropped_in.count("not_authentic") == 1 + FORGED_ANSWERS
    assert not alice.sessions.openings.by_address


def test_peers_of_one_block_that_are_not_there_leave_room_for_openings_to_others() -> None:
    world = World()
    alice, bob = pair(world, config=SessionConfig(max_openings=8))
    for port in range(1, 20):
        alice.send(Address("10.9.9.9", port), b"anybody?")
    assert alice.dropped_out == ["too_many_openings"] * 15
    alice.send(bob.contact, b"hello")
    world.run(1)
    assert bob.bodies == [b"hello"]
    world.run(20)
    assert not alice.sessions.openings.in_block


@pytest.mark.parametrize("seed", range(20))
def test_peers_that_open_at_the_same_time_agree_on_one_session(seed: int) -> None:
    world = World(seed, jitter=0.02)
    alice, bob = pair(world)
    alice.send(bob.contact, b"to bob")
    bob.send(alice.contact, b"to alice")
    world.run(2)
    assert (alice.bodies, bob.bodies) == ([b"to alice"], [b"to bob"])
    assert alice.handshakes.get("opened", 0) + bob.handshakes.get("opened", 0) == 1
    assert len(alice.sessions.table.by_index) == len(bob.sessions.table.by_index) == 1


@pytest.mark.parametrize("seed", range(20))
def test_sessions_open_and_go_on_under_loss_repetition_and_reordering(seed: int) -> None:
    world = World(seed, loss=0.2, twice=0.2, jitter=0.3)
    peers = [Peer(world, number, config=SHORT) for number in range(1, 5)]
    for number in range(300):
        sender, receiver = world.random.sample(peers, 2)
        sender.send(receiver.contact, b"%d" % number)
        world.run(world.random.uniform(0, 0.6))
        if world.random.random() < 0.01:
            victim = world.random.choice(peers)
            peers[peers.index(victim)] = victim.restart()
    world.loss = world.jitter = world.twice = 0
    world.run(15)
    for peer in peers:
        bodies = peer.bodies
        assert len(bodies) == len(set(bodies)), "nothing twice"
    for sender in peers:
        for receiver in peers:
            if sender is not receiver:
                sender.send(receiver.contact, b"first")
                world.run(2)
                sender.send(receiver.contact, b"last")
                world.run(2)
                assert receiver.bodies[-1] == b"last"
    for peer in peers:
        assert len(peer.sessions.table.by_peer) <= 3
        assert peer.sessions.openings.by_address == {}
        assert peer.sessions.openings.held_bytes == 0


def test_a_peer_that_restarted_is_reached_after_one_lost_datagram() -> None:
    world = World()
    alice, bob = pair(world)
    alice.send(bob.contact, b"before")
    world.run(1)
    bob = bob.restart()
    for number in range(3):
        alice.send(bob.contact, b"%d" % number)
        world.run(1)
    assert bob.bodies == [b"1", b"2"]
    assert alice.handshakes["peer_lost_session"] == 1


def test_an_outsider_cannot_keep_a_node_from_saying_that_a_session_is_lost() -> None:
    """From one block of addresses it has few of the notices sent, whatever it sends."""
    world = World()
    alice, bob = pair(world)
    alice.send(bob.contact, b"before")
    world.run(1)
    bob = bob.restart()
    outsider = Address("10.0.9.1", 4000)
    for number in range(1500):
        bob.take(HEAD.pack(VERSION, SEALED, OVERHEAD, number, 0) + bytes(16), outsider)
    for number in range(3):
        alice.send(bob.contact, b"%d" % number)
        world.run(1)
    assert bob.bodies == [b"1", b"2"]
    told = sum(to == outsider for _, to, _ in world.seen)
    assert 0 < told <= LOST_A_SECOND / SHARE


@pytest.mark.parametrize("is_there", [True, False], ids=["late", "not there"])
def test_who_makes_up_an_address_does_not_keep_an_opening_to_it_from_being_sent_again(
    is_there: bool,
) -> None:
    """Each opening from there might become the session, so the own one is put off; but once."""
    world = World()
    alice, bob = pair(world)
    insider = Peer(world, 3)
    for number in range(200):
        insider.send(Address(f"10.1.{number}.1", 9), b"x")
    openings = iter([datagram for _, _, datagram in world.seen])
    del world.peers[bob.address]
    alice.send(bob.contact, b"for Bob")
    for step in range(150):
        if step == 20 and is_there:
            world.peers[bob.address] = bob
        alice.take(next(openings), bob.address)
        world.run(0.08)
    if is_there:
        assert bob.bodies == [b"for Bob"]
    else:
        assert alice.sessions.openings.by_address == {}
        assert alice.dropped_out == ["no_session"]


def test_a_member_that_uses_another_s_number_does_not_hide_that_a_session_is_lost() -> None:
    world = World()
    alice, bob = pair(world)
    alice.send(bob.contact, b"hello")
    world.run(1)
    session = alice.sessions.table.by_peer[bob.identity.id]
    mallory = Peer(world, 3)
    mallory.sessions._new_index = lambda: session.remote_index  # type: ignore[method-assign]
    mallory.send(alice.contact, b"hello")
    world.run(1)
    again = bob.restart()
    alice.send(bob.contact, b"lost")
    world.run(1)
    alice.send(bob.contact, b"found")
    world.run(1)
    assert again.bodies == [b"found"]


def test_an_outsider_cannot_say_that_a_session_is_lost() -> None:
    world = World()
    alice, bob = pair(world)
    alice.send(bob.contact, b"before")
    world.run(1)
    outsider = Peer(world, 3, keys=(OTHER_KEY,))
    datagram = next(d for _, to, d in world.seen if to == bob.address and d[1] == SEALED)
    outsider.take(datagram, alice.address)
    world.run(1)
    assert alice.dropped_in == ["not_authentic"]
    assert "peer_lost_session" not in alice.handshakes


def test_an_outsider_cannot_have_another_member_say_that_a_session_is_lost() -> None:
    """Carol does not know the session of Alice and Bob, and says so to whoever names it."""
    world = World()
    alice, bob = pair(world)
    carol = Peer(world, 3)
    alice.send(bob.contact, b"before")
    world.run(1)
    datagram = next(d for _, to, d in world.seen if to == bob.address and d[1] == SEALED)
    carol.take(datagram, alice.address)  # with a made-up source
    outsider = Address("10.0.9.1", 4000)
    carol.take(datagram, outsider)
    world.run(1)
    notice = next(d for _, to, d in world.seen if to == outsider)
    alice.take(notice, outsider)
    world.run(1)
    assert "peer_lost_session" not in alice.handshakes
    assert alice.handshakes["opened"] == 1
    assert not any(source == alice.address and to == outsider for source, to, _ in world.seen)


def test_a_recorded_opening_does_not_hide_that_a_session_is_lost() -> None:
    world = World()
    alice, bob = pair(world)
    bob.send(alice.contact, b"an opening of Bob's that an outsider records")
    world.run(1)
    opening = next(d for source, _, d in world.seen if source == bob.address and d[1] == OPENING)
    bob = bob.restart()
    for number in range(3):
        alice.take(opening, bob.address)
        alice.send(bob.contact, b"%d" % number)
        world.run(2)
    assert bob.bodies == [b"1", b"2"]


def test_a_member_with_a_made_up_source_does_not_take_another_s_address() -> None:
    world = World()
    alice, bob = pair(world)
    mallory = Peer(world, 3)
    mallory.send(alice.contact, b"hello")
    world.run(1)
    wrap = mallory.sessions.towards(alice.contact)
    assert wrap is not None
    alice.take(wrap([b"from Bob's address"]), bob.address)
    alice.send(bob.contact, b"for Bob")
    world.run(1)
    alice.take(wrap([b"again"]), bob.address)
    alice.send(bob.address, b"for whoever is there")
    world.run(1)
    assert bob.bodies == [b"for Bob", b"for whoever is there"]


def test_a_session_that_was_begun_with_an_old_key_is_not_finished() -> None:
    world = World()
    alice, bob = pair(world)
    alice.send(bob.contact, b"hello")
    world.run(0.015)
    assert bob.handshakes == {"answered": 1}
    bob.sessions.rekey((OTHER_KEY,))
    world.run(5)
    assert bob.received == []
    assert bob.sessions.peers == []


def test_a_session_follows_its_peer_to_another_address() -> None:
    world = World()
    alice, bob = pair(world)
    alice.send(bob.contact, b"at home")
    world.run(1)
    before = alice.contact
    alice.move(Address("10.9.9.9", 9))
    alice.send(bob.contact, b"elsewhere")
    world.run(1)
    assert bob.received[-1] == (before, b"elsewhere")
    assert bob.sessions.peers == [alice.contact]
    alice.send(bob.contact, b"still there")
    world.run(1)
    assert bob.received[-1] == (alice.contact, b"still there")
    bob.send(alice.address, b"found by address")
    bob.send(alice.contact, b"and by id")
    world.run(1)
    assert alice.bodies == [b"found by address", b"and by id"]
    assert alice.handshakes == {"opened": 1}


@pytest.mark.parametrize("seed", range(5))
def test_a_session_follows_its_peer_under_loss_and_repetition(seed: int) -> None:
    world = World(seed, loss=0.3, twice=0.2, jitter=0.3)
    alice, bob = pair(world)
    for number in range(20):
        alice.move(Address(f"10.9.9.{number + 1}", 9))
        for _ in range(40):
            alice.send(bob.contact, b"where I am")
            world.run(0.2)
        assert bob.sessions.peers == [alice.contact]


def test_a_member_that_makes_up_where_it_is_has_hardly_anything_sent_there() -> None:
    """It sends questions, each of which bob would answer, with the address of one that did not ask."""
    world = World()
    mallory, bob = pair(world)
    victim = Address("10.7.7.7", 7)
    mallory.send(bob.contact, b"hello")
    world.run(1)
    wrap = mallory.sessions.towards(bob.contact)
    assert wrap is not None
    sent = 0
    for number in range(100):
        datagram = wrap([b"question %d" % number])
        sent += len(datagram)
        bob.take(datagram, victim)
        sender, _ = bob.received[-1]
        bob.send(sender, b"answer " * 100)
        world.run(0.02)
    to_victim = [datagram for _, to, datagram in world.seen if to == victim]
    assert len(to_victim) <= 100 * 0.02 / ASK_WHERE
    assert sum(map(len, to_victim)) < sent / 10
    assert len(mallory.bodies) >= 99, "answers go to where it is"
    forged = wrap([HERE, bytes(TOKEN_BYTES)])
    bob.take(forged, victim)
    assert bob.sessions.peers == [mallory.contact]


def test_a_question_to_another_address_is_not_larger_than_what_came_from_there() -> None:
    world = World()
    mallory, bob = pair(world)
    victim = Address("10.7.7.7", 7)
    mallory.send(bob.contact, b"hello")
    world.run(1)
    wrap = mallory.sessions.towards(bob.contact)
    assert wrap is not None
    for size in range(12):
        datagram = wrap([b"x" * size] if size else [])
        world.seen.clear()
        bob.take(datagram, victim)
        assert sum(len(sent) for _, _, sent in world.seen) <= len(datagram)
        world.run(1)
    assert world.seen, "the last one was large enough for a question"


def test_a_session_is_renewed_where_its_peer_is_now() -> None:
    world = World()
    config = SessionConfig(renew_after=20, end_after=40, give_up_after=5)
    alice, bob = pair(world, config=config)
    alice.send(bob.contact, b"hello")
    world.run(1)
    before = bob.address
    bob.move(Address("10.9.9.9", 9))
    bob.send(alice.contact, b"I am here")
    world.run(1)
    world.seen.clear()
    for _ in range(60):
        alice.send(bob.contact, b"more")
        world.run(1)
    assert len(bob.bodies) == 61, "nothing was lost for a session that had ended"
    assert before not in [to for _, to, _ in world.seen]


def test_who_repeats_a_datagram_from_elsewhere_first_does_not_take_the_peer_away() -> None:
    world = World()
    alice, bob = pair(world)
    alice.send(bob.contact, b"hello")
    world.run(1)
    wrap = alice.sessions.towards(bob.contact)
    assert wrap is not None
    bob.take(wrap([b"overtaken"]), Address("10.6.6.6", 6))
    bob.send(alice.contact, b"for Alice")
    world.run(1)
    assert bob.sessions.peers == [alice.contact]
    assert alice.bodies == [b"for Alice"]


def test_a_session_in_use_is_renewed_and_nothing_is_lost_meanwhile() -> None:
    world = World()
    alice, bob = pair(world, config=SHORT)
    for number in range(200):
        alice.send(bob.contact, b"%d" % number)
        bob.send(alice.contact, b"%d" % number)
        world.run(0.5)
    assert bob.bodies == alice.bodies == [b"%d" % number for number in range(200)]
    assert alice.handshakes["opened"] >= 4
    assert bob.handshakes.get("opened", 0) == 0, "the side that opened it renews it"
    assert len(alice.sessions.table.by_index) <= 2


def test_a_session_is_renewed_after_a_number_of_datagrams() -> None:
    world = World()
    alice, bob = pair(
        world, config=replace(SHORT, renew_after=3600, end_after=4000, renew_count=50)
    )
    for number in range(100):
        alice.send(bob.contact, b"%d" % number)
        world.run(0.3)
    assert len(bob.bodies) == 100
    assert alice.handshakes["opened"] >= 2


def test_an_unused_session_ends_and_the_next_frame_opens_another() -> None:
    world = World()
    alice, bob = pair(world, config=SHORT)
    alice.send(bob.contact, b"first")
    world.run(100)
    for peer in (alice, bob):
        assert peer.sessions.table.by_index == peer.sessions.table.by_address == {}
        assert peer.sessions.table.by_peer == peer.sessions.table.by_remote == {}
        assert peer.sessions._sweep_timer is None
    alice.send(bob.contact, b"second")
    world.run(1)
    assert bob.bodies == [b"first", b"second"]


def test_the_network_key_changes_without_a_stop() -> None:
    world = World()
    alice, bob = pair(world)
    count = 0
    for ring in ((KEY, OTHER_KEY), (OTHER_KEY, KEY), (OTHER_KEY,)):
        for peer in (alice, bob):
            peer.sessions.rekey(ring)
            alice.send(bob.contact, b"%d" % count)
            bob.send(alice.contact, b"%d" % count)
            count += 1
            world.run(1)
    assert alice.bodies == bob.bodies == [b"%d" % number for number in range(count)]
    with pytest.raises(NetworkKeyError, match="at least one"):
        alice.sessions.rekey(())


def test_a_member_without_the_new_key_is_told_nothing_and_out_after_a_moment() -> None:
    world = World()
    alice, bob = pair(world)
    alice.send(bob.contact, b"before")
    world.run(1)
    bob.sessions.rekey((OTHER_KEY,))
    bob.send(alice.contact, b"to alice")
    world.run(bob.config.linger + 5)
    alice.send(bob.contact, b"after")
    world.run(20)
    assert bob.bodies == [b"before"]
    assert alice.bodies == []


def test_the_answering_side_sends_nothing_before_the_session_is_confirmed() -> None:
    """A recorded opening makes no session: only who has the secrets can use it."""
    world = World()
    alice, bob = pair(world)
    alice.send(bob.contact, b"hello")
    world.run(1)
    opening = next(d for _, _, d in world.seen if d[1] == OPENING)
    bob_again = bob.restart()
    del world.peers[alice.address]
    bob_again.take(opening, alice.address)
    assert bob_again.handshakes == {"answered": 1}
    assert bob_again.sessions.peers == []
    bob_again.send(alice.contact, b"secret")
    world.run(1)
    assert all(d[1] != SEALED for source, _, d in world.seen[-5:] if source == bob.address)
    world.run(20)
    assert bob_again.sessions.table.by_index == {}


def test_no_reply_is_larger_than_what_it_replies_to() -> None:
    assert max(SIZES[ANSWER], SIZES[COOKIE]) <= SIZES[OPENING]
    world = World()
    alice, bob = pair(world, config=SessionConfig(answers_a_second=1))
    mallory = Peer(world, 3, config=SessionConfig(answers_a_second=1))
    alice.send(bob.contact, b"hello")
    world.run(3)
    mallory.send(alice.contact, b"x")
    mallory.send(bob.contact, b"y")
    world.run(3)
    recorded = [datagram for _, _, datagram in world.seen]
    bob_again = bob.restart()
    spoofed = Address("10.7.7.7", 7)
    for datagram in recorded * 3:
        start = len(world.seen)
        bob_again.take(datagram, spoofed)
        replies = [reply for _, _, reply in world.seen[start:]]
        assert sum(map(len, replies)) <= len(datagram)
        assert {reply[1] for reply in replies} <= {ANSWER, COOKIE, LOST}


def test_openings_of_a_flooding_block_get_few_replies_and_then_cost_no_hash(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who has proven its address goes on all the same."""
    world = World()
    bob = Peer(world, 2)
    bob.is_flooded = True
    openings = []
    for name in range(3, 240):
        opening = Opening(bob.address, 0.0, 1.0)
        identity = Identity(bytes([name]) * 32)
        opening.write(name, NetworkKey(KEY), identity, bytes([name]) * 32)
        openings.append(opening.datagram)
    hashed: list[bytes] = []
    real = packets.opening_key

    def opening_key(datagram: bytes, ring: tuple[NetworkKey, ...]) -> NetworkKey | None:
        hashed.append(datagram)
        return real(datagram, ring)

    monkeypatch.setattr(packets, "opening_key", opening_key)
    for datagram in openings:
        bob.take(datagram, Address("10.0.9.1", 7))
    limit = bob.config.answers_a_second * REPLIES // FLOODING_SHARE
    assert len(openings) > limit
    assert bob.handshakes == {"asked_to_prove": limit}
    assert len(hashed) == limit
    assert set(bob.dropped_in) == {"too_many_openings"}
    cookie = bob.sessions._admission.cookie_for(("10.0.9.1", 7), world.now)
    bob.take(packets.with_proof(openings[-1], cookie), Address("10.0.9.1", 7))
    assert bob.handshakes == {"asked_to_prove": limit, "answered": 1}


def test_under_load_an_address_is_proven_before_any_key_is_agreed_on() -> None:
    config = SessionConfig(answers_a_second=5)
    world = World()
    bob = Peer(world, 200, config=config)
    crowd = [Peer(world, number) for number in range(1, 30)]
    for peer in crowd:
        peer.send(bob.contact, b"hello")
    world.run(0.025)
    assert bob.handshakes == {"answered": 5, "asked_to_prove": 24}
    assert len(bob.sessions.table.by_index) == 5
    world.run(8)
    assert len(bob.received) == 29, "everybody comes in, one round trip later"


def test_who_spoofs_addresses_gets_no_answer_under_load() -> None:
    config = SessionConfig(answers_a_second=5)
    world = World()
    bob = Peer(world, 200, config=config)
    insider = Peer(world, 1)
    for number in range(100):
        address = Address(f"10.1.{number}.1", 9)
        insider.send(address, b"x")
    for _, _, datagram in list(world.seen):
        bob.take(datagram, Address("10.3.3.3", world.random.randrange(1, 60000)))
    assert bob.handshakes["answered"] == 5
    assert len(bob.sessions.table.by_index) == 5


def test_who_opens_many_sessions_from_one_address_proves_it_after_the_first_few() -> None:
    """There is one node at an address; many nodes of one host have an address each."""
    world = World()
    bob, insider = Peer(world, 200), Peer(world, 1)
    for number in range(50):
        insider.send(Address(f"10.1.{number}.1", 9), b"x")
    openings = [datagram for _, _, datagram in world.seen]
    for datagram in openings:
        bob.take(datagram, insider.address)
    assert bob.handshakes == {"answered": OF_ONE_ADDRESS, "asked_to_prove": 50 - OF_ONE_ADDRESS}
    for port, datagram in enumerate(openings[OF_ONE_ADDRESS:], 1):
        bob.take(datagram, insider.address._replace(port=port))
    assert bob.handshakes["answered"] == 50


def test_one_host_gets_a_bounded_number_of_replies_a_second() -> None:
    world = World()
    bob = Peer(world, 200, config=SessionConfig(answers_a_second=5))
    insider = Peer(world, 1)
    for number in range(50):
        insider.send(Address(f"10.1.{number}.1", 9), b"x")
    openings = [datagram for _, _, datagram in world.seen]
    world.seen.clear()
    for _ in range(20):
        for datagram in openings:
            bob.take(datagram, insider.address)
    assert len(world.seen) <= 5 + 5 * 40 / 5
    assert "too_many_openings" in bob.dropped_in
    alice = Peer(world, 2)
    alice.send(bob.contact, b"from elsewhere")
    world.run(1)
    assert bob.bodies == [b"from elsewhere"]


def test_half_open_sessions_are_bounded() -> None:
    world = World()
    config = SessionConfig(max_half_open=8, answers_a_second=1000)
    bob = Peer(world, 200, config=config)
    insider = Peer(world, 1)
    for number in range(50):
        insider.send(Address(f"10.1.{number}.1", 9), b"x")
    for port, (_, _, datagram) in enumerate(list(world.seen), 1):
        bob.take(datagram, insider.address._replace(port=port))
    assert len(bob.sessions.table.answered) == len(bob.sessions.table.by_index) == 8
    world.run(20)
    assert bob.sessions.table.by_index == {}


def test_a_block_of_addresses_with_many_sessions_loses_its_own() -> None:
    world = World()
    bob = Peer(world, 200, config=SessionConfig(max_sessions=20, answers_a_second=1000))
    honest = [Peer(world, number) for number in range(1, 11)]
    for peer in honest:
        peer.send(bob.contact, b"honest")
    world.run(1)
    for number in range(11, 100):
        sybil = Peer(world, number, address=Address("10.66.0.1", number))
        sybil.send(bob.contact, b"one of many")
        world.run(0.1)
    peers = {contact.id for contact in bob.sessions.peers}
    assert len(peers) <= 20
    assert {peer.identity.id for peer in honest} <= peers


def test_what_waits_for_a_session_is_bounded() -> None:
    world = World()
    config = SessionConfig(held_bytes=1000, held_total=2500, max_openings=5)
    alice = Peer(world, 1, config=config)
    for number in range(10):
        for _ in range(15):
            alice.send(Address(f"10.5.{number}.1", 1), b"x" * 100)
    assert alice.sessions.openings.held_bytes == 2500
    assert len(alice.sessions.openings.by_address) == 5
    assert alice.dropped_out.count("too_many_openings") == 5 * 15
    assert alice.dropped_out.count("no_session") == 5 * 15 - 25
    world.run(30)
    assert alice.sessions.openings.held_bytes == 0
    assert len(alice.dropped_out) == 150
    assert alice.sessions.openings.by_address == alice.sessions.openings.by_index == {}


def test_few_ciphers_are_ready_and_all_sessions_work() -> None:
    world = World()
    bob = Peer(world, 200, config=SessionConfig(live_ciphers=3))
    crowd = [Peer(world, number) for number in range(1, 11)]
    for _ in range(3):
        for peer in crowd:
            peer.send(bob.contact, b"hello")
            world.run(0.1)
            bob.send(peer.contact, b"back")
            world.run(0.1)
    assert len(bob.received) == 30
    assert all(len(peer.received) == 3 for peer in crowd)
    assert sum(session.is_ready for session in bob.sessions.table.by_index.values()) <= 3


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_thousand_sessions_take_less_than_four_megabytes() -> None:
    command = [sys.executable, "-m", "tests.overlay.session.memory_of_sessions"]
    told = subprocess.run(command, capture_output=True, text=True, check=True)
    assert int(told.stdout) < 4_000_000


def test_a_node_has_no_session_with_itself() -> None:
    world = World()
    alice = Peer(world, 1)
    alice.send(alice.address, b"me")
    world.run(10)
    assert alice.received == []
    assert alice.dropped_out == ["no_session"]
    assert "from_self" in alice.dropped_in


@pytest.mark.parametrize("size", range(0, 200, 5))
def test_any_bytes_are_dropped_under_a_reason(size: int) -> None:
    world = World(size)
    alice = Peer(world, 1)
    for flags in range(8):
        body = world.random.randbytes(size)
        for length in (size, world.random.getrandbits(16)):
            datagram = (bytes((3, flags)) + length.to_bytes(2, "big") + body)[:size]
            alice.take(datagram, Address("10.6.6.6", 6))
    assert alice.received == []
    assert len(alice.dropped_in) == 16
