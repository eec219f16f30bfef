"""First participant: of those who hold a message, the one that sends it to a participant that lacks it.

The paper (DACE, section 6.2.2 and appendix 1, lines 8 to 13) takes the holder with the lowest id that has
an open channel to the receiver. A publisher sends to all its neighbours at once (lines 25 to 30); holders
with lower ids, which cannot know yet who else received the message, would then all send it once more. So
here the *publisher* comes first wherever it has an open channel to the receiver, and the lowest id only
where it has not. While a message is young, everybody with an open channel to the publisher is taken for a
holder: they receive it just now. In a stable phase exactly one participant sends a message to each other
one.
"""

from __future__ import annotations

from overlay.contact import PeerId
from pubsub.topic_broadcast.held_messages import Held
from pubsub.topic_broadcast.state import BroadcastState


def publisher_reaches(state: BroadcastState, held: Held, receiver: PeerId) -> bool:
    """Whether the publisher runs in the life in which it published, and can send it there itself."""
    item, membership = held.item, state.membership
    entry = membership.participants.get(item.publisher)
    return (
        entry is not None
        and entry.life == item.life
        and membership.is_open(item.publisher, receiver)
    )


def is_first(state: BroadcastState, held: Held, receiver: PeerId, young: bool) -> bool:
    """Whether this participant is the one to send a message to `receiver`, which it can talk to."""
    item, me = held.item, state.me
    if item.publisher == me:
        return True
    if publisher_reaches(state, held, receiver):
        return False
    membership = state.membership
    payload_needed = item.is_for(receiver)
    for peer in sorted(membership.participants):
        if peer >= me:
            break
        if payload_needed and not item.is_for(peer):
            continue
        if not membership.is_open(peer, receiver):
            continue
        if _holds(state, held, peer) or (young and membership.is_open(item.publisher, peer)):
            return False
    return True


def _holds(state: BroadcastState, held: Held, peer: PeerId) -> bool:
    item = held.item
    row = state.acknowledged.rows.get(peer)
    return peer in held.holders or (row is not None and row.holds(item.source, item.number))
