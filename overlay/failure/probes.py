"""Probes: are you there? A short question and answer, without a channel.

    PROBE  flags watchers    are you there?
    ALIVE  flags watchers    I am
    ASK    contact           ask this peer for me (the indirect probe of SWIM: Das, Gupta, Motivala, DSN 2002)
    SAW    id                this peer, which you had me ask, is there

A helper remembers for whom it asks, for a few seconds and within a bound. What it says counts only for the
peer that it was asked about, so that nobody else can keep a crashed peer alive.

A peer names some of the others that watch it to each one that does. When it falls silent, they are the ones
that ask each other for help: so a crash that one of them notices is soon noticed by all, each by its own
question, and by nobody else.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from overlay.bounded import remember
from overlay.contact import ID_BYTES, Contact, PeerId
from overlay.errors import UsageError

PROBE, ALIVE, ASK, SAW = range(4)
LIGHT, ALARM = 1, 2
"""Flags: I am a light member, ask me seldom; several that I watch have crashed, look at yours."""

HELP_SECONDS = 10.0
"""How long a helper waits for the answer, and how long it is listened to."""

MOST_HELPED = 256
"""Questions for others that a helper remembers; the oldest go."""

NAMED = 3
"""Others that watch a peer, and that it names to one that does."""

MOST_WATCHERS = 64
WATCHER_SECONDS = 300.0
"""Of those that watch this node, so many are remembered, and for as long after each last said so."""

Send = Callable[[Contact, bytes], None]


class ProbeListener(Protocol):
    """What is told of what probes bring."""

    def heard(self, peer: PeerId) -> None:
        """A peer gave a sign of life."""
        ...

    def answered(self, peer: PeerId, light: bool) -> None:
        """A peer answered a probe of this node, and says whether it is a light member."""
        ...

    def named(self, peer: PeerId, watchers: tuple[Contact, ...]) -> None:
        """A peer names others that watch it."""
        ...

    def doubted(self, peer: PeerId) -> None:
        """A peer does not answer somebody else, and was asked by this node just now."""
        ...

    def alarmed(self) -> None:
        """Several have crashed, a peer says."""
        ...

    def is_alarmed(self) -> bool:
        """Whether several of those that this node watches have crashed just now."""
        ...

    def malformed(self) -> None:
        """Bytes came that are not a probe."""
        ...


class Probes:
    """A node's probes, and the answers to those of others. It needs datagrams, which may be lost."""

    def __init__(
        self,
        send: Send,
        now: Callable[[], float],
        listener: ProbeListener,
        *,
        light: bool = False,
    ) -> None:
        """`light`: this node is a light member."""
        self._send = send
        self._now = now
        self._listener = listener
        self._light = LIGHT if light else 0
        self._watchers: dict[PeerId, tuple[Contact, float]] = {}
        """Those that watch this node, and until when that is believed; the one named longest ago first."""
        self._helped: dict[tuple[PeerId, PeerId], tuple[Contact, float]] = {}
        """By the peer that was asked and the one that wanted to know: who that is, and until when."""
        self._helpers: dict[tuple[PeerId, PeerId], float] = {}
        """By a peer and one that asks it for this node: until when what it says counts."""

    def ask(self, peer: Contact) -> None:
        self._say(PROBE, peer)

    def ask_through(self, peer: Contact, helpers: Sequence[Contact]) -> None:
        """Have others ask the peer."""
        question = bytes([ASK]) + peer.packed()
        for helper in helpers:
            remember(self._helpers, (peer.id, helper.id), self._now() + HELP_SECONDS, MOST_HELPED)
            self._send(helper, question)

    def watched_by(self, watcher: Contact) -> None:
        """A peer watches this node: name it to others that do."""
        until = self._now() + WATCHER_SECONDS
        if watcher.id in self._watchers:
            self._watchers[watcher.id] = (watcher, until)
        else:
            remember(self._watchers, watcher.id, (watcher, until), MOST_WATCHERS)

    def receive(self, sender: Contact, body: bytes) -> None:
        try:
            self._take(sender, body)
        except (UsageError, IndexError):
            self._listener.malformed()
        else:
            self._listener.heard(sender.id)

    def _take(self, sender: Contact, body: bytes) -> None:
        kind = body[0]
        if kind in (PROBE, ALIVE):
            flags, named = body[1], _unpack(body[2:])
            if flags & ALARM:
                self._listener.alarmed()
            if named:
                self._listener.named(sender.id, named)
            if kind == PROBE:
                self.watched_by(sender)
                self._say(ALIVE, sender)
            else:
                self._listener.answered(sender.id, bool(flags & LIGHT))
                self._tell_helped(sender.id)
        elif kind == ASK:
            self._help(sender, Contact.unpack(body[1:]))
        elif kind == SAW and len(body) == 1 + ID_BYTES:
            peer = PeerId(body[1:])
            if self._helpers.pop((peer, sender.id), 0.0) > self._now():
                self._listener.heard(peer)
        else:
            raise UsageError("not a probe")

    def _say(self, kind: int, to: Contact) -> None:
        flags = self._light
        if self._listener.is_alarmed():
            flags |= ALARM
        others = self._others(to.id) if to.id in self._watchers else b""
        self._send(to, bytes([kind, flags]) + others)

    def _others(self, to: PeerId) -> bytes:
        """Some of those that watch this node, for another one that does; each has its turn."""
        now = self._now()
        for peer in [peer for peer, (_, until) in self._watchers.items() if until <= now]:
            del self._watchers[peer]
        named = [peer for peer in self._watchers if peer != to][:NAMED]
        packed: list[bytes] = []
        for peer in named:
            watcher = self._watchers[peer] = self._watchers.pop(peer)
            contact = watcher[0].packed()
            packed += (bytes([len(contact)]), contact)
        return b"".join(packed)

    def _help(self, sender: Contact, peer: Contact) -> None:
        remember(
            self._helped, (peer.id, sender.id), (sender, self._now() + HELP_SECONDS), MOST_HELPED
        )
        self.ask(peer)
        self._listener.doubted(peer.id)

    def _tell_helped(self, peer: PeerId) -> None:
        asked_for = [key for key in self._helped if key[0] == peer]
        for key in asked_for:
            who, until = self._helped.pop(key)
            if until > self._now():
                self._send(who, bytes([SAW]) + peer)


def _unpack(body: bytes) -> tuple[Contact, ...]:
    """Contacts, each behind its length."""
    contacts: list[Contact] = []
    while body:
        size = 1 + body[0]
        if len(contacts) == NAMED:
            raise UsageError(f"more than {NAMED} contacts")
        contacts.append(Contact.unpack(body[1:size]))
        body = body[size:]
    return tuple(contacts)
