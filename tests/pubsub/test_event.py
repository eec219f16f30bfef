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
from overlay.wire import MAX_ARRAY, MAX_MAP, WireError, decode, encode
from pubsub.event import (
    DATA_LIMIT,
    ID_PLACE,
    Copies,
    DataError,
    EventBody,
    Gossip,
    pack_body,
    pack_data,
    unpack_body,
    unpack_data,
)

DATA = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
)
PUBLISHER = PeerId(bytes(20))


def gossip(community: str = "/a", topic: str = "/a", **changes: Any) -> Gossip:
    body = EventBody(bytes(16), topic, changes.get("lineage", ()), PUBLISHER, 1, None, b"\xc0")
    return Gossip(changes.get("id", bytes(16)), community, 1, False, pack_body(body), b"")


@settings(max_examples=50, deadline=None)
@given(DATA)
def test_data_arrives_as_it_was_given(data: Any) -> None:
    assert unpack_data(pack_data(data)) == data


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
    with pytest.raises(WireError):
        unpack_data(b"\x91" * 40 + b"\xc0")


def test_an_event_is_taken_only_where_its_topic_belongs() -> None:
    for community, topic in (("/a", "/a"), ("/a", "/a/b"), ("/", "/a")):
        assert unpack_body(gossip(community, topic)).topic == topic
    assert unpack_body(gossip("/x", "/m.C", lineage=("/x", "/"))).lineage == ("/x", "/")
    for community, topic in (("/a/b", "/a"), ("/ab", "/a"), ("/a", "/ab")):
        with pytest.raises(WireError, match="wrong_community"):
            unpack_body(gossip(community, topic))


@given(st.lists(st.binary(min_size=16, max_size=16), min_size=1), st.booleans())
def test_copies_that_travel_together_arrive_as_they_were(ids: list[bytes], signed: bool) -> None:
    bodies = [EventBody(i, "/a/b", ("/a",), PUBLISHER, 7, 0.5, b"\xc0", False) for i in ids]
    signature = b"signed" if signed else b""
    gossips = [
        Gossip(body.id, "/a", min(hops, 255), True, pack_body(body), signature)
        for hops, body in enumerate(bodies)
    ]
    copies = decode(encode(Copies.of(gossips)))
    assert copies.is_well_formed
    assert copies.gossips() == gossips
    assert [unpack_body(gossip) for gossip in gossips] == bodies
    assert [gossip.body[ID_PLACE] for gossip in gossips] == ids


def test_hops_are_counted_to_255_and_no_further() -> None:
    many = gossip()._replace(hops=1000)
    assert Copies.of([many]).gossips()[0].hops == 255


@pytest.mark.parametrize(
    "wrong",
    [
        {"topic": b"/a"},
        {"lineage": "/a"},
        {"lineage": (1,)},
        {"lineage": ("/a",) * 1000},
        {"publisher": bytes(19)},
        {"publisher": "p" * 20},
        {"sequence": "1"},
        {"upward": 2.0},
        {"upward": float("nan")},
        {"data": "text"},
        {"data": bytes(DATA_LIMIT + 1)},
        {"eager": 1},
    ],
)
def test_a_field_of_another_kind_is_rejected(wrong: dict[str, Any]) -> None:
    body = EventBody(bytes(16), "/a", (), PUBLISHER, 1, None, b"\xc0")
    encoded = pack((0x41, *body._replace(**wrong)))
    with pytest.raises(WireError, match="malformed_event"):
        unpack_body(Gossip(bytes(16), "/a", 1, False, encoded, b""))


def test_a_body_that_is_another_events_or_none_is_rejected() -> None:
    with pytest.raises(WireError, match="malformed_event"):
        unpack_body(gossip(id=bytes(15) + b"x"))
    for body in (b"", b"\xff", encode(Copies.of([gossip()]))):
        with pytest.raises(WireError):
            unpack_body(Gossip(bytes(16), "/a", 1, False, body, b""))
