"""Probes: a question without a channel, and others that ask for one who gets no answer."""

from __future__ import annotations

import asyncio

import pytest

from overlay.contact import Contact, PeerId
from overlay.failure.detector import AskOthers, Detector, FailureConfig, Suspect
from overlay.failure.probes import HELP_SECONDS, MOST_HELPED, Probes
from overlay.virtual import Latency, Network, nth_host
from tests.overlay.failure.busy_nodes import Watcher, open_node


def contact(number: int) -> Contact:
    return Contact(PeerId(number.to_bytes(20, "big")), f"127.0.0.{number % 250 + 1}", 4000)


ONE, TWO, THREE, FOUR = map(contact, range(1, 5))


class Talk:
    """Probes of several nodes that hear each other at once, but for pairs that are cut off."""

    def __init__(self, *nodes: Contact, light: tuple[Contact, ...] = ()) -> None:
        self.now = 0.0
        self.light: dict[tuple[PeerId, PeerId], bool] = {}
        self._light_nodes = {node.id for node in light}
        self.cut: set[frozenset[PeerId]] = set()
        self.heard: list[tuple[PeerId, PeerId]] = []
        self.malformed = 0
        self.probes = {node.id: self._make(node) for node in nodes}

    def _make(self, node: Contact) -> Probes:
        def send(to: Contact, body: bytes) -> None:
            if to.id in self.probes and frozenset((node.id, to.id)) not in self.cut:
                self.probes[to.id].receive(node, body)

        def malformed() -> None:
            self.malformed += 1

        def heard(peer: PeerId) -> None:
            self.heard.append((node.id, peer))

        def is_light(peer: PeerId, light: bool) -> None:
            self.light[node.id, peer] = light

        return Probes(
            send, lambda: self.now, heard, is_light, malformed, light=node.id in self._light_nodes
        )


def test_a_probe_is_answered_and_both_have_heard_each_other() -> None:
    talk = Talk(ONE, TWO)
    talk.probes[ONE.id].ask(TWO)
    assert set(talk.heard) == {(ONE.id, TWO.id), (TWO.id, ONE.id)}


def test_who_is_asked_says_whether_it_is_a_light_member() -> None:
    talk = Talk(ONE, TWO, THREE, light=(TWO,))
    talk.probes[ONE.id].ask(TWO)
    talk.probes[ONE.id].ask(THREE)
    assert talk.light == {(ONE.id, TWO.id): True, (ONE.id, THREE.id): False}
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


@pytest.mark.parametrize("body", [b"", b"\x09", b"\x00\x00", b"\x02short", b"\x03short", b"\x02"])
def test_what_is_not_a_probe_is_counted(body: bytes) -> None:
    talk = Talk(ONE, TWO)
    talk.probes[ONE.id].receive(TWO, body)
    assert talk.malformed == 1


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
