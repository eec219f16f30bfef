"""The subscriber's side (sections 4.5, 5 and 6): what both kinds of delivery have in common.

It registers under its name, and is then notified of every event that is for it. It acknowledges what it has
in ACK invoices, asks for what it lacks in NAK invoices, and advances its sync point only when the archive's
ACK-response says so. Nothing of this needs any memory from an earlier life: the archive knows. An archive
that stays silent is reported, and the next one is told what the application is done with.

`pubsub.archive.protocol.delivery` says when the application is given an event.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal, NamedTuple, cast

from overlay.bounded import remember
from overlay.contact import Contact
from overlay.context import Context, OneTimer
from pubsub.archive.protocol.archived_event import Received
from pubsub.archive.protocol.config import GRACE, DurableConfig
from pubsub.archive.protocol.frontier import Given, Marks, origin_of
from pubsub.archive.protocol.messages import (
    BUSY,
    DEREGISTERED,
    MARK_BYTES,
    MOVED,
    REGISTER_AGAIN,
    TAKEN,
    AckResponse,
    GapRows,
    Invoice,
    Notice,
    Register,
)
from pubsub.archive.protocol.world import LARGEST_NUMBER
from pubsub.event import MOST_EVENTS
from pubsub.reliable.numbers import Numbers, spans_of
from pubsub.reliable.runs import Gap, Reason

SESSION_BYTES = 8
MOST_TOLD = 4096
"""Sources of which it is remembered which gaps the application was told of."""
DONE_A_TIME = 256
"""Events that the application gets done with before the archive is told without waiting for more."""

Since = Literal["now", "beginning", "sequence", "time"]


class Numbered(NamedTuple):
    """An event with the archive's number."""

    sequence: int
    stream: bytes
    catenation: int
    id: bytes
    content: Received | None
    """The block that it came in; None where only its number is known, or it came live."""
    doubtful: bool
    """The application may have been given it in an earlier life."""
    origin: bytes
    """See `pubsub.archive.protocol.frontier`."""


@dataclass(frozen=True, slots=True)
class Subscribing:
    """What a subscriber asks for."""

    topic: str
    """The managed topic."""
    entity: str
    interest: bytes
    since: Since = "now"
    value: float = 0.0


class DurableSubscriber(ABC):
    """A core; made as one of its two kinds. `use` gives it an archive, at first and after `on_silent`."""

    ordered: bool
    shared: bool = False

    def __init__(
        self,
        context: Context,
        subscribing: Subscribing,
        config: DurableConfig,
        *,
        deliver: Callable[[Numbered], None],
        on_gap: Callable[[Gap], None],
        on_silent: Callable[[], None],
        on_registered: Callable[[str], None],
        on_displaced: Callable[[str], None] = lambda word: None,
        on_sync: Callable[[], None] = lambda: None,
        position: tuple[tuple[bytes, int], ...] = (),
        taking: str = "",
    ) -> None:
        """`deliver` gives the application an event; `done_with` must follow for each, in any order.
        `on_registered` is called with an empty text, or with why not. `position`: what the application is
        done with, where it remembers. `on_displaced`: another subscriber has taken the name over; with its
        word, if it had one. `on_sync`: the sync point has moved. `taking`: this one takes the name over from
        whoever has it, as it is registered for the first time, with this word."""
        self.subscribing = subscribing
        self.archive: Contact | None = None
        self.replica = b""
        self.is_registered = False
        self.is_name_taken = False
        """The archive said that another subscriber of this name is there."""
        self.sync = 0
        """Advanced by the archive's word alone."""
        self.done = Given(position)
        """What the application is done with."""
        self.floor = 0
        """No event comes any more of a stream that began before this time."""
        self._context = context
        self._config = config
        self._deliver = deliver
        self._on_gap = on_gap
        self._on_silent = on_silent
        self._on_registered = on_registered
        self._on_displaced = on_displaced
        self._taking = taking
        self._on_sync = on_sync
        self._since: tuple[Since, float] = (subscribing.since, subscribing.value)
        """Where an archive begins that does not know the name."""
        self._was_registered = False
        """Whether any archive has registered the name in this life."""
        self._session = b""
        self._leaving = False
        self._answered_at = 0.0
        self._told_gaps: dict[bytes, Numbers] = {}
        """Gaps that were told, by source; by replica, in its numbers, where that did not know it."""
        self._heard_gaps: GapRows = ()
        """The gaps in the archive's last response."""
        self._unsent_done = 0
        self._wanted: dict[int, None] = {}
        """Numbers to be asked for, unless they come by themselves within a moment."""
        self._asking = OneTimer(context.call_later, self._ask)
        self._invoice_timer = OneTimer(context.call_later, self._send_invoice)
        self._invoice_at = 0.0
        self._heartbeat = OneTimer(context.call_later, self._overdue)
        self._closed = False

    # The archive.

    def use(self, archive: Contact) -> None:
        """Register with this archive."""
        if self._closed:
            return
        self.archive = archive
        self._answered_at = self._context.now()
        self._begin_session()

    def ask_for(self, interest: bytes) -> None:
        """Ask for something else from here on; `on_registered` is called when an archive has noted it."""
        self.subscribing = replace(self.subscribing, interest=interest)
        if self.archive is not None and not self._closed:
            self._answered_at = self._context.now()
            self._begin_session()

    def leave(self) -> None:
        """Have the archive forget the entity; `on_registered` is called when it has."""
        self._leaving = True
        if self.archive is not None:
            self._register()

    def tell_done(self, leaving: bool = False) -> None:
        """Tell the archive at once what the application is done with; `leaving`: and end the session, after
        which nothing is said: the archive would ask for a new session, which would keep the name."""
        self._send_invoice(leaving)
        if leaving:
            self.close()

    def close(self) -> None:
        self._closed = True
        for timer in (self._asking, self._invoice_timer, self._heartbeat):
            timer.close()

    def _begin_session(self) -> None:
        self.is_registered = False
        self._session = self._context.random.randbytes(SESSION_BYTES)
        self.sync = 0
        self._heard_gaps = ()
        self._wanted.clear()
        self._forget_numbers()
        self._register()
        self._beat()

    def _register(self) -> None:
        assert self.archive is not None
        asked = self.subscribing
        register = Register(
            asked.topic,
            asked.entity,
            self._session,
            asked.interest,
            *self._since,
            self.ordered,
            self.done.streams(self._config.batch_bytes // MARK_BYTES),
            self._leaving,
            self.shared,
            "" if self._was_registered else self._taking,
        )
        self._context.send(self.archive, register)

    def _beat(self) -> None:
        """Repeat whatever the archive may not have got."""
        self._heartbeat.cancel()
        self._heartbeat.set(self._config.heartbeat)

    def _overdue(self) -> None:
        if self._closed or self.archive is None:
            return
        if self._context.now() - self._answered_at >= self._config.patience:
            self._give_up()
            return
        if self.is_registered and not self._leaving:
            self._send_invoice()
        else:
            self._register()
        self._beat()

    def _give_up(self) -> None:
        self.archive = None
        self.is_registered = False
        self._on_silent()

    # What the archive says.

    def _is_mine(self, sender: Contact, session: bytes) -> bool:
        return (
            self.archive is not None
            and sender.id == self.archive.id
            and session == self._session
            and not self._closed
        )

    def receive_response(self, sender: Contact, response: AckResponse) -> None:
        if not self._is_mine(sender, response.session):
            return
        self._answered_at = self._context.now()
        if response.refused:
            self._refused(response)
            return
        if not self.is_registered:
            self.is_registered = self._was_registered = True
            self.replica = response.replica
            self._begin_there_elsewhere(response.began)
            self._on_registered("")
        if response.floor > self.floor:
            self.floor = response.floor
            self._forget_streams()
        self._hear_of_gaps(response)
        if response.sync > self.sync:
            self.sync = response.sync
            self._synced()
            self._on_sync()
        if response.missing:
            above = [(max(first, self.sync + 1), last) for first, last in response.missing]
            self._ask_for(Numbers(spans=above))

    def _refused(self, response: AckResponse) -> None:
        """There is no registration, or none any more."""
        why = response.refused
        if why == REGISTER_AGAIN:
            self._begin_session()
        elif why == MOVED:
            self._give_up()
        elif why == BUSY:
            if self.is_registered:
                return  # it was said before the archive registered this session, and comes late
            self.is_name_taken = True
            if self._was_registered:
                self.close()
                self._on_displaced("")
        elif why == TAKEN:
            self.close()
            self._on_displaced(response.word)
        else:
            self.close()
            self._on_registered("" if why == DEREGISTERED else why)

    def _hear_of_gaps(self, response: AckResponse) -> None:
        self._heard_gaps = response.gaps
        for source, first, last, reason in response.gaps:
            whose = source or response.replica
            told = self._told_gaps.get(whose, Numbers())
            remember(self._told_gaps, whose, told, MOST_TOLD)
            for news in Numbers(spans=[(first, last)]).without(told).spans():
                told.add_span(*news)
                self._on_gap(Gap.of(source, *news, cast(Reason, reason)))

    def _begin_there_elsewhere(self, began: float) -> None:
        """The archive may fail before it has told a replica of the registration. That replica's "now" and its
        numbers are others; times are the same but for what the clocks differ."""
        if self._since[0] in ("now", "sequence"):
            self._since = ("time", began - self._config.skew)

    def receive_notice(self, sender: Contact, notice: Notice) -> None:
        if not self._is_mine(sender, notice.session):
            return
        streams, sync, has = notice.streams, self.sync, self._has
        before = 0
        for sequence, previous, place, catenation, event, doubtful in notice.items:
            if not 0 <= place < len(streams) or sequence >= LARGEST_NUMBER - MOST_EVENTS:
                continue
            if previous > sync and previous != before and not has(previous):
                self._ask_for([previous])
            stream, received = streams[place], Received(event)
            origin = origin_of(stream, received.ids[0])
            content = received if received.is_whole else None
            for sequence, id in enumerate(received.ids, sequence):  # noqa: B020
                if sequence > sync and not has(sequence):
                    self._numbered(
                        Numbered(sequence, stream, catenation, id, content, doubtful, origin)
                    )
                if self._wanted and has(sequence):
                    self._wanted.pop(sequence, None)
                catenation += 1
            before = sequence  # it is here, or asked for
        self._invoice_soon(0)

    # Asking for what is missing.

    def _ask_for(self, sequences: Numbers | list[int]) -> None:
        """Ask in a moment, for what has not come by then."""
        for sequence in sequences:
            if len(self._wanted) >= self._config.window:
                break
            if sequence > self.sync and not self._has(sequence):
                self._wanted[sequence] = None
        if self._wanted:
            self._asking.set(GRACE)

    def _ask(self) -> None:
        self._wanted = {one: None for one in self._wanted if one > self.sync and not self._has(one)}
        if self._wanted:
            self._send_invoice()
            self._asking.set(self._config.retry)

    # Telling what is here.

    def _done_with_one(self) -> None:
        self._unsent_done += 1
        if self._unsent_done >= DONE_A_TIME:
            self._invoice_soon(0)
        elif not self._invoice_timer.is_set:  # one that is set fires within the grace
            self._invoice_soon(GRACE)

    def _invoice_soon(self, delay: float) -> None:
        if self._closed or not self.is_registered:
            return
        due = self._context.now() + delay
        if self._invoice_timer.is_set and self._invoice_at <= due:
            return
        self._invoice_timer.cancel()
        self._invoice_at = due
        self._invoice_timer.set(delay)

    def _send_invoice(self, leaving: bool = False) -> None:
        self._invoice_timer.cancel()
        if self.archive is None or not self.is_registered:
            return
        self._unsent_done = 0
        self._context.send(
            self.archive,
            Invoice(
                self.subscribing.topic,
                self.subscribing.entity,
                self._session,
                spans_of(self._received()),
                () if self._asking.is_set else spans_of(sorted(self._wanted)),
                self._done_to(),
                self._heard_gaps,
                leaving,
                self._unnumbered_ids(),
            ),
        )

    def _forget_streams(self) -> None:
        self.done.forget(self.floor)

    def _unnumbered_ids(self) -> tuple[bytes, ...]:
        """Ids of events that came live long enough ago for the archive to have told their numbers."""
        return ()

    # What the kinds of delivery do.

    @abstractmethod
    def done_with(self, numbered: Numbered) -> None:
        """The application is done with an event that it was given."""

    @property
    def is_settled(self) -> bool:
        """Whether the archive can know all that the application is done with."""
        return True

    @abstractmethod
    def position_with(self, done: Iterable[Numbered]) -> Marks:
        """What the application will be done with when it is done with these events too."""

    @abstractmethod
    def _forget_numbers(self) -> None:
        """The numbers of another archive, or of an earlier session, mean nothing any more."""

    @abstractmethod
    def _has(self, sequence: int) -> bool:
        """Whether nothing more is needed of this number, above the sync point."""

    @abstractmethod
    def _numbered(self, numbered: Numbered) -> None:
        """An event, or the number of one, has come for the first time."""

    @abstractmethod
    def _received(self) -> list[int]:
        """The numbers above the sync point to be acknowledged, in order."""

    @abstractmethod
    def _synced(self) -> None:
        """The archive has advanced the sync point."""

    @abstractmethod
    def _done_to(self) -> int:
        """The application is done with everything up to this number."""
