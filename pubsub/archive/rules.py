"""In a network with an authority: whose messages archives and their clients take (see `pubsub.gate`).

Publishers and subscribers take the word of an archive only if it may archive the topic that it manages; so do
replicas among themselves. An archive serves durable subscribers that may subscribe to what they ask for, and
those who read the past if they may replay it. What is published durably is checked event by event, as any
other (`pubsub.validation`).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from overlay.wire import WireError
from pubsub.archive.hand_over import HandedOver
from pubsub.archive.protocol.dissemination import Interest
from pubsub.archive.protocol.messages import (
    AckResponse,
    Companion,
    Discover,
    EntityUpdates,
    Invoice,
    Negotiation,
    Notice,
    Offer,
    Register,
    ReplicaInfo,
    ReplicaInvoice,
    ReplicaParts,
    ReplicaSummary,
    StoredEvents,
)
from pubsub.archive.protocol.reading import AskEvents, AskLast, AskStreams, EventPage, Streams
from pubsub.gate import Rule
from pubsub.rights import Action, Holder


def _archives(peer: Holder, message: Any) -> bool:
    return peer.may(Action.ARCHIVE, message.topic)


def _is_near(peer: Holder, message: Any) -> bool:
    return peer.is_near(message.topic)


def _registers(peer: Holder, register: Register) -> bool:
    try:
        pattern = Interest.unpack(register.interest).pattern
    except WireError:
        return peer.is_near(register.topic)  # it is refused, and told why
    return peer.may(Action.SUBSCRIBE, pattern)


OF_CLIENTS: Mapping[type, Rule] = dict.fromkeys(
    (Offer, Negotiation, AckResponse, Notice, Streams, EventPage), _archives
)
"""What publishers, subscribers and readers take from archives."""

OF_ARCHIVES: Mapping[type, Rule] = {
    Discover: _is_near,
    Companion: _is_near,
    Register: _registers,
    Invoice: _is_near,
    AskStreams: _is_near,
    AskEvents: lambda peer, question: peer.may(Action.REPLAY, question.below),
    AskLast: lambda peer, question: peer.may(Action.REPLAY, question.below),
    **dict.fromkeys(
        (
            StoredEvents,
            ReplicaInvoice,
            ReplicaSummary,
            ReplicaParts,
            ReplicaInfo,
            EntityUpdates,
            HandedOver,
        ),
        _archives,
    ),
}
"""What archives take from others."""
