"""One channel as a pure state machine: told the time and what arrived, asked what to send and when to wake.

A channel is a pair of sessions, one random number a side. Data flows only between two ends that have each
heard the other's number (OPEN, ACCEPT), so a segment always names the session it is meant for, and an end
that lost its session, or never had it, answers RESET instead of taking it. Hence a message is handed up at
most once, whatever the network repeats and whoever restarts; what was sent to a session that ended is
reported lost, and what was not sent yet goes to the next one. An unused channel is dissolved by agreement
(CLOSE), so that neither side forgets what the other may still repeat.

The channel of DACE section 4.3: not FIFO; what is sent over it arrives unless a side crashes or they stay
partitioned longer than `forget_after`.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum

from overlay.channel.protocol.budget import Budget
from overlay.channel.protocol.config import ChannelConfig
from overlay.channel.protocol.packet import (
    ACCEPTANCE,
    PACKET_HEAD,
    PROGRESS,
    PacketType,
    Refused,
)
from overlay.channel.protocol.patience import Patience
from overlay.channel.protocol.receiver import Receiver
from overlay.channel.protocol.state import ChannelEvent, ChannelState, OnAck, PeerRestarted
from overlay.channel.protocol.transmitter import Transmitter
from overlay.contact import Contact

NO_SESSION = 0
NOTHING: list[bytes] = []


class Phase(Enum):
    OPENING = 0
    """The peer's session is not known to be current; no segment is sent."""
    ESTABLISHED = 1
    DRAINING = 2
    """The peer wants to dissolve: no new message, until all that were begun are acknowledged."""
    CLOSING = 3
    """This side wants to dissolve: no new segment is ever sent in this session."""


class ChannelCore:
    """This node's end of the channel to one peer."""

    def __init__(
        self,
        contact: Contact,
        config: ChannelConfig,
        max_body: int,
        budget: Budget,
        new_session: Callable[[ChannelCore], int],
        now: float,
    ) -> None:
        self.contact = contact
        """The peer, at the address that it was last heard from."""
        self.config = config
        self.state = ChannelState.OPENING
        self.events: list[ChannelEvent] = []
        """What happened, oldest first, for the owner to take and report."""
        self.gone = False
        """Nothing is kept any more; the owner should let go of this object."""
        self.patience = Patience(config, now)
        self.transmitter = Transmitter(config, max_body)
        self.receiver = Receiver(config, budget, self.transmitter.room)
        self.write: Callable[[bytes, OnAck | None], bool] = self.transmitter.buffer.add
        """Accept a message, or say False when the send buffer is full; see `SendBuffer.add`."""
        self._max_body = max_body
        self._new_session = new_session
        self.session = NO_SESSION
        """This end's number, which only those know who were sent a packet of this channel."""
        self._suitor = NO_SESSION
        """The session of a peer that asked to open, and may be long gone."""
        self._silent_retries = 0
        """Times that something was sent again since the peer was last heard."""
        self._resets: dict[tuple[int, int], None] = {}
        """RESETs to be sent: the session that was addressed, and the sender's."""
        self._begin_session()

    def _begin_session(self) -> None:
        self.phase = Phase.OPENING
        self.session = self._new_session(self)
        self._silent_retries = 0
        self._peer = NO_SESSION
        self._ask_due = self._accept_due = False
        self._asked_at: float | None = None
        """When the one OPEN was sent; None when there was none, or more than one."""
        self.patience.restart()
        self.transmitter.rtt.answered()

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

    def resume(self) -> list[bytes]:
        """The messages that came meanwhile."""
        self.receiver.ack_due = self.phase is not Phase.OPENING
        return self.receiver.inbox.resume()

    def challenge(self) -> bytes:
        """A packet that only the session's other end can answer; anyone else says that it is over."""
        heard = (0, self.receiver.inbox.next, self.receiver.inbox.limit, 0)
        return PROGRESS.pack(PacketType.PING, self.session, self._peer, *heard)

    def is_answered_by_another(self, packet: bytes) -> bool:
        """Whether a packet, which came from the peer's address under another id, names this session.

        Then another process is there now: it was sent what was meant for the peer, and does not know it.
        """
        kind, theirs, mine = PACKET_HEAD.unpack_from(packet)
        if mine != self.session:
            return False
        return self.phase is Phase.OPENING or (kind == PacketType.RESET and theirs == self._peer)

    def lose_address(self) -> None:
        """Give the peer up: it is no longer where it was, and everything meant for it is lost."""
        state = len(self.events)
        lost = self.transmitter.buffer.lose_waiting()
        self._suitor = NO_SESSION
        lost += self._leave_session()
        self.events.insert(state, PeerRestarted(lost))

    def abandon(self) -> None:
        """End at once, telling the peer: what is not acknowledged is lost, all memory is given back."""
        if self._peer:
            self._reset(self.session, self._peer)
        self.transmitter.restart()
        self.transmitter.buffer.lose_waiting()
        self.receiver.inbox.discard()
        self._end()

    # What arrives.

    def receive(self, packet: bytes, now: float) -> list[bytes]:
        """The messages to hand up; `Refused` when the packet, or the segment in it, is not taken."""
        kind = packet[0]
        if kind < PacketType.ACK:
            self._receive_control(packet, now)
            return NOTHING
        start = PROGRESS.size
        if len(packet) < start:
            raise Refused("malformed")
        _, theirs, mine, number, upto, limit, selective_bytes = PROGRESS.unpack_from(packet)
        if theirs != self._peer or mine != self.session:
            self._meet(theirs, mine)
        selective = 0
        if selective_bytes:
            start += selective_bytes
            selective = int.from_bytes(packet[PROGRESS.size : start], "little")
        self._silent_retries = 0
        if self.patience.heard(now) and self.state is ChannelState.CLOSED:
            self._try_again()  # only when a silence ends: two ends could drive each other
        transmitter = self.transmitter
        transmitter.allow(limit)
        if (selective or upto > transmitter.flight.oldest) and transmitter.acknowledge(
            upto, selective, now
        ):
            self.patience.retry_at = None
            self._answered()
            if self.phase is Phase.DRAINING and self._finish_draining():
                return NOTHING
        elif kind == PacketType.ACK:
            self._answered()
        if kind == PacketType.ACK:
            return NOTHING
        self.patience.active_at = now
        if kind == PacketType.PING:
            self.receiver.ack_due = True
            return NOTHING
        return self.receiver.take(kind, number, packet[start:], now)

    def _receive_control(self, packet: bytes, now: float) -> None:
        kind = packet[0]
        expected = ACCEPTANCE if kind == PacketType.ACCEPT else PACKET_HEAD
        if len(packet) != expected.size or kind < PacketType.OPEN:
            raise Refused("malformed")
        _, theirs, mine, *limit = expected.unpack(packet)
        if kind == PacketType.OPEN:
            self._receive_open(theirs)
        elif kind == PacketType.RESET:
            self._receive_reset(theirs, mine)
        else:
            is_first = self.phase is Phase.OPENING
            if theirs != self._peer or mine != self.session:
                self._meet(theirs, mine)
            self._silent_retries = 0
            self.patience.heard(now)
            self._answered()
            if kind == PacketType.CLOSE:
                self._receive_close()
            else:
                self.receiver.ack_due = True
                self.transmitter.allow(limit[0])
                if is_first and self._asked_at is not None:
                    self.transmitter.rtt.sample(now - self._asked_at)

    def _receive_open(self, theirs: int) -> None:
        if theirs == NO_SESSION:
            raise Refused("malformed")
        if self.phase is Phase.OPENING:
            self._suitor = theirs
            self._accept_due = True
        elif theirs == self._peer:
            self.receiver.ack_due = True  # it has not heard yet that we know its session
        else:
            # A peer that began anew, or an old packet. Ask the session we know: only one that is over resets.
            self._suitor = theirs
            self._ask_due = True

    def _receive_reset(self, rejected: int, mine: int) -> None:
        if mine != self.session or rejected == NO_SESSION:
            raise Refused("stale_session")
        if rejected == self._peer:
            self._lose_peer()
        elif rejected == self._suitor:
            self._suitor = NO_SESSION
            self._accept_due = False
            if self.is_half_open:
                self._end()

    def _receive_close(self) -> None:
        if self.phase is Phase.CLOSING:
            self._reset(self.session, self._peer)
            self._leave_session()
        else:
            self.phase = Phase.DRAINING
            self._finish_draining()

    def _finish_draining(self) -> bool:
        if not self.transmitter.is_finished:
            return False
        self._reset(self.session, self._peer)
        self._leave_session()
        return True

    def _meet(self, theirs: int, mine: int) -> None:
        """Take a packet that names this session as the proof that its sender hears us, or refuse it."""
        if mine != self.session:
            if theirs != NO_SESSION:
                self._reset(mine, theirs)
            if self.phase is Phase.OPENING and self.transmitter.buffer.has_unsent:
                self._ask_due = True  # the peer is about to notice that we began anew
            raise Refused("unknown_session")
        if self.phase is not Phase.OPENING or theirs == NO_SESSION:
            raise Refused("stale_session")
        self.phase = Phase.ESTABLISHED
        self._peer = theirs
        self._suitor = NO_SESSION
        self._accept_due = self._ask_due = False
        self.patience.restart()
        self.transmitter.rtt.answered()
        self._set_state(ChannelState.OPEN)

    def _answered(self) -> None:
        self.patience.unanswered_since = None
        self._suitor = NO_SESSION  # the session we know is alive, so the other one is not
        if self.state is ChannelState.CLOSED:
            self.transmitter.rtt.answered()
            self.patience.retry_at = None
            self._set_state(ChannelState.OPEN)

    # How a session ends.

    def _lose_peer(self) -> None:
        if self.phase is Phase.CLOSING:
            self._leave_session()
            return
        state = len(self.events)
        lost = self._leave_session()
        self.events.insert(state, PeerRestarted(lost))

    def _leave_session(self) -> int:
        """Go on in a new session, or end when nothing is left to do; how many messages were lost."""
        self._ask_due = False
        self.receiver.restart()
        lost = self.transmitter.restart()
        if not self._is_needed and not self._suitor:
            self._end()
            return lost
        suitor = self._suitor
        self._begin_session()
        self._accept_due = suitor != NO_SESSION
        self._ask_due = self.transmitter.buffer.has_unsent
        self._set_state(ChannelState.OPENING)
        return lost

    def _end(self) -> None:
        self.gone = True
        self._set_state(ChannelState.IDLE)

    def _reset(self, rejected: int, theirs: int) -> None:
        self._resets[rejected, theirs] = None

    def _set_state(self, state: ChannelState) -> None:
        if state is not self.state:
            self.state = state
            self.events.append(state)

    # What to send.

    def packets(self, now: float) -> list[bytes]:
        """Everything that may leave now."""
        out = [PACKET_HEAD.pack(PacketType.RESET, *pair) for pair in self._resets]
        self._resets.clear()
        if self.gone:
            return out
        if self.phase is Phase.OPENING:
            asks = self._send_handshake(out, now)
        else:
            asks = self._send_progress(out, now)
        patience = self.patience
        if asks:
            patience.asked(now)
        if not self._awaits_answer:
            patience.retry_at = None
        elif patience.retry_at is None:
            patience.retry_at = now + self.transmitter.rtt.timeout
        return out

    def _send_handshake(self, out: list[bytes], now: float) -> bool:
        if self._accept_due:
            self._accept_due = False
            head = (PacketType.ACCEPT, self.session, self._suitor)
            out.append(ACCEPTANCE.pack(*head, self.receiver.inbox.limit))
            return self.transmitter.buffer.has_unsent
        has_begun = self.patience.retry_at is not None
        if not self._ask_due and (has_begun or not self.transmitter.buffer.has_unsent):
            return False
        self._ask_due = False
        self._asked_at = now if self.patience.unanswered_since is None else None
        out.append(PACKET_HEAD.pack(PacketType.OPEN, self.session, NO_SESSION))
        return True

    def _send_progress(self, out: list[bytes], now: float) -> bool:
        receiver = self.receiver
        if not self._ask_due and not receiver.ack_due and self.transmitter.is_idle:
            return False
        selective = receiver.selective_bits()
        ends = (self.session, self._peer)
        heard = (receiver.inbox.next, receiver.inbox.limit)
        transmitter = self.transmitter
        only_finish = self.phase is not Phase.ESTABLISHED
        asks = False
        while (
            not self._is_silent
            and (segment := transmitter.next_segment(now, only_finish)) is not None
        ):
            asks = True
            bits = selective and selective[: self._max_body - PROGRESS.size - segment.size]
            head = PROGRESS.pack(segment.kind, *ends, segment.number, *heard, len(bits))
            out.append(b"".join((head, bits, segment.payload)))
        if asks:
            self.patience.active_at = now
            receiver.acknowledged()
        if self._ask_due:
            asks = True
            self._ask_due = False
            if self.phase is Phase.CLOSING:
                out.append(PACKET_HEAD.pack(PacketType.CLOSE, *ends))
            else:
                out.append(
                    PROGRESS.pack(PacketType.PING, *ends, 0, *heard, len(selective)) + selective
                )
                receiver.acknowledged()
        if receiver.ack_due:
            out.append(PROGRESS.pack(PacketType.ACK, *ends, 0, *heard, len(selective)) + selective)
            receiver.acknowledged()
        return asks

    @property
    def _awaits_answer(self) -> bool:
        """Whether what was sent must be sent again until an answer comes."""
        transmitter = self.transmitter
        if self.phase is Phase.OPENING:
            return transmitter.buffer.has_unsent
        return bool(transmitter.flight) or self.phase is Phase.CLOSING or transmitter.is_limited

    # Time.

    def next_timer(self) -> float:
        """When to call `handle_timer` next."""
        due = self.patience.next_timer(self.state is ChannelState.CLOSED)
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
            self.transmitter.rtt.timed_out()
            self._silent_retries += 1
            self._try_again()
        if patience.is_unanswered_for(self.config.forget_after, now):
            self._forget()
        elif patience.is_unanswered_for(self.config.close_after, now):
            self._set_state(ChannelState.CLOSED)
        elif self.transmitter.is_stuck_for(self.config.forget_after, now):
            self._reset(self.session, self._peer)  # it answers, but the two ends no longer agree
            self._lose_peer()
        if patience.idle_is_due(now):
            self._idle(now)

    def _try_again(self) -> None:
        self.patience.retry_at = None
        if self.transmitter.flight:
            self.transmitter.time_out()
            self._ask_due = self._is_silent
        elif self._awaits_answer:
            self._ask_due = True

    @property
    def _is_silent(self) -> bool:
        """Whether the peer is only asked for a sign of life, until it gives one: it may have crashed, and
        somebody else may be at its address by now, who is not to be sent what is meant for the peer."""
        return self._silent_retries > 1

    def _forget(self) -> None:
        """Give the peer up: everything meant for it is lost."""
        self.transmitter.buffer.lose_waiting()
        self._suitor = NO_SESSION
        self._leave_session()

    def _idle(self, now: float) -> None:
        busy = self.transmitter.flight or self._is_needed
        if self.phase is Phase.ESTABLISHED and not busy:
            self.phase = Phase.CLOSING
            self._ask_due = True
        elif self.is_half_open and self.patience.is_unused_for(self.config.forget_after, now):
            self._end()
