"""Knowledge merges in any order to the same result, and only what changed is told."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.contact import PeerId
from overlay.virtual.stage import numbered_contact
from overlay.wire import WireError, decode, encode
from pubsub.topics.knowledge import Kind, Matrix, News, NewsItem, Roster, TopicKnowledge
from pubsub.topics.messages import Entry, JoinTopic, Knowledge, Row

PEERS = [numbered_contact(number).id for number in range(8)]

entries = st.builds(
    lambda number, boot, left, revision: Entry(
        numbered_contact(number), boot, left, revision, bytes(7) + bytes([boot]), "", ()
    ),
    st.integers(0, 3),
    st.integers(0, 3),
    st.booleans(),
    st.integers(0, 2),
)


@settings(deadline=None)
@given(st.lists(entries, max_size=12), st.randoms(use_true_random=False))
def test_rosters_that_saw_the_same_entries_are_equal(
    seen: list[Entry], chance: random.Random
) -> None:
    one, other = Roster(100), Roster(100)
    for entry in seen:
        one.merge(entry, 0.0)
    shuffled = seen * 2
    chance.shuffle(shuffled)
    for entry in shuffled:
        other.merge(entry, 0.0)
    assert one.joined == other.joined
    assert one.digest == other.digest
    assert list(map(one.get, PEERS)) == list(map(other.get, PEERS))


def test_a_later_boot_brings_back_who_left_and_an_earlier_one_does_not() -> None:
    roster = Roster(10)
    contact = numbered_contact(0)
    assert roster.merge(Entry(contact, 5, True, 0, bytes(8), "", ()), 0.0)
    assert not roster.merge(Entry(contact, 5, False, 9, bytes(8), "", ()), 0.0)
    assert not roster.merge(Entry(contact, 4, False, 0, bytes(8), "", ()), 0.0)
    assert roster.merge(Entry(contact, 6, False, 0, bytes(8), "", ()), 0.0)
    assert list(roster.joined) == [contact.id]


def test_a_full_roster_refuses_one_more_and_forgets_those_who_left_long_ago() -> None:
    roster = Roster(2)
    for number in range(2):
        assert roster.merge(Entry(numbered_contact(number), 1, False, 0, bytes(8), "", ()), 0.0)
    assert not roster.merge(Entry(numbered_contact(2), 1, False, 0, bytes(8), "", ()), 5.0)
    for number in range(2):
        assert roster.merge(
            Entry(numbered_contact(number), 1, True, 0, bytes(8), "", ()), float(number)
        )
    assert roster.merge(Entry(numbered_contact(2), 1, False, 0, bytes(8), "", ()), 5.0)
    assert roster.forget_left(before=0.5) == [PEERS[0]]


def matrix(closed: dict[int, list[int]]) -> Matrix:
    made = Matrix()
    for owner, peers in closed.items():
        made.merge(Row(PEERS[owner], 1, 1, tuple(PEERS[peer] for peer in peers)))
    return made


def numbers(peers: tuple[PeerId, ...]) -> list[int]:
    return sorted(PEERS.index(peer) for peer in peers)


def test_reachable_are_all_that_a_chain_of_open_channels_leads_to() -> None:
    chain = matrix({0: [2, 3], 1: [3], 2: [0], 3: [0, 1]})  # 0 - 1 - 2 - 3
    assert numbers(chain.reachable(PEERS[0])) == [0, 1, 2, 3]
    assert chain.is_open(PEERS[1], PEERS[2])
    assert not chain.is_open(PEERS[0], PEERS[2])
    cut = matrix({0: [2, 3], 1: [3], 2: [0, 1], 3: [0, 1]})
    assert numbers(cut.reachable(PEERS[0])) == [0, 1]
    assert numbers(cut.reachable(PEERS[3])) == [2, 3]


def test_one_end_that_says_closed_closes_a_channel_and_one_without_a_row_is_not_reachable() -> None:
    one_sided = matrix({0: [], 1: [0]})
    assert not one_sided.is_open(PEERS[0], PEERS[1])
    assert numbers(one_sided.reachable(PEERS[0])) == [0]
    assert not one_sided.is_open(PEERS[0], PEERS[5])


def test_a_later_row_replaces_an_earlier_one_and_never_the_other_way_round() -> None:
    made = Matrix()
    late = Row(PEERS[0], 1, 7, (PEERS[1],))
    assert made.merge(late)
    assert not made.merge(Row(PEERS[0], 1, 6, ()))
    assert made.rows[PEERS[0]] == late
    digest = made.digest
    assert made.merge(Row(PEERS[0], 2, 1, ()))
    assert made.digest != digest


def test_rows_of_another_boot_or_of_strangers_are_not_taken() -> None:
    knowledge = TopicKnowledge(PEERS[7], 10)
    knowledge.merge_entry(Entry(numbered_contact(0), 5, False, 0, bytes(8), "", ()), 0.0)
    assert not knowledge.merge_row(Row(PEERS[0], 4, 1, ()))
    assert not knowledge.merge_row(Row(PEERS[1], 5, 1, ()))
    assert knowledge.merge_row(Row(PEERS[0], 5, 1, ()))
    knowledge.merge_entry(Entry(numbered_contact(0), 6, False, 0, bytes(8), "", ()), 0.0)
    assert knowledge.matrix.rows == {}


def test_a_changed_filter_is_seen_in_the_fingerprint_of_everything_and_not_in_that_of_the_view() -> (
    None
):
    one, other = TopicKnowledge(PEERS[6], 10), TopicKnowledge(PEERS[7], 10)
    entry = Entry(numbered_contact(0), 5, False, 0, bytes(8), "", ())
    changed = replace(entry, filter="price < 3", revision=1)
    for knowledge in (one, other):
        knowledge.merge_entry(entry, 0.0)
    one.merge_entry(changed, 0.0)
    assert one.view_fingerprint == other.view_fingerprint
    assert one.fingerprint != other.fingerprint
    assert NewsItem(Kind.ENTRY, PEERS[0]) in one.items_beside_the_view()
    assert NewsItem(Kind.ENTRY, PEERS[0]) not in other.items_beside_the_view()
    other.merge_entry(changed, 0.0)
    assert one.fingerprint == other.fingerprint
    for knowledge in (one, other):
        knowledge.merge_entry(replace(changed, left=True), 0.0)
        assert knowledge.fingerprint == TopicKnowledge(PEERS[0], 10).fingerprint


def test_only_what_changed_since_a_peer_was_told_is_news_to_it() -> None:
    news = News()
    row, sight = NewsItem(Kind.ROW, PEERS[0]), NewsItem(Kind.SIGHT, PEERS[0])
    news.changed(row)
    assert news.untold(PEERS[1]) == [row]
    news.told(PEERS[1])
    assert news.untold(PEERS[1]) == []
    news.changed(sight, learned_from=PEERS[1])
    assert news.untold(PEERS[1]) == [], "it is not told back what it told"
    assert news.untold(PEERS[2]) == [row, sight]
    news.changed(row)
    assert news.untold(PEERS[1]) == [row]
    news.not_told(PEERS[1])
    assert news.untold(PEERS[1]) == [row]
    news.known_by([PEERS[1]])
    assert news.untold(PEERS[1]) == []
    news.gone(row)
    assert news.untold(PEERS[2]) == [sight]


def test_participants_that_know_the_same_exchange_a_few_bytes() -> None:
    assert len(encode(Knowledge("/topic", (), (), None, bytes(8), True))) < 32


@pytest.mark.parametrize(
    "bad",
    [
        JoinTopic,
        Entry,
    ],
)
def test_what_makes_no_sense_does_not_decode(bad: type) -> None:
    contact = numbered_contact(0)
    good = {
        JoinTopic: JoinTopic("/topic", contact, 1, bytes(8), ""),
        Entry: Entry(contact, 1, False, 0, bytes(8), "", ((bytes(28), 3, ((5, 6),)),)),
    }[bad]
    packed = encode(good)
    assert decode(packed) == good
    if bad is Entry:
        with pytest.raises(WireError):
            decode(packed.replace(b"\x03\x91\x92\x05", b"\x03\x91\x92\x02"))
    else:
        with pytest.raises(WireError):
            decode(packed[:-1] + b"\xd9")
