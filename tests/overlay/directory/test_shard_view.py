"""What a reader believes when replicas differ."""

from __future__ import annotations

from random import Random
from struct import pack

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.contact import Contact
from overlay.directory import DirectoryConfig
from overlay.directory.messages import ShardReply
from overlay.directory.tree import Shard, fingerprint, point_of, topic_key
from overlay.directory.witnesses import (
    ShardView,
    Witness,
    camps_of,
    checked_reply,
    combine,
    is_content,
)
from tests.overlay.directory.model_network import contact_of

ROOT = Shard(topic_key("/soccer"), 0, 0)
REPLICAS = [contact_of(Random(2), index) for index in range(10)]
EVERYONE = frozenset(range(100, 120))


def witness(
    index: int,
    members: frozenset[int] = frozenset(),
    *,
    settled: bool = True,
    below: int = 0,
    seasoned: bool = True,
) -> Witness:
    hint = below and 9
    contacts = dict.fromkeys(members, REPLICAS[index])
    return Witness(REPLICAS[index], members, contacts, settled, below > 0, below, hint, seasoned)


def view(*witnesses: Witness) -> ShardView:
    return combine(ROOT, witnesses, salt=0)


def test_two_settled_replicas_that_say_the_same_are_enough() -> None:
    pair = [witness(0, EVERYONE), witness(1, EVERYONE)]
    assert is_content(pair)
    assert view(*pair).members == EVERYONE


def test_two_that_differ_or_are_not_settled_or_hold_nothing_are_not_enough() -> None:
    assert not is_content([witness(0, EVERYONE), witness(1, EVERYONE - {100})])
    assert not is_content([witness(0, EVERYONE), witness(1, EVERYONE, settled=False)])
    assert not is_content([witness(0), witness(1)])
    assert not is_content([witness(0, EVERYONE)])


def test_of_a_new_shard_three_that_nearly_agree_are_enough_and_two_in_a_new_network() -> None:
    late = [witness(index, EVERYONE - {100 + index}, settled=False) for index in range(3)]
    new = [witness(index, EVERYONE, settled=False, seasoned=False) for index in range(2)]
    assert not is_content(late[:2])
    assert is_content(late)
    assert not is_content([*late[:2], witness(2, EVERYONE - set(range(100, 110)), settled=False)])
    assert is_content(new)


def test_a_lone_voice_counts_while_the_others_are_too_new_to_know() -> None:
    new = [witness(index, EVERYONE - {100}, seasoned=False) for index in (1, 2, 3, 4)]
    old = [witness(index, EVERYONE - {100}) for index in (1, 2, 3, 4)]
    assert 100 in view(witness(0, EVERYONE, settled=False), *new[:2]).members
    assert 100 not in view(witness(0, EVERYONE, settled=False), *old).members


def test_that_the_tree_goes_on_takes_three() -> None:
    deep = [witness(index, below=5) for index in range(3)]
    assert not is_content(deep[:2])
    assert is_content(deep)
    assert view(*deep).below
    assert not view(*deep[:2], *(witness(index, EVERYONE) for index in (2, 3, 4))).below


@given(st.sets(st.integers(0, 4), max_size=2), st.sets(st.integers(0, 10_000), max_size=30))
def test_two_liars_of_five_neither_add_nor_remove_anybody(
    liars: set[int], invented: set[int]
) -> None:
    """Unless they agree on a lie; then three honest ones still outvote them."""
    replicas = [
        witness(index, frozenset(invented) if index in liars else EVERYONE) for index in range(5)
    ]
    assert view(*replicas).members == EVERYONE


@pytest.mark.parametrize("honest", range(2, 9))
def test_in_a_crowd_liars_that_agree_are_at_most_half_of_a_view(honest: int) -> None:
    """Whether they are the minority or the majority; and a lone one is not believed."""
    lie = frozenset(range(1000, 1200))
    told = [
        witness(index, EVERYONE if index < honest else lie, settled=index >= honest)
        for index in range(10)
    ]
    members = combine(ROOT, told, salt=1, crowded=True).members
    assert members >= EVERYONE
    assert len(members & lie) == len(EVERYONE)
    lone = combine(ROOT, [*told[: honest + 1]], salt=1, crowded=True).members
    assert lone == EVERYONE


@pytest.mark.parametrize("named", [10, 20])
def test_in_a_crowd_who_adds_many_invented_members_to_the_true_ones_is_a_camp_apart(
    named: int,
) -> None:
    """However many do, and though they name half of the true members, or all."""
    true, lie = frozenset(list(EVERYONE)[:named]), frozenset(range(1000, 1200))
    for honest in (2, 3, 5):
        told = [witness(i, EVERYONE if i < honest else true | lie) for i in range(10)]
        assert len(camps_of(told, apart=False)) == 1
        assert len(camps_of(told, apart=True)) == 2
        members = combine(ROOT, told, salt=1, crowded=True).members
        assert members >= EVERYONE
        assert len(members & lie) <= len(EVERYONE)


def test_in_a_crowd_replicas_that_hold_a_part_do_not_outvote_those_that_hold_all() -> None:
    """Most have been told by a few only, since the crowd came."""
    few = frozenset(list(EVERYONE)[:2])
    told = [witness(index, few if index > 2 else EVERYONE) for index in range(10)]
    assert combine(ROOT, told, salt=1, crowded=True).members == EVERYONE


def test_in_a_crowd_replicas_that_hold_a_part_do_not_oppose_those_that_hold_all() -> None:
    part = frozenset(list(EVERYONE)[:5])
    told = [witness(index, part if index % 2 else EVERYONE) for index in range(10)]
    assert len(camps_of(told, apart=False)) == 1
    assert combine(ROOT, told, salt=1, crowded=True).members == EVERYONE


def test_a_lone_voice_against_silence_is_not_believed_but_two_are() -> None:
    nothing = [witness(index) for index in (2, 3, 4)]
    assert view(witness(0, EVERYONE), *nothing).members == frozenset()
    assert view(witness(0, EVERYONE), witness(1, EVERYONE), *nothing).members == EVERYONE


def test_replicas_that_hold_nothing_do_not_outvote_those_that_do() -> None:
    assert view(witness(0, EVERYONE), witness(1, EVERYONE), witness(2), witness(3)).members == (
        EVERYONE
    )


def test_new_replicas_that_hold_a_part_do_not_hide_the_rest() -> None:
    part = frozenset(list(EVERYONE)[:5])
    replicas = [
        witness(0, EVERYONE),
        witness(1, EVERYONE),
        *(witness(index, part, settled=False) for index in (2, 3, 4)),
    ]
    assert view(*replicas).members == EVERYONE


def test_few_answers_are_believed_as_they_are() -> None:
    assert view(witness(0, EVERYONE)).members == EVERYONE
    assert view(witness(0, EVERYONE), witness(1)).members == EVERYONE
    assert view().empty


def reply(contacts: list[Contact], marks: list[int]) -> ShardReply:
    packed = pack(f">{len(marks)}I", *marks)
    return ShardReply(True, False, 0, 0, packed, tuple(contacts), True, ())


def test_a_contact_counts_only_with_the_very_address_that_was_announced() -> None:
    config = DirectoryConfig()
    member = contact_of(Random(3), 7)
    mark = fingerprint(ROOT.topic, member)
    assert checked_reply(ROOT, REPLICAS[0], reply([member], [mark]), config) is not None
    elsewhere = Contact(member.id, "10.0.0.99", 1)
    assert checked_reply(ROOT, REPLICAS[0], reply([elsewhere], [mark]), config) is None


def test_a_contact_of_another_shard_spoils_the_reply() -> None:
    config = DirectoryConfig()
    member = contact_of(Random(3), 7)
    other = Shard(ROOT.topic, 1, 1 - (point_of(ROOT.topic, member.id) >> 63))
    marks = [fingerprint(ROOT.topic, member)]
    assert checked_reply(other, REPLICAS[0], reply([member], marks), config) is None


def test_replies_that_no_honest_node_sends_are_no_testimony() -> None:
    config = DirectoryConfig()
    for bad in (
        reply([], [1] * 5),
        reply([], list(range(config.capacity + 1))),
        ShardReply(True, False, 0, 0, b"abc", (), True, ()),
        ShardReply(True, False, -1, 0, b"", (), True, ()),
        ShardReply(True, False, config.capacity + 1, 0, b"", (), True, ()),
    ):
        assert checked_reply(ROOT, REPLICAS[0], bad, config) is None
