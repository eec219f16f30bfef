"""Events that come before others of their stream wait within bounds, whatever strangers send."""

from __future__ import annotations

import pytest

from overlay.virtual.stage import numbered_contact
from pubsub.archive.protocol.frontier import MOST_EARLY, Frontier, Intake, new_stream
from tests.pubsub.archive.harness import TOPIC, Simulation, make_event

MOST_BYTES, MOST_STREAMS = MOST_EARLY.bytes or 0, MOST_EARLY.sources or 0


def stream(number: int) -> bytes:
    return number.to_bytes(28, "big")


class Gate:
    """An intake, and how much it dropped and keeps."""

    def __init__(self) -> None:
        self.dropped = 0
        self.intake: Intake[bytes] = Intake(Frontier(), self._drop)

    def _drop(self, count: int) -> None:
        self.dropped += count

    @property
    def kept_bytes(self) -> int:
        early = self.intake._order._early.values()
        return sum(len(event) for events in early for event in events.values())


def test_what_waits_has_so_many_bytes_at_most_and_the_oldest_goes_first() -> None:
    gate = Gate()
    size = MOST_BYTES // 8
    for number in range(20):
        gate.intake.accept(stream(number), 0, 2, [bytes(size)])
        assert gate.kept_bytes <= MOST_BYTES
    assert gate.dropped == 12
    assert list(gate.intake._order._early) == [stream(number) for number in range(12, 20)]
    accepted = gate.intake.accept(stream(19), 0, 1, [b"first"])
    assert len(accepted.events) == 2, "the newest are still there"
    accepted = gate.intake.accept(stream(0), 0, 1, [b"first"])
    assert list(accepted.events) == [b"first"]
    gate.intake.accept(stream(0), 0, 2, [b"second"])
    assert gate.intake.last(stream(0)) == 2, "what was dropped is taken when it comes again"


def test_one_stream_alone_keeps_what_comes_first() -> None:
    gate = Gate()
    size = MOST_BYTES // 4
    gate.intake.accept(stream(1), 0, 2, [bytes(size)] * 10)
    assert gate.dropped == 6
    assert sorted(gate.intake._order._early[stream(1)]) == [2, 3, 4, 5]


def test_streams_that_never_go_on_make_room_for_others() -> None:
    gate = Gate()
    for number in range(MOST_STREAMS + 1):
        gate.intake.accept(stream(number), 0, 2, [b"early"])
    assert gate.dropped == 1
    last = stream(MOST_STREAMS)
    assert len(gate.intake.accept(last, 0, 1, [b"first"]).events) == 2


@pytest.mark.parametrize("again", [1, 3])
def test_the_same_event_twice_counts_once(again: int) -> None:
    gate = Gate()
    for _ in range(again):
        gate.intake.accept(stream(1), 0, 2, [b"early"])
    assert gate.intake._order.early_bytes == gate.kept_bytes == 5
    gate.intake.accept(stream(1), 0, 1, [b"first"])
    assert gate.intake._order.early_bytes == gate.kept_bytes == 0


def test_a_stream_that_says_later_where_it_begins_mixes_with_no_other() -> None:
    gate = Gate()
    gate.intake.accept(stream(1), 0, 5, [b"five"])
    accepted = gate.intake.accept(stream(1), 4, 7, [b"seven"])
    assert (accepted.first, list(accepted.events), accepted.missing) == (5, [b"five"], (6, 6))
    assert not gate.intake.skip_to(stream(2), 3).events
    assert list(gate.intake.accept(stream(1), 4, 6, [b"six"]).events) == [b"six", b"seven"]


def test_an_event_that_waited_keeps_the_time_at_which_it_was_archived() -> None:
    """New names that come from another replica begin by this time."""
    sim = Simulation(1)
    sim.stage.run(1)
    (archive,) = sim.archives
    publisher = numbered_contact(7)
    one = new_stream(publisher.id, 1_000_000_000, 1)
    for number, time in ((2, 1e9 + 20), (3, 1e9 + 30), (1, 1e9 + 10)):
        event = make_event(publisher, b"a run   ", number)
        row = (one, 0, number, time, event, False)
        archive.core.take(b"other", [row])
    sim.stage.run_for(1)
    stored = archive.store.events(TOPIC, 0, 10)
    assert [event.time - 1e9 for event in stored] == [10, 20, 30]
