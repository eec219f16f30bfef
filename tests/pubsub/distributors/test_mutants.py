"""Broken protocols are caught, each by the checker of the property that it breaks."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from pubsub.distributors.protocol.exchange import DistributorExchange, Recall
from pubsub.distributors.protocol.fanout import Fanout
from pubsub.distributors.protocol.membership import Agreement, DistributorMembership, _Attempt
from pubsub.distributors.protocol.publishing import PublishingCore
from pubsub.distributors.protocol.service import Stability
from pubsub.distributors.protocol.service_log import ServiceLog
from pubsub.distributors.protocol.subscription import SourceOrder, SubscriptionCore
from pubsub.distributors.protocol.view import View
from tests.pubsub.distributors.properties import CHECKS, Violated
from tests.pubsub.distributors.storm import Storm
from tests.pubsub.distributors.unrest import Unrest

SEEDS = 80
Patch = Callable[[pytest.MonkeyPatch], None]
MUTANTS: dict[str, tuple[Patch, str]] = {}


def mutant(broken: str) -> Callable[[Patch], Patch]:
    """A mutant that violates the property whose checker is called so, or never comes to rest."""

    def register(patch: Patch) -> Patch:
        MUTANTS[patch.__name__] = (patch, broken)
        return patch

    return register


FIRST_SEED = {
    "forgets_what_it_has_promised": 46,
    "keeps_only_what_is_not_acknowledged": 5,
    "keeps_nothing_for_other_distributors_subscribers": 19,
    "lets_go_before_all_have_it": 1,
    "passes_over_gaps_in_silence": 25,
    "takes_over_without_asking": 1,
}
"""Where the first storm is known that shows the mutant; earlier ones would only take time."""


def _nothing(*arguments: Any, **options: Any) -> None:
    """In place of a method: leave out what it does."""


@mutant("views_are_totally_ordered")
def takes_over_without_asking(patch: pytest.MonkeyPatch) -> None:
    def next_attempt(self: Agreement, members: Any) -> _Attempt:
        me = bytes(self._context.contact.id)
        return _Attempt((self._promised[0] + 1, me), members, asking=False)

    patch.setattr(Agreement, "_next_attempt", next_attempt)


@mutant("views_are_totally_ordered")
def agrees_without_a_majority(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(View, "has_majority", lambda self, peers: bool(list(peers)))


@mutant("views_are_totally_ordered")
def forgets_what_it_has_promised(patch: pytest.MonkeyPatch) -> None:
    def receive_propose(self: Agreement, sender: Any, proposal: Any) -> None:
        self._promised = self._accepted = proposal.ballot
        self._accepted_members = proposal.members
        self._vote(sender, proposal.ballot)

    patch.setattr(Agreement, "receive_propose", receive_propose)


@mutant("failures_leave_the_view")
def suspects_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DistributorMembership, "suspect", _nothing)


@mutant("joins_enter_the_view")
def takes_nobody_back(patch: pytest.MonkeyPatch) -> None:
    original = DistributorMembership.receive_hello

    def receive_hello(self: DistributorMembership, sender: Any, hello: Any) -> None:
        if hello.number or self.view.number < 3:
            original(self, sender, hello)

    patch.setattr(DistributorMembership, "receive_hello", receive_hello)


@mutant("joins_enter_the_view")
def remembers_suspicions_of_those_left_out(patch: pytest.MonkeyPatch) -> None:
    original = DistributorMembership._install

    def install(self: DistributorMembership, view: View) -> None:
        suspected = dict(self._suspected)
        original(self, view)
        self._suspected.update(suspected)

    patch.setattr(DistributorMembership, "_install", install)


@mutant("suspicion_is_reciprocal")
def keeps_surplus_connections(patch: pytest.MonkeyPatch) -> None:
    def receive_deliveries(self: SubscriptionCore, sender: Any, deliveries: Any) -> None:
        if not self.is_over and self._is_primary(sender):
            original(self, sender, deliveries)
        elif deliveries.pieces:
            last = deliveries.first + len(deliveries.pieces) - 1
            received = type(self)._received(self, deliveries.stream, last)  # type: ignore[attr-defined]
            self._context.send(sender, received)

    original = SubscriptionCore.receive_deliveries
    patch.setattr(SubscriptionCore, "_received", _all_received, raising=False)
    patch.setattr(SubscriptionCore, "receive_deliveries", receive_deliveries)
    patch.setattr(Fanout, "sweep", _nothing)


def _all_received(self: SubscriptionCore, stream: int, last: int) -> object:
    from pubsub.distributors.messages import StreamAck

    return StreamAck(stream, last, (), 4096, False)


@mutant("crashed_subscribers_leave_the_view")
def keeps_silent_subscribers(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Fanout, "_end", _nothing)


@mutant("publications_reach_a_distributor")
def publishes_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PublishingCore, "_again", _nothing)


@mutant("publications_reach_a_distributor")
def keeps_only_what_is_not_acknowledged(patch: pytest.MonkeyPatch) -> None:
    original = PublishingCore.receive_published

    def receive_published(self: PublishingCore, sender: Any, published: Any) -> None:
        original(self, sender, replace(published, stable=published.received))

    patch.setattr(PublishingCore, "receive_published", receive_published)
    patch.setattr(DistributorExchange, "spread", _nothing)


@mutant("what_one_correct_distributor_has_reaches_its_view")
def never_asks_for_what_it_misses(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DistributorExchange, "_ask", _nothing)


@mutant("what_one_correct_distributor_has_reaches_its_view")
def lets_go_before_all_have_it(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Stability, "releasable", lambda self, key, mine: mine)


@mutant("distributors_keep_each_sources_order")
def takes_messages_as_they_come(patch: pytest.MonkeyPatch) -> None:
    def add(self: ServiceLog, block: Any, now: float) -> bool:
        state = self.source(block.source, now)
        for number, payload in enumerate(block.payloads, block.first):
            if number not in state.places:
                high = state.high
                self._take(block.source, number, payload)
                self._close_block(block.source)
                state.high = max(high, number)
                state.low = min(state.places)
        return True

    patch.setattr(ServiceLog, "add", add)


@mutant("subscribers_keep_order_and_report_every_gap")
def passes_over_gaps_in_silence(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(SourceOrder, "_lost", _nothing)


@mutant("subscribers_keep_order_and_report_every_gap")
def delivers_twice(patch: pytest.MonkeyPatch) -> None:
    original = SourceOrder.take

    def take(self: SourceOrder, source: bytes, number: int, data: bytes, lost: int) -> None:
        if 0 < number <= self._order.last(source):
            self._emit(source, number, data)
        original(self, source, number, data, lost)

    patch.setattr(SourceOrder, "take", take)


@mutant("gap_semantics")
def sends_once(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Fanout, "_send_again", _nothing)
    patch.setattr(Fanout, "_rewind", _nothing)


@mutant("gap_semantics")
def begins_anew_after_a_failover(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ServiceLog, "place_after", lambda self, have: self.last + 1)
    patch.setattr(SourceOrder, "_ask_for", _nothing)


@mutant("no_gap_semantics")
def keeps_nothing_for_other_distributors_subscribers(patch: pytest.MonkeyPatch) -> None:
    def releasable(self: Stability, key: Any, mine: int) -> int:
        return self.stable(key, mine)

    patch.setattr(Stability, "releasable", releasable)


@mutant("gaps_are_for_those_who_accept_them")
def finds_nothing_again_after_a_failover(patch: pytest.MonkeyPatch) -> None:
    def answer(self: Recall, sender: Any, want: Any, service: Any) -> None:
        self._send(sender, want, ())

    patch.setattr(ServiceLog, "place_after", lambda self, have: self.last + 1)
    patch.setattr(Recall, "answer", answer)


@mutant("unsubscribed_means_gone")
def does_not_unsubscribe(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Fanout, "remove", _nothing)
    patch.setattr(Fanout, "_end", _nothing)


def test_every_property_has_a_mutant() -> None:
    broken = {name for _, name in MUTANTS.values()}
    assert broken == {check.__name__ for check in CHECKS}


@pytest.mark.parametrize("name", MUTANTS)
def test_a_mutant_is_caught(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    patch, broken = MUTANTS[name]
    patch(monkeypatch)
    check = next(check for check in CHECKS if check.__name__ == broken)
    for seed in range(FIRST_SEED.get(name, 0), SEEDS):
        storm = Unrest(seed) if broken == "views_are_totally_ordered" else Storm(seed)
        with contextlib.suppress(AssertionError):  # it never came to rest, and this may show why
            storm.play()
        try:
            check(storm.theatre)
        except Violated:
            return
    pytest.fail(f"{name} went unnoticed in the storms to seed {SEEDS}")
