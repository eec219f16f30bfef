"""Sessions as an archive keeps them: what is written is read again, and nothing else is believed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from pubsub.data import pack_data, unpack_data
from pubsub.doors.mqtt.kept import Keeper, KeptSubscription, Record, Sent, event_id

KEY = bytes(range(16))

records = st.builds(
    Record,
    st.binary(max_size=16),
    st.floats(0, 1e6),
    st.booleans(),
    st.dictionaries(st.integers(1, 65_535), st.integers(1, 5), max_size=30),
    st.lists(st.builds(Sent, st.integers(1, 65_535), st.just(KEY), st.booleans()), max_size=5),
    st.lists(st.just(KEY), max_size=3),
    st.lists(
        st.builds(
            KeptSubscription,
            st.just("a/#"),
            st.integers(0, 47),
            st.integers(0, 9),
            st.binary(max_size=9),
            st.just((KEY,)),
        ),
        max_size=3,
    ),
)


@given(records)
def test_a_record_is_read_as_it_was_written(record: Record) -> None:
    assert Record.from_data(unpack_data(pack_data(record.to_data()))) == record


def test_packet_ids_of_a_client_that_counts_upwards_take_little_room() -> None:
    released = {number: 3 if number <= 500 else 2 for number in range(1, 65_536)}
    record = Record(b"", 1.0, True, released)
    assert len(pack_data(record.to_data())) < 100
    assert Record.from_data(record.to_data()).released == released


@pytest.mark.parametrize(
    "data",
    [
        None,
        5,
        [],
        [b"", 1.0, True, [], [], []],
        ["text", 1.0, True, [], [], [], []],
        [b"", 1.0, True, [[0, 3, 1]], [], [], []],
        [b"", 1.0, True, [[5, 3, 1]], [], [], []],
        [b"", 1.0, True, [[1, 70_000, 1]], [], [], []],
        [b"", 1.0, True, [], [[1, "key", True]], [], []],
        [b"", 1.0, True, [], [], ["key"], []],
        [b"", 1.0, True, [], [], [], [["a", -1, 0, b"", []]]],
        [b"", "never", True, [], [], [], []],
    ],
)
def test_what_is_not_a_record_is_refused(data: Any) -> None:
    with pytest.raises(ValueError, match=r".*"):
        Record.from_data(data)


def test_every_message_of_a_client_has_an_id_of_its_own() -> None:
    ids = {
        event_id(session, packet_id, released)
        for session in (b"one", b"two")
        for packet_id in (1, 2, 65_535)
        for released in (0, 1, 2)
    }
    assert len(ids) == 18
    assert all(len(id) == 16 and any(id[8:]) for id in ids)


class Archive:
    """Writes when it is told to."""

    token = b"token"

    def __init__(self) -> None:
        self.records: list[Record] = []
        self.written: list[Callable[[bool], None]] = []
        self.ended: list[bool] = []

    def write(self, record: Record, written: Callable[[bool], None]) -> None:
        self.records.append(record)
        self.written.append(written)

    def end(self, forget: bool) -> None:
        self.ended.append(forget)


def test_what_follows_from_a_change_waits_until_that_is_safe() -> None:
    archive, told = Archive(), list[str]()
    state = Record(b"", 1.0, True)
    keeper = Keeper(archive, lambda: Record(b"", state.expiry, True), lambda: told.append("lost"))
    keeper.changed(lambda: told.append("a"))
    state.expiry = 2.0
    keeper.changed(lambda: told.append("b"))
    keeper.changed(lambda: told.append("c"))
    assert not told
    assert [one.expiry for one in archive.records] == [1.0], "one at a time"
    archive.written[0](True)
    assert told == ["a"]
    assert [one.expiry for one in archive.records] == [1.0, 2.0], "and one for all since"
    archive.written[1](False)
    assert told == ["a", "lost"], "what is not safe has no consequences"
    assert archive.ended == [False]
    keeper.changed(lambda: told.append("d"))
    assert len(archive.records) == 2
