"""Validity, agreement and uniform integrity of Topic Reliable Broadcast, checked over a history.

Each check returns what is wrong, in words. A participant is correct if it runs at the end and has not lost
its memory on the way: it never crashed, or has a log.
"""

from __future__ import annotations

from overlay.contact import PeerId
from pubsub.reliable.numbers import Numbers
from pubsub.reliable.runs import source_of
from tests.pubsub.topics.troupe import WRITE_SECONDS, MessageId, Troupe

LAST_MOMENTS = 1.0
"""Seconds before a crash in which a delivery may not have reached the log."""


def correct(troupe: Troupe) -> list[int]:
    forgetful = {o.who for o in troupe.history if o.what == "crashed" and o.who not in troupe.logs}
    return [actor.number for actor in troupe.alive() if actor.number not in forgetful]


def delivered_by(troupe: Troupe, who: int) -> dict[MessageId, None]:
    return {o.of: None for o in troupe.history if o.what == "delivered" and o.who == who}


def validity(troupe: Troupe) -> list[str]:
    """What a correct publisher broadcast, it delivered itself; with a log, unless it crashed before its disk
    had the message, when `broadcast` had not returned."""
    wrong = []
    crashes = {o.start: o.time for o in troupe.history if o.what == "crashed"}
    ids = {contact.id: number for number, contact in enumerate(troupe.contacts)}
    delivered = {who: delivered_by(troupe, who) for who in correct(troupe)}
    for o in troupe.history:
        if o.what != "broadcast" or crashes.get(o.start, o.time + 1) - o.time < 3 * WRITE_SECONDS:
            continue
        if o.who in delivered and o.of not in delivered[o.who]:
            wrong.append(f"{o.who} broadcast {_short(o.of, ids)} and did not deliver it")
    return wrong


def agreement(troupe: Troupe) -> list[str]:
    """What one correct participant delivered, all did that subscribed before."""
    wrong = []
    ids = {contact.id: number for number, contact in enumerate(troupe.contacts)}
    numbers = correct(troupe)
    anybody = {m: who for who in numbers for m in delivered_by(troupe, who)}
    for who in numbers:
        before = _before(troupe, who)
        own = delivered_by(troupe, who)
        for message, other in anybody.items():
            publisher, run, number = message
            needless = before.get(source_of(publisher, run))
            if message not in own and (needless is None or number not in needless):
                wrong.append(f"{other} delivered {_short(message, ids)} and {who} did not")
    return wrong


def uniform_integrity(troupe: Troupe) -> list[str]:
    """Each at most once, and nothing that was not broadcast before."""
    wrong = []
    ids = {contact.id: number for number, contact in enumerate(troupe.contacts)}
    published: dict[MessageId, None] = {}
    seen: dict[tuple[int, MessageId], tuple[int, float]] = {}
    crashes = {o.start: o.time for o in troupe.history if o.what == "crashed"}
    for o in troupe.history:
        if o.what == "broadcast":
            published[o.of] = None
        elif o.what == "delivered":
            if o.of not in published:
                wrong.append(f"{o.who} delivered {_short(o.of, ids)}, which nobody broadcast")
            start, time = seen.get((o.who, o.of), (None, 0.0))
            if start == o.start:
                wrong.append(f"{o.who} delivered {_short(o.of, ids)} twice")
            elif start is not None and o.who in troupe.logs:
                assert isinstance(start, int)
                if crashes[start] - time > LAST_MOMENTS:
                    wrong.append(f"{o.who} delivered {_short(o.of, ids)} again after a restart")
            seen[o.who, o.of] = (o.start, o.time)
    return wrong


def no_gaps(troupe: Troupe) -> list[str]:
    """No correct participant was told that it missed something."""
    numbers = correct(troupe)
    return [f"{o.who} has {o.of}" for o in troupe.history if o.what == "gap" and o.who in numbers]


def nothing_held(troupe: Troupe) -> list[str]:
    """Everybody has everything, so nobody holds anything."""
    return [f"{a.number} holds {a.core.held}" for a in troupe.alive() if a.core.held]


def fifo(troupe: Troupe) -> list[str]:
    """Each participant delivers each publisher's messages in their order."""
    wrong = []
    last: dict[tuple[int, PeerId, int], int] = {}
    for o in troupe.history:
        if o.what == "delivered":
            publisher, run, number = o.of
            if number <= last.get((o.start, publisher, run), 0):
                wrong.append(f"{o.who} delivered number {number} late")
            last[o.start, publisher, run] = number
    return wrong


def _before(troupe: Troupe, who: int) -> dict[bytes, Numbers]:
    """What a participant did not need when it subscribed for the first time."""
    first = next(o for o in troupe.history if o.what == "joined" and o.who == who)
    _, before = first.of
    return {source: Numbers(mark, ranges) for source, mark, ranges in before}


def _short(message: MessageId, ids: dict[PeerId, int]) -> str:
    publisher, _, number = message
    return f"message {number} of {ids[publisher]}"
