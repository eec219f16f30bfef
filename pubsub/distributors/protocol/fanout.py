"""The multicast of a service to the local subscribers (section 4.2.2), and the view of them (section 4.1.2).

All subscribers that are equally far are sent the same datagram, encoded once. A subscriber costs the
distributor its contact and a few numbers: how far it was sent the stream, how far it has acknowledged, and
when it was last heard. What it reports missing is sent again at once; what it leaves unacknowledged, after a
time-out, one datagram at a time until it answers. While both stay up and hear each other, a subscriber gets
the whole stream from its beginning, or is told by `StreamDeliveries.oldest` what is no longer there.

Who subscribes, leaves or falls silent is nobody's business but this distributor's.
"""

from __future__ import annotations

from dataclasses import dataclass

from overlay.contact import Contact, PeerId
from overlay.context import Context
from pubsub.distributors.config import DistributorConfig
from pubsub.distributors.messages import Alive, StreamAck, StreamDeliveries, StreamPiece
from pubsub.distributors.protocol.service_log import ServiceLog

HEAD_BYTES = 64
"""Bytes of a datagram of deliveries, beside its pieces."""

LEAST_WINDOW = 16
MOST_RESENT = 64
"""Pieces that one report of missing ones brings back."""

CACHED_BATCHES = 256

REQUESTS_OF_A_LIFE = 1 << 20
"""A client numbers fewer requests than this, one after another. One that has restarted, under its identity,
begins with a number that is drawn, and so is farther from all that it had before."""

LEAST_PACE = 0.2
"""Subscribers acknowledge within so many seconds, or within `PACE_EACH` for each of them if that is more."""

PACE_EACH = 0.0004
"""Seconds of a distributor's attention that one acknowledgement may take: 2,500 of them a second."""


@dataclass(slots=True)
class LocalSubscriber:
    """What a distributor knows of one subscriber."""

    contact: Contact
    request: int
    """The number of the request that it came with; earlier ones mean nothing any more."""
    no_gap: bool
    acked: int
    sent: int
    sent_count: int
    """How many messages there were ever up to the place `sent` (see `ServiceLog.count`)."""
    window: int
    limit: int
    """It is sent more while `sent_count` is below this number."""
    heard_at: float
    advanced_at: float
    """When it last acknowledged more, or had everything."""
    waiting_since: float
    """When it last acknowledged more, or was last sent what it has not acknowledged."""
    place: int
    """In the ring of subscribers."""
    patience: int = 1
    """How many times the time-out it is waited for before a place is sent again."""


class Fanout:
    """One service's local subscribers. Its context may lose, repeat and reorder."""

    def __init__(
        self, log: ServiceLog, context: Context, config: DistributorConfig, datagram: int
    ) -> None:
        """`datagram`: bytes of a message that fits one datagram."""
        self.log = log
        self.subscribers: dict[PeerId, LocalSubscriber] = {}
        self.ended: dict[str, int] = {}
        """Subscribers that were removed without their asking, by reason."""
        self._context = context
        self._config = config
        self._room = datagram - HEAD_BYTES
        self._ring: list[LocalSubscriber] = []
        self._cursor = 0
        self._has_work = False
        self._batches: dict[int, tuple[StreamDeliveries, bool]] = {}
        """By first place; and whether no further piece would fit."""
        self._absent: list[tuple[float, int]] = []
        """What subscribers without gaps had when they went elsewhere or fell silent, and until when the rest
        is kept for them."""

    # The view of local subscribers.

    def add(self, contact: Contact, request: int, no_gap: bool, after: int) -> None:
        """Send a subscriber the stream after a place; one that is here already begins there again."""
        old = self.subscribers.pop(contact.id, None)
        if old is not None:
            self._leave_ring(old)
        count, window, now = self.log.count(after), self._config.window, self._context.now()
        subscriber = LocalSubscriber(
            contact,
            request,
            no_gap,
            acked=after,
            sent=after,
            sent_count=count,
            window=window,
            limit=count + window,
            heard_at=now,
            advanced_at=now,
            waiting_since=now,
            place=len(self._ring),
        )
        self.subscribers[contact.id] = subscriber
        self._ring.append(subscriber)
        self._has_work = True

    def remove(self, peer: PeerId, request: int, moved: bool) -> None:
        """Remove a subscriber at its own request, unless it has come anew since."""
        subscriber = self.subscribers.get(peer)
        if subscriber is None or not 0 <= request - subscriber.request < REQUESTS_OF_A_LIFE:
            return
        self._let_go(subscriber)
        if moved:
            self._keep_for(subscriber)

    def _keep_for(self, subscriber: LocalSubscriber) -> None:
        """Keep what a subscriber without gaps lacks: it may need it at another distributor, or come back."""
        if subscriber.no_gap:
            until = subscriber.heard_at + self._config.no_gap_patience
            self._absent.append((until, subscriber.acked))

    def forget_absent(self) -> None:
        """Keep nothing any more for those who are not here."""
        self._absent.clear()

    def _let_go(self, subscriber: LocalSubscriber) -> None:
        del self.subscribers[subscriber.contact.id]
        self._leave_ring(subscriber)

    def _leave_ring(self, subscriber: LocalSubscriber) -> None:
        last = self._ring.pop()
        if last is not subscriber:
            last.place = subscriber.place
            self._ring[last.place] = last

    @property
    def has_no_gap(self) -> bool:
        return bool(self._absent) or any(one.no_gap for one in self._ring)

    def least_acked(self, no_gap_only: bool) -> int:
        """The place up to which all subscribers, or all without gaps, have the stream."""
        places = [one.acked for one in self._ring if one.no_gap or not no_gap_only]
        places += [acked for _, acked in self._absent]
        return min(places, default=self.log.last)

    # Sending.

    def wake(self) -> None:
        """There is more in the log."""
        self._has_work = True

    @property
    def has_work(self) -> bool:
        return self._has_work

    def pump(self, budget: int) -> int:
        """Send at most `budget` datagrams, to one subscriber after another; 0 when none is due."""
        ring, last, sent = self._ring, self.log.last, 0
        now = self._context.now()
        cursor = self._cursor
        for _ in range(len(ring)):
            if cursor >= len(ring):
                cursor = 0
            subscriber = ring[cursor]
            cursor += 1
            if subscriber.sent < last and subscriber.sent_count < subscriber.limit:
                self._send_next(subscriber, now)
                sent += 1
                if sent >= budget:
                    break
        self._cursor = cursor
        if not sent:
            self._has_work = False
        return sent

    def _send_next(self, subscriber: LocalSubscriber, now: float) -> None:
        first = max(subscriber.sent + 1, self.log.first)
        batch = self._batch(first)
        if subscriber.sent == subscriber.acked:
            subscriber.waiting_since = now
            if subscriber.patience == 1:
                subscriber.advanced_at = now
        self._note_sent(subscriber, first + len(batch.pieces) - 1)
        self._context.send(subscriber.contact, batch)

    def _note_sent(self, subscriber: LocalSubscriber, place: int) -> None:
        subscriber.sent = place
        subscriber.sent_count = self.log.count(place)

    def _batch(self, first: int) -> StreamDeliveries:
        """As many pieces from a place on as fit one datagram; the same object while it would be equal."""
        log = self.log
        batch, is_full = self._batches.get(first, (None, False))
        if (
            batch is not None
            and batch.oldest == log.first
            and (is_full or first + len(batch.pieces) > log.last)
        ):
            return batch
        pieces: list[StreamPiece] = []
        room, place, is_full = self._room, first, False
        while place <= log.last and not is_full:
            piece = log.at(place)
            room -= piece.size
            if room >= 0 or not pieces:
                pieces.append(piece)
                place += 1
            is_full = room <= 0
        if len(self._batches) >= CACHED_BATCHES:
            self._batches.clear()
        batch = StreamDeliveries(log.stream, first, log.first, self.pace, tuple(pieces))
        self._batches[first] = (batch, is_full)
        return batch

    @property
    def pace(self) -> float:
        """Seconds within which subscribers are to acknowledge; longer the more of them there are."""
        return max(LEAST_PACE, len(self._ring) * PACE_EACH)

    # Hearing.

    def receive(self, sender: Contact, received: StreamAck) -> None:
        """An acknowledgement, a report of missing places, or a question."""
        subscriber = self.subscribers.get(sender.id)
        now = self._context.now()
        if subscriber is not None:
            subscriber.contact = sender
            subscriber.heard_at = now
            self._acknowledge(subscriber, received, now)
        if subscriber is None or received.ask:
            knows = subscriber is not None
            self._context.send(sender, Alive(self.log.stream, self.log.last, knows, self.pace))

    def _acknowledge(self, subscriber: LocalSubscriber, received: StreamAck, now: float) -> None:
        log = self.log
        upto = min(received.upto, log.last)
        if upto > subscriber.acked:
            more = log.count(upto) - log.count(subscriber.acked)
            subscriber.window = min(self._config.window, subscriber.window + more)
            subscriber.acked = upto
            self._note_sent(subscriber, max(subscriber.sent, upto))
            subscriber.advanced_at = subscriber.waiting_since = now
            subscriber.patience = 1
        subscriber.limit = log.count(subscriber.acked) + min(subscriber.window, received.room)
        if received.missing:
            subscriber.window = max(LEAST_WINDOW, subscriber.window // 2)
            self._send_again(subscriber, received.missing)
        if subscriber.sent < self.log.last:
            self._has_work = True

    def _send_again(self, subscriber: LocalSubscriber, missing: tuple[int, ...]) -> None:
        following = 0
        for place in missing[:MOST_RESENT]:
            if max(following, self.log.first) <= place <= subscriber.sent:
                batch = self._batch(place)
                following = place + len(batch.pieces)
                self._context.send(subscriber.contact, batch)

    def sweep(self) -> None:
        """Send again what was not acknowledged in time, and let go of the silent; called at each tick."""
        now = self._context.now()
        self._absent = [absent for absent in self._absent if absent[0] > now]
        self._batches.clear()
        silent = now - self._config.subscriber_patience
        time_out = 2 * self.pace + 0.5
        for subscriber in list(self._ring):
            if subscriber.heard_at < silent:
                self._keep_for(subscriber)
                self._end(subscriber, "silent")
            elif subscriber.acked < subscriber.sent and (
                now - subscriber.waiting_since >= time_out * subscriber.patience
            ):
                self._rewind(subscriber, now)

    def _rewind(self, subscriber: LocalSubscriber, now: float) -> None:
        subscriber.patience = min(2 * subscriber.patience, 8)
        self._note_sent(subscriber, subscriber.acked)
        subscriber.window = max(LEAST_WINDOW, subscriber.window // 2)
        self._send_next(subscriber, now)

    def end_slowest(self) -> bool:
        """Let go of the subscribers without gaps that hold the oldest message and make no progress; whether
        there were any."""
        ended = self.ended.get("fell_behind", 0)
        overdue = self._context.now() - self._config.no_gap_patience
        for subscriber in list(self._ring):
            holds = subscriber.no_gap and subscriber.acked < min(self.log.first, self.log.last)
            if holds and subscriber.advanced_at <= overdue:
                self._end(subscriber, "fell_behind")
        return self.ended.get("fell_behind", 0) > ended

    def end_all(self) -> None:
        """Tell all subscribers to look for another distributor."""
        for subscriber in list(self._ring):
            self._end(subscriber, "left")

    def _end(self, subscriber: LocalSubscriber, reason: str) -> None:
        self._let_go(subscriber)
        self.ended[reason] = self.ended.get(reason, 0) + 1
        goodbye = Alive(self.log.stream, self.log.last, False, self.pace)
        self._context.send(subscriber.contact, goodbye)
