"""Processes of benchmarks: they answer, fail aloud, are stopped, and are always cleared away."""

from __future__ import annotations

import multiprocessing
import time
from multiprocessing.connection import Connection

import pytest

from bench.players import PlayerFailed, Players
from overlay.errors import UsageError


def echo(pipe: Connection, greeting: str) -> None:
    pipe.send(greeting)
    while (order := pipe.recv()) is not None:
        pipe.send(order)


def broken(pipe: Connection) -> None:
    raise ValueError("no such thing")


def mistaken(pipe: Connection) -> None:
    raise UsageError("that cannot work")


def deaf(pipe: Connection) -> None:
    time.sleep(3600)


def test_a_player_answers_and_ends() -> None:
    with Players() as players:
        player = players.start(echo, "hello")
        assert player.answer() == "hello"
        player.tell(5)
        assert player.answer() == 5
        assert player.resident_bytes() > 1 << 20
    assert multiprocessing.active_children() == []
    with pytest.raises(PlayerFailed, match="has ended"):
        player.tell(6)


def test_what_fails_in_a_role_is_told_with_its_text() -> None:
    with Players() as players:
        with pytest.raises(
            PlayerFailed, match=r"\(mistaken\) failed: UsageError: that cannot work"
        ):
            players.start(mistaken).answer()
        with pytest.raises(PlayerFailed, match="ValueError: no such thing"):
            players.start(broken).answer()


def test_who_falls_silent_fails_and_is_killed() -> None:
    with pytest.raises(PlayerFailed, match=r"did not answer within 0.1 s"), Players() as players:
        players.start(deaf).answer(0.1)
    assert multiprocessing.active_children() == []


def test_a_stopped_player_is_silent_until_it_goes_on() -> None:
    with Players() as players:
        player = players.start(echo, "hello")
        player.answer()
        player.stop()
        player.tell("are you there?")
        with pytest.raises(PlayerFailed, match="did not answer"):
            player.answer(0.2)
        player.go_on()
        assert player.answer() == "are you there?"


def test_a_killed_player_has_ended() -> None:
    with Players() as players:
        player = players.start(echo, "hello")
        player.answer()
        player.kill()
        with pytest.raises(PlayerFailed, match="has ended"):
            player.answer()
