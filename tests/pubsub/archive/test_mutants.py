"""The checkers find what they are for: each mutant breaks one rule, and some schedule shows it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

import pytest

from overlay.contact import Contact
from pubsub.archive.protocol.delivery import OrderedSubscriber
from pubsub.archive.protocol.frontier import Given
from pubsub.archive.protocol.messages import Companion
from pubsub.archive.protocol.publisher import DurablePublisher
from pubsub.archive.protocol.subscriber import Numbered
from pubsub.archive.store.changes import Change
from pubsub.event import ID_PLACE
from tests.pubsub.archive.checkers import CHECKS, History, verdict
from tests.pubsub.archive.harness import (
    ArchiveActor,
    PublisherActor,
    StageCommit,
    SubscriberActor,
)
from tests.pubsub.archive.schedules import run_schedule

SEEDS = range(40)


def found(check: str) -> str:
    """The first seed whose schedule shows it, for the message; fails when none does."""
    for seed in SEEDS:
        sim = run_schedule(seed)
        for subscriber in sim.subscribers:
            if check in verdict(sim.history, subscriber.name, ordered=subscriber.ordered):
                return f"seed {seed}"
    pytest.fail(f"no schedule showed anything {check}")


class HastyCommit(StageCommit):
    """Acknowledges before the sync."""

    def __call__(self, changes: Sequence[Change], then: Callable[[], None]) -> None:
        super().__call__(changes, lambda: None)
        self._context.call_later(0, then)


class ForgetfulPublisher(DurablePublisher):
    """Does not learn its catenation number back."""

    def use(self, archive: Contact, replica: bytes, catenation: int, time: int) -> None:
        super().use(archive, replica, 0, time)


class SelfSyncingSubscriber(OrderedSubscriber):
    """Advances its sync point by itself."""

    def _numbered(self, numbered: Numbered) -> None:
        super()._numbered(numbered)
        self.sync = max(self.sync, numbered.sequence)
        self._synced()


class AmnesicSubscriber(OrderedSubscriber):
    """Forgets what it gave to the application whenever it registers anew."""

    def _forget_numbers(self) -> None:
        super()._forget_numbers()
        self._given = Given()


def test_an_archive_that_acknowledges_before_the_sync_loses_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(ArchiveActor, "commit_class", HastyCommit)
    assert found("lost")


def test_a_publisher_that_uses_catenation_numbers_twice_loses_events(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(PublisherActor, "publisher_class", ForgetfulPublisher)
    monkeypatch.setattr(PublisherActor, "run_bytes", lambda self, context: b"same run")
    assert found("lost")


def test_a_subscriber_that_advances_its_sync_point_gets_events_out_of_order_or_never(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    classes = (SelfSyncingSubscriber, SubscriberActor.subscriber_classes[1])
    monkeypatch.setattr(SubscriberActor, "subscriber_classes", classes)
    assert found("lost")
    assert found("reordered")


def test_a_subscriber_that_forgets_what_it_delivered_delivers_it_twice(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    classes = (AmnesicSubscriber, SubscriberActor.subscriber_classes[1])
    monkeypatch.setattr(SubscriberActor, "subscriber_classes", classes)
    assert found("duplicated")


def test_an_archive_that_stores_other_bytes_than_it_got_delivers_phantoms(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    receive = ArchiveActor._receive

    def flip(event: bytes) -> bytes:
        last = ID_PLACE.stop - 1
        return event[:last] + bytes([event[last] ^ 0x40]) + event[last + 1 :]

    def mangle(self: ArchiveActor, sender: Contact, message: object) -> None:
        if isinstance(message, Companion):
            blocks = tuple(map(flip, message.blocks))
            message = replace(message, blocks=blocks)
        receive(self, sender, message)

    monkeypatch.setattr(ArchiveActor, "_receive", mangle)
    assert found("phantom")


@pytest.mark.parametrize("check", CHECKS)
def test_each_checker_sees_the_smallest_case(check: str) -> None:
    history = History(
        published={b"a": ("life", 1), b"b": ("life", 2)}, acknowledged={b"a": None, b"b": None}
    )
    history.delivered["s"] = {
        "lost": [(b"a", False)],
        "duplicated": [(b"a", False), (b"b", False), (b"a", False)],
        "reordered": [(b"b", False), (b"a", False)],
        "phantom": [(b"a", False), (b"b", False), (b"c", False)],
    }[check]
    assert list(verdict(history, "s", ordered=True)) == [check]
