"""Data that fits travels; what does not is refused, and what a peer invents is rejected."""

from __future__ import annotations

import contextlib
from typing import Any

import msgpack
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.contact import PeerId
from overlay.limited_msgpack import pack
from overlay.wire import MAX_ARRAY, MAX_MAP, WireError, decode
from pubsub.data import DATA_LIMIT, MALFORMED, DataError, pack_data, unpack_data
from pubsub.event import (
    ID_PLACE,
    LAST_NUMBER,
    MOST_EVENTS,
    MOST_HOPS,
    Block,
    Event,
    Gossip,
    Head,
    Origin,
    encode_copy,
    event_id,
    make_block,
    origin_of,
    read_block,
)

DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
PUBLISHER = PeerId(bytes(20))
SOURCE = PUBLISHER + b"some run"
NIL = b"\xc0"


def block(topic: str = "/a", lineage: tuple[str, ...] = (), count: int = 1) -> Block:
    return make_block(SOURCE, 1, Head(topic, lineage), [NIL] * count)


@settings(max_examples=50, deadline=None)
@given(DATA)
def test_data_arrives_as_it_was_given(data: Any) -> None:
    assert unpack_data(pack_data(data)) == data


@pytest.mark.parametrize("size", [0, 1, 255, 256, 65_535, 65_536, 70_000])
def test_bytes_are_packed_as_msgpack_packs_them(size: int) -> None:
    assert pack_data(bytes(size)) == msgpack.packb(bytes(size))


@given(st.binary())
def test_bytes_that_are_no_data_are_rejected_and_nothing_else_happens(packed: bytes) -> None:
    with contextlib.suppress(WireError):
        unpack_data(packed)


def test_a_mebibyte_is_the_limit() -> None:
    assert len(unpack_data(pack_data(bytes(DATA_LIMIT - 5)))) == DATA_LIMIT - 5
    with pytest.raises(DataError, match="1048576 is the limit"):
        pack_data(bytes(DATA_LIMIT))
    with pytest.raises(DataError, match="at most 1048576 bytes"):
        pack_data(bytes(3 * DATA_LIMIT))


def test_the_limits_of_the_wire_hold_for_data_both_ways() -> None:
    assert len(unpack_data(pack_data([1] * MAX_ARRAY))) == MAX_ARRAY
    with pytest.raises(DataError, match=f"arrays at most {MAX_ARRAY} elements"):
        pack_data([1] * (MAX_ARRAY + 1))
    with pytest.raises(DataError, match=f"maps at most {MAX_MAP} entries"):
        pack_data(dict.fromkeys(range(MAX_MAP + 1)))
    for packed in (
        msgpack.packb([1] * (MAX_ARRAY + 1)),
        msgpack.packb(dict.fromkeys(range(MAX_MAP + 1))),
        msgpack.packb(msgpack.ExtType(5, b"x")),
        msgpack.packb({1.5: "a key that is no text, bytes or whole number"}),
    ):
        with pytest.raises(WireError, match="malformed_data"):
            unpack_data(packed)
        read = read_block(make_block(SOURCE, 1, Head("/a"), [NIL, packed, b"\x07"]).encoded, "/a")
        assert read.data() == ([None, MALFORMED, 7], False), "the others of its block are there"


@pytest.mark.parametrize("data", [object(), {1, 2}, 2**70, "\ud800"])
def test_data_that_msgpack_cannot_carry_is_refused(data: Any) -> None:
    with pytest.raises(DataError, match="cannot travel as msgpack"):
        pack_data(data)


def test_data_that_nests_too_deep_is_refused_and_rejected() -> None:
    data: Any = None
    for _ in range(40):
        data = [data]
    with pytest.raises(DataError, match="nested deeper than 32"):
        pack_data(data)
    too_deep = b"\x91" * 40 + NIL
    with pytest.raises(WireError):
        unpack_data(too_deep)
    read = read_block(make_block(SOURCE, 1, Head("/a"), [too_deep, b"\x91\x01"]).encoded, "/a")
    assert read.data() == ([MALFORMED, [1]], False)


def test_a_block_is_taken_only_where_its_topic_belongs() -> None:
    for community, topic in (("/a", "/a"), ("/a", "/a/b"), ("/", "/a")):
        assert read_block(block(topic).encoded, community).topic == topic
    assert read_block(block("/m.C", ("/x", "/")).encoded, "/x").lineage == ("/x", "/")
    for community, topic in (("/a/b", "/a"), ("/ab", "/a"), ("/a", "/ab")):
        with pytest.raises(WireError, match="wrong_community"):
            read_block(block(topic).encoded, community)


@settings(deadline=None)
@given(
    st.lists(DATA, min_size=1, max_size=20),
    st.integers(1, LAST_NUMBER - 100),
    st.none() | st.floats(0, 1),
    st.booleans(),
    st.integers(0, 1000),
)
def test_a_block_arrives_as_it_was_made(
    data: list[Any], first: int, upward: float | None, eager: bool, hops: int
) -> None:
    head = Head("/a/b", ("/a",), upward, eager)
    made = make_block(SOURCE, first, head, [pack_data(one) for one in data])
    made.signature = b"signed"
    copy = decode(encode_copy(Gossip(made, "/a", hops, True)))
    assert (copy.community, copy.upward, copy.hops) == ("/a", True, min(hops, MOST_HOPS))
    read = read_block(copy.block, "/a", copy.signature)
    for name in Block.__slots__:
        assert getattr(read, name) == getattr(made, name)
    assert (list(read.data()[0]), read.data()[1]) == (data, True)
    assert read.payloads() == [pack_data(one) for one in data]
    assert origin_of(copy.block) == (SOURCE, first, len(data))
    assert copy.block[ID_PLACE] == read.id == event_id(SOURCE, first)
    assert (read.publisher, read.run) == (PUBLISHER, b"some run")


@given(st.binary(max_size=80), st.integers(0, 200))
def test_other_bytes_are_not_a_block_and_nothing_else_happens(noise: bytes, at: int) -> None:
    encoded = block(count=5).encoded
    for wrong in (noise, encoded[:at], encoded[:at] + noise + encoded[at + len(noise) :]):
        with contextlib.suppress(WireError):
            read = read_block(wrong, "/a")
            data, _ = read.data()
            assert len(data) == read.count == len(read.payloads())


@pytest.mark.parametrize(
    ("first", "count"),
    [(0, 1), (1, 0), (LAST_NUMBER, 1), (2**64 - 1, 2), (1, MOST_EVENTS + 1), (1, 2**32 - 1)],
)
def test_numbers_that_wrap_and_counts_beyond_the_limit_are_rejected(first: int, count: int) -> None:
    encoded = block().encoded
    place = ID_PLACE.stop
    wrong = encoded[: place - 8] + first.to_bytes(8, "big") + count.to_bytes(4, "big")
    assert origin_of(wrong + encoded[place + 4 :]) is None
    with pytest.raises(WireError, match="malformed_event"):
        read_block(wrong + encoded[place + 4 :], "/a")


def test_a_count_that_lies_is_rejected() -> None:
    encoded, place = block(count=5).encoded, ID_PLACE.stop
    for count in (1, 4, 6, 4096):
        lie = encoded[:place] + count.to_bytes(4, "big") + encoded[place + 4 :]
        assert origin_of(lie) is not None
        with pytest.raises(WireError, match="malformed_event"):
            read_block(lie, "/a")
        at = encoded.index(b"\xdd") + 1  # the count of the data lies too
        both = lie[:at] + count.to_bytes(4, "big") + lie[at + 4 :]
        with pytest.raises(WireError, match="malformed_event"):
            read_block(both, "/a")


@pytest.mark.parametrize(
    "wrong",
    [
        {"topic": b"/a"},
        {"lineage": "/a"},
        {"lineage": (1,)},
        {"lineage": ("/a",) * 1000},
        {"upward": 2.0},
        {"upward": float("nan")},
        {"eager": 1},
    ],
)
def test_a_field_of_another_kind_is_rejected(wrong: dict[str, Any]) -> None:
    good = block()
    head = Head("/a")._replace(**wrong)
    start = good.encoded[: ID_PLACE.stop + 4]
    encoded = start + b"".join(map(pack, head)) + b"\xdd\0\0\0\x01" + NIL
    with pytest.raises(WireError, match="malformed_event"):
        read_block(encoded, "/a")


def test_data_beyond_the_limit_are_rejected() -> None:
    encoded = make_block(SOURCE, 1, Head("/a"), [bytes(DATA_LIMIT + 1)]).encoded
    with pytest.raises(WireError, match="malformed_event"):
        read_block(encoded, "/a")


def test_events_are_equal_when_all_of_them_is() -> None:
    event = Event(Origin("/a", PUBLISHER, b"some run", 1), [1], 7)
    assert event == Event(Origin("/a", PUBLISHER, b"some run", 1), [1], 7)
    assert hash(event) == hash(Event(Origin("/a", PUBLISHER, b"some run", 1), [1], 7))
    assert event != Event(Origin("/a", PUBLISHER, b"some run", 1), [2], 7)
    assert event.id == b"some run" + (7).to_bytes(8, "big")
    assert "topic='/a', data=[1]" in repr(event)
