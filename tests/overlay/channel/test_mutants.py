"""The properties can fail: each of these broken channels is caught within a few seeds."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import chain

import pytest

from overlay.channel.core import ChannelCore
from overlay.channel.machine import Phase
from overlay.channel.packet import ChannelRefused, decode_bundle
from overlay.channel.receiving import Reassembly, ReceiveWindow
from overlay.channel.sending import Flight, Transmitter
from tests.overlay.channel.faulty_wire import Faults
from tests.overlay.channel.scenario import Crash, Pause, Run, Scenario, Write, random_scenario

Mutant = Callable[[pytest.MonkeyPatch], None]


def no_duplicate_detection(patch: pytest.MonkeyPatch) -> None:
    mark = ReceiveWindow._mark
    patch.setattr(ReceiveWindow, "_check_new", lambda self, number: None)
    patch.setattr(
        ReceiveWindow,
        "_mark",
        lambda self, number: mark(self, number) if number >= self.next else None,
    )


def no_retransmission(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Flight, "_lose", lambda self, number: None)


def acknowledged_before_accepted(patch: pytest.MonkeyPatch) -> None:
    take_bundle = ReceiveWindow.take_bundle

    def take(self: ReceiveWindow, number: int, segment: bytes) -> list[bytes]:
        try:
            return take_bundle(self, number, segment)
        except ChannelRefused as refusal:
            if refusal.reason.endswith("full"):
                self._mark(number)
            raise

    patch.setattr(ReceiveWindow, "take_bundle", take)


def lost_messages_sent_to_the_next_session(patch: pytest.MonkeyPatch) -> None:
    restart = Transmitter.restart

    def resend(self: Transmitter) -> int:
        runs = [*self.flight._flying.values(), *self.flight.lost.values()]
        bundles = [b"".join(run.parts) for run in runs if run.messages]
        lost = restart(self)
        for message in chain.from_iterable(map(decode_bundle, bundles)):
            self.buffer.add(message, None)
        return lost

    patch.setattr(Transmitter, "restart", resend)


def any_session_taken_for_the_current_one(patch: pytest.MonkeyPatch) -> None:
    def meet(self: ChannelCore, theirs: int, mine: int) -> None:
        self.phase = Phase.ESTABLISHED
        self.session, self._peer = mine, theirs

    patch.setattr(ChannelCore, "_meet", meet)


def reset_ignored(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ChannelCore, "_receive_reset", lambda self, rejected, mine: None)


def idle_channel_forgotten_without_agreement(patch: pytest.MonkeyPatch) -> None:
    def forget(self: ChannelCore, now: float) -> None:
        if not self.transmitter.flight:
            self.phase = Phase.GONE

    patch.setattr(ChannelCore, "_idle", forget)


def fragments_kept_for_the_next_session(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Reassembly, "clear", lambda self: 0)


def limit_never_asked_for(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Transmitter, "is_limited", False)
    resume = ChannelCore.resume

    def resume_in_silence(self: ChannelCore) -> list[bytes]:
        messages = resume(self)
        self.receiver.ack_due = False
        return messages

    patch.setattr(ChannelCore, "resume", resume_in_silence)


def random_scenarios() -> Iterable[Scenario]:
    for seed in range(60):
        yield random_scenario(seed, crashes=seed % 2 == 1)


def full_receiver() -> Iterable[Scenario]:
    """Two senders, whose messages do not fit the paused receiver's memory together."""
    first = [Write(1 + n / 10, n % 2, 2, 200) for n in range(300)]
    later = [Write(40 + n / 10, n % 2, 2, 200) for n in range(600)]
    yield Scenario(Faults(), (Pause(0, 2, 110), *first, *later), nodes=3)


def long_pause() -> Iterable[Scenario]:
    """More messages than the paused receiver's buffer holds."""
    writes = [Write(1 + n, 0, 1, 8_000) for n in range(20)]
    yield Scenario(Faults(), (Pause(0, 1, 30), *writes))


def crash_within_a_large_message() -> Iterable[Scenario]:
    for _ in range(10):
        writes = (Write(0, 0, 1, 8_000), Crash(0.06, 0), Write(0.06, 0, 1, 8_000))
        yield Scenario(Faults(loss=0.1), writes)


def receiver_crashes_while_busy() -> Iterable[Scenario]:
    for _ in range(5):
        writes = [Write(n / 50, 0, 1, 100) for n in range(100)]
        yield Scenario(Faults(loss=0.3, delay=(0.05, 0.05)), (*writes, Crash(1, 1)))


MUTANTS: list[tuple[Mutant, Callable[[], Iterable[Scenario]]]] = [
    (no_duplicate_detection, random_scenarios),
    (no_retransmission, random_scenarios),
    (acknowledged_before_accepted, full_receiver),
    (lost_messages_sent_to_the_next_session, receiver_crashes_while_busy),
    (any_session_taken_for_the_current_one, random_scenarios),
    (reset_ignored, random_scenarios),
    (idle_channel_forgotten_without_agreement, random_scenarios),
    (fragments_kept_for_the_next_session, crash_within_a_large_message),
    (limit_never_asked_for, long_pause),
]


def is_caught(scenarios: Iterable[Scenario]) -> bool:
    return any(Run(scenario, seed).violations() for seed, scenario in enumerate(scenarios))


@pytest.mark.parametrize(
    ("mutant", "scenarios"), MUTANTS, ids=[mutant.__name__ for mutant, _ in MUTANTS]
)
def test_mutants_are_caught(
    mutant: Mutant, scenarios: Callable[[], Iterable[Scenario]], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert is_caught(scenarios())


@pytest.mark.parametrize(
    "scenarios",
    [full_receiver, long_pause, crash_within_a_large_message, receiver_crashes_while_busy],
)
def test_the_channel_itself_passes_the_same_scenarios(
    scenarios: Callable[[], Iterable[Scenario]],
) -> None:
    assert not is_caught(scenarios())
