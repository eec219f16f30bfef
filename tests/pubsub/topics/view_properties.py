"""TM1 to TM4 of Topic Membership, checked over a history (see `pubsub.topics.views`)."""

from __future__ import annotations

from overlay.contact import PeerId
from pubsub.topics.views import StableView
from tests.pubsub.topics.troupe import Occurrence, Troupe


def stable_view_agreement(troupe: Troupe) -> list[str]:
    """TM1: who reaches v1 at all does so before another member of both goes on from v1 to v2."""
    wrong = []
    reached: dict[tuple[bytes, PeerId, int], float] = {}
    last: dict[int, Occurrence] = {}
    steps: list[tuple[Occurrence, Occurrence]] = []
    for o in troupe.history:
        if o.what == "stable":
            view: StableView = o.of
            me = troupe.contacts[o.who].id
            if me in view.members:
                boot = view.boots[view.members.index(me)]
                reached[view.id, me, boot] = o.time
            if o.start in last:
                steps.append((last[o.start], o))
            last[o.start] = o
    for first, second in steps:
        v1, v2 = first.of, second.of
        both = set(zip(v2.members, v2.boots, strict=True))
        for member, boot in zip(v1.members, v1.boots, strict=True):
            time = reached.get((v1.id, member, boot))
            if (member, boot) in both and time is not None and time > second.time:
                wrong.append(
                    f"{first.who} went on at {second.time:.3f}, another reached it at {time:.3f}"
                )
    return wrong


def stable_view_accuracy(troupe: Troupe) -> list[str]:
    """TM2: those who can communicate have the same stable view in the end."""
    wrong = []
    for actor in troupe.alive():
        membership = actor.core.membership
        if not membership.is_stable:
            wrong.append(f"{actor.number} is not stable")
        for other in troupe.alive():
            same = membership.stable_view == other.core.membership.stable_view
            if troupe.together(actor.number, other.number) and not same:
                wrong.append(f"{actor.number} and {other.number} have different stable views")
    return wrong


def stable_view_completeness(troupe: Troupe) -> list[str]:
    """TM3: who cannot be reached is in no stable view in the end."""
    wrong = []
    running = {actor.contact.id: actor.number for actor in troupe.alive()}
    for actor in troupe.alive():
        view = actor.core.membership.stable_view
        for member in view.members if view is not None else ():
            if member not in running or not troupe.together(actor.number, running[member]):
                wrong.append(f"{actor.number} has one that it cannot reach in its stable view")
    return wrong


def stable_view_integrity(troupe: Troupe) -> list[str]:
    """TM4: who reaches a stable view is in it."""
    return [
        f"{o.who} is not in the view that it reached at {o.time:.3f}"
        for o in troupe.history
        if o.what == "stable" and troupe.contacts[o.who].id not in o.of.members
    ]
