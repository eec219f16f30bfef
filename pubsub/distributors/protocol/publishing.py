"""A publisher of one service (sections 3.2 and 4.1.1): numbers messages and sees them to the distributors.

Messages go to the primary, which acknowledges those that it has; the publisher keeps each until all
distributors of the primary's view have it, and brings what it keeps to the next primary when this one
fails. So an acknowledged message is lost only if its distributor and its publisher both fail before the
others have it. Messages may be lost, repeated and reordered on the way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from overlay.contact import Contact
from overlay.context import Context
from pubsub.distributors.config import ClientConfig
from pubsub.distributors.messages import (
    Alive,
    ClientAction,
    ClientAnswer,
    ClientRequest,
    PublicationAck,
    ServiceBlock,
    SpreadBlocks,
    StreamAck,
)
from pubsub.distributors.protocol.view import NO_GROUP, Group
from pubsub.reliable.primary import PrimaryKeeper
from pubsub.reliable.window import Window

BLOCK_MESSAGES = 1024
BLOCK_BYTES = 128 * 1024
"""The most that travels together, unless one message alone is larger."""


class PublishingCore:
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
        """`context` sends datagrams, `channel` the messages, which may be large."""
        self.service = service
        self.source = source
        self.keeper = PrimaryKeeper(context, config, self)
        self.refusal = ""
        self.was_connected = False
        self.received = 0
        """Up to here a distributor has them."""
        self._context = context
        self._channel = channel
        self._config = config
        self._progress = progress
        self._want_distributors = want_distributors
        self._window: Window[bytes] = Window(config.in_flight, config.in_flight_bytes, len)
        self._stable_in: tuple[Group, int] = (NO_GROUP, 0)
        """The view of which every distributor has them up to `stable`."""
        self._number = 0
        self._waiting_since = 0.0
        self._send_is_due = False
        self.is_closed = False
        """Nothing is sent any more."""
        self._removing: Callable[[], None] | None = None

    def start(self, contacts: Iterable[Contact] = ()) -> None:
        self._number = self._context.random.getrandbits(62)
        self.keeper.start(contacts)
        self._context.call_later(self._config.retry, self._again)

    def stop(self) -> None:
        self.is_closed = True
        self.keeper.close()

    def remove(self, done: Callable[[], None]) -> None:
        """Have the service removed; `done` is called when a distributor has acknowledged it."""
        self._number += 1
        self._removing = done
        self._ask_to_remove()

    def _ask_to_remove(self) -> None:
        primary = self.keeper.primary
        if not self.is_closed and self._removing is not None:
            if primary is not None:
                request = ClientRequest(
                    self._number, ClientAction.REMOVE, self.service, False, None, 0.0
                )
                self._context.send(primary, request)
            self._context.call_later(self._config.retry, self._ask_to_remove)

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

    # Connecting (see `reliable.primary.Connecting`).

    def request(self, to: Contact) -> None:
        request = ClientRequest(
            self._number, ClientAction.CREATE, self.service, False, {self.source: self.stable}, 0.0
        )
        self._context.send(to, request)

    def ask(self, primary: Contact) -> None:
        self._context.send(primary, StreamAck(0, 0, (), 0, True))

    def lost(self, primary: Contact) -> None:
        pass

    def want_servers(self) -> None:
        self._want_distributors()

    def receive(self, sender: Contact, message: object) -> None:
        """What a distributor says to a client, perhaps to another one on this node."""
        if isinstance(message, ClientAnswer):
            self.receive_answer(sender, message)
        elif isinstance(message, Alive):
            self.receive_alive(sender, message)
        elif isinstance(message, PublicationAck):
            self.receive_published(sender, message)

    def receive_answer(self, sender: Contact, answer: ClientAnswer) -> None:
        if self._removing is not None and answer.number == self._number:
            done, self._removing = self._removing, None
            done()
            return
        candidate = self.keeper.candidate
        if answer.number != self._number or candidate is None or sender.id != candidate.id:
            return
        self.refusal = answer.refusal
        if answer.refusal:
            self.keeper.refused(sender)
            return
        self.was_connected = True
        self.keeper.connected(sender)
        self._window.start_over()
        self._send()
        self._progress()

    def receive_alive(self, sender: Contact, alive: Alive) -> None:
        if alive.stream == 0:
            self.keeper.heard(sender)
            primary = self.keeper.primary
            if not alive.knows and primary is not None and sender.id == primary.id:
                self.keeper.reconnect()  # the service was removed: create it again

    # Sending.

    def receive_published(self, sender: Contact, published: PublicationAck) -> None:
        """How far the messages have come at the primary."""
        primary = self.keeper.primary
        if primary is None or sender.id != primary.id or published.source != self.source:
            return
        self.keeper.heard(sender)
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
        if self.is_closed:
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
