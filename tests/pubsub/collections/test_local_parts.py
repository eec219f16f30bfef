"""Content, equality and wants, without a network; and what strangers may send."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.virtual.stage import numbered_contact
from overlay.wire import WireError, decode, encode
from pubsub.collections import DASortedSet, DAStrongBag
from pubsub.collections.content import LocalContent, digest
from pubsub.collections.messages import (
    Addition,
    Announcement,
    ElementOffer,
    Holdings,
    Taken,
    TakerAnswer,
    decode_broadcast,
    decode_direct,
)
from pubsub.collections.total_order import TotalOrder
from pubsub.collections.wanted import MOST_TEXT, Wanted, either, parse_wanted
from pubsub.filters import Filter
from tests.pubsub.collections.nodes import Company, stage

A, B, C = (numbered_contact(number).id for number in range(3))
ELEMENT_ID = (A, 1, 1)

scalars = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.text(max_size=3))
data = st.recursive(
    scalars,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.dictionaries(st.text(max_size=2), inner, max_size=3)
    ),
    max_leaves=6,
)


def turned_around(value: Any) -> Any:
    """Equal data, with the entries of its maps in the opposite order."""
    if isinstance(value, dict):
        return {key: turned_around(value[key]) for key in reversed(value)}
    return [turned_around(item) for item in value] if isinstance(value, list) else value


@given(data, data)
def test_digests_are_equal_when_data_is(one: Any, other: Any) -> None:
    assert digest(turned_around(one)) == digest(one)
    assert (digest(one) == digest(other)) is (repr(_sorted(one)) == repr(_sorted(other)))


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(value[key]) for key in sorted(value)}
    return [_sorted(item) for item in value] if isinstance(value, list) else value


@given(st.lists(st.integers(0, 5), max_size=40), st.integers(1, 5))
def test_the_content_is_the_latest_elements(added: list[int], keep: int) -> None:
    bag = LocalContent(keep, unique=False)
    for number in added:
        assert bag.is_new("/t", number)
        bag.add(number)
    latest = added[-keep:]
    assert list(bag) == latest
    assert len(bag) == len(latest)
    assert all((number in bag) is (number in latest) for number in range(6))
    assert [bag.get() for _ in latest] == latest
    assert bag.get("none") == "none"


@given(st.lists(st.integers(0, 5), max_size=40))
def test_a_set_lets_an_element_through_once(added: list[int]) -> None:
    content = LocalContent(100, unique=True)
    through = [number for number in added if content.is_new("/t", number)]
    assert through == list(dict.fromkeys(added))
    assert content.is_new("/another", 0)


filters = st.sampled_from([None, Filter.parse("a > 1"), Filter.parse("b IN ('x', 'y')")])


@given(
    st.builds(
        Wanted,
        *[st.booleans()] * 2,
        filters,
        *[st.booleans()] * 2,
        filters,
        st.booleans(),
        st.integers(0),
    )
)
def test_wishes_arrive_as_they_were_sent(wanted: Wanted) -> None:
    assert parse_wanted(wanted.text) == wanted


@settings(max_examples=200)
@given(st.one_of(st.text(), st.from_regex(r"\[[\[\]0-9a-z,\"]*\]")))
def test_wishes_that_cannot_be_read_are_for_everything(text: str) -> None:
    wanted = parse_wanted(text)
    assert wanted.wants(True, {}) or wanted.text == text


def test_wishes_that_are_too_long_to_travel_ask_for_everything() -> None:
    long = Filter.parse("a = '" + "x" * 4000 + "'")
    assert len(Wanted(filter=long, take_filter=long).text) <= MOST_TEXT
    assert parse_wanted(Wanted(filter=long, take_filter=long).text).filter is None
    assert parse_wanted("[" * 3000).wants(False, None)
    assert either([long, Filter.parse("b = '" + "y" * 4000 + "'")]) is None


def test_either_matches_what_one_of_them_matches() -> None:
    wanted = either([Filter.parse("a = 1 AND b = 2"), Filter.parse("c = 3"), Filter.parse("c = 3")])
    assert wanted is not None
    assert wanted.text == "a = 1 AND b = 2 OR c = 3"
    assert either([wanted, None]) is None


@pytest.mark.parametrize(
    "message",
    [
        Addition("/t", 5, 3, b"\x01"),
        Announcement(b"view", 1, 2, 3, True, ((A, b"1", 5), (B, b"2", 6))),
        ElementOffer(ELEMENT_ID, "/t", b"\x01", 9),
        TakerAnswer(ELEMENT_ID, True),
        Holdings(b"view", 1, 0, 2, (ELEMENT_ID,), ()),
        Taken((ELEMENT_ID, ELEMENT_ID)),
    ],
)
def test_messages_survive_the_wire(message: object) -> None:
    assert decode(encode(message)) == message


@given(st.binary(max_size=60))
def test_other_bytes_are_refused_with_a_reason(payload: bytes) -> None:
    for decoder in (decode_broadcast, decode_direct):
        with pytest.raises(WireError):
            decoder(payload)


def test_a_gap_is_not_waited_for() -> None:
    delivered: list[str] = []
    sent: list[Announcement] = []
    order = TotalOrder(A, lambda to, m: sent.append(m), _no_timer, delivered.append)
    order.begin_to_order()
    order.stable(b"first", (A, B))
    order.announced(B, Announcement(b"first", 1, sent[0].stay, 0, True, ()))
    order.stable(b"view", (A, B))
    order.announced(B, Announcement(b"view", 2, sent[-1].stay, 9, True, ((B, b"7", 4),)))
    order.receive((A, b"1"), 1, 3, "mine")
    assert not delivered
    order.skip(B, b"7", 4)
    assert delivered == ["mine"]


def test_a_newcomer_that_is_alone_for_a_moment_waits_for_the_others() -> None:
    delivered: list[str] = []
    sent: list[Announcement] = []
    order = TotalOrder(A, lambda to, m: sent.append(m), _no_timer, delivered.append)
    order.begin_to_order()
    order.receive((B, b"7"), 5, 9, "second", complete=5)
    order.stable(b"alone", (A,))
    assert not delivered
    order.receive((C, b"1"), 3, 4, "first", complete=3)
    order.stable(b"view", (A, B))
    order.announced(
        B, Announcement(b"view", 2, sent[-1].stay, 9, True, ((B, b"7", 5), (C, b"1", 3)))
    )
    assert delivered == ["first", "second"]


class _NoTimer:
    def cancel(self) -> None: ...


def _no_timer(delay: float, action: object) -> _NoTimer:
    return _NoTimer()


def test_what_strangers_send_into_a_topic_is_counted_and_dropped(seed: int) -> None:
    async def main(company: Company) -> None:
        bag, other = await company.several(2, DAStrongBag, "/a")
        ordered = await company.open_on(company.playground.nodes[0], DASortedSet, "/a")
        await asyncio.sleep(3)
        hub = other._hub
        assert hub is not None
        me = bag._collections.node.id
        assert bag._hub is not None
        to = bag._hub.incarnation
        for payload in (
            b"",
            b"\xc1",
            encode(TakerAnswer(ELEMENT_ID, True)),
            encode(Addition("no topic", 1, 1, b"\x01")),
            encode(Addition("/a", 1, 1, b"\xc1")),
            encode(Taken((ELEMENT_ID,))),
        ):
            await hub._strong.broadcast(payload)
        for message in (
            ElementOffer(ELEMENT_ID, "/a", b"\xc1", to),
            ElementOffer(ELEMENT_ID, "/a", b"\x01", to),
            TakerAnswer(ELEMENT_ID, False),
            Announcement(b"nowhere", 9, 9, 9, True, ((A, b"1", 5),)),
            Holdings(b"nowhere", 1, 0, 1, (ELEMENT_ID,), (ELEMENT_ID,)),
            Addition("/a", 1, 1, b"\x01"),
        ):
            await hub._strong.send(me, encode(message))
        await other.add("fine")
        await asyncio.sleep(5)
        assert list(bag) == list(ordered) == ["fine"]
        counters = company.playground.nodes[0].status()["counters"]
        assert counters["collection_dropped"]["malformed_topic"] == 1
        assert counters["collection_dropped"]["unexpected_type"] == 2
        assert counters["strong_handler_errors"] == {}

    stage(seed, main)
