"""All properties of a run together, by name."""

from __future__ import annotations

from collections.abc import Callable

from tests.pubsub.topics import properties as broadcast
from tests.pubsub.topics import view_properties as membership
from tests.pubsub.topics.schedules import Play
from tests.pubsub.topics.troupe import Troupe

Check = Callable[[Troupe], list[str]]

ALWAYS: dict[str, Check] = {
    "validity": broadcast.validity,
    "uniform integrity": broadcast.uniform_integrity,
    "no gaps": broadcast.no_gaps,
    "TM1": membership.stable_view_agreement,
    "TM2": membership.stable_view_accuracy,
    "TM3": membership.stable_view_completeness,
    "TM4": membership.stable_view_integrity,
}

AFTER_THE_LAST_HEAL: dict[str, Check] = {
    "agreement": broadcast.agreement,
    "nothing held": broadcast.nothing_held,
}


def violations(seed: int, *, heal: bool, **options: bool) -> dict[str, list[str]]:
    """Play a schedule, and say what was wrong with it, by property."""
    troupe = Play(seed, **options).run(heal=heal)
    checks = {**ALWAYS, **AFTER_THE_LAST_HEAL} if heal else ALWAYS
    assert troupe.too_large == []
    found = {name: check(troupe) for name, check in checks.items()}
    return {name: wrong for name, wrong in found.items() if wrong}
