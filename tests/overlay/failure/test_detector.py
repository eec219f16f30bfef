"""The pure detector by hand: whom it asks, when it suspects, and what it leaves alone."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.contact import Contact, PeerId
from overlay.errors import UsageError
from overlay.failure.detector import (
    SECOND_TO_ASK,
    SELDOM,
    Action,
    Ask,
    Detector,
    FailureConfig,
    Restore,
    Suspect,
)

ME = PeerId(b"m" * 20)
PEER = Contact(PeerId(b"p" * 20), "127.0.0.2", 4000)
CONFIG = FailureConfig()


class Driver:
    """Runs a detector; `answer` says how long after a question the peer is heard, None for never."""

    def __init__(self, config: FailureConfig = CONFIG, answer: float | None = 0.05) -> None:
        self.answer = answer
        self.heard: list[float] = []
        self.now = 0.0
        self.actions: list[tuple[float, Action]] = []
        self.detector = Detector(ME, config, self._heard_at)

    def _heard_at(self, peer: PeerId) -> float | None:
        return max((time for time in self.heard if time <= self.now), default=None)

    def run(self, until: float) -> None:
        while (due := self.detector.next_timer()) is not None and due <= until:
            self.now = due
            for action in self.detector.poll(due):
                self.actions.append((due, action))
                if isinstance(action, Ask) and self.answer is not None:
                    self.heard.append(due + self.answer)
        self.now = until

    def times(self, kind: type[Action]) -> list[float]:
        return [time for time, action in self.actions if isinstance(action, kind)]


def test_a_silent_but_living_peer_is_asked_once_an_interval() -> None:
    driver = Driver()
    driver.detector.watch(PEER, 0.0)
    driver.run(60)
    questions = 60 / CONFIG.interval
    assert 0.8 * questions <= len(driver.times(Ask)) <= questions
    assert driver.times(Suspect) == []


def test_a_peer_that_is_heard_anyway_is_never_asked() -> None:
    driver = Driver(answer=None)
    driver.heard = [second / 2 for second in range(200)]
    driver.detector.watch(PEER, 0.0)
    driver.run(99)
    assert driver.actions == []


def test_a_crashed_peer_is_suspected_within_interval_and_timeout() -> None:
    driver = Driver()
    driver.detector.watch(PEER, 0.0)
    driver.run(30)
    driver.answer = None
    last_heard = driver.heard[-1]
    driver.run(60)
    (suspected,) = driver.times(Suspect)
    assert suspected - last_heard <= SECOND_TO_ASK * CONFIG.interval + CONFIG.least_timeout + 0.01
    assert driver.detector.is_suspected(PEER.id)


def test_a_suspected_peer_is_asked_rarely_and_restored_when_heard() -> None:
    driver = Driver(answer=None)
    driver.detector.watch(PEER, 0.0)
    driver.run(10)
    asked = len(driver.times(Ask))
    driver.run(30)
    assert len(driver.times(Ask)) - asked <= 20 / CONFIG.probe_interval
    driver.answer = 0.05
    driver.run(40)
    assert len(driver.times(Restore)) == 1
    assert not driver.detector.is_suspected(PEER.id)


def test_news_of_a_suspected_peer_restores_it_at_once() -> None:
    driver = Driver(answer=None)
    driver.detector.watch(PEER, 0.0)
    driver.run(10)
    driver.heard.append(10.0)
    driver.detector.look_now(PEER.id, 10.0)
    driver.run(10.0)
    assert driver.times(Restore) == [10.0]


def test_a_peer_is_left_alone_after_the_last_unwatch() -> None:
    driver = Driver()
    driver.detector.watch(PEER, 0.0)
    driver.detector.watch(PEER, 0.0)
    driver.detector.unwatch(PEER.id)
    assert driver.detector.watched == [PEER]
    driver.detector.unwatch(PEER.id)
    driver.detector.unwatch(PEER.id)
    driver.run(60)
    assert driver.actions == []
    assert driver.detector.next_timer() is None


def test_the_level_rises_while_questions_are_unanswered_and_is_zero_otherwise() -> None:
    driver = Driver()
    driver.detector.watch(PEER, 0.0)
    driver.run(10)
    driver.answer = None
    driver.run(14)
    first, second = driver.detector.level(PEER.id, 14), driver.detector.level(PEER.id, 15)
    assert 0 < first < second
    assert driver.detector.level(PeerId(b"q" * 20), 15) == 0


@settings(deadline=None)
@given(st.lists(st.floats(0, 100), max_size=60), st.floats(5, 100))
def test_whatever_is_heard_suspicion_and_restoration_alternate_and_silence_is_suspected(
    heard: list[float], end: float
) -> None:
    driver = Driver(answer=None)
    driver.heard = [time for time in heard if time < end]
    driver.detector.watch(PEER, 0.0)
    driver.run(end + 2 * CONFIG.interval + CONFIG.most_timeout + 1)
    changes = [type(action) for _, action in driver.actions if not isinstance(action, Ask)]
    assert changes[::2] == [Suspect] * len(changes[::2])
    assert changes[1::2] == [Restore] * len(changes[1::2])
    assert driver.detector.is_suspected(PEER.id)


@pytest.mark.parametrize(
    ("field", "value"),
    [("interval", 0.0), ("least_retry", -1.0), ("threshold", 0.0), ("most_timeout", 1.0)],
)
def test_a_configuration_that_cannot_work_names_the_field(field: str, value: Any) -> None:
    with pytest.raises(UsageError, match=field):
        FailureConfig(**{field: value})


def test_who_watches_a_suspected_peer_later_is_told_as_well() -> None:
    driver = Driver(answer=None)
    driver.detector.watch(PEER, 0.0)
    driver.run(10)
    driver.detector.watch(PEER, driver.now)
    driver.run(60)
    reports = [action for _, action in driver.actions if isinstance(action, Suspect)]
    assert reports == [Suspect(PEER), Suspect(PEER, again=True)]
    assert driver.times(Suspect)[1] == 10


def test_a_suspected_peer_that_was_heard_is_restored_and_not_reported_to_a_later_watcher() -> None:
    driver = Driver(answer=None)
    driver.detector.watch(PEER, 0.0)
    driver.run(10)
    driver.heard.append(10.0)
    driver.detector.watch(PEER, driver.now)
    driver.answer = 0.05
    driver.run(60)
    assert len(driver.times(Suspect)) == len(driver.times(Restore)) == 1


OTHERS = [Contact(PeerId(bytes([number]) * 20), "127.0.0.3", 4000) for number in range(1, 11)]


def test_of_peers_that_are_watched_in_turn_one_is_asked_each_turn() -> None:
    driver = Driver()
    heard: dict[PeerId, float] = {}
    driver.detector = Detector(ME, CONFIG, heard.get)
    for peer in OTHERS:
        driver.detector.watch(peer, 0.0, in_turn=True)
    asked: list[PeerId] = []
    while (due := driver.detector.next_timer()) is not None and due <= 400:
        for action in driver.detector.poll(due):
            assert isinstance(action, Ask)
            asked.append(action.peer.id)
            heard[action.peer.id] = due
    assert len(asked) == pytest.approx(400 / CONFIG.turn, rel=0.15)
    assert {asked.count(peer.id) for peer in OTHERS} <= {8, 9, 10, 11}


@pytest.mark.parametrize("asker_is_light", [False, True])
def test_light_members_ask_and_are_asked_in_turn_seldom(asker_is_light: bool) -> None:
    heard: dict[PeerId, float] = {}
    detector = Detector(ME, FailureConfig(light=asker_is_light), heard.get)
    for peer in OTHERS:
        detector.watch(peer, 0.0, in_turn=True)
    detector.note_light(OTHERS[0].id, True)
    asked: list[PeerId] = []
    while (due := detector.next_timer()) is not None and due <= 3200:
        for action in detector.poll(due):
            assert isinstance(action, Ask)
            asked.append(action.peer.id)
            heard[action.peer.id] = due
    cycles = 3200 / (CONFIG.turn * len(OTHERS))
    assert asked.count(OTHERS[0].id) == pytest.approx(cycles / SELDOM, abs=2)
    usual = cycles / SELDOM if asker_is_light else cycles
    assert asked.count(OTHERS[1].id) == pytest.approx(usual, rel=0.25)


def test_one_in_turn_that_owes_an_answer_is_suspected_as_fast_as_any_other() -> None:
    driver = Driver(answer=None)
    for peer in OTHERS:
        driver.detector.watch(peer, 0.0, in_turn=True)
    driver.detector.expect(OTHERS[0], 1.0)
    driver.run(1.0 + CONFIG.least_timeout + 0.3)
    assert [action.peer for _, action in driver.actions if isinstance(action, Suspect)] == OTHERS[
        :1
    ]


def test_one_in_turn_that_was_heard_by_other_ways_is_left_alone() -> None:
    driver = Driver(answer=None)
    driver.detector.watch(PEER, 0.0, in_turn=True)
    for second in range(100):
        driver.detector.heard(PEER.id, float(second))
        driver.detector.expect(PEER, float(second))
        driver.detector.heard(PEER.id, second + 0.1)
        driver.run(second + 0.9)
    assert driver.actions == []


def test_who_watches_a_peer_closely_is_not_put_off_by_those_who_watch_it_in_turn() -> None:
    driver = Driver()
    for peer in [PEER, *OTHERS]:
        driver.detector.watch(peer, 0.0, in_turn=True)
    driver.detector.watch(PEER, 0.0)
    driver.run(30)
    close = [time for time, a in driver.actions if isinstance(a, Ask) and a.peer == PEER]
    assert len(close) >= 0.8 * 30 / CONFIG.interval
    driver.detector.unwatch(PEER.id)
    driver.run(60)
    later = [time for time, a in driver.actions if isinstance(a, Ask) and a.peer == PEER]
    assert len(later) - len(close) <= 3
    driver.detector.unwatch(PEER.id, in_turn=True)
    assert not driver.detector.is_watched(PEER.id)


def test_one_that_owes_an_answer_is_suspected_although_nobody_watches_it_any_more() -> None:
    driver = Driver(answer=None)
    driver.detector.watch(PEER, 0.0, in_turn=True)
    driver.detector.expect(PEER, 1.0)
    driver.detector.unwatch(PEER.id, in_turn=True)
    driver.detector.expect(OTHERS[0], 1.0)
    driver.run(10)
    suspected = {action.peer for _, action in driver.actions if isinstance(action, Suspect)}
    assert suspected == {PEER, OTHERS[0]}
    assert driver.detector.watched == []


def test_one_that_answers_and_is_watched_by_nobody_is_forgotten() -> None:
    driver = Driver(answer=0.05)
    driver.detector.expect(PEER, 1.0)
    driver.run(10)
    assert driver.times(Suspect) == []
    assert driver.detector.watched == []


def test_an_answer_to_what_was_sent_before_does_not_excuse_silence_afterwards() -> None:
    """A delayed acknowledgement of an earlier message may come after the next one was sent."""
    driver = Driver(answer=None)
    driver.detector = Detector(ME, CONFIG, driver._heard_at, lambda peer: True)
    driver.detector.watch(PEER, 0.0, in_turn=True)
    driver.detector.expect(PEER, 1.0)
    driver.detector.expect(PEER, 1.02)
    driver.heard = [1.03]
    driver.run(1.5 + CONFIG.least_timeout)
    assert len(driver.times(Suspect)) == 1
