"""What members of one community say to each other; the topic comes first, so that a node can route it."""

from __future__ import annotations

from overlay.contact import Contact
from overlay.wire import message


@message(0x30)
class ScampSubscription:
    """A member's wish to be held in other members' views; it travels inside other messages."""

    subscriber: Contact
    term: int
    """Tells one subscription of a member from its next; 32 random bits."""
    lease: float
    """Seconds from now after which the members that hold the subscription let go of it."""


@message(0x31)
class ScampSubscribe:
    """A subscriber asks any member to have the subscriber held."""

    topic: str
    subscription: ScampSubscription
    copies: int | None
    """Members that shall hold the subscription; None for a newcomer, for whom the contact decides."""
    indirect: bool
    """Whether the receiver looks for a contact chosen near-uniformly, or is the contact itself."""


@message(0x32)
class SubscriptionWalk:
    """One step of the walk that chooses a contact."""

    topic: str
    subscription: ScampSubscription
    copies: int | None
    steps: int
    """Steps that are left."""
    degree: int
    """Neighbours of the member that proposes this step."""
    refused: bool
    """The proposed member sends the walk back: it stays where it was for this step."""


@message(0x33)
class Forward:
    """One copy of a subscription, looking for a member that keeps it."""

    topic: str
    subscription: ScampSubscription
    hops: int
    """Times that it may still be passed on."""


@message(0x34)
class Welcome:
    """From the contact to the subscriber: here I am for your view; `copies` of you are on their way."""

    topic: str
    contact: ScampSubscription
    lease: float
    """The lease that the copies carry, in seconds."""
    copies: int
    census: bytes


@message(0x35)
class Heartbeat:
    """You are in my view, and will hear of me again within about `period` seconds."""

    topic: str
    term: int
    """The term of the subscription that put you there."""
    period: float
    echo: bool
    """Whether an `Echo` is wanted."""
    census: bytes


@message(0x36)
class Echo:
    """I am alive and a member; `hint` is somebody in my view, for a vacancy in yours."""

    topic: str
    hint: ScampSubscription | None
    census: bytes
    light: bool
    """I am a light member: ask me seldom."""


@message(0x37)
class Release:
    """You are no longer in my view."""

    topic: str


@message(0x39)
class Spare:
    """Let go of me: more members hold me than need to."""

    topic: str


@message(0x38)
class ScampUnsubscribe:
    """I leave: forget me, and hold `replacement`, when there is one, in my place."""

    topic: str
    replacement: ScampSubscription | None
