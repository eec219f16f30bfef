"""A subscription to a service at a subscriber (sections 3.2 and 4.1.1).

Messages of each source are delivered in order, each at most once, and whatever is left out is reported as a
gap with its bounds before the message that follows it. With `no_gap` the subscriber first asks its
distributor for what is missing, and holds back what follows until it is there or known to be lost.

A subscriber that moves to another distributor says what it has of each source and is sent the rest, as far
as that distributor holds it. One that suspected its primary wrongly hears from both, and unsubscribes from
the one that is not its primary any more. Messages may be lost, repeated and reordered.

`Reception` puts the pieces of a stream together, and `SourceOrder` each source's messages in order: a message
is delivered if it follows the one before it. If numbers are missing in between, then with gaps they are
reported at once; without gaps they are asked of the distributor, message after message, and what follows
waits; only what the distributor does not find anywhere is reported.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from overlay.bounded import remember
from overlay.contact import Contact, PeerId
from overlay.context import Context, OneTimer
from pubsub.distributors.config import ClientConfig
from pubsub.distributors.messages import (
    Alive,
    ClientAction,
    ClientAnswer,
    Recalled,
    StreamAck,
    StreamDeliveries,
    StreamPiece,
    Want,
)
from pubsub.distributors.protocol.client import ClientCore
from pubsub.reliable.order import UNBOUNDED, Order, Verdict
from pubsub.reliable.runs import Gap, Reason


@dataclass(frozen=True, slots=True)
class SourceMessage:
    """A message of a service."""

    service: str
    source: bytes
    """Which run of which publisher."""
    sequence: int
    data: bytes


Take = Callable[[bytes, int, bytes, int], None]
"""Called with a source, a number, the data and `StreamPiece.lost` of each message, in the order of the
stream."""


class Reception:
    """The stream of one distributor, from a place on."""

    def __init__(self, take: Take) -> None:
        self.expected = 1
        """The place of the next piece."""
        self.ahead: dict[int, StreamPiece] = {}
        """Pieces that have overtaken it."""
        self.count = 0
        """Messages, and pieces of large ones, that were taken so far."""
        self._take = take
        self._parts: list[bytes] = []

    def begin(self, place: int) -> None:
        """Begin anew at a place, where a message begins."""
        self.expected = place
        self.ahead.clear()
        self._parts.clear()

    def receive(self, deliveries: StreamDeliveries, room: int) -> None:
        """Take consecutive pieces, at most `room` places beyond the next one."""
        place, furthest = deliveries.first, self.expected + room
        for piece in deliveries.pieces:
            if place == self.expected:
                self._advance(piece)
            elif self.expected < place < furthest:
                self.ahead[place] = piece
            place += 1
        while self.ahead and (next_piece := self.ahead.pop(self.expected, None)) is not None:
            self._advance(next_piece)

    def missing(self, most: int) -> tuple[int, ...]:
        """The first places that were overtaken."""
        if not self.ahead:
            return ()
        places: list[int] = []
        for place in range(self.expected, max(self.ahead)):
            if place not in self.ahead:
                places.append(place)
                if len(places) == most:
                    break
        return tuple(places)

    def _advance(self, piece: StreamPiece) -> None:
        self.expected += 1
        self.count += len(piece.payloads)
        payloads: Sequence[bytes] = piece.payloads
        if piece.count > 1:
            self._parts += piece.payloads
            if piece.number < piece.count - 1:
                return
            payloads = (b"".join(self._parts),)
            self._parts.clear()
        lost = piece.lost
        for number, payload in enumerate(payloads, piece.first):
            self._take(piece.source, number, payload, lost)
            lost = 0


MOST_TOLD = 1024
"""Sources that a new distributor is told of, about 40 KB. What it sends of the others may be here already,
and is dropped."""

MOST_SOURCES = 65_536
"""Sources that a subscription remembers, about 14 MB. One that was silent while this many others published is
forgotten: should it publish again just when the distributor changes, messages may come twice or be told as a
gap."""


class SourceOrder:
    """All sources of one service; `ask` sends a `Want` to the distributor, which may be lost.

    What waits is bounded by the room that the subscriber tells its distributor."""

    def __init__(
        self,
        context: Context,
        config: ClientConfig,
        service: str,
        no_gap: bool,
        deliver: Callable[[SourceMessage], None],
        report: Callable[[Gap], None],
        ask: Callable[[Want], None],
    ) -> None:
        self._context = context
        self._retry = config.retry
        self._service = service
        self._no_gap = no_gap
        self._deliver = deliver
        self._report = report
        self._ask = ask
        self._order: Order[bytes, bytes] = Order(self._emit, gap=self._lost, bounds=UNBOUNDED)
        self._wanted: dict[bytes, int] = {}
        """By source of which messages are asked for, the highest number that the stream will not bring."""
        self._parts: dict[bytes, dict[int, bytes]] = {}
        """Pieces of a large message that was asked for."""
        self._reason: Reason = "forgotten"
        self._timer = OneTimer(context.call_later, self._again)

    @property
    def have(self) -> dict[bytes, int]:
        """By source, the highest number that was delivered or reported; of many, those heard last."""
        return self._order.recent(MOST_TOLD)

    @property
    def waiting(self) -> int:
        """Messages that wait for those before them."""
        return self._order.waiting

    def begin(self, numbers: Mapping[bytes, int]) -> None:
        """What comes up to these numbers was before the subscription."""
        for source, number in numbers.items():
            self._order.begin(source, number)

    def take(self, source: bytes, number: int, data: bytes, lost: int) -> None:
        """A message from the stream, which has each source's messages in order; this many just before it are
        lost to the distributor."""
        if source not in self._order:
            self._order.begin(source, number - 1 - lost)
        if self._order.take(source, number, data) is Verdict.EARLY:
            self._reason = "lost" if lost else "forgotten"
            self._lacking(source, number - 1)
            self._reason = "forgotten"

    def continue_after(self, numbers: Mapping[bytes, int]) -> None:
        """Another stream begins after these numbers: whatever lies before them does not come in it."""
        for source, number in numbers.items():
            if number > self._order.last(source):
                self._lacking(source, number)

    def close(self) -> None:
        self._timer.close()

    def _emit(self, source: bytes, number: int, data: bytes) -> None:
        if len(self._order) > MOST_TOLD:
            self._order.touch(source)
            if len(self._order) > MOST_SOURCES:
                self._order.forget(self._order.silent())
        self._deliver(SourceMessage(self._service, source, number, data))

    def _lost(self, source: bytes, first: int, last: int) -> None:
        self._report(Gap.of(source, first, last, self._reason))

    def _lacking(self, source: bytes, last: int) -> None:
        """Report what is missing up to a number, or begin to ask for it."""
        if not self._no_gap:
            self._order.skip_to(source, last)
        elif source in self._wanted:
            self._wanted[source] = max(self._wanted[source], last)
        else:
            self._wanted[source] = last
            self._ask_for(source)

    # Asking for what is missing.

    def _last_missing(self, source: bytes) -> int:
        """The highest number that is missing before the first that waits."""
        hole = self._order.hole(source)
        return self._wanted[source] if hole is None else hole.last

    def _ask_for(self, source: bytes) -> None:
        first = self._order.last(source) + 1
        self._ask(Want(self._service, source, first, self._last_missing(source)))
        self._timer.set(self._retry)

    def _again(self) -> None:
        for source in list(self._wanted):
            self._ask_for(source)

    def receive_recalled(self, answer: Recalled) -> None:
        source = answer.source
        if source not in self._wanted or answer.first != self._order.last(source) + 1:
            return
        if not answer.pieces:
            if answer.next > answer.first:
                self._order.skip_to(source, min(answer.next - 1, self._last_missing(source)))
        elif answer.pieces[0].count > 1:
            self._take_part(answer)
        else:
            for piece in answer.pieces:
                for number, payload in enumerate(piece.payloads, piece.first):
                    self._found(source, number, payload)
        self._go_on(source)

    def _take_part(self, answer: Recalled) -> None:
        piece = answer.pieces[0]
        parts = self._parts.setdefault(answer.source, {})
        parts[piece.number] = b"".join(piece.payloads)
        if len(parts) == piece.count:
            del self._parts[answer.source]
            self._found(answer.source, piece.first, b"".join(map(parts.__getitem__, sorted(parts))))

    def _found(self, source: bytes, number: int, data: bytes) -> None:
        if number == self._order.last(source) + 1 <= self._last_missing(source):
            self._order.take(source, number, data)

    def _go_on(self, source: bytes) -> None:
        """Ask for what is still missing before what waits."""
        if self._order.last(source) >= self._last_missing(source):
            del self._wanted[source]
        elif source not in self._parts:
            self._ask_for(source)


REPORT_MISSING_AFTER = 0.03
"""Seconds: time for pieces that were overtaken to arrive."""

MOST_REPORTED = 64
"""Missing places in one report."""

LARGE_REQUEST = 16
"""Sources in a request that may not fit a datagram; it goes over the channel."""

ACK_EVERY = 512
"""Messages, or pieces of large ones, after which a subscriber acknowledges at once, not at its pace."""

UNSUBSCRIBE_TRIES = 8

MOST_TOLD_OFF = 64
"""Distributors that are remembered to have been told that this subscriber has moved."""


class SubscriptionCore(ClientCore):
    """One subscription; `deliver` and `report` are called with messages and gaps, in order."""

    def __init__(
        self,
        context: Context,
        channel: Context,
        config: ClientConfig,
        service: str,
        *,
        no_gap: bool,
        deliver: Callable[[SourceMessage], None],
        report: Callable[[Gap], None],
        want_distributors: Callable[[], None],
        room: Callable[[], int] | None = None,
        begun: Callable[[dict[bytes, int]], None] = lambda numbers: None,
        removed: Callable[[], None] = lambda: None,
    ) -> None:
        """`begun` is called once, with the numbers of each source's messages that were before the
        subscription; `removed`, when the service is gone.

        `room`: how many more messages the application takes now; `ClientConfig.room` if not given."""
        super().__init__(context, channel, config, service, want_distributors, no_gap=no_gap)
        self.stream = 0
        self._begun = begun
        self._removed = removed
        self._room = room or (lambda: config.room)
        self._order = SourceOrder(context, config, service, no_gap, deliver, report, self._recall)
        self._reception = Reception(self._order.take)
        self._ack_timer = OneTimer(context.call_later, self._acknowledge)
        self._missing_timer = OneTimer(context.call_later, self._report_missing)
        self._unsubscribe_timer = OneTimer(context.call_later, self._try_to_unsubscribe)
        self._acked_count = 0
        """`Reception.count` when something was acknowledged last."""
        self._told_off: dict[PeerId, float] = {}
        """Distributors that were told that this subscriber has moved, and when."""
        self._unsubscribing: Callable[[bool], None] | None = None
        self._tries_left = UNSUBSCRIBE_TRIES
        self._handlers = {
            StreamDeliveries: self.receive_deliveries,
            ClientAnswer: self.receive_answer,
            Alive: self.receive_alive,
            Recalled: self.receive_recalled,
        }

    # What the application does.

    def resume(self) -> None:
        """The application has room again."""
        self._acknowledge()

    def unsubscribe(self, done: Callable[[bool], None]) -> None:
        """Unsubscribe; `done` is told whether a distributor has acknowledged it."""
        self._unsubscribing = done
        self._number += 1
        self._try_to_unsubscribe()

    def stop(self) -> None:
        """Stop being a subscriber, and say so to every distributor that still sends."""
        super().stop()
        self._order.close()
        for timer in (self._ack_timer, self._missing_timer, self._unsubscribe_timer):
            timer.close()
        if self._unsubscribing is not None:
            self._unsubscribed(False)

    @property
    def have(self) -> dict[bytes, int]:
        """The highest number that was delivered or reported, by source."""
        return self._order.have

    def _try_to_unsubscribe(self) -> None:
        primary = self.keeper.primary or self.keeper.candidate
        if primary is None or self._tries_left == 0:
            self._unsubscribed(False)
            return
        self.keeper.close()
        self._tries_left -= 1
        self._context.send(primary, self._request(ClientAction.UNSUBSCRIBE))
        self._unsubscribe_timer.set(self._config.retry)

    def _unsubscribed(self, acknowledged: bool) -> None:
        done, self._unsubscribing = self._unsubscribing, None
        self.stop()
        if done is not None:
            done(acknowledged)

    # Connecting.

    def request(self, to: Contact) -> None:
        have = self.have if self.was_connected else None
        context = self._channel if have and len(have) > LARGE_REQUEST else self._context
        context.send(to, self._request(ClientAction.SUBSCRIBE, have))

    def ask(self, primary: Contact) -> None:
        self._send_received(primary, ask=True)

    def lost(self, primary: Contact) -> None:
        self.stream = 0

    def receive_answer(self, sender: Contact, answer: ClientAnswer) -> None:
        if self._unsubscribing is None:
            super().receive_answer(sender, answer)
        elif answer.number == self._number:
            self._unsubscribed(True)

    def _refused(self, sender: Contact) -> None:
        if self.refusal == "removed":
            self.stop()
            self._removed()
        else:
            super()._refused(sender)

    def _connected(self, answer: ClientAnswer) -> None:
        # Later answers to this request, which was perhaps sent more than once, mean nothing any more.
        self._number += 1
        self.stream = answer.stream
        self._reception.begin(answer.position + 1)
        if self.was_connected:
            self._order.continue_after(dict(answer.have))
        else:
            self._order.begin(dict(answer.have))
            self._begun(self.have)

    # Receiving.

    def receive_deliveries(self, sender: Contact, deliveries: StreamDeliveries) -> None:
        if self.is_over or not self._is_primary(sender):
            self._tell_off(sender)
            return
        self.keeper.heard(sender, deliveries.pace)
        if deliveries.stream != self.stream:
            return
        reception = self._reception
        if deliveries.oldest > reception.expected:
            self.keeper.reconnect()  # the answer tells what of each source is no longer there
            return
        room = self._free_room()
        if room <= 0:
            return
        reception.receive(deliveries, room)
        if reception.count - self._acked_count >= ACK_EVERY:
            self._acknowledge()
        elif not self._ack_timer.is_set:
            self._ack_timer.set(deliveries.pace * self._context.random.uniform(0.5, 1.0))
        if reception.ahead:
            self._missing_timer.set(REPORT_MISSING_AFTER)

    def receive_alive(self, sender: Contact, alive: Alive) -> None:
        if self.is_over or not alive.stream or not self._is_primary(sender):
            return
        self.keeper.heard(sender, alive.pace)
        if alive.stream != self.stream:
            return
        if not alive.knows:
            self.keeper.reconnect()
        elif alive.last >= self._reception.expected and self._free_room() > 0:
            last = min(alive.last, self._reception.expected + MOST_REPORTED - 1)
            self._send_received(sender, tuple(range(self._reception.expected, last + 1)))

    def receive_recalled(self, sender: Contact, recalled: Recalled) -> None:
        if recalled.service == self.service and self._is_primary(sender):
            self.keeper.heard(sender)
            self._order.receive_recalled(recalled)

    def _tell_off(self, sender: Contact) -> None:
        """Drop the surplus connection to a distributor that is not the primary, once there is one."""
        now = self._context.now()
        if self.keeper.primary is None and not self.is_over:
            return
        if now - self._told_off.get(sender.id, -1e9) >= self._config.retry:
            remember(self._told_off, sender.id, now, MOST_TOLD_OFF)
            action = ClientAction.UNSUBSCRIBE if self.is_over else ClientAction.MOVED
            request = self._request(action)
            self._number += 1
            self._context.send(sender, request)

    # Acknowledging.

    def _acknowledge(self) -> None:
        self._ack_timer.cancel()
        if self.keeper.primary is not None and self.stream:
            self._acked_count = self._reception.count
            self._send_received(self.keeper.primary)

    def _report_missing(self) -> None:
        missing = self._reception.missing(MOST_REPORTED)
        if missing and self.keeper.primary is not None:
            self._send_received(self.keeper.primary, missing)
            self._missing_timer.set(10 * REPORT_MISSING_AFTER)

    def _send_received(self, to: Contact, missing: tuple[int, ...] = (), ask: bool = False) -> None:
        upto = self._reception.expected - 1
        room = self._free_room()
        self._context.send(to, StreamAck(self.stream, upto, missing, max(room, 0), ask))

    def _free_room(self) -> int:
        return self._room() - self._order.waiting

    def _recall(self, message: object) -> None:
        if self.keeper.primary is not None:
            self._context.send(self.keeper.primary, message)
