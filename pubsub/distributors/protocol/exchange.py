"""The multicast among distributors (section 4.2.1): what reaches one correct distributor reaches all.

A message from a publisher is sent to every distributor of the view at once. Periodically each tells the
others the highest number that it has of each source; who has less, and has not got it by the next time,
asks for it. So a message spreads as long as one distributor that has it stays up, whichever process first
sent it and whatever views come and go meanwhile: nothing is flushed at a view change (figure 6), and a
message may be taken in different views by different distributors. Messages may be lost, repeated and
reordered.

Each distributor forgets silent sources by itself, when all others have everything of them. Another one may
still wait to hear that, and tells of the source again: it is answered how far the source had come here, and
the source stays forgotten. Otherwise the distributors would take forgotten sources from each other for ever.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from overlay.contact import Contact, PeerId
from overlay.context import Context
from pubsub.distributors.messages import (
    Digest,
    Recalled,
    ServiceBlock,
    SpreadBlocks,
    Want,
    pieces_of,
)
from pubsub.distributors.protocol.fanout import HEAD_BYTES
from pubsub.distributors.protocol.service import Key, Service, Stability
from pubsub.distributors.protocol.view import View

WHOLE_EVERY = 8
"""Every `WHOLE_EVERY` ticks all sources are told, not just those that changed."""

ENTRIES = 256
"""Sources in one digest."""

ASKED_AT_ONCE = 256
"""Messages that are asked for at a time."""

LAST_NUMBER = 2**62
"""Numbers of messages that are believed are not higher: one that cannot travel would keep the whole digest in
which it is from being sent."""

SPREAD_BYTES = 256 * 1024
"""Bytes of messages that are sent in answer at a time, unless one alone is larger."""


class DistributorExchange:
    """One distributor's part; `services` is shared with the rest of the distributor."""

    def __init__(
        self,
        context: Context,
        run: int,
        services: dict[str, Service],
        removed: dict[str, tuple[int, float]],
        stability: Stability,
    ) -> None:
        """`run`: this member's. `removed`: versions of services that are there no more, and since when."""
        self._context = context
        self._run = run
        self._services = services
        self._removed = removed
        self._stability = stability
        self._others: list[Contact] = []
        self._told: dict[Key, tuple[int, int, int, int]] = {}
        self._told_services: dict[str, tuple[int, bool]] = {}
        self._behind: dict[Key, int] = {}
        """Sources of which others have more, and up to which number this one had them when it was told."""
        self._ticks = 0

    def change_view(self, view: View) -> None:
        """Talk to the members of this view from now on, and tell them everything."""
        me = self._context.contact.id
        self._others = [member.contact for member in view.members if member.id != me]
        self.tell(whole=True)

    @property
    def is_behind(self) -> bool:
        """Whether somebody has more of a source than this distributor."""
        return bool(self._behind)

    def forget(self, key: Key) -> None:
        """The source is gone."""
        self._told.pop(key, None)
        self._behind.pop(key, None)
        self._stability.forget(key)

    def forget_service(self, name: str) -> None:
        """The service is gone, and all of its sources."""
        for key in [key for key in (*self._told, *self._behind) if key[0] == name]:
            self.forget(key)
        self._stability.forget_service(name)

    # Telling and asking.

    def spread(self, blocks: tuple[ServiceBlock, ...]) -> None:
        """Send what a publisher brought to every other distributor."""
        message = SpreadBlocks(blocks)
        for other in self._others:
            self._context.send(other, message)

    def tick(self) -> None:
        """Tell what has changed, and ask for what is missing since the last time."""
        self._ticks += 1
        self.tell(whole=self._ticks % WHOLE_EVERY == 0)
        for key, before in list(self._behind.items()):
            self._catch_up(key, before)

    def tell(self, whole: bool = False) -> None:
        """Tell the others what there is here."""
        if not self._others:
            return
        digests = list(self._digests(whole))
        for other in self._others:
            for digest in digests:
                self._context.send(other, digest)

    def _digests(self, whole: bool) -> Iterator[Digest]:
        now = {one.name: (one.version, one.fanout.has_no_gap) for one in self._services.values()}
        now |= {name: (version, False) for name, (version, _) in self._removed.items()}
        services = [
            (name, *told)
            for name, told in now.items()
            if whole or self._told_services.get(name) != told
        ]
        self._told_services = now
        entries = []
        for name, service in self._services.items():
            for source, numbers in service.claims().items():
                if whole or self._told.get((name, source)) != numbers:
                    self._told[name, source] = numbers
                    entries.append((name, source, *numbers))
        for at in range(0, len(services) - ENTRIES, ENTRIES):
            yield Digest(self._run, False, tuple(services[at : at + ENTRIES]), ())
        rest = tuple(services[-ENTRIES:])
        for at in range(0, len(entries) - ENTRIES, ENTRIES):
            yield Digest(self._run, False, rest, tuple(entries[at : at + ENTRIES]))
            rest = ()
        if whole or rest or entries:
            yield Digest(self._run, whole, rest, tuple(entries[-ENTRIES:]))

    def _catch_up(self, key: Key, before: int) -> None:
        """Ask for what is missing of a source, or give up on what nobody holds any more."""
        service = self._services[key[0]]
        state = service.log.source(key[1], self._context.now())
        highest = self._stability.highest(key)
        if state.high >= highest:
            del self._behind[key]
            return
        self._behind[key] = state.high
        if state.high > before:
            return  # it is coming
        following = self._stability.next_held(key, state.high)
        may_skip = self._stability.has_heard_all and not service.is_relayed
        if following > state.high + 1 and may_skip:
            service.skip(key[1], following - 1, self._context.now())
        missing = state.high + 1
        holders = self._stability.holders(key, missing)
        if holders and missing <= highest:
            last = min(highest, missing + ASKED_AT_ONCE - 1)
            self._ask(self._context.random.choice(holders), Want(*key, missing, last))

    def _ask(self, peer: PeerId, want: Want) -> None:
        for other in self._others:
            if other.id == peer:
                self._context.send(other, want)

    # Being told and asked.

    def receive_digest(self, sender: Contact, digest: Digest) -> None:
        """Take note of what another distributor of the view has; its services are known already."""
        now = self._context.now()
        forgotten: list[tuple[str, bytes, int, int, int, int]] = []
        for name, _, has_no_gap in digest.services:
            if name in self._services:
                self._stability.told_service(sender.id, name, has_no_gap)
        for name, source, began, low, high, safe in digest.sources:
            service = self._services.get(name)
            if service is None or not _may_be(began, low, high, safe):
                continue
            if service.has_left_behind(source, high):
                if low:  # it may wait for this one; an answer is not answered
                    forgotten.append((name, source, high, 0, high, high))
                continue
            if not service.knows_or_takes(source, now, began, distributors=len(self._others)):
                continue
            key = (name, source)
            self._stability.told(sender.id, key, low, high, safe)
            mine = service.log.sources[source].high
            if high > mine:
                self._behind.setdefault(key, mine)
        for at in range(0, len(forgotten), ENTRIES):
            some = tuple(forgotten[at : at + ENTRIES])
            self._context.send(sender, Digest(self._run, False, (), some))

    def receive_want(self, sender: Contact, want: Want) -> None:
        """Send a distributor what it misses, as far as it is here."""
        service = self._services.get(want.service)
        if service is None:
            return
        last = min(want.last, want.first + ASKED_AT_ONCE - 1)
        found = service.log.block(want.source, want.first, last, SPREAD_BYTES)
        if found is not None:
            self._context.send(sender, SpreadBlocks((found,)))


def _may_be(began: int, low: int, high: int, safe: int) -> bool:
    return 0 <= began <= high <= LAST_NUMBER and 0 <= low <= high + 1 and 0 <= safe <= high


Found = Callable[[Sequence[bytes]], None]


class History(Protocol):
    """Past messages of services, by source and number."""

    @property
    def failure(self) -> str:
        """Why nothing is recorded any more; empty while all is well."""
        ...

    def record(self, block: ServiceBlock) -> None:
        """A block has entered the distributor's log."""
        ...

    def read(self, service: str, source: bytes, first: int, last: int, found: Found) -> None:
        """Call `found` once, now or later, with the data of messages `first`, `first + 1`... as far as there
        are any.

        It may find fewer than were asked for, for reasons of size; none means that `first` is not there.
        """
        ...


class NoHistory:
    """Nothing is kept beyond the distributors' logs."""

    failure = ""

    def record(self, block: ServiceBlock) -> None:
        pass

    def read(self, service: str, source: bytes, first: int, last: int, found: Found) -> None:
        found(())


RECALLED_AT_ONCE = 64
"""Messages that are looked up for one answer."""


class Recall:
    """Answers a subscriber that lacks messages which its distributor's stream no longer holds.

    The subscriber asks for a range of a source's messages; the answer holds as many consecutive pieces as
    fit a datagram, or says from which number on there is something. It is asked again until it has
    everything.

    A distributor first looks into its own log; then into its `History`, which is told every message that
    enters the log and may keep it longer, as an archive does. What neither has is a gap, and the subscriber
    is told so.

    Reads the log and then the history; sends by `context`, which may lose the answers.
    """

    def __init__(self, context: Context, history: History, datagram: int) -> None:
        self._context = context
        self._history = history
        self._room = datagram - HEAD_BYTES - 256
        """Bytes of pieces in one answer; its head names the service."""

    def answer(self, sender: Contact, want: Want, service: Service) -> None:
        last = min(want.last, want.first + RECALLED_AT_ONCE - 1)
        held = service.log.block(want.source, want.first, last, SPREAD_BYTES)
        if held is not None:
            self._send(sender, want, held.payloads)
            return

        def found(payloads: Sequence[bytes]) -> None:
            self._send(sender, want, payloads)

        self._history.read(want.service, want.source, want.first, last, found)

    def _send(self, to: Contact, want: Want, payloads: Sequence[bytes]) -> None:
        """One message over several answers if it is large; else as many messages as one answer holds."""
        for piece in pieces_of(want.source, want.first, payloads, self._room):
            if piece.first > want.first:
                return
            answer = Recalled(want.service, want.source, want.first, piece.last + 1, (piece,))
            self._context.send(to, answer)
        if not payloads:
            nothing = Recalled(want.service, want.source, want.first, want.last + 1, ())
            self._context.send(to, nothing)
