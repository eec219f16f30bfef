"""Bytes that change in an SQLite file itself: found, never read as if they were right, and put right where
another replica has the event."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from pubsub.archive.store import (
    AdvanceSync,
    Note,
    PutEntity,
    Reserve,
    Store,
    StoreError,
    open_store,
)
from pubsub.reliable.numbers import Span
from tests.pubsub.archive.store.schedules import event

EVENTS = {n: event(n, body=b"goal %d, " % n * (3 + n % 40)) for n in range(2, 90)}


@pytest.fixture(scope="module")
def image(tmp_path_factory: pytest.TempPathFactory) -> bytes:
    path = tmp_path_factory.mktemp("whole") / "events.db"
    store = open_store(f"sqlite:///{path}")
    store.write([PutEntity("/soccer", "anna", 0, b"profile"), Reserve("/soccer", 1)])
    store.sync()
    store.write(list(EVENTS.values()))
    store.sync()
    store.write(
        [
            Note("/soccer", "key", b"value"),
            AdvanceSync("/soccer", "anna", 4),
        ]
    )
    store.sync()
    store.close()
    return path.read_bytes()


def state(store: Store) -> tuple[object, ...]:
    """What is not events."""
    topic = "/soccer"
    return store.entity(topic, "anna"), store.notes(topic), store.last_sequence(topic)


def flipped(image: bytes, place: int, path: Path) -> str:
    changed = bytearray(image)
    changed[place] ^= 1 << place % 8
    path.write_bytes(changed)
    return f"sqlite:///{path}"


def check(store: Store, whole: tuple[object, ...]) -> set[int]:
    """Each event is as it was written, or its number is reported; those are returned."""
    read = {one.sequence: one for one in store.events("/soccer", 0, 1000)}
    assert all(EVENTS.get(number) == one for number, one in read.items())
    damaged = {n for one in store.damage() for n in range(one.span.first, one.span.last + 1)}
    assert set(EVENTS) - set(read) <= damaged, "gone, and nobody says so"
    known = store.damaged_ids("/soccer", [one.span for one in store.damage()])
    unknown = {n for n in damaged if n in EVENTS and EVENTS[n].id not in known.get(n, ())}
    assert not unknown, "nobody knows which events these were"
    publisher = EVENTS[2].publisher
    in_stream = store.by_catenation("/soccer", publisher, Span(0, 1000))
    assert {one.sequence for one in in_stream} == set(read)
    assert set(store.sequences("/soccer", [one.id for one in read.values()]).values()) == set(read)
    assert state(store) == whole, "the state changed, and nobody says so"
    return damaged


def flip_every(step: int, image: bytes, tmp_path: Path) -> tuple[int, int, int]:
    """How often the store was not opened, an event was reported, and nothing that counts was hit."""
    (tmp_path / "whole.db").write_bytes(image)
    store = open_store(f"sqlite:///{tmp_path}/whole.db")
    whole = state(store)
    assert not check(store, whole)
    store.close()
    refused = reported = harmless = 0
    for place in range(0, len(image), step):
        address = flipped(image, place, tmp_path / f"{place}.db")
        try:
            store = open_store(address)
        except StoreError:
            refused += 1
            continue
        damaged = check(store, whole)
        assert len(damaged) <= 2, f"byte {place}: {damaged} for one bit"
        store.write([EVENTS[number] for number in sorted(damaged & set(EVENTS))])
        store.sync()
        assert not check(store, whole)
        store.close()
        reported += bool(damaged)
        harmless += not damaged
    return refused, reported, harmless


def test_a_flipped_bit_anywhere_in_the_file_is_found_and_repaired_or_told(
    image: bytes, tmp_path: Path
) -> None:
    refused, reported, harmless = flip_every(997, image, tmp_path)
    assert reported > refused, "most of the file are events"
    assert harmless


@pytest.mark.sweep
def test_a_flipped_bit_in_every_41st_byte_is_found(image: bytes, tmp_path: Path) -> None:
    flip_every(41, image, tmp_path)


def test_an_event_whose_row_has_lost_its_number_is_missed(image: bytes, tmp_path: Path) -> None:
    """SQLite itself does not notice: it reads the events before it, and then none."""
    row = image.index(EVENTS[50].id + EVENTS[50].body[:9])
    (tmp_path / "whole.db").write_bytes(image)
    store = open_store(f"sqlite:///{tmp_path}/whole.db")
    whole = state(store)
    store.close()
    missed = 0
    for place in range(row - 40, row):
        try:
            store = open_store(flipped(image, place, tmp_path / f"{place}.db"))
        except StoreError:
            continue
        missed += 50 in check(store, whole)
        store.close()
    assert missed > 5


@pytest.mark.parametrize(
    ("table", "kind"),
    [
        *(("names", kind) for kind in ("topic", "stream", "audience")),
        *(("state", kind) for kind in ("last", "amount", "catenation", "entity", "note")),
    ],
)
def test_a_changed_row_of_the_state_keeps_the_store_from_being_opened(
    image: bytes, tmp_path: Path, table: str, kind: str
) -> None:
    path = tmp_path / "events.db"
    path.write_bytes(image)
    column = "name" if table == "names" else "value"
    with sqlite3.connect(path) as file:
        changed = file.execute(f"UPDATE {table} SET {column} = x'00' WHERE kind = ?", (kind,))
        assert changed.rowcount
    file.close()
    with pytest.raises(StoreError, match=f"{table} is damaged"):
        open_store(f"sqlite:///{path}")


def test_an_event_is_found_though_the_damaged_id_of_another_is_its_own(
    image: bytes, tmp_path: Path
) -> None:
    path = tmp_path / "events.db"
    row = image.index(EVENTS[12].id + EVENTS[12].body[:9])
    path.write_bytes(image[: row + 15] + bytes([image[row + 15] ^ 12 ^ 14]) + image[row + 16 :])
    store = open_store(f"sqlite:///{path}")
    assert store.sequences("/soccer", [EVENTS[14].id]) == {EVENTS[14].id: 14}
    assert [one.span for one in store.damage()] == [Span(12, 12)]
    store.close()
