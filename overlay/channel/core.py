"""One channel as a pure object: told the time and what arrived, asked what to send and when to wake.

A channel is a pair of sessions, one random number a side. Data flows only between two ends that have each
heard the other's number (OPEN, ACCEPT), so a segment always names the session it is meant for, and an end
that lost its session, or never had it, answers RESET instead of taking it. Hence a message is handed up at
most once, whatever the network repeats and whichever end restarts; what was sent to a session that ended is
reported lost, and what was not sent yet goes to the next one. An unused channel is dissolved by agreement
(CLOSE), so that neither side forgets what the other may still repeat. The states are tables in `machine`.

The channel of DACE section 4.3: not FIFO; what is sent over it arrives unless a side crashes or they stay
partitioned longer than `forget_after`.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.channel.buffer import OnAck, Until
from overlay.channel.config import ChannelConfig
from overlay.channel.machine import (
    PHASES,
    VOICES,
    ChannelEvent,
    ChannelInput,
    PeerRestarted,
    Phase,
    Voice,
    public_state,
)
from overlay.channel.packet import (
    ACCEPTANCE,
    BUNDLE,
    FRAGMENT,
    LOW,
    OPEN,
    PACKET_HEAD,
    PART_HEAD_BYTES,
    PLACE,
    PROGRESS,
    REST,
    ChannelRefused,
    PacketType,
    Parts,
    whole,
)
from overlay.channel.receiving import (
    MORE_SMALL_SEGMENTS,
    NOTHING,
    SEGMENTS_AN_ACK,
    ReceiveBudget,
    Receiver,
)
from overlay.channel.recovery import MOST_SILENT_RETRIES, ChannelPatience
from overlay.channel.sending import Transmitter
from overlay.contact import Contact
from overlay.transport.frame import Buffer

NO_SESSION = 0

# Asked for every packet: a name of this module is found sooner than a member of an enumeration.
_OPENING, _ESTABLISHED, _SILENT = Phase.OPENING, Phase.ESTABLISHED, Voice.SILENT
_ACK, _PING = int(PacketType.ACK), int(PacketType.PING)
_BUNDLE, _FRAGMENT = int(PacketType.BUNDLE), int(PacketType.FRAGMENT)
_PROGRESS_BYTES, _BUNDLE_BYTES = PROGRESS.size, BUNDLE.size
_read_progress = PROGRESS.unpack_from

_CONTROL = {int(PacketType.OPEN): OPEN, int(PacketType.ACCEPT): ACCEPTANCE}
"""The packets without progress that are more than a head."""


class ChannelCore:
    """This node's end of the channel to one peer."""

    def __init__(
        self,
        contact: Contact,
        config: ChannelConfig,
        max_body: int,
        budget: ReceiveBudget,
        new_session: Callable[[ChannelCore], int],
        now: float,
    ) -> None:
        self.contact = contact
        """The peer, at the address that it was last heard from."""
        self.config = config
        self.phase = Phase.OPENING
        self.voice = Voice.HEARD
        self.state = public_state(self.phase, self.voice)
        self.events: list[ChannelEvent] = []
        """What happened, oldest first, for the owner to take and report."""
        self.transmitter = Transmitter(config, max_body)
        self.patience = ChannelPatience(config, self.transmitter.rtt, now)
        self.receiver = Receiver(config, budget, self.transmitter.room)
        self.write: Callable[[bytes, OnAck | None, Until | None], bool] = (
            self.transmitter.buffer.add
        )
        """Accept a message, or say False when the send buffer is full; see `SendBuffer.add`."""
        self._new_session = new_session
        self.session = NO_SESSION
        """This end's number, which only those know who were sent a packet of this channel."""
        self.asked_where: int | None = None
        """The number of the latest question to an address from which the peer seemed to send."""
        self._probes = 0
        self._suitor = NO_SESSION
        """The session of a peer that asked to open, and may be long gone."""
        self._suitors_limit = 0
        self._resets: dict[tuple[int, int], None] = {}
        """RESETs to be sent: the session that was addressed, and the sender's."""
        self._begin_session()

    def _begin_session(self) -> None:
        self.session = self._new_session(self)
        self.receiver.together = SEGMENTS_AN_ACK + self.session % MORE_SMALL_SEGMENTS
        self._peer = NO_SESSION
        self._ask_due = self._accept_due = False
        self._asked_at: float | None = None
        """When the one OPEN, or the one ACCEPT, was sent; None when there was none, or more than one."""
        self._has_accepted = False
        self._probe_due = False
        self._probed_at: float | None = None
        """When the latest probe was sent, if it is not answered; its number is `_probes`."""
        self.patience.restart()
        self.transmitter.rtt.answered()

    @property
    def gone(self) -> bool:
        """Whether nothing is kept any more; the owner should let go of this object."""
        return self.phase is Phase.GONE

    @property
    def is_half_open(self) -> bool:
        """Opened by a peer that has not shown to hear us, and of no use to this side yet."""
        return self.phase is Phase.OPENING and not self._is_needed

    @property
    def _is_needed(self) -> bool:
        return (
            self.transmitter.buffer.has_unsent or self._ask_due or self.receiver.inbox.has_backlog
        )

    # What the owner asks for.

    def ping(self, now: float) -> None:
        """Ask the peer for a sign of life."""
        self.patience.active_at = now
        self._ask_due = True

    def pause(self) -> None:
        """Hand no message up until `resume`; the sender is held back once the receive buffer is full."""
        self.receiver.inbox.paused = True

    def resume(self) -> list[Buffer]:
        """The messages that came meanwhile."""
        self.receiver.ack_due = self.phase is not Phase.OPENING
        return self.receiver.inbox.resume()

    def heard_elsewhere(self, now: float) -> bool:
        """The peer was heard, but not on this channel: whether the next try is earlier therefore."""
        has_haste = self.phase is not Phase.CLOSING or self.transmitter.buffer.has_unsent
        return has_haste and self.patience.heard_elsewhere(now)

    def challenge(self) -> bytes:
        """A packet that only the session's other end can answer; anyone else says that it is over."""
        return self._progress(PacketType.PING)

    def _progress(self, kind: PacketType) -> bytes:
        upto, limit = self.receiver.inbox.next, self.receiver.tell_limit()
        return PROGRESS.pack(kind, self.session, self._peer, upto & LOW, limit & LOW)

    def place(self, kind: PacketType, number: int) -> bytes:
        """A packet that asks whether the peer is where it is sent, or the answer to one."""
        return PLACE.pack(kind, self.session, self._peer, number)

    def take_echo(self, number: int, now: float) -> None:
        """The answer to a probe: unlike an acknowledgement of what was sent twice, it says to which packet
        it is the answer, and so how long a round trip takes now."""
        if number != self._probes or self._probed_at is None:
            return
        patience, rtt = self.patience, self.transmitter.rtt
        rtt.sample(now - self._probed_at)
        rtt.answered()
        self._probed_at = None
        patience.tries = 0
        patience.heard(now)
        self._answered()
        if patience.retry_at is not None:
            patience.retry_at = min(patience.retry_at, now + self._retry_after())

    def is_of(self, theirs: int, mine: int) -> bool:
        """Whether a packet with these sessions is of the one that both ends know."""
        return mine == self.session and theirs == self._peer != NO_SESSION

    def is_answered_by_another(self, packet: Buffer) -> bool:
        """Whether a packet, which came from the peer's address under another id, names this session.

        Then another process is there now: it was sent what was meant for the peer, and does not know it.
        """
        kind, theirs, mine = PACKET_HEAD.unpack_from(packet)
        if mine != self.session or self.gone:
            return False
        return self.phase is Phase.OPENING or (kind == PacketType.RESET and theirs == self._peer)

    def lose_address(self) -> None:
        """Give the peer up: it is no longer where it was, and everything meant for it is lost."""
        self._on(ChannelInput.ADDRESS_TAKEN)

    def abandon(self) -> None:
        """End at once, telling the peer: what is not acknowledged is lost, all memory is given back."""
        if not self.gone:
            self._on(ChannelInput.ABANDONED)

    # What arrives.

    def receive(self, packet: Buffer, now: float) -> list[Buffer]:
        """The messages to hand up; `ChannelRefused` when the packet, or the segment in it, is not taken."""
        kind = packet[0]
        if kind < _ACK:
            self._receive_control(packet, now)
            return NOTHING
        if len(packet) < _PROGRESS_BYTES:
            raise ChannelRefused("malformed")
        _, theirs, mine, upto, low = _read_progress(packet)
        if theirs != self._peer or mine != self.session:
            self._meet(theirs, mine)
            self._sample_meeting(now)
        patience, transmitter = self.patience, self.transmitter
        patience.tries = 0
        if self.voice is not _SILENT:
            patience.heard_at = now
        elif patience.heard(now):
            self._try_again()  # only when a silence ends: two ends could drive each other
        has_segment = kind > _PING
        has_bits = False
        if not has_segment:
            if low != transmitter.limit & LOW:
                self._learn_limit(low)
            has_bits = len(packet) > _PROGRESS_BYTES
        oldest = transmitter.flight.oldest
        if upto != oldest & LOW or has_bits:
            selective = int.from_bytes(packet[PROGRESS.size :], "little") if has_bits else 0
            upto = whole(upto, oldest)
            if (has_bits or upto > oldest) and transmitter.acknowledge(upto, selective, now):
                patience.retry_at = None
                self._answered()
                if self.phase is Phase.DRAINING and self._finish_draining():
                    return NOTHING
        if kind == _ACK:
            self._answered()
            return NOTHING
        patience.active_at = now
        if not has_segment:
            self.receiver.ack_due = True
            return NOTHING
        return self._take(kind, low, packet, now)

    def _take(self, kind: int, low: int, packet: Buffer, now: float) -> list[Buffer]:
        """Take the segment whose number ends in these bits."""
        receiver = self.receiver
        inbox = receiver.inbox
        size = len(packet) - _BUNDLE_BYTES
        number = inbox.next
        if low != number & LOW:
            number = whole(low, number)
        try:
            if kind == _BUNDLE and size > 0:
                messages = inbox.take_bundle(number, packet[_BUNDLE_BYTES:])
            elif kind == _FRAGMENT and size > PART_HEAD_BYTES:
                *_, length, place = FRAGMENT.unpack_from(packet)
                messages = inbox.take_part(number, length, place, packet[FRAGMENT.size :])
            elif kind == PacketType.REST and len(packet) > REST.size:
                *_, had, place = REST.unpack_from(packet)
                messages = inbox.take_rest(number, had, place, packet[REST.size :])
            else:
                raise ChannelRefused("malformed")
        except ChannelRefused:
            receiver.soon(now)  # the sender learns what has arrived, and how much may come
            raise
        receiver.taken(size, now)
        return messages

    def _receive_control(self, packet: Buffer, now: float) -> None:
        kind = packet[0]
        expected = _CONTROL.get(kind, PACKET_HEAD)
        if len(packet) != expected.size or kind < PacketType.OPEN:
            raise ChannelRefused("malformed")
        _, theirs, mine, *limit = expected.unpack(packet)
        if kind == PacketType.OPEN:
            self._receive_open(theirs, *limit)
        elif kind == PacketType.RESET:
            self._receive_reset(theirs, mine)
        else:
            if theirs != self._peer or mine != self.session:
                self._meet(theirs, mine)
                if kind != PacketType.CLOSE:
                    self._sample_meeting(now, is_accepted=True)
            self.patience.tries = 0
            self.patience.heard(now)
            self._answered()
            if kind == PacketType.CLOSE:
                self._on(ChannelInput.PEER_CLOSES)
            else:
                self.receiver.ack_due = True
                self._learn_limit(*limit)

    def _learn_limit(self, low: int) -> None:
        """The receiver takes as many bytes as this ends in, or more, if an old packet tells it."""
        transmitter = self.transmitter
        limit = whole(low, transmitter.limit)
        if limit <= transmitter.limit:
            return
        if transmitter.is_limited:
            # The PINGs that asked for it, ever more rarely, say nothing about what may leave now.
            transmitter.rtt.answered()
            self.patience.retry_at = None
        transmitter.limit = limit

    def _receive_open(self, theirs: int, limit: int) -> None:
        if theirs == NO_SESSION:
            raise ChannelRefused("malformed")
        if self.phase is Phase.OPENING:
            self._suitor, self._suitors_limit = theirs, limit
            self._accept_due = True
        elif theirs == self._peer:
            self.receiver.ack_due = True  # it has not heard yet that we know its session
        else:
            # A peer that began anew, or an old packet. Ask the session we know: only one that is over resets.
            self._suitor, self._suitors_limit = theirs, limit
            self._ask_due = True

    def _receive_reset(self, rejected: int, mine: int) -> None:
        if mine != self.session or rejected == NO_SESSION:
            raise ChannelRefused("stale_session")
        if rejected == self._peer:
            self._on(ChannelInput.PEER_LOST)
        elif rejected == self._suitor:
            self._suitor = NO_SESSION
            self._accept_due = False
            if self.is_half_open:
                self._on(ChannelInput.REFUSED)

    def _meet(self, theirs: int, mine: int) -> None:
        """Take a packet that names this session as the proof that its sender hears us, or refuse it."""
        if mine != self.session:
            if theirs != NO_SESSION:
                self._reset(mine, theirs)
            if self.phase is Phase.OPENING and self.transmitter.buffer.has_unsent:
                self._ask_due = True  # the peer is about to notice that we began anew
            raise ChannelRefused("unknown_session")
        if self.phase is not Phase.OPENING or theirs == NO_SESSION:
            raise ChannelRefused("stale_session")
        self._peer = theirs
        if theirs == self._suitor:
            self._learn_limit(self._suitors_limit)
        self._on(ChannelInput.MET)

    def _sample_meeting(self, now: float, is_accepted: bool = False) -> None:
        """The handshake is over: it was the first round trip, for both sides."""
        if self._asked_at is not None:
            self.transmitter.rtt.met(now - self._asked_at, is_accepted)

    def _answered(self) -> None:
        self.patience.unanswered_since = None
        self._suitor = NO_SESSION  # the session we know is alive, so the other one is not
        if self.voice is _SILENT:
            self.transmitter.rtt.answered()
            self.patience.retry_at = None
            self._hear(ChannelInput.ANSWERED)
            self._tell_state()

    # The machine: events, and the actions of its tables.

    def _on(self, event: ChannelInput) -> None:
        """Go to the phase that the tables give for an event, and perform the action."""
        self.phase, action = PHASES[self.phase][event]
        self._hear(event)
        getattr(self, f"_do_{action}")()
        self._tell_state()

    def _hear(self, event: ChannelInput) -> None:
        self.voice = VOICES[self.voice].get(event, self.voice)

    def _tell_state(self) -> None:
        state = public_state(self.phase, self.voice)
        if state is not self.state:
            self.state = state
            self.events.append(state)

    def _do_establish(self) -> None:
        self._suitor = NO_SESSION
        self._accept_due = self._ask_due = False
        self.patience.restart()
        self.transmitter.rtt.answered()

    def _do_ask(self) -> None:
        self._ask_due = True

    def _do_finish(self) -> None:
        self._finish_draining()

    def _finish_draining(self) -> bool:
        if not self.transmitter.is_finished:
            return False
        self._on(ChannelInput.FINISHED)
        return True

    def _do_leave(self) -> None:
        self._leave(report=False)

    def _do_leave_and_report(self) -> None:
        self._leave(report=True)

    def _do_refuse_and_leave(self) -> None:
        self._reset(self.session, self._peer)
        self._leave(report=False)

    def _do_refuse_and_report(self) -> None:
        self._reset(self.session, self._peer)
        self._leave(report=True)

    def _do_give_up(self) -> None:
        self.transmitter.buffer.lose_waiting()
        self._suitor = NO_SESSION
        self._leave(report=False)

    def _do_give_up_and_report(self) -> None:
        lost = self.transmitter.buffer.lose_waiting()
        self._suitor = NO_SESSION
        self._leave(report=True, lost=lost)

    def _leave(self, report: bool, lost: int = 0) -> None:
        """End the session: what was sent and not acknowledged is lost; go on in the next one, or end."""
        self._ask_due = False
        self.receiver.restart()
        lost += self.transmitter.restart()
        if report:
            self.events.append(PeerRestarted(lost))
        is_needed = self._is_needed or self._suitor != NO_SESSION
        self._on(ChannelInput.NEEDED if is_needed else ChannelInput.NOT_NEEDED)

    def _do_begin(self) -> None:
        self._begin_session()
        self._accept_due = self._suitor != NO_SESSION
        self._ask_due = self.transmitter.buffer.has_unsent

    def _do_discard(self) -> None:
        if self._peer:
            self._reset(self.session, self._peer)
        self.transmitter.restart()
        self.transmitter.buffer.lose_waiting()
        self.receiver.inbox.discard()

    def _do_end(self) -> None:
        """Nothing is left to do."""

    def _reset(self, rejected: int, theirs: int) -> None:
        self._resets[rejected, theirs] = None

    # What to send.

    def packets(self, now: float) -> list[Parts]:
        """Everything that may leave now."""
        out: list[Parts] = []
        if self._resets:
            out += [(PACKET_HEAD.pack(PacketType.RESET, *pair),) for pair in self._resets]
            self._resets.clear()
        phase, patience = self.phase, self.patience
        may_hurry = patience.tries > MOST_SILENT_RETRIES or phase is Phase.CLOSING
        if may_hurry and self.transmitter.buffer.has_unsent and patience.hurry(now):
            self._ask_due = True
        if phase is _ESTABLISHED:
            asks = self._send_progress(out, now)
        elif phase is _OPENING:
            asks = self._send_handshake(out, now)
        elif phase is Phase.GONE:
            return out
        else:
            asks = self._send_progress(out, now)
        if asks and patience.unanswered_since is None:
            patience.unanswered_since = now
        if not (self.transmitter.flight.size or self._awaits_answer):
            patience.retry_at = None
        elif patience.retry_at is None:
            is_usual = phase is _ESTABLISHED
            wait = self.transmitter.rtt.timeout if is_usual else self._retry_after()
            patience.retry_at = now + wait
        return out

    def packet_alone(
        self, message: bytes, on_ack: OnAck | None, until: Until | None, now: float
    ) -> Parts | None:
        """Take a message, as `write` does, and give the packet in which it leaves, as `packets` does, in a
        third of the calls: who publishes one event to many peers makes them wait for each other's.

        None, and nothing taken, where anything else waits or is to be said."""
        receiver, patience = self.receiver, self.patience
        if self.phase is not _ESTABLISHED or self._ask_due or receiver.ack_due or self._resets:
            return None
        run = self.transmitter.send_alone(message, on_ack, until, now)
        if run is None:
            return None
        upto = receiver.inbox.next
        if receiver.ack_at is not None:
            receiver.rode(now)
        patience.active_at = now
        if patience.unanswered_since is None:
            patience.unanswered_since = now
        if patience.retry_at is None:
            patience.retry_at = now + self.transmitter.rtt.timeout
        return run.packet(self.session, self._peer, upto)

    def _send_handshake(self, out: list[Parts], now: float) -> bool:
        if self._accept_due:
            self._accept_due = False
            is_only_one = not self._has_accepted and self.patience.unanswered_since is None
            self._asked_at = now if is_only_one else None
            self._has_accepted = True
            head = (PacketType.ACCEPT, self.session, self._suitor)
            out.append((ACCEPTANCE.pack(*head, self.receiver.tell_limit() & LOW),))
            return self.transmitter.buffer.has_unsent
        has_begun = self.patience.retry_at is not None
        if not self._ask_due and (has_begun or not self.transmitter.buffer.has_unsent):
            return False
        self._ask_due = False
        is_only_one = self.patience.unanswered_since is None and not self._has_accepted
        self._asked_at = now if is_only_one else None
        limit = self.receiver.tell_limit() & LOW
        out.append((OPEN.pack(PacketType.OPEN, self.session, NO_SESSION, limit),))
        return True

    def _send_progress(self, out: list[Parts], now: float) -> bool:
        receiver, transmitter = self.receiver, self.transmitter
        buffer, flight = transmitter.buffer, transmitter.flight
        is_idle = not (buffer.waiting or flight.lost or buffer.cutting)
        if is_idle and not self._ask_due and not receiver.ack_due:
            return False
        mine, theirs, upto = self.session, self._peer, receiver.inbox.next
        asks = False
        if not is_idle and self.patience.tries <= MOST_SILENT_RETRIES:
            only_finish = self.phase is not _ESTABLISHED
            while (run := transmitter.next_run(now, only_finish)) is not None:
                asks = True
                out += run.packets(mine, theirs, upto)
                if not (buffer.waiting or flight.lost or buffer.cutting):
                    break
        if self._probe_due:
            self._probe_due = False
            self._probes += 1
            self._probed_at = now
            out.append((self.place(PacketType.WHERE, self._probes),))
        if asks:
            self.patience.active_at = now
            if receiver.ack_due or receiver.ack_at is not None:
                receiver.rode(now)
        if not self._ask_due and not receiver.ack_due:
            return asks
        closes = self._ask_due and self.phase is Phase.CLOSING
        pings = self._ask_due and not closes
        if closes:
            out.append((PACKET_HEAD.pack(PacketType.CLOSE, mine, theirs),))
        if pings or receiver.ack_due:
            kind = PacketType.PING if pings else PacketType.ACK
            out.append((self._progress(kind), receiver.selective_bits()))
            receiver.acknowledged(now)
        self._ask_due = False
        return asks or closes or pings

    @property
    def has_news(self) -> bool:
        """Whether `packets` may have something to send, or the owner something to report."""
        buffer = self.transmitter.buffer
        return bool(
            self.receiver.ack_due
            or buffer.used  # nothing waits, and nothing is on its way, that is not counted there
            or buffer.outcomes
            or self._ask_due
            or self._accept_due
            or self._resets
            or self.events
        )

    @property
    def _awaits_answer(self) -> bool:
        """Whether what was sent must be sent again until an answer comes."""
        transmitter = self.transmitter
        if self.phase is Phase.OPENING:
            return transmitter.buffer.has_unsent
        return bool(transmitter.flight) or self.phase is Phase.CLOSING or transmitter.is_limited

    def _retry_after(self) -> float:
        return self.patience.retry_after(self.phase, self.transmitter.buffer.has_unsent)

    # Time.

    def next_timer(self) -> float:
        """When to call `handle_timer` next."""
        patience = self.patience
        due = patience.idle_at
        if patience.retry_at is not None and patience.retry_at < due:
            due = patience.retry_at
        if patience.unanswered_since is not None:
            config = self.config
            wait = config.forget_after if self.voice is Voice.SILENT else config.close_after
            due = min(due, patience.unanswered_since + wait)
        ack_at, look_again_at = self.receiver.ack_at, self.transmitter.look_again_at
        if ack_at is not None and ack_at < due:
            due = ack_at
        if look_again_at is not None and look_again_at < due:
            due = look_again_at
        return due

    def handle_timer(self, now: float) -> None:
        """Do what is due; `packets` then has what is to be sent."""
        patience = self.patience
        self.receiver.handle_timer(now)
        self.transmitter.handle_timer(now)
        if patience.retry_is_due(now):
            patience.tried(now)
            self._try_again()
            self._probe_due = bool(self.transmitter.flight)
        if patience.is_unanswered_for(self.config.forget_after, now):
            self._on(ChannelInput.FORGOTTEN)
        elif patience.is_unanswered_for(self.config.close_after, now):
            self._hear(ChannelInput.UNANSWERED)
            self._tell_state()
        elif self.transmitter.is_stuck_for(self.config.forget_after, now):
            self._on(ChannelInput.STUCK)  # it answers, but the two ends no longer agree
        if patience.idle_is_due(now):
            self._idle(now)

    def _try_again(self) -> None:
        self.patience.retry_at = None
        if self.transmitter.flight:
            self.transmitter.time_out()
            self._ask_due = self.patience.only_asks
        elif self._awaits_answer:
            self._ask_due = True

    def _idle(self, now: float) -> None:
        busy = self.transmitter.flight or self._is_needed
        if self.phase is Phase.ESTABLISHED and not busy:
            self._on(ChannelInput.IDLE)
        elif self.is_half_open and self.patience.is_unused_for(self.config.forget_after, now):
            self._on(ChannelInput.UNUSED)
