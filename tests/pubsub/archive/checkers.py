"""What durable delivery promises, checked on what was published, acknowledged and delivered."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass
class History:
    """Events are named by publisher, its life, and a number that counts what the application published."""

    published: dict[bytes, tuple[str, int]] = field(default_factory=dict)
    """By id: the publisher's life and the number."""
    acknowledged: dict[bytes, None] = field(default_factory=dict)
    delivered: dict[str, list[tuple[bytes, bool]]] = field(default_factory=dict)
    """By subscriber, in order over all its lives: ids, and whether it is excused that it came before: it was
    marked as doubtful, came in an earlier life, and the application keeps no position."""
    not_owed: dict[str, dict[bytes, tuple[str, int]]] = field(default_factory=dict)
    """By subscriber: what was published before its registration, where it begins with that."""


def lost(history: History, subscriber: str) -> list[bytes]:
    """Acknowledged to their publisher, owed to the subscriber, and never delivered."""
    seen = {id for id, _ in history.delivered.get(subscriber, [])}
    seen |= history.not_owed.get(subscriber, {}).keys()
    return [id for id in history.acknowledged if id not in seen]


def duplicated(history: History, subscriber: str) -> list[bytes]:
    """Delivered again without an excuse."""
    seen: set[bytes] = set()
    twice = []
    for id, excused in history.delivered.get(subscriber, []):
        if id in seen and not excused:
            twice.append(id)
        seen.add(id)
    return twice


def reordered(history: History, subscriber: str) -> list[bytes]:
    """Delivered for the first time after a later event of the same life of the publisher."""
    newest: dict[str, int] = {}
    seen: set[bytes] = set()
    late = []
    for id, _ in history.delivered.get(subscriber, []):
        if id in seen or id not in history.published:
            continue
        seen.add(id)
        life, number = history.published[id]
        if number < newest.get(life, 0):
            late.append(id)
        newest[life] = max(number, newest.get(life, 0))
    return late


def phantom(history: History, subscriber: str) -> list[bytes]:
    """Delivered and never published."""
    return [id for id, _ in history.delivered.get(subscriber, []) if id not in history.published]


CHECKS = {"lost": lost, "duplicated": duplicated, "reordered": reordered, "phantom": phantom}


def verdict(history: History, subscriber: str, *, ordered: bool) -> dict[str, list[bytes]]:
    """What is wrong with what a subscriber got, by the name of the check; empty when nothing is."""
    found = {name: check(history, subscriber) for name, check in CHECKS.items()}
    if not ordered:
        found.pop("reordered")
        found.pop("duplicated")
    return {name: ids for name, ids in found.items() if ids}
