"""A client keeps to its primary while it lives, fails over when it is silent, and spares a crowded server."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.contact import Contact
from overlay.virtual.stage import Stage, numbered_contact
from pubsub.reliable.primary import PrimaryKeeper
from tests.pubsub.reliable.mutants import assert_noticed

SERVERS = [numbered_contact(number) for number in range(1, 4)]


@dataclass(frozen=True)
class Times:
    sign_of_life: float = 1.0
    suspect_after: float = 2.0
    retry: float = 0.3
    connect_within: float = 1.5


class Client:
    """A keeper, and servers that answer while they are up."""

    def __init__(self, seed: int) -> None:
        self.stage = Stage(seed)
        self.context = self.stage.context(numbered_contact(9))
        self.up = {server.id for server in SERVERS}
        self.listed = list(SERVERS)
        self.pace = 0.0
        self.asked: list[float] = []
        self.requests: list[float] = []
        self.lost_ones: list[Contact] = []
        self.keeper = PrimaryKeeper(self.context, Times(), self)

    def request(self, to: Contact) -> None:
        self.requests.append(self.stage.now)
        self._answer(to, lambda: self.keeper.connected(to))

    def ask(self, primary: Contact) -> None:
        self.asked.append(self.stage.now)
        self._answer(primary, lambda: self.keeper.heard(primary, self.pace))

    def _answer(self, server: Contact, action: Callable[[], None]) -> None:
        def answered() -> None:
            is_candidate = self.keeper.candidate == server or self.keeper.primary == server
            if server.id in self.up and is_candidate:
                action()

        self.context.call_later(0.1, answered)

    def lost(self, primary: Contact) -> None:
        assert primary.id not in self.up, "a primary that answers was given up"
        self.lost_ones.append(primary)

    def want_servers(self) -> None:
        self.context.call_later(0.1, lambda: self.keeper.know(self.listed))


def play(chance: random.Random) -> None:
    client = Client(chance.getrandbits(30))
    client.keeper.start()
    client.stage.run_for(3.0)
    for _ in range(12):
        primary = client.keeper.primary
        assert primary is not None, "it has no primary though one answers"
        assert primary.id in client.up, "it keeps to a primary that is gone"
        down = chance.choice(SERVERS)
        if len(client.up) > 1 and chance.random() < 0.6:
            client.up.discard(down.id)
        else:
            client.up.add(down.id)
        if chance.random() < 0.2:
            client.keeper.reconnect()
        client.stage.run_for(chance.uniform(12.0, 20.0))
    changes = client.keeper.changes
    still_up = set(client.up)
    asked = len(client.asked)
    client.stage.run_for(60.0)
    assert client.keeper.changes == changes, "it left a primary that answers"
    assert client.up == still_up
    assert 20 <= len(client.asked) - asked <= 70, "it asks too often, or never"


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 1 << 40))
def test_a_client_has_a_primary_that_answers(seed: int) -> None:
    play(random.Random(seed))


def test_a_crowded_server_is_asked_less_often() -> None:
    client = Client(1)
    client.pace = 8.0
    client.keeper.start(SERVERS[:1])
    client.stage.run_for(161.0)
    assert len(client.asked) <= 12
    assert client.keeper.changes == 0


def test_requests_that_nobody_answers_become_rarer() -> None:
    client = Client(2)
    client.up.clear()
    client.keeper.start()
    client.stage.run_for(60.0)
    assert len(client.requests) <= 60 / 0.3 / 1.2
    client.up.add(SERVERS[1].id)
    client.stage.run_for(10.0)
    assert client.keeper.primary == SERVERS[1]


def test_the_one_that_failed_last_is_tried_last() -> None:
    client = Client(3)
    client.keeper.start()
    client.stage.run_for(2.0)
    first = client.keeper.primary
    assert first is not None
    client.up.discard(first.id)
    client.stage.run_for(6.0)
    client.keeper.know(SERVERS)
    assert list(client.keeper.secondaries)[-1] == first.id


def keeps_to_the_dead(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PrimaryKeeper, "fail_over", lambda self: None)


def suspects_at_the_first_silence(patch: pytest.MonkeyPatch) -> None:
    def watch(self: Any, primary: Contact) -> None:
        if self._context.now() - self._heard_at >= 1.0:
            self.fail_over()

    patch.setattr(PrimaryKeeper, "_watch", watch)


def asks_for_no_new_list(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Client, "want_servers", lambda self: None)


def forgets_to_ask_again(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PrimaryKeeper, "_ring", lambda self: None)


def asks_all_the_time(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(PrimaryKeeper, "_patience_with_silence", lambda self: 0.0)


MUTANTS = [
    keeps_to_the_dead,
    suspects_at_the_first_silence,
    asks_for_no_new_list,
    forgets_to_ask_again,
    asks_all_the_time,
]


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_keeper_is_noticed(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert_noticed(play, 30)
