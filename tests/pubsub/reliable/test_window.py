"""The sender's window loses nothing, sends in order, and stays within its bounds."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub.reliable.window import Window
from tests.pubsub.reliable.mutants import assert_noticed

MOST, MOST_BYTES = 5, 12
BATCH, BATCH_BYTES = 3, 8


class Receiver:
    """Has what came in order; a new one has what the sender has released."""

    def __init__(self, released: int) -> None:
        self.has = released

    def receive(self, first: int, count: int) -> None:
        assert first <= self.has + 1, "sent out of order"
        self.has = max(self.has, first + count - 1)


def play(chance: random.Random) -> None:
    """A sender, a receiver that may lose batches and confirmations, and changes of the receiver."""
    window: Window[bytes] = Window(MOST, MOST_BYTES, len)
    items: list[bytes] = []
    receiver = Receiver(0)
    for _ in range(60):
        action = chance.choice(
            ["add", "add", "send", "send", "confirm", "release", "again", "over"]
        )
        if action == "add":
            items.append(bytes(chance.randrange(1, 20)))
            assert window.add(items[-1]) == len(items)
        elif action == "send":
            send(window, items, receiver)
        elif action == "confirm":
            before = window.confirmed
            number = chance.choice([receiver.has, max(0, receiver.has - 1)])
            assert window.confirm(number) == (number > before)
            assert window.confirmed == max(before, number)
        elif action == "release":
            number = chance.randint(0, len(items) + 2)
            before = window.released
            window.release(number)
            assert window.released == max(before, min(number, window.confirmed))
        elif action == "again":
            window.send_again()
            assert window.sent == window.confirmed
        else:
            receiver = Receiver(window.released)
            window.start_over()
        check(window, items)
    finish(window, items, receiver)


def send(window: Window[bytes], items: list[bytes], receiver: Receiver) -> None:
    first = window.sent + 1
    batch = window.next_batch(BATCH, BATCH_BYTES)
    assert batch == items[first - 1 : first - 1 + len(batch)]
    assert len(batch) <= BATCH
    assert sum(map(len, batch)) <= BATCH_BYTES or len(batch) == 1
    assert window.sent == first + len(batch) - 1
    assert window.sent - window.confirmed <= MOST
    flying = items[window.confirmed : window.sent]
    assert not batch or sum(map(len, flying)) <= MOST_BYTES or len(flying) == 1
    if not batch:
        assert window.sent == window.last or window.sent > window.confirmed, "it never sends again"
    if batch:
        receiver.receive(first, len(batch))


def check(window: Window[bytes], items: list[bytes]) -> None:
    assert window.released <= window.confirmed <= window.sent <= window.last == len(items)
    kept = items[window.released :]
    assert [window[window.released + 1 + place] for place in range(len(kept))] == kept
    assert len(window) == len(kept)
    assert window.bytes == sum(map(len, kept))


def finish(window: Window[bytes], items: list[bytes], receiver: Receiver) -> None:
    """With a receiver that answers, everything arrives."""
    for _ in range(3 * len(items) + 3):
        send(window, items, receiver)
        window.confirm(receiver.has)
    assert window.confirmed == len(items)
    window.release(len(items))
    assert len(window) == window.bytes == 0


@settings(deadline=None, max_examples=80)
@given(st.integers(0, 1 << 40))
def test_nothing_is_lost_and_the_bounds_hold(seed: int) -> None:
    play(random.Random(seed))


def knows_no_bound(patch: pytest.MonkeyPatch) -> None:
    original = Window.__init__
    patch.setattr(Window, "__init__", lambda self, most, size, of: original(self, 10**6, 10**9, of))


def counts_no_bytes_back(patch: pytest.MonkeyPatch) -> None:
    def release(self: Any, number: int) -> bool:
        for one in range(self.released + 1, min(number, self.confirmed) + 1):
            self._kept.pop(one)
            self.released = one
        return True

    patch.setattr(Window, "release", release)


def releases_what_is_not_confirmed(patch: pytest.MonkeyPatch) -> None:
    release = Window.release

    def hasty(self: Any, number: int) -> bool:
        self.confirm(number)
        return release(self, number)

    patch.setattr(Window, "release", hasty)


def waits_for_a_large_item_to_fit(patch: pytest.MonkeyPatch) -> None:
    next_batch = Window.next_batch

    def wait(self: Any, most: int, most_bytes: int) -> list[bytes]:
        if self.sent < self.last and len(self._kept[self.sent + 1]) > self._most_bytes:
            return []
        return next_batch(self, most, most_bytes)

    patch.setattr(Window, "next_batch", wait)


def takes_a_new_receiver_for_the_old_one(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Window, "start_over", lambda self: self.send_again())


def skips_when_it_sends_again(patch: pytest.MonkeyPatch) -> None:
    def again(self: Any) -> None:
        self.sent = min(self.confirmed + 1, self.sent)

    patch.setattr(Window, "send_again", again)


MUTANTS = [
    knows_no_bound,
    counts_no_bytes_back,
    releases_what_is_not_confirmed,
    waits_for_a_large_item_to_fit,
    takes_a_new_receiver_for_the_old_one,
    skips_when_it_sends_again,
]


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_window_is_noticed(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)
    assert_noticed(play, 100)


def test_a_window_may_begin_behind_any_number() -> None:
    window: Window[bytes] = Window(MOST, MOST_BYTES, len)
    window.begin(41)
    assert window.add(b"x") == 42
    assert window.next_batch(3, 8) == [b"x"]
    assert not window.confirm(41)
    assert window.confirm(42)
    assert window.release(42)
    window.start_over()
    assert (len(window), window.sent, window.last) == (0, 42, 42)
