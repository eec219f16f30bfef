"""A publisher of one service (sections 3.2 and 4.1.1): numbers messages and sees them to the distributors.

Messages go to the primary, which acknowledges those that it has; the publisher keeps each until all
distributors of the primary's view have it, and brings what it keeps to the next primary when this one
fails. So an acknowledged message is lost only if its distributor and its publisher both fail before the
others have it. Messages may be lost, repeated and reordered on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace

from overlay.contact import Contact
from overlay.context import Context
from pubsub.distributors.config import ClientConfig
from pubsub.distributors.messages import (
    Alive,
    ClientAction,
    ClientAnswer,
    PublicationAck,
    ServiceBlock,
    SpreadBlocks,
    StreamAck,
)
from pubsub.distributors.protocol.client import ClientCore
from pubsub.distributors.protocol.view import NO_GROUP, Group
from pubsub.reliable.window import Window

BLOCK_MESSAGES = 1024
BLOCK_BYTES = 128 * 1024
"""The most that travels together, unless one message alone is larger."""


class PublishingCore(ClientCore):
    """Publishes to one service; `progress` is called when `received` or `stable` has grown."""

    def __init__(
        self,
        context: Context,
        channel: Context,
        config: ClientConfig,
        service: str,
        source: bytes,
        *,
        progress: Callable[[], None],
        want_distributors: Callable[[], None],
    ) -> None:
        super().__init__(context, channel, config, service, want_distributors)
        self.source = source
        self.received = 0
        """Up to here a distributor has them."""
        self._progress = progress
        self._window: Window[bytes] = Window(config.in_flight, config.in_flight_bytes, len)
        self._stable_in: tuple[Group, int] = (NO_GROUP, 0)
        """The view of which every distributor has them up to `stable`."""
        self._run = 0
        """The primary's, as it was heard last; 0 before it was."""
        self._waiting_since = 0.0
        self._send_is_due = False
        self._removing: list[Callable[[], None]] = []
        """Whom to tell when the service is removed."""
        self._handlers = {
            ClientAnswer: self.receive_answer,
            Alive: self.receive_alive,
            PublicationAck: self.receive_published,
        }

    def start(self, contacts: Iterable[Contact] = ()) -> None:
        super().start(contacts)
        self._context.call_later(self._config.retry, self._again)

    def remove(self, done: Callable[[], None]) -> None:
        """Have the service removed; `done` is called when a distributor has done it."""
        self._removing.append(done)
        if len(self._removing) == 1:
            self._ask_to_remove()

    def _ask_to_remove(self) -> None:
        if self._removing and not self.is_over:
            if self.keeper.primary is not None:
                request = self._request(ClientAction.REMOVE)
                # Its own number: a distributor that this one connects to meanwhile answers to that.
                self._context.send(
                    self.keeper.primary, replace(request, number=self._number_to_remove)
                )
            self._context.call_later(self._config.retry, self._ask_to_remove)

    @property
    def _number_to_remove(self) -> int:
        return self._number + 1

    @property
    def has_room(self) -> bool:
        """Whether another message may be published now."""
        return len(self._window) < self._config.retained

    @property
    def last(self) -> int:
        """The number of the newest message."""
        return self._window.last

    @property
    def stable(self) -> int:
        """Up to here all distributors have them."""
        return self._window.released

    def publish(self, data: bytes) -> int:
        """Number a message and send it as soon as possible; `received` will tell."""
        self._window.add(data)
        if not self._send_is_due:
            self._send_is_due = True
            self._context.call_later(0.0, self._send)  # with those that are published meanwhile
        return self.last

    # Connecting.

    def request(self, to: Contact) -> None:
        self._context.send(to, self._request(ClientAction.CREATE, {self.source: self.stable}))

    def ask(self, primary: Contact) -> None:
        self._context.send(primary, StreamAck(0, 0, (), 0, True))

    def receive_answer(self, sender: Contact, answer: ClientAnswer) -> None:
        if answer.number != self._number_to_remove:
            super().receive_answer(sender, answer)
        elif not answer.refusal:  # one that is not ready yet is asked again
            removing, self._removing = self._removing, []
            for done in removing:
                done()

    def _connected(self, answer: ClientAnswer) -> None:
        self._run = 0
        self._window.start_over()
        self._send()
        self._progress()

    def receive_alive(self, sender: Contact, alive: Alive) -> None:
        if alive.stream == 0:
            self.keeper.heard(sender)
            if not alive.knows and self._is_primary(sender):
                self.keeper.reconnect()  # the service was removed: create it again

    # Sending.

    def receive_published(self, sender: Contact, published: PublicationAck) -> None:
        """How far the messages have come at the primary."""
        if not self._is_primary(sender) or published.source != self.source:
            return
        self.keeper.heard(sender)
        if published.run != self._run:
            if self._run:  # it has come back, before anybody noticed that it had crashed
                self._window.start_over()
            self._run = published.run
        if self._window.confirm(published.received):
            self._waiting_since = self._context.now()
        self.received = max(self.received, self._window.confirmed)
        if published.stable >= self.stable:
            self._stable_in = (published.group, published.number)
        self._window.release(published.stable)
        self._send()
        self._progress()

    def _send(self) -> None:
        self._send_is_due = False
        primary, window = self.keeper.primary, self._window
        while primary is not None:
            if window.sent == window.confirmed:
                self._waiting_since = self._context.now()
            batch = window.next_batch(BLOCK_MESSAGES, BLOCK_BYTES)
            if not batch:
                return
            self._channel.send(primary, self._spread(window.sent - len(batch) + 1, batch))

    def _spread(self, first: int, payloads: list[bytes]) -> SpreadBlocks:
        block = ServiceBlock(self.service, self.source, first, tuple(payloads))
        return SpreadBlocks((block,), self.stable, *self._stable_in)

    def _again(self) -> None:
        """Send once more what was not acknowledged: the distributor may have had no room, or its answer was
        lost."""
        if self.is_over:
            return
        primary, now = self.keeper.primary, self._context.now()
        overdue = now - self._waiting_since >= 3 * self._config.retry
        if primary is not None and overdue and self.stable < self.last:
            self._waiting_since = now
            if self._window.confirmed < self._window.sent:
                self._window.send_again()
                self._send()
            else:
                self._channel.send(primary, self._spread(self.last, [self._window[self.last]]))
        self._context.call_later(self._config.retry, self._again)
