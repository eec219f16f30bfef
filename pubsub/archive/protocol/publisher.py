"""The publisher's side (section 4.3 of the reliable delivery paper): one stream of events to an archive.

Every event gets the next catenation number and is kept, in a `reliable.window`, until it is safe.
Companions go out in order, a window at a time, consecutive events of a run as one block; the archive's ACK
says what is safe on how many replicas, its NAK what is missing, and that is sent again. An archive that
stays silent is reported, and everything that may not be safe goes to the next one. The companion carries the
event itself, since it goes to one place only and gossip may miss the archive.

An event that is safe no longer counts, but is kept on while there is room: should the archive fail, the
publisher itself fills what its replacement lacks. Where it cannot any more
(the replacement asks for an event that is no longer kept), the rest continues as a new stream, so that no
archive ever waits for an event that only a failed one has; the failed one brings it when it comes back.

An event that wants more copies than there are replicas holds up no other: once it is safe on one replica, it
alone is kept for the rest. Should it have to begin anew elsewhere when its neighbours are no longer kept, it
gets a number behind all others, and replicas know it by its id.

The next archive is told which events were sent to another one before: that one may have stored and delivered
them, so a subscriber that gets them from here is to know that they may come again.

A stream bears the time at which it began, by the clock of the archive that it began at, and is forgotten when
it is old and quiet (`pubsub.archive.protocol.forgetting`). So a publisher that has run for long begins
another stream, at a moment when every replica has all of the one before; and one that is told that its
stream is forgotten goes on as a fork.

Promised: an event that was reported safe on k replicas is on the stable storage of k archives. A number is
never used twice in a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from overlay.contact import Contact
from overlay.context import Context, OneTimer
from pubsub.archive.protocol.archived_event import id_of, join
from pubsub.archive.protocol.config import DurableConfig
from pubsub.archive.protocol.frontier import new_stream
from pubsub.archive.protocol.messages import Companion, Negotiation
from pubsub.reliable.batches import batches
from pubsub.reliable.numbers import spans_of
from pubsub.reliable.window import Window

BACKOFF = 1.5

STUCK = 3
"""An archive that answers and stores nothing of what it was sent, for this many times the patience, is taken
for failed: its disk may hang."""

RENEWAL = 0.25
"""A stream is replaced by a new one at this share of `DurableConfig.forget_runs`."""


@dataclass(slots=True)
class _Kept:
    number: int
    """The catenation number that the application was told."""
    event: bytes
    copies: int
    """The event is owed until this many replicas have it."""


class DurablePublisher:
    """A core. `use` gives it an archive, at first and whenever `on_silent` asked for another one."""

    def __init__(
        self,
        context: Context,
        topic: str,
        config: DurableConfig,
        *,
        on_progress: Callable[[], None],
        on_silent: Callable[[], None],
        repeats: bool = False,
    ) -> None:
        """`on_progress`: `is_safe` or `has_room` may have changed. `repeats`: events may have been archived
        in an earlier life of their publisher, perhaps under another identity. Then every stream is a
        fork: archives know the events of forks by their ids and store none twice."""
        self._repeats = repeats
        self.topic = topic
        self.stream = b""
        """Empty until an archive has been found."""
        self._begun_at = 0.0
        self._archive_time = (0, 0.0)
        """The time by an archive's clock, and ours when it was told."""
        self.archive: Contact | None = None
        self.replicas = 0
        """How many replicas the archive knows of, itself included."""
        self._context = context
        self._config = config
        self._on_progress = on_progress
        self._on_silent = on_silent
        self._base: int | None = None
        self._window: Window[_Kept] = Window(
            config.window, config.window_bytes, lambda kept: len(kept.event)
        )
        """Confirmed is what this archive has said to be safe of this stream; released, what is not kept."""
        self._few_bytes = min(config.spare_bytes, config.buffer_bytes)
        """While at most this many bytes are kept, a further event does not make this publisher forget one."""
        self._safe_to = 0
        """Everything up to this number has been safe on one replica, of this stream or of one before."""
        self._short: dict[int, dict[int, _Kept]] = {}
        """By the number of copies wanted: those up to there that lack some, in order."""
        self._moved: dict[int, int] = {}
        """By the number that the application was told: the one that an event has now."""
        self._owed_bytes = 0
        self._safe: tuple[int, ...] = ()
        self._reached = 0
        """The highest number that was sent to any archive before everything was last sent again."""
        self._replica = b""
        self._resent_to = 0
        """Events up to this number were sent to another archive than this one."""
        self._answered_at = 0.0
        self._stored_at = 0.0
        """When the archive last stored something, or had nothing to store."""
        self._retry = config.retry
        self._timer = OneTimer(context.call_later, self._overdue)
        self._flush_timer = OneTimer(context.call_later, self._flush)
        self._closed = False

    # What the application does.

    @property
    def has_room(self) -> bool:
        config, owed = self._config, self.owed
        return not owed or (owed < config.buffer and self._owed_bytes < config.buffer_bytes)

    @property
    def last(self) -> int:
        """The catenation number of the last event; at first the last one archived in earlier lives."""
        return self._window.last

    @property
    def owed(self) -> int:
        """Events that are not safe yet on as many replicas as they want."""
        return self._window.last - self._safe_to + self.short_of_copies

    @property
    def short_of_copies(self) -> int:
        """The owed events that are safe on one replica, but not yet on as many as they want."""
        return sum(map(len, self._short.values())) if self._short else 0

    def add(self, event: bytes, copies: int = 1) -> int:
        """Publish an event to the archive: its catenation number. `use` must have been called once."""
        assert self._base is not None, "no archive has been found yet"
        now = self._context.now()
        if not self.owed:
            self._answered_at = now
            if now - self._begun_at >= RENEWAL * self._config.forget_runs:
                self._renew()
        if self._safe_to == self._window.last:
            self._stored_at = now
        self._owed_bytes += len(event)
        catenation = self._window.add(_Kept(self._window.last + 1, event, copies))
        if self._window.bytes > self._few_bytes:
            self._release_spare()
        self._flush_timer.set(0)
        return catenation

    def number_of(self, catenation: int) -> int:
        """The number that an event has now; what is lower among those that want as many copies is safe no
        later."""
        return self._moved.get(catenation, catenation)

    def is_safe(self, catenation: int, copies: int = 1) -> bool:
        """Whether `copies` replicas, or as many as the event wants if those are fewer, have it on stable
        storage."""
        number = self.number_of(catenation)
        if number <= self._safe_to and not self._is_short(number):
            return True
        return self._has_copies(number, copies)

    def _is_short(self, number: int) -> bool:
        return bool(self._short) and any(number in short for short in self._short.values())

    def _has_copies(self, number: int, copies: int) -> bool:
        return len(self._safe) >= copies and number <= self._safe[copies - 1]

    def close(self) -> None:
        self._closed = True
        self._timer.close()
        self._flush_timer.close()

    # The archive.

    def use(self, archive: Contact, replica: bytes, catenation: int, time: int) -> None:
        """Talk to this archive, which knows this publisher up to that number from its runs before.
        `replica`: its name, the same for as long as it has the same store. `time`: of its clock."""
        if self._closed:
            return
        self._archive_time = (time, self._context.now())
        if self._base is None:
            self._begin_stream()
            self._base = catenation
            self._safe_to = catenation
            self._window.begin(catenation)
        self._reached = max(self._reached, self._window.sent)
        self._window.send_again()
        self._note_archive(replica)
        self.archive = archive
        self._safe = ()
        self._answered_at = self._stored_at = self._context.now()
        self._retry = self._config.retry
        self._flush()
        if self._window.sent == self._safe_to:
            self._ask()
        self._watch()

    def _note_archive(self, replica: bytes) -> None:
        """Whatever was sent until now may have been stored, and delivered, by another archive than this."""
        if replica != self._replica:
            self._resent_to, self._replica = self._reached, replica

    def receive(self, sender: Contact, negotiation: Negotiation) -> None:
        if self.archive is None or sender.id != self.archive.id or self._closed:
            return
        if negotiation.stream != self.stream:
            return
        self._answered_at = self._context.now()
        if negotiation.begin:
            self._archive_time = (negotiation.begin, self._context.now())
            self._resent_to = max(self._resent_to, self._reached, self._window.sent)
            self._fork(self._safe_to)
            return
        if negotiation.replicas == 0:
            self.archive = None
            self._on_silent()
            return
        self.replicas = negotiation.replicas
        if negotiation.wanted:
            self._send_by_id(negotiation.wanted)
        if negotiation.missing:
            self._send_again(negotiation.missing)
        if self._take(negotiation.safe):
            self._retry = self._config.retry
            self._flush()
            self._on_progress()

    def _take(self, safe: tuple[int, ...]) -> bool:
        """Release what every replica has, and no longer owe what enough of them have."""
        merged = (
            tuple(max(pair) for pair in zip(safe, self._safe + (0,) * len(safe), strict=False))
            + self._safe[len(safe) :]
        )
        merged = tuple(min(mark, self._window.last) for mark in merged)
        if merged == self._safe:
            return False
        self._safe = merged
        if merged[0] > self._safe_to:
            self._stored_at = self._context.now()
            self._raise_safe_to(merged[0])
        self._window.confirm(merged[0])
        self._release_copied()
        self._release_spare()
        return True

    def _raise_safe_to(self, number: int) -> None:
        for one in range(self._safe_to + 1, number + 1):
            kept = self._window[one]
            if kept.copies > 1:
                self._short.setdefault(kept.copies, {})[one] = kept
            else:
                self._owed_bytes -= len(kept.event)
        self._safe_to = number

    def _release_copied(self) -> None:
        """Owe no longer what as many replicas have as it wants."""
        for copies, short in self._short.items():
            while short and self._has_copies(first := next(iter(short)), copies):
                kept = short.pop(first)
                self._owed_bytes -= len(kept.event)
                self._moved.pop(kept.number, None)

    def _release_spare(self) -> None:
        """Forget the oldest events that are safe, where there are too many: an archive that takes another
        one's place may lack them, even if all the replicas that the other one knew had them.

        Of the events behind one that lacks copies as many are kept as may be owed: so it keeps its place
        among them, unless very many were published after it."""
        config, window = self._config, self._window
        firsts = (next(iter(short)) for short in self._short.values() if short)
        first_short = min(firsts, default=self._safe_to + 1)
        before_short = first_short - 1 - config.spare
        behind_short = self._safe_to - config.buffer
        kept_bytes = window.bytes
        for number in range(window.released + 1, min(self._safe_to, window.confirmed) + 1):
            if number < first_short:
                is_spare = number <= before_short or kept_bytes > config.spare_bytes
            else:
                is_spare = number <= behind_short or kept_bytes > config.buffer_bytes
            if not is_spare:
                window.release(number - 1)
                return
            kept_bytes -= len(window[number].event)
        window.release(self._safe_to)

    def _send_again(self, missing: tuple[tuple[int, int], ...]) -> None:
        released, sent = self._window.released, self._window.sent
        known = self._safe[0] if self._safe else 0
        for first, last in missing:
            last = min(last, sent)
            if max(first, known + 1) <= min(last, released):
                self._fork(released)
                return
            # Replicas give each other what one of them has; but that one's disk may have damaged it.
            for span in spans_of(
                number
                for number in range(max(first, released + 1), last + 1)
                if number > known or self._is_short(number)
            ):
                self._send(tuple(range(span.first, span.last + 1)))

    def _send_by_id(self, wanted: tuple[bytes, ...]) -> None:
        """Send again what the archive had stored, has lost to damage, and is still kept here."""
        ids = dict.fromkeys(wanted)
        for number in range(self._window.released + 1, self._window.sent + 1):
            if id_of(self._window[number].event) in ids:
                self._send((number,))

    def _fork(self, base: int) -> None:
        """Go on as a new stream behind an event that this archive lacks and that is no longer here."""
        self._begin_stream(fork=True)
        for short in self._short.values():
            for number in [number for number in short if number <= base]:
                kept = short.pop(number)
                self._moved[kept.number] = self._resent_to = self._window.add(kept)
        self._base = base
        self._reached = max(self._reached, self._window.sent)
        self._window.start_over()
        self._window.confirm(base)
        self._safe = ()
        self._flush()

    def _begin_stream(self, *, fork: bool = False, renews: bool = False) -> None:
        time, told_at = self._archive_time
        now = self._context.now()
        self._begun_at = now
        self.stream = new_stream(
            self._context.contact.id,
            time + int(now - told_at),
            self._context.random.getrandbits(22),
            fork=fork or self._repeats,
            renews=renews,
        )

    def _renew(self) -> None:
        """Go on as a new stream, if every replica has all of this one."""
        last = self._window.last
        if self.archive is None or not self._safe or self._safe[-1] < last:
            return
        self._begin_stream(renews=True)
        self._base = last
        self._window.confirm(last)
        self._window.release(last)
        self._reached = max(self._reached, last)
        self._safe = ()

    # Sending.

    def _flush(self) -> None:
        """Send what the window allows and has not been sent."""
        self._flush_timer.cancel()
        if self.archive is None:
            return
        window, config = self._window, self._config
        while kept := window.next_batch(config.batch, config.batch_bytes):
            self._send_events(window.sent - len(kept) + 1, kept)
        self._watch()

    def _send(self, catenations: tuple[int, ...]) -> None:
        """Send consecutive events, of which all are kept."""
        window, config = self._window, self._config
        kept = ((one, window[one]) for one in catenations)
        for part in batches(kept, lambda one: len(one[1].event), config.batch_bytes, config.batch):
            self._send_events(part[0][0], [one for _, one in part])

    def _send_events(self, first: int, kept: Sequence[_Kept]) -> None:
        assert self.archive is not None
        blocks = tuple(block for _, block in join([one.event for one in kept]))
        self._context.send(self.archive, self._companion(first, blocks))

    def _ask(self) -> None:
        """Ask how things stand: the answer names whatever is missing of what was sent."""
        assert self.archive is not None
        self._context.send(self.archive, self._companion(self._window.sent + 1, ()))

    def _companion(self, first: int, blocks: tuple[bytes, ...]) -> Companion:
        assert self._base is not None
        return Companion(self.topic, self.stream, self._base, first, blocks, self._resent_to)

    def _watch(self) -> None:
        """As long as anything is owed, ask again after a while."""
        if self.owed:
            self._timer.set(self._retry)

    def _overdue(self) -> None:
        if self.archive is None or not self.owed:
            return
        now, patience = self._context.now(), self._config.patience
        silent = now - self._answered_at
        sent = self._window.sent
        is_stuck = self._safe_to < sent and now - self._stored_at >= STUCK * patience
        if silent >= patience or is_stuck:
            self.archive = None
            self._on_silent()
            return
        first = self._safe_to + 1
        if silent >= self._retry and first <= sent:
            self._send(tuple(range(first, min(sent, first + self._config.batch - 1) + 1)))
            self._retry = min(self._retry * BACKOFF, self._config.patience)
        else:
            self._ask()
        self._watch()
