"""A subscription to a service at a subscriber (sections 3.2 and 4.1.1).

Messages of each source are delivered in order, each at most once, and whatever is left out is reported as a
gap with its bounds before the message that follows it. With `no_gap` the subscriber first asks its
distributor for what is missing, and holds back what follows until it is there or known to be lost.

A subscriber that moves to another distributor says what it has of each source and is sent the rest, as far
as that distributor holds it. One that suspected its primary wrongly hears from both, and unsubscribes from
the one that is not its primary any more. Messages may be lost, repeated and reordered.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from overlay.contact import Contact, PeerId
from overlay.context import Context, Timer
from pubsub.distributors.config import ClientConfig
from pubsub.distributors.messages import (
    Action,
    Alive,
    Answer,
    Deliveries,
    Recalled,
    Received,
    Request,
)
from pubsub.distributors.protocol.reception import Delivery, Reception, SourceOrder
from pubsub.reliable.primary import PrimaryKeeper
from pubsub.reliable.runs import Gap

REPORT_MISSING_AFTER = 0.03
"""Seconds: time for pieces that were overtaken to arrive."""

MOST_REPORTED = 64
"""Missing places in one report."""

LARGE_REQUEST = 16
"""Sources in a request that may not fit a datagram; it goes over the channel."""

UNSUBSCRIBE_TRIES = 8


class SubscriptionCore:
    """One subscription; `deliver` and `report` are called with messages and gaps, in order."""

    def __init__(
        self,
        context: Context,
        channel: Context,
        config: ClientConfig,
        service: str,
        *,
        no_gap: bool,
        deliver: Callable[[Delivery], None],
        report: Callable[[Gap], None],
        want_distributors: Callable[[], None],
        room: Callable[[], int] | None = None,
        begun: Callable[[dict[bytes, int]], None] = lambda numbers: None,
        removed: Callable[[], None] = lambda: None,
    ) -> None:
        """`context` sends datagrams, and `channel` what may not fit one. `begun` is called once, with the
        numbers of each source's messages that were before the subscription; `removed`, when the service is
        gone.

        `room`: how many more messages the application takes now; `ClientConfig.room` if not given."""
        self.service = service
        self.no_gap = no_gap
        self.keeper = PrimaryKeeper(context, config, self)
        self.refusal = ""
        """Why the last distributor that was asked refused."""
        self.was_connected = False
        self.stream = 0
        self._context = context
        self._channel = channel
        self._config = config
        self._want_distributors = want_distributors
        self._begun = begun
        self._removed = removed
        self._room = room or (lambda: config.room)
        self._order = SourceOrder(context, config, service, no_gap, deliver, report, self._recall)
        self._reception = Reception(self._order.take)
        self._request_number = 0
        self._ack_timer: Timer | None = None
        self._missing_timer: Timer | None = None
        self._unsubscribe_timer: Timer | None = None
        self._acked_at = 0
        """The place that was acknowledged last."""
        self._told_off: dict[PeerId, float] = {}
        """Distributors that were told that this subscriber has moved, and when."""
        self._unsubscribing: Callable[[bool], None] | None = None
        self._tries_left = UNSUBSCRIBE_TRIES
        self._began_at = context.now()
        self._is_over = False

    # What the application does.

    def start(self, contacts: Iterable[Contact] = ()) -> None:
        self._request_number = self._context.random.getrandbits(48)
        self._began_at = self._context.now()
        self.keeper.start(contacts)

    def resume(self) -> None:
        """The application has room again."""
        self._acknowledge()

    def unsubscribe(self, done: Callable[[bool], None]) -> None:
        """Unsubscribe; `done` is told whether a distributor has acknowledged it."""
        self._unsubscribing = done
        self._request_number += 1
        self._try_to_unsubscribe()

    def stop(self) -> None:
        """Be no subscriber any more, and say so to whoever still sends."""
        self._is_over = True
        self.keeper.close()
        self._order.close()
        for timer in (self._ack_timer, self._missing_timer, self._unsubscribe_timer):
            if timer is not None:
                timer.cancel()

    @property
    def have(self) -> dict[bytes, int]:
        """By source, the highest number that was delivered or reported."""
        return self._order.have

    def _try_to_unsubscribe(self) -> None:
        primary = self.keeper.primary or self.keeper.candidate
        if primary is None or self._tries_left == 0:
            self._unsubscribed(False)
            return
        self.keeper.close()
        self._tries_left -= 1
        request = self._request(Action.UNSUBSCRIBE, None)
        self._context.send(primary, request)
        retry = self._config.retry
        self._unsubscribe_timer = self._context.call_later(retry, self._try_to_unsubscribe)

    def _unsubscribed(self, acknowledged: bool) -> None:
        done, self._unsubscribing = self._unsubscribing, None
        self.stop()
        if done is not None:
            done(acknowledged)

    # Connecting (see `reliable.primary.Connecting`).

    def request(self, to: Contact) -> None:
        have = self.have if self.was_connected else None
        request = self._request(Action.SUBSCRIBE, have)
        context = self._channel if have and len(have) > LARGE_REQUEST else self._context
        context.send(to, request)

    def _request(self, action: Action, have: dict[bytes, int] | None) -> Request:
        since = self._context.now() - self._began_at
        number, service = self._request_number, self.service
        return Request(number, action, service, self.no_gap, have, since)

    def ask(self, primary: Contact) -> None:
        self._send_received(primary, ask=True)

    def lost(self, primary: Contact) -> None:
        self.stream = 0

    def want_servers(self) -> None:
        self._want_distributors()

    def receive_answer(self, sender: Contact, answer: Answer) -> None:
        if answer.number != self._request_number:
            return
        if self._unsubscribing is not None:
            self._unsubscribed(True)
            return
        candidate = self.keeper.candidate
        if candidate is None or sender.id != candidate.id:
            return
        self.refusal = answer.refusal
        if answer.refusal == "removed":
            self.stop()
            self._removed()
            return
        if answer.refusal:
            self.keeper.refused(sender)
            return
        # Later answers to this request, which was perhaps sent more than once, mean nothing any more.
        self._request_number += 1
        self.keeper.connected(sender)
        self.stream = answer.stream
        self._acked_at = answer.position
        self._reception.begin(answer.position + 1)
        if self.was_connected:
            self._order.continue_after(dict(answer.have))
        else:
            self.was_connected = True
            self._order.begin(dict(answer.have))
            self._begun(self.have)

    # Receiving.

    def receive_deliveries(self, sender: Contact, deliveries: Deliveries) -> None:
        if self._is_over or not self._is_primary(sender):
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
        if reception.expected - 1 - self._acked_at >= self._config.ack_every:
            self._acknowledge()
        elif self._ack_timer is None:
            delay = deliveries.pace * self._context.random.uniform(0.5, 1.0)
            self._ack_timer = self._context.call_later(delay, self._acknowledge)
        if reception.ahead and self._missing_timer is None:
            self._missing_timer = self._context.call_later(
                REPORT_MISSING_AFTER, self._report_missing
            )

    def receive_alive(self, sender: Contact, alive: Alive) -> None:
        if self._is_over or not self._is_primary(sender):
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
        if self._is_primary(sender):
            self.keeper.heard(sender)
            self._order.receive_recalled(recalled)

    def _is_primary(self, sender: Contact) -> bool:
        primary = self.keeper.primary
        return primary is not None and sender.id == primary.id

    def _tell_off(self, sender: Contact) -> None:
        """Drop the surplus connection to a distributor that is not the primary, once there is one."""
        now = self._context.now()
        if self.keeper.primary is None and not self._is_over:
            return
        if now - self._told_off.get(sender.id, -1e9) >= self._config.retry:
            self._told_off[sender.id] = now
            action = Action.UNSUBSCRIBE if self._is_over else Action.MOVED
            request = self._request(action, None)
            self._request_number += 1
            self._context.send(sender, request)

    # Acknowledging.

    def _acknowledge(self) -> None:
        if self._ack_timer is not None:
            self._ack_timer.cancel()
            self._ack_timer = None
        if self.keeper.primary is not None and self.stream:
            self._acked_at = self._reception.expected - 1
            self._send_received(self.keeper.primary)

    def _report_missing(self) -> None:
        self._missing_timer = None
        missing = self._reception.missing(MOST_REPORTED)
        if missing and self.keeper.primary is not None:
            self._send_received(self.keeper.primary, missing)
            self._missing_timer = self._context.call_later(
                10 * REPORT_MISSING_AFTER, self._report_missing
            )

    def _send_received(self, to: Contact, missing: tuple[int, ...] = (), ask: bool = False) -> None:
        upto = self._reception.expected - 1
        room = self._free_room()
        self._context.send(to, Received(self.stream, upto, missing, max(room, 0), ask))

    def _free_room(self) -> int:
        return self._room() - self._order.waiting

    def _recall(self, message: object) -> None:
        if self.keeper.primary is not None:
            self._context.send(self.keeper.primary, message)
