"""The properties of the paper's sections 3.1 and 3.2, checked over what happened in a theatre.

Liveness ("eventually") is checked at the end of a run that was left in peace for long enough. Each checker
raises `Violated` with what it saw.
"""

from __future__ import annotations

from collections.abc import Iterator

from overlay.contact import PeerId
from pubsub.distributors.protocol.subscription import SourceMessage
from tests.pubsub.distributors.theatre import (
    DistributorActor,
    MessageId,
    SubscriberActor,
    Theatre,
)


class Violated(AssertionError):
    """A property does not hold."""


def check_all(theatre: Theatre) -> None:
    for check in CHECKS:
        check(theatre)


def _require(holds: bool, *what: object) -> None:
    if not holds:
        raise Violated(" ".join(map(str, what)))


# Section 3.1.


def views_are_totally_ordered(theatre: Theatre) -> None:
    """No two views of a group have one number, and each distributor goes through them in order."""
    agreed: dict[tuple[object, int], object] = {}
    for one in (*theatre.distributors, *theatre.former):
        latest: dict[object, int] = {}
        for _, view in one.views:
            if not view:
                continue
            me = one.core.membership.me
            _require(view.has(me.id, me.run), me, "installed a view without itself", view)
            members = agreed.setdefault((view.group, view.number), view.members)
            _require(members == view.members, "two views", view.number, members, view.members)
            _require(view.number > latest.get(view.group, 0), one.contact, "went back to", view)
            latest[view.group] = view.number


def failures_leave_the_view(theatre: Theatre) -> None:
    for one in theatre.up(theatre.distributors):
        view = one.core.view
        for member in view.members if view else ():
            _require(theatre.is_up(member.contact), one.contact, "still has in its view", member)


def joins_enter_the_view(theatre: Theatre) -> None:
    up = theatre.up(theatre.distributors)
    for one in up:
        for other in up:
            view = one.core.view
            seen = other.contact.id in view
            _require(seen, one.contact, "does not have in its view", other.contact)


def suspicion_is_reciprocal(theatre: Theatre) -> None:
    """Whom a subscriber does not have as its primary does not have it as a subscriber, and vice versa."""
    for subscriber in theatre.subscribers:
        if not theatre.is_up(subscriber.contact) or subscriber.unsubscribed is not None:
            continue
        primary = subscriber.core.keeper.primary
        holders = [one.contact.id for one in _holders(theatre, subscriber)]
        expected = [] if primary is None else [primary.id]
        _require(holders == expected, subscriber.contact, "of", primary, "is held by", holders)


def crashed_subscribers_leave_the_view(theatre: Theatre) -> None:
    for subscriber in theatre.subscribers:
        if not theatre.is_up(subscriber.contact):
            held = _holders(theatre, subscriber)
            _require(not held, "crashed", subscriber.contact, "is still held")


# Section 3.2.


def publications_reach_a_distributor(theatre: Theatre) -> None:
    for publisher in theatre.publishers:
        if theatre.is_up(publisher.contact):
            core = publisher.core
            _require(core.received == core.last, publisher.contact, core.received, "<", core.last)
            _require(core.stable == core.last, publisher.contact, core.stable, "not stable")
    for publisher in theatre.publishers:
        core = publisher.core
        kept = theatre.is_up(publisher.contact)
        for number in range(1, core.received + 1 if kept else 0):
            message = (core.source, number)
            held = any(message in one.taken for one in theatre.up(theatre.distributors))
            _require(held, "acknowledged and lost:", _name(message))


def what_one_correct_distributor_has_reaches_its_view(theatre: Theatre) -> None:
    """Those that the view's agreement left out since the message was first taken count as down, and those
    that came later need not have it."""
    up = {one.contact.id: one for one in theatre.up(theatre.distributors)}
    left_out = {
        peer: max([time for time, view in one.views if not view], default=-1.0)
        for peer, one in up.items()
    }
    came = {peer: one.views[0][0] for peer, one in up.items() if one.views}
    first_taken: dict[MessageId, float] = {}
    for one in theatre.distributors:
        for message, time in one.taken.items():
            first_taken[message] = min(time, first_taken.get(message, time))
    for one in up.values():
        for message, view in one.taken_in.items():
            for member in view.members if view else ():
                other = up.get(member.id)
                _require(
                    other is None
                    or message in other.taken
                    or max(left_out[member.id], came[member.id]) >= first_taken[message],
                    member,
                    "never got",
                    _name(message),
                    "of",
                    one.contact,
                )


def distributors_keep_each_sources_order(theatre: Theatre) -> None:
    for one in theatre.distributors:
        for service in one.core.services.values():
            log = service.log
            newest: dict[bytes, int] = {}
            for place in range(log.first, log.last + 1):
                piece = log.at(place)
                if piece.number == 0:
                    before = newest.get(piece.source, 0)
                    _require(piece.first > before, one.contact, piece.first, "after", before)
                    newest[piece.source] = piece.last


def subscribers_keep_order_and_report_every_gap(theatre: Theatre) -> None:
    for subscriber in theatre.subscribers:
        newest: dict[bytes, int] = {}
        newest.update(subscriber.begins)
        for one in subscriber.log:
            first = one.sequence if isinstance(one, SourceMessage) else one.first
            last = one.sequence if isinstance(one, SourceMessage) else one.last
            before = newest.get(one.source, 0)
            _require(first == before + 1, subscriber.contact, "got after", before, one)
            _require(first <= last, subscriber.contact, "an empty gap", one)
            newest[one.source] = last


def gap_semantics(theatre: Theatre) -> None:
    """What a distributor that stays up took while it had a subscriber, that subscriber delivers, unless the
    subscriber left it; what it misses then it is told."""
    for one in theatre.up(theatre.distributors):
        for subscriber, message in _owed(theatre, one):
            missed = subscriber.core.keeper.changes and message in _reported(subscriber)
            _require(
                message in _delivered(subscriber) or bool(missed),
                subscriber.contact,
                "never got",
                _name(message),
                "of",
                one.contact,
            )


def no_gap_semantics(theatre: Theatre) -> None:
    """The same even if that distributor crashes, unless the message is lost to every distributor."""
    survivors = theatre.up(theatre.distributors)
    known = {message for one in survivors for message in one.taken}
    for one in theatre.distributors:
        for subscriber, message in _owed(theatre, one):
            if subscriber.core.no_gap and message in known:
                _require(
                    message in _delivered(subscriber),
                    subscriber.contact,
                    "lacks",
                    _name(message),
                    "of the crashed",
                    one.contact,
                )


def gaps_are_for_those_who_accept_them(theatre: Theatre) -> None:
    for subscriber in theatre.subscribers:
        known = {m for one in theatre.up(theatre.distributors) for m in one.taken}
        for gap in subscriber.gaps if subscriber.core.no_gap else ():
            for number in range(gap.first, gap.last + 1):
                held = (gap.source, number) in known
                _require(not held, subscriber.contact, "was told of a gap", gap)


def unsubscribed_means_gone(theatre: Theatre) -> None:
    for subscriber in theatre.subscribers:
        if subscriber.unsubscribed is not None:
            held = _holders(theatre, subscriber)
            _require(not held, "unsubscribed", subscriber.contact, "is still held")


def _owed(
    theatre: Theatre, distributor: DistributorActor
) -> Iterator[tuple[SubscriberActor, MessageId]]:
    """Messages that a distributor took while it had a subscriber that still is one."""
    subscribers: dict[bytes, SubscriberActor] = {
        one.contact.id: one
        for one in theatre.subscribers
        if theatre.is_up(one.contact) and not one.core._unsubscribing and one.unsubscribed is None
    }
    for message, held in distributor.taken_for.items():
        for peer in held:
            subscriber = subscribers.get(peer)
            if subscriber is not None and message[1] > subscriber.begins.get(message[0], 0):
                yield subscriber, message


def _holders(theatre: Theatre, subscriber: SubscriberActor) -> list[DistributorActor]:
    """The distributors that have a subscriber in their view."""
    peer: PeerId = subscriber.contact.id
    return [
        one
        for one in theatre.up(theatre.distributors)
        if any(peer in service.fanout.subscribers for service in one.core.services.values())
    ]


def _delivered(subscriber: SubscriberActor) -> set[MessageId]:
    return set(subscriber.delivered)


def _reported(subscriber: SubscriberActor) -> set[MessageId]:
    return {
        (gap.source, number) for gap in subscriber.gaps for number in range(gap.first, gap.last + 1)
    }


def _name(message: MessageId) -> str:
    return f"{message[0][:4].hex()}/{message[1]}"


CHECKS = [
    views_are_totally_ordered,
    failures_leave_the_view,
    joins_enter_the_view,
    suspicion_is_reciprocal,
    crashed_subscribers_leave_the_view,
    publications_reach_a_distributor,
    what_one_correct_distributor_has_reaches_its_view,
    distributors_keep_each_sources_order,
    subscribers_keep_order_and_report_every_gap,
    gap_semantics,
    no_gap_semantics,
    gaps_are_for_those_who_accept_them,
    unsubscribed_means_gone,
]
