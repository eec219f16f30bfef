"""Bits that flip in stored files: every one is found, and what it cost can be put back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from overlay.virtual.disk import VirtualDisk
from pubsub.archive.store import (
    AdvanceSync,
    Damage,
    Drop,
    Note,
    PutEntity,
    Store,
    open_store,
)
from pubsub.archive.store.append_files import AppendFileStore
from pubsub.archive.store.segment import CHANGE, EVENT, FoundRecord, Header, Records
from pubsub.reliable.numbers import Span
from tests.pubsub.archive.store.schedules import event

EVENTS = {number: event(number, body=b"goal" * (number % 7)) for number in range(1, 25)}
STATE = Damage("", Span(0, 0), "corrupt")


def filled_disk() -> VirtualDisk:
    disk = VirtualDisk()
    store = AppendFileStore(disk, "/archive", segment_bytes=1200)
    store.write([PutEntity("/soccer", "anna", 0, b""), Note("/soccer", "key", b"value")])
    store.sync()
    for number in range(1, 25, 2):
        store.write([EVENTS[number], EVENTS[number + 1]])
        store.sync()
    store.write([AdvanceSync("/soccer", "anna", 2)])
    store.sync()
    store.close()
    return disk


def numbers(damage: tuple[Damage, ...]) -> set[int]:
    return {n for one in damage if one.topic for n in range(one.span.first, one.span.last + 1)}


def assert_nothing_wrong_or_silently_gone(store: Store) -> set[int]:
    """Each event is read as it was written, or its number is reported; returns the missing ones."""
    read = {one.sequence: one for one in store.events("/soccer", 0, 100)}
    assert all(EVENTS[number] == one for number, one in read.items())
    missing = set(EVENTS) - set(read)
    reported = numbers(store.verify())
    assert missing <= reported, f"{missing - reported} are gone, and nobody says so"
    entity = store.entity("/soccer", "anna")
    as_written = entity is not None and entity.sync == 2
    as_written &= store.notes("/soccer") == {"key": b"value"}
    assert as_written or store.damage(), "the state changed, and nobody says so"
    return missing


def flip_and_open(image: dict[str, bytes], path: str, bit: int) -> AppendFileStore:
    disk = VirtualDisk.of(image)
    disk.flip(path, bit)
    return AppendFileStore(disk, "/archive", segment_bytes=1200)


def flip_every(step: int) -> None:
    image = filled_disk().image()
    assert len(image) > 3
    for path, contents in image.items():
        for place in range(0, len(contents), step):
            store = flip_and_open(image, path, 8 * place + place % 8)
            missing = assert_nothing_wrong_or_silently_gone(store)
            assert len(missing) <= 1, f"{path}, byte {place}: {missing} for one bit"


def test_one_flipped_bit_anywhere_is_found_and_costs_one_event_at_most() -> None:
    flip_every(step=17)


@pytest.mark.sweep
def test_a_flipped_bit_in_every_third_byte_is_found_and_costs_one_event_at_most() -> None:
    flip_every(step=3)


def test_damage_is_repaired_by_writing_the_event_again() -> None:
    image = filled_disk().image()
    path = next(path for path in image if path.endswith(".log"))
    place = image[path].index(EVENTS[4].id + b"/soccer")
    store = flip_and_open(image, path, 8 * place)
    assert assert_nothing_wrong_or_silently_gone(store) == {4}
    assert store.damage() == (Damage("/soccer", Span(4, 4), "corrupt"),)
    store.write([EVENTS[4]])
    store.sync()
    assert store.damage() == ()
    assert store.events("/soccer", 0, 100) == list(EVENTS.values())
    store.close()


def test_damage_that_nobody_can_repair_is_given_up_by_dropping_it() -> None:
    image = filled_disk().image()
    path = next(path for path in image if path.endswith(".log"))
    store = flip_and_open(image, path, 8 * image[path].index(EVENTS[4].id + b"/soccer"))
    store.write([Drop("/soccer", (Span(4, 4),))])
    store.sync()
    assert store.damage() == ()


def test_a_file_that_is_gone_is_missed() -> None:
    image = filled_disk().image()
    logs = [path for path in image if path.endswith(".log")]
    for gone in logs[:-1]:
        rest = {path: contents for path, contents in image.items() if path != gone}
        store = AppendFileStore(VirtualDisk.of(rest), "/archive")
        assert assert_nothing_wrong_or_silently_gone(store)


def test_a_bit_that_flips_while_the_store_is_open_is_found_in_reading() -> None:
    disk = filled_disk()
    store = AppendFileStore(disk, "/archive")
    image = disk.image()
    path = next(path for path in image if path.endswith(".log"))
    disk.flip(path, 8 * image[path].index(EVENTS[2].id + b"/soccer"))
    assert store.damage() == ()
    assert [one.sequence for one in store.events("/soccer", 0, 3)] == [1, 3]
    assert store.damage() == (Damage("/soccer", Span(2, 2), "corrupt"),)


def test_content_that_looks_like_a_record_is_none() -> None:
    """A stranger may put the bytes of a record into an event, and the header before it may be damaged."""
    other = filled_disk().image()
    foreign = b"".join(contents for path, contents in other.items() if path.endswith(".log"))
    disk = VirtualDisk()
    store = AppendFileStore(disk, "/archive")
    store.write([event(1), event(2, body=foreign), event(3)])
    store.sync()
    store.close()
    image = disk.image()
    (log,) = (path for path in image if path.endswith(".log"))
    disk.flip(log, 8 * (image[log].index(foreign) - 100))
    store = AppendFileStore(disk, "/archive")
    assert store.events("/soccer", 0, 100) == [event(1), event(2, body=foreign), event(3)]


@pytest.mark.parametrize("column", ["body", "id", "time", "catenation", "audience"])
def test_a_changed_row_of_sqlite_is_found_and_repaired(tmp_path: object, column: str) -> None:
    import sqlite3

    address = f"sqlite:///{tmp_path}/events.db"
    store = open_store(address)
    store.write([PutEntity("/soccer", "anna", 0, b""), *(one for one in EVENTS.values())])
    store.sync()
    store.close()
    with sqlite3.connect(f"{tmp_path}/events.db") as file:
        value = "x'00'" if column in ("body", "id") else "99"
        file.execute(f"UPDATE events SET {column} = {value} WHERE catenation = 4")
    file.close()
    store = open_store(address)
    assert store.verify() == (Damage("/soccer", Span(4, 4), "corrupt"),)
    assert 4 not in [one.sequence for one in store.events("/soccer", 0, 100)]
    store.write([EVENTS[4]])
    store.sync()
    assert store.verify() == ()
    assert store.events("/soccer", 0, 100) == list(EVENTS.values())
    store.close()


def test_a_store_that_does_not_compare_checksums_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    real = Records._body

    def trusting(self: Records, view: memoryview, place: int, header: object) -> memoryview | None:
        from dataclasses import replace
        from zlib import crc32

        from pubsub.archive.store.segment import HEADER

        assert isinstance(header, Header)
        body = view[place + HEADER : place + HEADER + header.length]
        return real(self, view, place, replace(header, body_check=crc32(body, self._start)))

    monkeypatch.setattr(Records, "_body", trusting)
    image = filled_disk().image()
    path = next(path for path in image if path.endswith(".log"))
    store = flip_and_open(image, path, 8 * image[path].index(EVENTS[4].id + b"/soccer"))
    with pytest.raises(AssertionError):
        assert_nothing_wrong_or_silently_gone(store)


def records(image: dict[str, bytes]) -> Iterator[tuple[str, FoundRecord]]:
    for path, contents in image.items():
        if path.endswith(".log"):
            salt = bytes.fromhex(path.partition("-")[2].removesuffix(".log"))
            yield from ((path, one) for one in Records(salt).scan(contents))


@pytest.mark.parametrize("kind", [EVENT, CHANGE])
def test_behind_a_header_that_cannot_be_read_nothing_is_lost_but_what_it_says(kind: int) -> None:
    """The record has it once more: no number counts as lost that was none of an event."""
    image = filled_disk().image()
    for path, one in records(image):
        if one.header is None or one.header.kind != kind:
            continue
        store = flip_and_open(image, path, 8 * (one.offset + 7))
        missing = assert_nothing_wrong_or_silently_gone(store)
        assert not missing
        assert not [damage for damage in store.damage() if damage.span.last]


def test_the_number_of_a_damaged_event_is_not_given_again_and_its_id_is_known() -> None:
    disk = VirtualDisk(seed=1)
    store = AppendFileStore(disk, "/archive")
    for number in (1, 2, 3):
        store.write([EVENTS[number]])
        store.sync()
    image = disk.image()
    (path,) = [path for path in image if path.endswith(".log")]
    store = flip_and_open(image, path, 8 * image[path].index(EVENTS[3].id + b"/soccer"))
    assert store.last_sequence("/soccer") == 3
    assert store.damaged_ids("/soccer", [Span(3, 3)]) == {3: (EVENTS[3].id,)}
    store.write([EVENTS[3]])
    store.sync()
    assert not store.damage()


@pytest.mark.parametrize("is_whole_file_lost", [False, True])
def test_the_ids_of_events_in_a_lost_part_of_the_log_are_known(is_whole_file_lost: bool) -> None:
    """Also after another start."""
    disk = VirtualDisk()
    store = AppendFileStore(disk, "/archive", segment_bytes=1200)
    for number in range(1, 7):
        store.write([EVENTS[number], EVENTS[number + 10]] if number == 3 else [EVENTS[number]])
        store.sync()
    store.close()
    image = disk.image()
    (path,) = [path for path in image if EVENTS[3].id in image[path] and path.endswith(".log")]
    lost = [one for where, one in records(image) if where == path and is_of(one, {3, 13})]
    contents = bytearray(image[path])
    contents[lost[0].offset : lost[-1].end] = bytes(lost[-1].end - lost[0].offset)
    image[path] = bytes(contents)
    if is_whole_file_lost:
        del image[path]
    disk = VirtualDisk.of(image)
    for _ in range(3):
        store = AppendFileStore(disk, "/archive", segment_bytes=1200)
        assert numbers(store.damage()) >= {3, 13}
        found = store.damaged_ids("/soccer", [Span(3, 3), Span(13, 13)])
        assert found == {3: (EVENTS[3].id,), 13: (EVENTS[13].id,)}
        for number in range(20, 25):
            store.write([EVENTS[number], Drop("/soccer", (Span(number, number),))])
            store.sync()
        store.close()


def is_of(one: FoundRecord, sequences: set[int]) -> bool:
    header = one.header
    return header is not None and header.kind == EVENT and header.sequence in sequences
