"""SCAMP message by message: one member, called by hand."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.contact import Contact
from overlay.errors import UsageError
from overlay.membership.config import ScampConfig
from overlay.membership.scamp.balance import SPARED_AT_ONCE
from overlay.membership.scamp.messages import (
    Echo,
    Forward,
    Heartbeat,
    Release,
    ScampSubscribe,
    ScampSubscription,
    ScampUnsubscribe,
    Spare,
    SubscriptionWalk,
    Welcome,
)
from overlay.membership.scamp.published import keep_probability
from overlay.membership.scamp.service import ScampMembership
from overlay.metrics import Metrics
from overlay.virtual.stage import Stage, StageConfig, numbered_contact
from tests.overlay.membership.community import (
    TOPIC,
    AllKnowing,
    Listener,
    ScampCommunity,
)

ME = numbered_contact(0)
NEWCOMER = numbered_contact(1000)


class Lone:
    """One member on a stage where nobody answers; what it sends is kept."""

    def __init__(self, view: int, holders: int = 0, seed: int = 1, c: int = 1) -> None:
        self.stage = Stage(seed)
        self.sent: list[tuple[Contact, object]] = []
        self.stage.observe(lambda time, sender, to, message: self.sent.append((to, message)))
        self.metrics, self.listener = Metrics(), Listener()
        self.member = ScampMembership(
            TOPIC,
            self.stage.context(ME),
            AllKnowing(seed).of(ME),
            self.listener,
            ScampConfig(c=c),
            self.metrics,
        )
        self.member.start()
        for number in range(1, view + 1):
            self.hears(numbered_contact(number), Forward(TOPIC, subscription(number), 0))
        for number in range(101, 101 + holders):
            self.hears(numbered_contact(number), Heartbeat(TOPIC, 0, 60.0, False, b""))
        self.sent.clear()

    def hears(self, sender: Contact, message: object) -> None:
        self.member.receive(sender, message)

    def sent_of(self, kind: type) -> list[Contact]:
        return [to for to, message in self.sent if type(message) is kind]

    def dropped(self, reason: str) -> int:
        return self.metrics.family("membership_dropped", "reason", "")[reason]


def subscription(number: int, term: int = 1, lease: float = 300.0) -> ScampSubscription:
    return ScampSubscription(numbered_contact(number), term, lease)


def test_a_copy_is_kept_with_a_probability_that_falls_with_the_view() -> None:
    kept = 0
    for seed in range(400):
        lone = Lone(view=4, seed=seed)
        lone.hears(numbered_contact(1), Forward(TOPIC, subscription(1000), 20))
        was_kept = NEWCOMER in lone.member.table
        assert lone.sent_of(Heartbeat if was_kept else Forward) != []
        kept += was_kept
    assert 0.14 < kept / 400 < 0.26
    assert keep_probability(4) == 0.2


def test_a_copy_that_is_passed_on_goes_to_the_view_and_has_one_hop_less() -> None:
    lone = Lone(view=3)
    while not lone.sent_of(Forward):
        lone.hears(numbered_contact(2), Forward(TOPIC, subscription(0), 9))
    (to, message) = lone.sent[-1]
    assert to in lone.member.table
    assert message == Forward(TOPIC, subscription(0), 8)
    assert ME not in lone.member.table


def test_a_copy_at_the_end_of_its_hops_is_kept() -> None:
    lone = Lone(view=40)
    lone.hears(numbered_contact(1), Forward(TOPIC, subscription(1000), 0))
    assert NEWCOMER in lone.member.table
    assert lone.listener.table == dict.fromkeys(lone.member.table)


def test_a_second_copy_of_the_same_term_is_passed_on_and_one_of_a_new_term_renews_the_lease() -> (
    None
):
    lone = Lone(view=2)
    lone.hears(numbered_contact(1), Forward(TOPIC, subscription(2), 5))
    assert lone.sent_of(Forward) == [numbered_contact(1)]
    lone.sent.clear()
    lone.hears(numbered_contact(1), Forward(TOPIC, subscription(2, term=2, lease=5000.0), 5))
    assert lone.sent_of(Heartbeat) == [numbered_contact(2)]
    lone.hears(numbered_contact(1), Forward(TOPIC, subscription(2, term=2), 0))
    assert lone.dropped("copy_to_spare") == 1


def test_a_contact_sends_a_copy_to_each_of_its_view_and_c_more_and_welcomes() -> None:
    lone = Lone(view=7, c=2)
    lone.hears(NEWCOMER, ScampSubscribe(TOPIC, subscription(1000), None, False))
    copies = Counter(lone.sent_of(Forward))
    assert set(copies) == set(lone.member.table)
    assert copies.total() == 9
    assert lone.sent_of(Welcome) == [NEWCOMER]
    assert NEWCOMER not in lone.member.table


def test_a_renewal_gets_the_copies_it_asks_for_and_a_huge_wish_is_cut() -> None:
    lone = Lone(view=7)
    lone.hears(NEWCOMER, ScampSubscribe(TOPIC, subscription(1000), 3, False))
    assert len(set(lone.sent_of(Forward))) == 3
    lone.sent.clear()
    lone.hears(NEWCOMER, ScampSubscribe(TOPIC, subscription(1000), 10**9, False))
    assert len(lone.sent_of(Forward)) == round(2 * (7 + lone.member._config.margin))


def test_the_first_member_holds_the_second_itself() -> None:
    lone = Lone(view=0)
    lone.hears(NEWCOMER, ScampSubscribe(TOPIC, subscription(1000), None, True))
    assert lone.member.table == (NEWCOMER,)
    assert lone.sent_of(Welcome) == [NEWCOMER]


def test_a_lease_ends_and_the_released_member_hears_of_it() -> None:
    lone = Lone(view=0)
    lone.hears(numbered_contact(1), Forward(TOPIC, subscription(5, lease=30.0), 0))
    lone.hears(numbered_contact(5), Heartbeat(TOPIC, 0, 60.0, False, b""))
    for _ in range(29):
        lone.hears(numbered_contact(5), Echo(TOPIC, None, b"", False))
        lone.stage.run_for(1)
    assert numbered_contact(5) in lone.member.table
    lone.stage.run_for(5)
    assert numbered_contact(5) not in lone.member.table
    assert lone.sent_of(Release) == [numbered_contact(5)]


def test_a_released_member_no_longer_counts_its_holder() -> None:
    lone = Lone(view=1, holders=2)
    lone.hears(numbered_contact(101), Release(TOPIC))
    assert lone.member.holders == [numbered_contact(102)]


def test_who_is_held_by_far_too_many_has_some_let_go() -> None:
    lone = Lone(view=1, holders=40)
    lone.stage.run_for(3.5)
    asked = lone.sent_of(Spare)
    assert len(asked) == SPARED_AT_ONCE
    assert not set(asked) & set(lone.member.holders)


def test_who_is_asked_to_let_go_does() -> None:
    lone = Lone(view=3)
    member = lone.member.table[0]
    lone.hears(member, Spare(TOPIC))
    assert member not in lone.member.table
    assert len(lone.member.table) == 2


def test_nobody_holds_itself_when_its_own_subscription_comes_back() -> None:
    lone = Lone(view=0)
    lone.hears(numbered_contact(1), SubscriptionWalk(TOPIC, subscription(0), 0, 262, 1, True))
    assert lone.member.table == ()
    assert lone.dropped("from_itself") == 1


def test_a_leaver_is_replaced_in_all_but_c_plus_one_views() -> None:
    lone = Lone(view=5, holders=9, c=2)
    view = set(lone.member.table)
    lone.member.stop()
    goodbyes = [(to, m) for to, m in lone.sent if isinstance(m, ScampUnsubscribe)]
    assert len(goodbyes) == 5 + 9
    replacements = [m.replacement.subscriber for _, m in goodbyes if m.replacement is not None]
    assert len(replacements) == 9 - 3
    assert set(replacements) <= view
    assert max(Counter(replacements).values()) == 2
    assert lone.member.table == ()
    lone.sent.clear()
    lone.stage.run_for(1000)
    lone.hears(NEWCOMER, ScampSubscribe(TOPIC, subscription(1000), None, False))
    assert lone.sent == []
    assert lone.dropped("not_a_member") == 1


def test_the_holder_of_a_leaver_holds_the_replacement_and_only_if_it_held_the_leaver() -> None:
    lone = Lone(view=2)
    lone.hears(numbered_contact(1), ScampUnsubscribe(TOPIC, subscription(1000)))
    assert set(lone.member.table) == {numbered_contact(2), NEWCOMER}
    assert lone.sent_of(Heartbeat) == [NEWCOMER]
    lone.hears(numbered_contact(7), ScampUnsubscribe(TOPIC, subscription(1001)))
    assert len(lone.member.table) == 2
    lone.hears(numbered_contact(2), ScampUnsubscribe(TOPIC, subscription(0)))
    assert set(lone.member.table) == {NEWCOMER}


def test_a_silent_member_is_let_go_after_its_patience_and_a_hint_fills_its_place() -> None:
    lone = Lone(view=1, holders=3)
    lone.stage.run_for(3.3 * (ScampConfig().patience + 2))
    assert not lone.member.table
    assert lone.sent_of(Heartbeat) == [numbered_contact(1)] * ScampConfig().patience
    lone.hears(numbered_contact(101), Echo(TOPIC, subscription(0), b"", False))
    lone.hears(numbered_contact(101), Echo(TOPIC, subscription(50), b"", False))
    lone.hears(numbered_contact(101), Echo(TOPIC, subscription(51), b"", False))
    assert set(lone.member.table) == {numbered_contact(50)}


def test_in_view_entries_end_when_their_holder_falls_silent() -> None:
    lone = Lone(view=1, holders=2)
    lone.stage.run_for(60)
    assert len(lone.member.holders) == 2
    lone.stage.run_for(40)
    assert lone.member.holders == []


def test_nonsense_is_counted_and_ignored() -> None:
    lone = Lone(view=3, holders=1)
    before = lone.member.table
    for lease in (0.0, -1.0, 1e9, float("nan"), float("inf")):
        lone.hears(NEWCOMER, Forward(TOPIC, subscription(1000, lease=lease), 0))
    assert lone.dropped("unsound_subscription") == 5
    lone.hears(NEWCOMER, ScampSubscribe(TOPIC, subscription(9), None, False))
    assert lone.dropped("unsound_subscription") == 6
    lone.hears(NEWCOMER, "hello")
    assert lone.dropped("unknown_message") == 1
    lone.hears(ME, Release(TOPIC))
    assert lone.dropped("from_itself") == 1
    lone.hears(numbered_contact(101), Heartbeat(TOPIC, 0, 60.0, False, b"xyz"))
    assert lone.dropped("malformed_census") == 1
    assert lone.member.table == before


def test_made_up_subscriptions_and_heartbeats_do_not_fill_memory() -> None:
    lone = Lone(view=1)
    for number in range(2000, 4000):
        lone.hears(NEWCOMER, Forward(TOPIC, subscription(number), 0))
        lone.hears(numbered_contact(number), Heartbeat(TOPIC, 0, 3000.0, False, b""))
    assert len(lone.member.table) == 256
    assert len(lone.member.holders) == 1024
    assert lone.dropped("view_full") == 2000 - 255
    assert lone.dropped("in_view_full") == 2000 - 1024


@pytest.mark.parametrize("period", [float("nan"), float("inf"), -1.0, 1e18])
def test_nobody_holds_a_place_in_the_in_view_for_ever(period: float) -> None:
    lone = Lone(view=0)
    lone.hears(NEWCOMER, Heartbeat(TOPIC, 0, period, False, b""))
    assert lone.member.holders == [NEWCOMER]
    lone.stage.run_for(60)
    assert lone.member.holders == []


NUMBERS = st.integers(0, 30)
SUBSCRIPTIONS = st.builds(
    subscription, NUMBERS, st.integers(-2, 2), st.floats(allow_nan=True, allow_infinity=True)
)
COPIES = st.none() | st.integers(-5, 400)
BYTES = st.binary(max_size=300)
MESSAGES = st.one_of(
    st.builds(ScampSubscribe, st.just(TOPIC), SUBSCRIPTIONS, COPIES, st.booleans()),
    st.builds(
        SubscriptionWalk,
        st.just(TOPIC),
        SUBSCRIPTIONS,
        COPIES,
        st.integers(-5, 10**9),
        st.integers(-5, 10**9),
        st.booleans(),
    ),
    st.builds(Forward, st.just(TOPIC), SUBSCRIPTIONS, st.integers(-5, 10**12)),
    st.builds(Welcome, st.just(TOPIC), SUBSCRIPTIONS, st.floats(), st.integers(-5, 10**9), BYTES),
    st.builds(Heartbeat, st.just(TOPIC), st.integers(), st.floats(), st.booleans(), BYTES),
    st.builds(Echo, st.just(TOPIC), st.none() | SUBSCRIPTIONS, BYTES, st.booleans()),
    st.builds(Release, st.just(TOPIC)),
    st.builds(Spare, st.just(TOPIC)),
    st.builds(ScampUnsubscribe, st.just(TOPIC), st.none() | SUBSCRIPTIONS),
)


@given(st.lists(st.tuples(NUMBERS, MESSAGES, st.floats(0, 20)), max_size=40), st.integers(0, 9))
@settings(max_examples=60, deadline=None)
def test_whatever_peers_say_the_table_is_sound_and_nothing_raises(
    said: list[tuple[int, object, float]], view: int
) -> None:
    lone = Lone(view)
    for number, message, pause in said:
        lone.hears(numbered_contact(number), message)
        lone.stage.run_for(pause)
    table = lone.member.table
    assert ME not in table
    assert len(set(table)) == len(table)
    assert set(lone.listener.table) == set(table)
    assert lone.member.size >= 1
    for _, message in lone.sent:
        if isinstance(message, Forward):
            assert message.hops < 3000


def test_every_message_survives_the_wire() -> None:
    community = ScampCommunity(3, network=StageConfig(check_wire=True, loss=0.05))
    kinds: set[type] = set()
    community.stage.observe(lambda time, sender, to, message: kinds.add(type(message)))
    community.grow(40, interval=0.1)
    community.leave(community.anyone())
    community.stage.run_for(200)
    assert len(kinds) == 9


def wrong(**changes: float) -> Callable[[], ScampConfig]:
    return lambda: dataclasses.replace(ScampConfig(), **changes)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("make", "field"),
    [
        (wrong(c=-1), "c must"),
        (wrong(heartbeat_seconds=0), "heartbeat_seconds"),
        (wrong(patience=0), "patience"),
        (wrong(lease_seconds=1), "lease_seconds"),
        (wrong(answer_seconds=float("nan")), "answer_seconds"),
        (wrong(margin=-1), "margin"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(
    make: Callable[[], ScampConfig], field: str
) -> None:
    with pytest.raises(UsageError, match=field):
        make()


def trace(seed: int) -> list[tuple[float, str]]:
    """When messages were sent and to whom, in a community that grows, shrinks and renews."""
    community, sent = ScampCommunity(seed), list[tuple[float, str]]()
    community.stage.observe(lambda time, sender, to, message: sent.append((time, str(to))))
    community.grow(30, interval=0.2)
    community.crash_some(0.2)
    community.leave(community.anyone())
    community.stage.run_for(150)
    return sent


def test_runs_repeat_by_seed_whatever_the_hash_seed() -> None:
    code = "from tests.overlay.membership.test_scamp_reactions import trace; print(trace(5))"
    runs = [
        subprocess.run(
            [sys.executable, "-c", code],
            cwd=Path(__file__).parents[3],
            env={"PYTHONHASHSEED": seed},
            capture_output=True,
            check=True,
            text=True,
        ).stdout.strip()
        for seed in ("1", "2")
    ]
    assert runs[0] == runs[1] == str(trace(5))
    assert trace(6) != trace(5)


def test_one_huge_wish_of_a_member_that_all_hold_has_others_send_few_messages() -> None:
    """Copies that nobody keeps went on for 80 hops each, and there were 256: 20,000 messages for one."""
    community = ScampCommunity(1)
    community.grow(10, interval=0.5)
    community.stage.run_for(30)
    wishes, *others = community.members
    sent: list[object] = []
    community.stage.observe(lambda time, sender, to, message: sent.append(message))
    wish = community.members[wishes]._community.own_subscription()
    context = community.stage.context(wishes)
    context.send(others[0], ScampSubscribe(TOPIC, wish, 10**9, False))
    context.send(others[0], Forward(TOPIC, wish, 10**9))
    community.stage.run_for(5)
    assert sum(isinstance(message, Forward) for message in sent) < 500
