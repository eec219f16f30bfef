"""Data that fits travels; what does not is refused, and what a peer invents is rejected."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.contact import PeerId
from overlay.wire import WireError, encode
from pubsub.event import (
    DATA_LIMIT,
    GOSSIP_PREFIX,
    DataError,
    EventBody,
    Gossip,
    copy_of,
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
    assert len(unpack_data(pack_data([1] * 900_000))) == 900_000


@pytest.mark.parametrize("data", [object(), {1, 2}, 2**70, "\ud800"])
def test_data_that_msgpack_cannot_carry_is_refused(data: Any) -> None:
    with pytest.raises(DataError, match="cannot travel as msgpack"):
        pack_data(data)


def test_data_that_nests_too_deep_is_refused_and_rejected() -> None:
    data: Any = None
    for _ in range(40):
        data = [data]
    with pytest.raises(DataError, match="nests deeper"):
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


@given(st.text(min_size=1, max_size=254), st.binary(min_size=16, max_size=16))
def test_id_and_community_are_found_in_the_bytes(name: str, event_id: bytes) -> None:
    community = "/" + "".join(c for c in name if c not in "/*" and c.isprintable())[:60]
    encoded = encode(Gossip(event_id, community, 3, True, bytes(300), b""))
    assert encoded.startswith(GOSSIP_PREFIX)
    assert copy_of(encoded) == (event_id, community.encode())
    for length in range(4, 40):
        copy_of(encoded[:length])


def test_a_body_that_is_another_events_or_none_is_rejected() -> None:
    with pytest.raises(WireError, match="malformed_event"):
        unpack_body(gossip(id=bytes(15) + b"x"))
    for body in (b"", b"\xff", encode(gossip())):
        with pytest.raises(WireError):
            unpack_body(Gossip(bytes(16), "/a", 1, False, body, b""))
