"""What all members have is stable, whatever each of them tells in whatever order."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub.reliable.stability import Acknowledged
from tests.pubsub.reliable.mutants import assert_noticed

MEMBERS, SOURCES = "xyz", "ab"
Step = tuple[str, str, str, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["tell", "raise", "forget", "leave"]),
        st.sampled_from(MEMBERS),
        st.sampled_from(SOURCES),
        st.integers(0, 9),
    ),
    max_size=40,
)


def play(steps: list[Step]) -> None:
    marks: Acknowledged[str, str] = Acknowledged()
    plain: dict[tuple[str, str], int] = {}
    for action, member, source, number in steps:
        if action == "tell":
            marks.tell(member, source, number)
            plain[member, source] = number
        elif action == "raise":
            marks.raise_to(member, source, number)
            if number > plain.get((member, source), 0):
                plain[member, source] = number
        elif action == "forget":
            marks.forget(source)
            plain = {key: value for key, value in plain.items() if key[1] != source}
        else:
            told = marks.leave(member)
            assert told == {key[1]: value for key, value in plain.items() if key[0] == member}
            plain = {key: value for key, value in plain.items() if key[0] != member}
        assert len(marks) == len(plain)
        for one in SOURCES:
            for members in ("", "x", "xy", "xyz"):
                numbers = [plain.get((name, one), 0) for name in members]
                assert marks.stable(one, members, 5) == min([5, *numbers])
                assert marks.highest(one, members) == max(numbers, default=0)


@settings(deadline=None)
@given(STEPS)
def test_stable_is_what_all_members_have(steps: list[Step]) -> None:
    play(steps)


def forgets_the_silent(patch: pytest.MonkeyPatch) -> None:
    def stable(self: Any, source: str, members: str, mine: int) -> int:
        told = [self.of(one, source) for one in members if self.of(one, source)]
        return min([mine, *told])

    patch.setattr(Acknowledged, "stable", stable)


def never_goes_back(patch: pytest.MonkeyPatch) -> None:
    tell = Acknowledged.tell

    def upward(self: Any, member: str, source: str, number: int) -> None:
        tell(self, member, source, max(number, self.of(member, source)))

    patch.setattr(Acknowledged, "tell", upward)


def believes_what_is_old(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Acknowledged, "raise_to", Acknowledged.tell)


def remembers_who_left(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Acknowledged, "leave", lambda self, one: dict(self._marks.get(one, {})))


def remembers_sources(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Acknowledged, "forget", lambda self, source: None)


MUTANTS = [
    forgets_the_silent,
    never_goes_back,
    believes_what_is_old,
    remembers_who_left,
    remembers_sources,
]


@pytest.mark.parametrize("mutant", MUTANTS)
def test_a_broken_one_is_noticed(
    mutant: Callable[[pytest.MonkeyPatch], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    mutant(monkeypatch)

    def some_steps(chance: random.Random) -> None:
        kinds = ["tell", "raise", "forget", "leave"]
        play(
            [
                (
                    chance.choice(kinds),
                    chance.choice(MEMBERS),
                    chance.choice(SOURCES),
                    chance.randrange(9),
                )
                for _ in range(30)
            ]
        )

    assert_noticed(some_steps)
