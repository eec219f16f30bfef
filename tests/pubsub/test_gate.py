"""The gate: whose messages wait for rights, and who cannot take the places of others."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from overlay.contact import Contact
from overlay.identity import Identity
from overlay.metrics import Metrics
from pubsub import gate
from pubsub.gate import COMPARED_AT_ONCE, NEWS_PAUSE, TELL_SECONDS, Gate, ShowRights, TakenBack
from pubsub.rights import Action, Authority, Grant, grant_first, revoke

AUTHORITY = Identity(b"a" * 32)


class World:
    """A context whose timers ring when they are told to."""

    def __init__(self) -> None:
        self.time = 0.0
        self.timers: list[tuple[float, Any]] = []
        self.contact = Contact(Identity(b"b" * 32).id, "127.0.0.1", 1)
        self.random = Random(1)
        self.sent: list[tuple[Contact, object]] = []

    def now(self) -> float:
        return self.time

    def send(self, to: Contact, message: object) -> None:
        self.sent.append((to, message))

    def call_later(self, delay: float, action: object) -> Any:
        self.timers.append((delay, action))
        return self

    def cancel(self) -> None:
        self.timers.pop()


def test_one_host_cannot_have_all_places_of_those_who_are_asked_for_rights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate, "MOST_ASKED", 4)
    world = World()
    one = Gate(world, Authority([AUTHORITY.public_key], lambda: 0.0), [], Metrics())
    one.require({str: lambda holder, message: bool(holder.rights)})
    peers = [
        Contact(Identity(bytes([number]) * 32).id, "10.0.0.1", number) for number in range(1, 9)
    ]
    for peer in peers:
        one.admit(peer, "let me in", lambda sender, message: None)
    assert [to for to, _ in world.sent] == peers[:4]
    other = peers[0]._replace(id=Identity(b"c" * 32).id, host="10.0.9.1")
    one.admit(other, "let me in", lambda sender, message: None)
    assert world.sent[-1][0] == other
    assert isinstance(world.sent[-1][1], ShowRights)
    one.admit(peers[5], "let me in", lambda sender, message: None)
    assert len(world.sent) == 5


def test_who_has_no_right_does_not_have_those_forgotten_who_have(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """New identities cost nothing, and who is forgotten is sent no events until it is asked again."""
    monkeypatch.setattr(gate, "MOST_KNOWN", 8)
    one = Gate(World(), Authority([AUTHORITY.public_key], lambda: 0.0), [], Metrics())

    def show(name: int, is_allowed: bool) -> Contact:
        identity = Identity(bytes([name]) * 32)
        grant = Grant(identity.public_key, Action.SUBSCRIBE, "/t")
        rights = (grant_first(AUTHORITY, grant).packed,) if is_allowed else ()
        peer = Contact(identity.id, f"10.0.{name}.1", 1)
        one.handlers[ShowRights](peer, ShowRights(rights, b"", False))
        return peer

    honest = [show(name, True) for name in range(1, 5)]
    for name in range(10, 60):
        show(name, False)
    honest += [show(name, True) for name in range(5, 8)]
    assert all(one.may(peer.id, Action.SUBSCRIBE, "/t") for peer in honest)
    assert len(one._known) <= 8


def test_messages_that_wait_for_rights_are_bounded_in_bytes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(gate, "HELD_BYTES", 40)
    monkeypatch.setattr(gate, "HELD_TOTAL", 100)
    metrics = Metrics()
    one = Gate(World(), Authority([AUTHORITY.public_key], lambda: 0.0), [], metrics)
    one.require({str: lambda holder, message: True})
    peers = [Contact(Identity(bytes([n]) * 32).id, f"10.0.{n}.1", 1) for n in range(1, 5)]
    came: list[Contact] = []

    def send_all() -> None:
        for peer in peers:
            for _ in range(5):
                one.admit(peer, "let me in", lambda sender, message: came.append(sender), 10)

    send_all()
    assert metrics.as_dict()["rights_refused"] == {"str": 20 - 10}
    for peer in peers[:2]:
        one.handlers[ShowRights](peer, ShowRights((), one.authority.digest_revocations(), False))
    assert came == [peers[0]] * 4 + [peers[1]] * 4
    came.clear()
    send_all()  # two pass at once, and the others have room
    assert len(came) == 10
    assert metrics.as_dict()["rights_refused"] == {"str": 10 + 3 + 1}


def test_who_is_told_of_a_revocation_has_all_its_members_told_and_not_more_often_than_it_may() -> (
    None
):
    """Or those who were cut off together would hear of it one by one, each in the time of a comparison."""
    world = World()
    one = Gate(world, Authority([AUTHORITY.public_key], lambda: 0.0), [], Metrics())
    peers = [Contact(Identity(bytes([n]) * 32).id, f"10.0.{n}.1", 1) for n in range(1, 9)]
    one.compare_with(lambda: peers)
    assert len(world.sent) == COMPARED_AT_ONCE

    def tell(number: int) -> None:
        grant = Grant(bytes([number]) * 32, Action.SUBSCRIBE, "/t")
        taken = revoke(grant_first(AUTHORITY, grant), AUTHORITY)
        one.handlers[TakenBack](peers[0], TakenBack((taken,)))

    for number in (1, 2, 2):
        tell(number)
    ((delay, action),) = world.timers
    assert delay == NEWS_PAUSE
    world.timers.clear()
    action()
    assert [to for to, _ in world.sent[COMPARED_AT_ONCE:]] == peers
    tell(1)
    assert len(world.timers) == 1
    world.time = 1.0
    tell(3)
    ((delay, _),) = world.timers
    assert delay == NEWS_PAUSE + TELL_SECONDS - 1.0
