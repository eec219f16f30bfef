"""Probes: are you there? A question and an answer of one byte each, without a channel.

    PROBE               are you there?
    ALIVE               I am
    LIGHT               I am, and a light member: ask me seldom
    ASK    contact      ask this peer for me (the indirect probe of SWIM: Das, Gupta, Motivala, DSN 2002)
    SAW    id           this peer, which you had me ask, is there

A helper remembers for whom it asks, for a few seconds and within a bound. What it says counts only for the
peer that it was asked about, so that nobody else can keep a crashed peer alive.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from overlay.bounded import remember
from overlay.contact import ID_BYTES, Contact, PeerId
from overlay.errors import UsageError

PROBE, ALIVE, ASK, SAW, LIGHT = range(5)
_PROBE = bytes([PROBE])

HELP_SECONDS = 10.0
"""How long a helper waits for the answer, and how long it is listened to."""

MOST_HELPED = 256
"""Questions for others that a helper remembers; the oldest go."""

Send = Callable[[Contact, bytes], None]


class Probes:
    """A node's probes, and the answers to those of others. It needs datagrams, which may be lost."""

    def __init__(
        self,
        send: Send,
        now: Callable[[], float],
        heard: Callable[[PeerId], None],
        note_light: Callable[[PeerId, bool], None],
        malformed: Callable[[], None],
        *,
        light: bool = False,
    ) -> None:
        """`heard` is told of a peer that gave a sign of life, `note_light` whether one that answered is a
        light member, `malformed` of bytes that are not a probe. `light`: this node is a light member."""
        self._send = send
        self._now = now
        self._heard = heard
        self._note_light = note_light
        self._malformed = malformed
        self._answer = bytes([LIGHT if light else ALIVE])
        self._helped: dict[tuple[PeerId, PeerId], tuple[Contact, float]] = {}
        """By the peer that was asked and the one that wanted to know: who that is, and until when."""
        self._helpers: dict[tuple[PeerId, PeerId], float] = {}
        """By a peer and one that asks it for this node: until when what it says counts."""

    def ask(self, peer: Contact) -> None:
        self._send(peer, _PROBE)

    def ask_through(self, peer: Contact, helpers: Sequence[Contact]) -> None:
        """Have others ask the peer."""
        question = bytes([ASK]) + peer.packed()
        for helper in helpers:
            remember(self._helpers, (peer.id, helper.id), self._now() + HELP_SECONDS, MOST_HELPED)
            self._send(helper, question)

    def receive(self, sender: Contact, body: bytes) -> None:
        kind = body[0] if body else None
        if kind == PROBE and len(body) == 1:
            self._send(sender, self._answer)
        elif kind in (ALIVE, LIGHT) and len(body) == 1:
            self._note_light(sender.id, kind == LIGHT)
            self._answered(sender.id)
        elif kind == ASK:
            self._help(sender, body[1:])
        elif kind == SAW and len(body) == 1 + ID_BYTES:
            peer = PeerId(body[1:])
            if self._helpers.pop((peer, sender.id), 0.0) > self._now():
                self._heard(peer)
        else:
            self._malformed()
            return
        self._heard(sender.id)

    def _help(self, sender: Contact, packed: bytes) -> None:
        try:
            peer = Contact.unpack(packed)
        except UsageError:
            self._malformed()
            return
        remember(
            self._helped, (peer.id, sender.id), (sender, self._now() + HELP_SECONDS), MOST_HELPED
        )
        self._send(peer, _PROBE)

    def _answered(self, peer: PeerId) -> None:
        asked_for = [key for key in self._helped if key[0] == peer]
        for key in asked_for:
            who, until = self._helped.pop(key)
            if until > self._now():
                self._send(who, bytes([SAW]) + peer)
