"""The exchange of pieces, on a stage with faults and liars."""

from __future__ import annotations

import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay import limited_msgpack
from overlay.contact import Contact
from overlay.virtual.stage import numbered_contact
from pubsub.files import exchange as exchange_module
from pubsub.files import manifest as manifest_module
from pubsub.files.exchange import (
    ASKED_AT_ONCE,
    MOST_WANTED,
    Holds,
    Piece,
    PieceExchange,
    PieceHashes,
    WantedPieces,
)
from pubsub.files.manifest import HASH_BYTES, MAX_PIECES, HashList, Manifest, PieceSet
from tests.pubsub.files.swarm import MemoryPieces, Swarm


@pytest.mark.parametrize("seed", range(5))
def test_everyone_gets_the_file_over_links_that_lose_and_repeat(seed: int) -> None:
    Swarm(seed, receivers=6, loss=0.1, duplicate=0.1).run_until_complete()


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100, 140))
def test_everyone_gets_the_file_whoever_crashes_meanwhile(seed: int) -> None:
    swarm = Swarm(seed, receivers=8, pieces=60, loss=0.1, duplicate=0.05)
    chance = swarm.stage.context(numbered_contact(999)).random
    for _ in range(5):
        swarm.stage.run_for(chance.uniform(0.05, 2.0))
        number = chance.randrange(0, 9)
        swarm.crash(number)
        swarm.stage.run_for(chance.uniform(0.0, 3.0))
        swarm.restart(number)
    swarm.run_until_complete()


def test_the_first_holder_may_go_when_the_others_have_all_pieces_between_them() -> None:
    swarm = Swarm(1, receivers=5, pieces=200)
    while len(swarm.spread()) < swarm.manifest.pieces:
        swarm.stage.run_for(0.02)
    assert not any(swarm.is_whole(number) for number in range(1, 6)), "somebody was too fast"
    swarm.crash(0)
    swarm.run_until_complete()


def test_receivers_give_to_one_another() -> None:
    swarm = Swarm(2, receivers=10, pieces=300)
    swarm.run_until_complete()
    given = [exchange.given for exchange in swarm.exchanges.values()]
    assert given[0] < 5 * len(swarm.content), "the first holder gave nearly everything itself"
    assert sum(given) < 12 * len(swarm.content), "pieces were sent too often"


def test_a_receiver_that_begins_again_asks_only_for_what_it_lacks() -> None:
    swarm = Swarm(3, receivers=1, pieces=100)
    while len(swarm.storages[1].pieces) < 60:
        swarm.stage.run_for(0.05)
    swarm.crash(1)
    had, given = len(swarm.storages[1].pieces), swarm.exchanges[0].given
    swarm.restart(1)
    swarm.run_until_complete()
    assert swarm.exchanges[0].given - given <= (swarm.manifest.pieces - had) * 100


def test_a_sender_knows_who_is_done_even_when_they_have_left() -> None:
    swarm = Swarm(4, receivers=3)
    swarm.run_until_complete()
    swarm.stage.run_for(3.0)
    assert (swarm.exchanges[0].finished_peers, swarm.exchanges[0].waiting_peers) == (3, 0)
    for number in (1, 2, 3):
        swarm.crash(number)
    swarm.stage.run_for(60.0)
    assert (swarm.exchanges[0].finished_peers, swarm.exchanges[0].waiting_peers) == (3, 0)


def test_when_all_have_all_nobody_says_anything() -> None:
    swarm = Swarm(5, receivers=4)
    swarm.run_until_complete()
    swarm.stage.run_for(5.0)
    sent = swarm.stage.sent
    swarm.stage.run_for(20.0)
    assert swarm.stage.sent == sent


class Liar:
    """Says that it has everything, and answers whatever it is asked with something else."""

    def __init__(self, swarm: Swarm, number: int) -> None:
        self.swarm = swarm
        self.contact = numbered_contact(number)
        self.context = swarm.stage.context(self.contact)
        swarm.stage.attach(self.contact, self.receive)

    def receive(self, sender: Contact, message: object) -> None:
        full = PieceSet.full(self.swarm.manifest.pieces).packed()
        file = self.swarm.manifest.id
        if isinstance(message, Holds):
            self.context.send(sender, Holds(file, full, (), False))
        elif isinstance(message, WantedPieces) and message.hashes_from is not None:
            self.context.send(sender, PieceHashes(file, 0, bytes(len(self.swarm.hashes))))
        elif isinstance(message, WantedPieces):
            for index in message.pieces:
                self.context.send(sender, Piece(file, index, b"a lie"))


def swarm_with_liar(seed: int) -> Swarm:
    swarm = Swarm(seed, receivers=3)
    liar = Liar(swarm, 500)
    for number in (1, 2, 3):
        swarm.exchanges[number].meet(liar.contact)
    return swarm


def test_an_announcement_of_millions_of_pieces_takes_little_memory() -> None:
    manifest = Manifest("a file", MAX_PIECES, 1, bytes(HASH_BYTES), bytes(HASH_BYTES), "/videos")
    stage = Swarm(seed=1, receivers=0).stage
    context = stage.context(numbered_contact(9))
    limited_msgpack.pack(bytes(MAX_PIECES // 8))  # its buffers stay, whatever is packed
    tracemalloc.start()
    try:
        hashes, pieces = HashList(manifest), PieceSet(manifest.pieces)
        PieceExchange(context, manifest, MemoryPieces(), hashes, pieces).meet(numbered_contact(0))
        assert tracemalloc.get_traced_memory()[1] < 4_000_000
    finally:
        tracemalloc.stop()


def test_a_liar_is_found_out_and_not_listened_to_any_more() -> None:
    reasons: dict[str, int] = {}
    for seed in range(6):
        swarm = swarm_with_liar(seed)
        swarm.run_until_complete()
        reasons |= swarm.dropped
    assert "wrong_hashes" in reasons
    assert "wrong_checksum" in reasons


@pytest.mark.parametrize("seed", range(6))
def test_checksums_that_nobody_asked_for_spoil_nothing(seed: int) -> None:
    swarm = Swarm(seed, receivers=2)
    lie = PieceHashes(swarm.manifest.id, 0, bytes(32))
    for number in (1, 2):
        swarm.exchanges[number].receive(numbered_contact(500), lie)
    swarm.run_until_complete()
    assert swarm.dropped["unasked_hashes"] >= 2
    assert "wrong_hashes" not in swarm.dropped


@pytest.mark.parametrize("seed", range(4))
def test_one_wrong_part_of_the_checksums_bans_its_sender_alone(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A holder that lies in the first part and would go on honestly."""
    monkeypatch.setattr(manifest_module, "HASHES_A_MESSAGE", 4)

    class HalfLiar(Liar):
        def receive(self, sender: Contact, message: object) -> None:
            if isinstance(message, WantedPieces) and message.hashes_from:
                part = self.swarm.hashes[message.hashes_from * 32 :][: 4 * 32]
                hashes = PieceHashes(self.swarm.manifest.id, message.hashes_from, part)
                self.context.send(sender, hashes)
            elif isinstance(message, WantedPieces) and message.hashes_from == 0:
                self.context.send(sender, PieceHashes(self.swarm.manifest.id, 0, bytes(4 * 32)))
            else:
                super().receive(sender, message)

    swarm = Swarm(seed, receivers=1)
    liar = HalfLiar(swarm, 500)
    swarm.exchanges[1].meet(liar.contact)
    swarm.run_until_complete()
    assert swarm.contacts[0].id not in swarm.exchanges[1]._banned


def test_an_exchange_that_believes_every_piece_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(HashList, "agrees", lambda self, index, data: True)
    with pytest.raises(AssertionError, match="lack pieces"):
        for_seeds(swarm_with_liar, 6)


def test_an_exchange_that_never_asks_again_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(exchange_module, "PATIENCE", 1e9)
    with pytest.raises(AssertionError, match="lack pieces"):
        for_seeds(lambda seed: Swarm(seed, receivers=2, loss=0.2), 3)


def for_seeds(make: Any, seeds: int) -> None:
    for seed in range(seeds):
        make(seed).run_until_complete()


class StuckPieces(MemoryPieces):
    """A disk that has not answered yet."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0

    def read(self, index: int, then: object) -> None:
        self.asked += 1

    def write(self, index: int, data: bytes, then: object) -> None:
        self.asked += 1


def test_a_peer_has_a_slow_disk_do_only_so_much() -> None:
    swarm = Swarm(8, receivers=1, pieces=200)
    for number, has in (0, True), (1, False):
        swarm.exchanges[number].stop()
        pieces = PieceSet.full(200) if has else PieceSet(200)
        disk, hashes = StuckPieces(), HashList(swarm.manifest, swarm.hashes)
        context = swarm.stage.context(swarm.contacts[number])
        exchange = PieceExchange(context, swarm.manifest, disk, hashes, pieces)
        for index in range(200):
            exchange.receive(numbered_contact(7), Piece(b"", index, b"unasked"))
            exchange.receive(numbered_contact(7), WantedPieces(b"", (index,), None))
        assert 0 < disk.asked <= (MOST_WANTED if has else 2 * ASKED_AT_ONCE)


contacts = st.builds(numbered_contact, st.integers(0, 600))
small = st.binary(max_size=12)
messages = st.one_of(
    st.builds(Holds, small, small, st.lists(contacts, max_size=10).map(tuple), st.booleans()),
    st.builds(
        WantedPieces,
        small,
        st.lists(st.integers(-5, 60), max_size=70).map(tuple),
        st.one_of(st.none(), st.integers(-5, 100)),
    ),
    st.builds(Piece, small, st.integers(-5, 60), small),
    st.builds(PieceHashes, small, st.integers(-5, 60), st.binary(max_size=64)),
)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(contacts, messages), max_size=20))
def test_whatever_strangers_send_the_file_arrives(received: list[tuple[Contact, Any]]) -> None:
    swarm = Swarm(7, receivers=1, pieces=10)
    for sender, message in received:
        if sender.id not in {contact.id for contact in swarm.contacts}:
            swarm.exchanges[1].receive(sender, message)
    swarm.run_until_complete()


@settings(deadline=None)
@given(st.integers(0, 40), st.data())
def test_piece_sets_are_sets(total: int, data: st.DataObject) -> None:
    chosen = data.draw(st.sets(st.integers(0, max(total - 1, 0)), max_size=total))
    pieces = PieceSet(total)
    for index in sorted(chosen):
        pieces.add(index)
        pieces.add(index)
    assert pieces.count == len(chosen)
    assert set(pieces.missing()) == set(range(total)) - chosen
    assert pieces.is_full == (len(chosen) == total)
    again = PieceSet.unpack(total, pieces.packed())
    assert again is not None
    assert again.packed() == pieces.packed()
    assert PieceSet.unpack(total, pieces.packed() + b"\0") is None
