"""Probes: a question without a channel, and others that ask for one who gets no answer."""

from __future__ import annotations

import asyncio
from itertools import pairwise

import pytest

from overlay.contact import Contact, PeerId
from overlay.failure.detector import Ask, AskOthers, Detector, FailureConfig, Suspect
from overlay.failure.probes import (
    HELP_SECONDS,
    MOST_HELPED,
    MOST_WATCHERS,
    NAMED,
    WATCHER_SECONDS,
    Probes,
)
from overlay.virtual import Latency, Network, nth_host
from tests.overlay.failure.busy_nodes import Watcher, open_node


def contact(number: int) -> Contact:
    return Contact(PeerId(number.to_bytes(20, "big")), f"127.0.0.{number % 250 + 1}", 4000)


ONE, TWO, THREE, FOUR = map(contact, range(1, 5))


class Listener:
    """What one node was told."""

    def __init__(self) -> None:
        self.heard_of: list[PeerId] = []
        self.light: dict[PeerId, bool] = {}
        self.watchers: dict[PeerId, tuple[Contact, ...]] = {}
        self.doubts: list[PeerId] = []
        self.alarms = 0
        self.bad = 0
        self.has_alarm = False

    def heard(self, peer: PeerId) -> None:
        self.heard_of.append(peer)

    def answered(self, peer: PeerId, light: bool) -> None:
        self.light[peer] = light

    def named(self, peer: PeerId, watchers: tuple[Contact, ...]) -> None:
        self.watchers[peer] = watchers

    def doubted(self, peer: PeerId) -> None:
        self.doubts.append(peer)

    def alarmed(self) -> None:
        self.alarms += 1

    def is_alarmed(self) -> bool:
        return self.has_alarm

    def malformed(self) -> None:
        self.bad += 1


class Talk:
    """Probes of several nodes that hear each other at once, but for pairs that are cut off."""

    def __init__(self, *nodes: Contact, light: tuple[Contact, ...] = ()) -> None:
        self.now = 0.0
        self.cut: set[frozenset[PeerId]] = set()
        self._light_nodes = {node.id for node in light}
        self.told = {node.id: Listener() for node in nodes}
        self.probes = {node.id: self._make(node) for node in nodes}

    @property
    def heard(self) -> list[tuple[PeerId, PeerId]]:
        return [(node, peer) for node, told in self.told.items() for peer in told.heard_of]

    def _make(self, node: Contact) -> Probes:
        def send(to: Contact, body: bytes) -> None:
            if to.id in self.probes and frozenset((node.id, to.id)) not in self.cut:
                self.probes[to.id].receive(node, body)

        listener = self.told[node.id]
        return Probes(send, lambda: self.now, listener, light=node.id in self._light_nodes)


def test_a_probe_is_answered_and_both_have_heard_each_other() -> None:
    talk = Talk(ONE, TWO)
    talk.probes[ONE.id].ask(TWO)
    assert set(talk.heard) == {(ONE.id, TWO.id), (TWO.id, ONE.id)}


def test_who_is_asked_says_whether_it_is_a_light_member() -> None:
    talk = Talk(ONE, TWO, THREE, light=(TWO,))
    talk.probes[ONE.id].ask(TWO)
    talk.probes[ONE.id].ask(THREE)
    assert talk.told[ONE.id].light == {TWO.id: True, THREE.id: False}
    assert (ONE.id, TWO.id) in talk.heard


def test_a_helper_reaches_a_peer_that_is_cut_off_from_this_node_alone() -> None:
    talk = Talk(ONE, TWO, THREE)
    talk.cut.add(frozenset((ONE.id, TWO.id)))
    talk.probes[ONE.id].ask(TWO)
    assert not talk.heard
    talk.probes[ONE.id].ask_through(TWO, [THREE])
    assert (ONE.id, TWO.id) in talk.heard


def test_what_somebody_says_who_was_not_asked_does_not_count() -> None:
    talk = Talk(ONE, TWO, THREE, FOUR)
    talk.cut.add(frozenset((ONE.id, TWO.id)))
    saw_two = bytes([3]) + TWO.id
    talk.probes[ONE.id].receive(FOUR, saw_two)
    assert (ONE.id, TWO.id) not in talk.heard
    talk.cut.add(frozenset((THREE.id, TWO.id)))
    talk.probes[ONE.id].ask_through(TWO, [THREE])
    talk.now += HELP_SECONDS + 1
    talk.probes[ONE.id].receive(THREE, saw_two)
    assert (ONE.id, TWO.id) not in talk.heard, "its time is over"


def test_a_helper_remembers_no_more_than_its_bound() -> None:
    talk = Talk(ONE)
    for number in range(3 * MOST_HELPED):
        talk.probes[ONE.id].receive(contact(number + 10), bytes([2]) + TWO.packed())
        talk.probes[ONE.id].ask_through(contact(number + 10), [TWO])
    assert len(talk.probes[ONE.id]._helped) == MOST_HELPED
    assert len(talk.probes[ONE.id]._helpers) == MOST_HELPED


@pytest.mark.parametrize(
    "body",
    [b"", b"\x09", b"\x00", b"\x00\x00\x05", b"\x01\x00\x01a", b"\x02short", b"\x03short", b"\x02"],
)
def test_what_is_not_a_probe_is_counted(body: bytes) -> None:
    talk = Talk(ONE, TWO)
    talk.probes[ONE.id].receive(TWO, body)
    assert talk.told[ONE.id].bad == 1
    assert not talk.heard


def test_a_peer_names_others_that_watch_it_in_turn_and_no_more_than_it_may() -> None:
    watchers = [contact(number) for number in range(10, 10 + 2 * NAMED)]
    talk = Talk(ONE, *watchers)
    named: set[Contact] = set()
    for _ in range(3):
        for watcher in watchers:
            talk.probes[watcher.id].ask(ONE)
            names = talk.told[watcher.id].watchers.get(ONE.id, ())
            assert watcher not in names
            assert len(names) <= NAMED
            named.update(names)
    assert named == set(watchers)
    too_many = b"".join(bytes([26]) + contact(number).packed() for number in range(NAMED + 1))
    talk.probes[ONE.id].receive(watchers[0], bytes([1, 0]) + too_many)
    assert talk.told[ONE.id].bad == 1


def test_who_has_not_been_heard_of_for_long_is_not_named_and_memory_has_a_bound() -> None:
    talk = Talk(ONE, TWO, THREE)
    talk.probes[ONE.id].watched_by(THREE)
    talk.now += WATCHER_SECONDS + 1
    talk.probes[TWO.id].ask(ONE)
    assert ONE.id not in talk.told[TWO.id].watchers
    for number in range(3 * MOST_WATCHERS):
        talk.probes[ONE.id].watched_by(contact(number + 10))
    assert len(talk.probes[ONE.id]._watchers) == MOST_WATCHERS


def test_who_is_asked_for_help_doubts_the_peer_itself() -> None:
    talk = Talk(ONE, TWO, THREE)
    talk.probes[ONE.id].ask_through(THREE, [TWO])
    assert talk.told[TWO.id].doubts == [THREE.id]


def test_an_alarm_goes_with_questions_and_answers() -> None:
    talk = Talk(ONE, TWO, THREE)
    talk.told[ONE.id].has_alarm = True
    talk.probes[ONE.id].ask(TWO)
    talk.probes[THREE.id].ask(ONE)
    assert [talk.told[node.id].alarms for node in (ONE, TWO, THREE)] == [0, 1, 1]


class Listed:
    """A detector that lists some peers, of which those in `dead` do not answer."""

    def __init__(self, peers: int) -> None:
        self.peers = [contact(number) for number in range(10, 10 + peers)]
        self.detector = Detector(FOUR.id, FailureConfig(), lambda peer: None)
        self.dead: set[Contact] = set()
        self.asked: list[tuple[float, Contact]] = []
        self.suspected: list[Contact] = []
        self.now = 0.0
        for peer in self.peers:
            self.detector.watch(peer, 0.0, in_turn=True)

    def run(self, seconds: float) -> None:
        until = self.now + seconds
        while (due := self.detector.next_timer()) is not None and due <= until:
            self.now = due
            for action in self.detector.poll(due):
                if isinstance(action, Ask):
                    self.asked.append((due, action.peer))
                    if action.peer not in self.dead:
                        self.detector.heard(action.peer.id, due)
                elif isinstance(action, Suspect):
                    self.suspected.append(action.peer)
                    self.detector.unwatch(action.peer.id, in_turn=True)
        self.now = until


def test_listed_peers_are_asked_one_after_the_other_from_the_start() -> None:
    listed = Listed(8)
    listed.run(60.0)
    turn = FailureConfig().turn
    begun = [when for when, _ in listed.asked]
    assert all(later - sooner > 0.4 * turn for sooner, later in pairwise(begun[:8]))


def test_a_crash_that_another_noticed_is_noticed_before_its_turn() -> None:
    listed = Listed(8)
    listed.run(60.0)
    dead = listed.peers[3]
    listed.dead = {dead}
    listed.detector.doubt(dead.id, listed.now)
    listed.run(5.0)  # one in eight would be asked by its turn
    assert listed.suspected == [dead]


def test_after_one_crash_the_others_are_looked_at_at_once() -> None:
    listed = Listed(12)
    listed.run(100.0)
    listed.dead = set(listed.peers[:6])
    listed.detector.doubt(listed.peers[0].id, listed.now)
    assert not listed.detector.is_alarmed(listed.now)
    listed.run(12.0)
    assert set(listed.suspected) == listed.dead
    assert listed.detector.is_alarmed(listed.now), "several: others are to look as well"
    listed.run(60.0)
    assert not listed.detector.is_alarmed(listed.now)


def test_an_alarm_of_another_has_all_looked_at_once_and_is_not_handed_on() -> None:
    listed = Listed(12)
    listed.run(100.0)
    before = len(listed.asked)
    listed.detector.alarm(listed.now)
    listed.detector.alarm(listed.now + 1)
    listed.run(6.0)
    assert len({peer for _, peer in listed.asked[before:]}) >= 10
    assert len(listed.asked) - before <= 14
    assert not listed.detector.is_alarmed(listed.now)


def test_the_peer_s_other_watchers_are_asked_for_help_first() -> None:
    listed = Listed(8)
    fellows = (ONE, TWO)
    listed.detector.note_fellows(listed.peers[0].id, fellows)
    listed.detector.doubt(listed.peers[0].id, 1.0)
    others = [a for a in listed.detector.poll(1.6) if isinstance(a, AskOthers)]
    assert others[0].helpers[:2] == fellows
    assert len(others[0].helpers) == FailureConfig().helpers


def test_others_are_asked_once_when_a_listed_peer_does_not_answer_at_once() -> None:
    config = FailureConfig()
    detector = Detector(FOUR.id, config, lambda peer: None)
    peers = [contact(number) for number in range(10, 18)]
    for peer in peers:
        detector.watch(peer, 0.0, in_turn=True)
    asked: list[AskOthers] = []
    suspected: list[Contact] = []
    now = 0.0
    while not suspected:
        due = detector.next_timer()
        assert due is not None
        now = due
        for action in detector.poll(now):
            if isinstance(action, AskOthers):
                asked.append(action)
            elif isinstance(action, Suspect):
                suspected.append(action.peer)
    of_one = [action for action in asked if action.peer == suspected[0]]
    assert len(of_one) == 1
    assert len(of_one[0].helpers) <= config.helpers
    assert suspected[0] not in of_one[0].helpers


@pytest.mark.parametrize("helpers", [0, 3])
def test_a_cut_between_two_listed_peers_is_no_crash_where_others_see_both(helpers: int) -> None:
    net = Network(4, latency=Latency.constant(0.02))

    async def main() -> list[Watcher]:
        nodes = [await open_node(net, index, helpers=helpers) for index in range(1, 6)]
        for node in nodes:
            node.watch(nodes, in_turn=True)
        net.partition([nth_host(1)], [nth_host(2)])
        await asyncio.sleep(120)
        assert all(node.runtime.metrics.as_dict()["channels"] == 0 for node in nodes)
        return nodes

    nodes = net.run(main())
    if helpers:
        assert not any(node.suspected for node in nodes)
    else:
        assert any(node.suspected for node in nodes), "alone it takes the cut for a crash"


def test_listed_peers_are_not_suspected_in_minutes_of_loss() -> None:
    net = Network(5, latency=Latency.constant(0.05), loss=0.2)

    async def main() -> int:
        nodes = [await open_node(net, index) for index in range(1, 9)]
        for node in nodes:
            node.watch(nodes, in_turn=True)
        await asyncio.sleep(600)
        return sum(len(node.suspected) for node in nodes)

    assert net.run(main()) == 0


@pytest.mark.parametrize(("crashed", "spread"), [(1, 3.0), (7, 20.0)])
def test_all_who_list_the_crashed_notice_it_soon_after_the_first(
    crashed: int, spread: float
) -> None:
    """Each lists eight of 24, and asks each of them once in 40 s."""
    net = Network(6, latency=Latency.uniform(0.005, 0.05), loss=0.02)
    steps = (1, 2, 3, 5, 8, 13, 17, 20)

    async def main() -> None:
        nodes = [await open_node(net, index) for index in range(1, 25)]
        for index, node in enumerate(nodes):
            node.watch([nodes[(index + step) % 24] for step in steps], in_turn=True)
        await asyncio.sleep(120)
        assert not any(node.suspected for node in nodes)
        dead = {node.runtime.contact for node in nodes[:crashed]}
        for number in range(1, crashed + 1):
            net.crash(nth_host(number))
        await asyncio.sleep(60)
        living = nodes[crashed:]
        for node in living:
            listed = dead & set(node.runtime.failure.watched)
            assert {peer for _, peer in node.suspected} == listed
        times = [time for node in living for time, _ in node.suspected]
        assert max(times) - min(times) < spread

    net.run(main())
