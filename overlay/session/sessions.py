"""All sessions of one node: opened when something is to be sent, answered, renewed and ended.

What is promised in a network with a key, under loss, repetition, reordering, restarts and changes of address:

- A frame is handed up only from a session, under the id that the session's handshake has proven.
- A frame for a peer leaves only in a session with that peer, even if another peer is at its address.
- A session follows its peer to another address once the peer has shown, in the session, that it receives
  there: a member that makes up where it sends from has nothing sent there but one question of 41 bytes in
  `ASK_WHERE` seconds. Until then the peer counts as being where it was.
- A recorded datagram is taken by nobody: not again, not by another node, not after a restart.
- What is to be sent while a session opens waits, within a bound, for one round trip. Only a question that
  anybody may ask and that changes nothing (a sign of life) travels in the opening, and its answer in the
  answer, which only the one whose key the opening shows can read: a recorded opening asks it again in vain.
- An outsider causes two hashes a datagram at most, or, by repeating an opening that was recorded, a bounded
  number of answers a second; no reply is larger than what it replies to.

Two peers that open at the same time: the opening of the smaller id is answered, the other is not.

A node that has lost its side, by a restart or because its table was full, says so (LOST), and the peer opens
anew. A holder of the network key that sees a session's datagrams can make its ends open anew, and no more.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from overlay.contact import ANYONE, Address, Contact, PeerId
from overlay.context import Randomness, Timer
from overlay.identity import Identity, peer_id_of
from overlay.metrics import Metrics
from overlay.session import packets
from overlay.session.admission import FLOODING_SHARE, SHARE, Admission, Replies
from overlay.session.config import SessionConfig
from overlay.session.network_key import NetworkKey, ring_of
from overlay.session.noise import IXPSK0, Handshake, HandshakeError
from overlay.session.opening import LONGEST_WAIT, PROLOGUE, Opening, Openings, proven_payload
from overlay.session.session import HEAD, OVERHEAD, Session
from overlay.session.table import SessionTable, is_at
from overlay.transport.address import sender_contact
from overlay.transport.frame import (
    ANSWER,
    COOKIE,
    LOST,
    OPENING,
    PLAIN,
    SEALED,
    UNNAMED,
    VERSION,
    Destination,
    Dropped,
    FrameBatch,
    SessionEnd,
    Wrap,
)
from overlay.transport.guard import Friend

SWEEP = 5.0
"""Seconds between two looks at what has ended; times of sessions are as exact as that."""

CROSSING = 0.25
"""Seconds: an opening from a peer that this node sent one to later than that ago has crossed it."""

ASK_WHERE = 0.25
"""Seconds between two questions to a peer that seems to send from another address whether it is there."""

FORGED_ANSWERS = 8
"""Answers with a good mac that do not fit an opening, after which it is given up."""

LOST_A_SECOND = 1000
"""Notices of unknown sessions that are sent in one second, a share of them to one block of addresses: rubbish
of an outsider has them sent too, and peers of a node that restarted need theirs."""

Source = tuple[Any, ...]


class SessionCarrier(Protocol):
    """What sessions need of the endpoint that they protect."""

    def now(self) -> float: ...

    def call_at(self, when: float, action: Callable[[], None], /) -> Timer: ...

    def transmit(self, datagram: bytes, to: Address) -> None:
        """Send a datagram as it is, now; it may be lost."""
        ...

    def release(self, to: Destination, batches: list[FrameBatch]) -> None:
        """Take back what was held: there is a session now."""
        ...

    def drop(self, reason: str, frames: int) -> None:
        """Count frames that were not sent."""
        ...

    def is_flooding(self, host: str) -> bool:
        """Whether too much of no use comes from the host's block of addresses."""
        ...

    def early_question(self, batch: FrameBatch) -> bytes:
        """The frames of a datagram to be, if they are one question that may be asked in an opening."""
        ...

    def answer_early(self, sender: Contact, frame: bytes) -> bytes:
        """The frame that answers a question of an opening, or nothing. Nobody has proven to be the sender."""
        ...


class Sessions:
    """The protection of one endpoint; see the module for the promises."""

    overhead = unnamed_overhead = OVERHEAD
    """Bytes that sealing adds to the frames of a datagram."""

    everyone: Wrap | None = None
    """Each peer has a session of its own."""

    def __init__(
        self,
        keys: Sequence[bytes],
        identity: Identity,
        config: SessionConfig,
        carrier: SessionCarrier,
        random: Randomness,
        metrics: Metrics,
    ) -> None:
        self.config = config
        self._ring = ring_of(keys)
        self._identity = identity
        self._carrier = carrier
        self._random = random
        self.table = SessionTable(config, carrier.now, lambda: self._handshakes.add("evicted"))
        self.openings = Openings(config)
        self._others: dict[int, Callable[[bytes, Source], tuple[Contact, bytes, int] | None]] = {
            OPENING: self._take_opening,
            ANSWER: self._take_answer,
            COOKIE: self._take_cookie,
            LOST: self._take_lost,
        }
        self._admission = Admission(random, config.answers_a_second)
        self._now = carrier.now()
        """The time of the last look around: exact enough for all but handshakes."""
        self.channel_sessions: Mapping[int, SessionEnd] = {}
        """Not asked: the session of a datagram tells its sender."""
        self._lost_notices = Replies(LOST_A_SECOND)
        self._sweep_timer: Timer | None = None
        self._handshakes = metrics.family("handshakes", "outcome", "Handshakes of sessions")
        metrics.gauge("sessions", "Peers that this node has a session with", self._count)
        metrics.gauge(
            "sessions_half_open", "Sessions not yet used", lambda: len(self.table.answered)
        )

    def _count(self) -> float:
        return len(self.table.by_peer)

    @property
    def peers(self) -> list[Contact]:
        """The peers of all sessions, where they receive."""
        return [s.contact for s in self.table.by_peer.values() if s.contact is not None]

    def friends(self) -> Iterator[Friend]:
        """Where peers of sessions, and those that are asked to open one, are, and what they name."""
        for session in self.table.by_index.values():
            if session.is_confirmed and session.contact is not None:
                yield Friend(session.contact.host, session.contact.port, session.index)
        for index, opening in self.openings.by_index.items():
            yield Friend(opening.address.host, opening.address.port, index)

    def rekey(self, keys: Sequence[bytes]) -> None:
        """Replace the ring. In sessions of a key that is not in it any more nothing is sent from now on, and
        what arrives is taken for `linger` seconds."""
        ring = ring_of(keys)
        known = {key.secret: key for key in self._ring}
        self._ring = tuple(known.get(key.secret, key) for key in ring)
        for session in list(self.table.by_index.values()):
            if session.key not in self._ring:
                if session.is_confirmed:
                    self.table.retire(session)
                else:
                    self.table.end(session)
            elif session.key is not self._ring[0]:
                session.is_due = True
        for opening in list(self.openings.by_address.values()):
            if opening.datagram and opening.key is not self._ring[0]:
                self.openings.by_index.pop(opening.index)
                opening.datagram = b""
                opening.wait = self.config.retry
                self._send_opening(opening)

    def close(self) -> None:
        """End everything; what waits is dropped."""
        for opening in list(self.openings.by_address.values()):
            self._give_up(opening, "closed")
        if self._sweep_timer is not None:
            self._sweep_timer.cancel()
        self.table.clear()

    # Sending.

    def towards(self, to: Destination) -> Wrap | None:
        """How to seal what goes there, or None when there is no session yet: then `hold` it."""
        session = self.table.towards(to)
        if session is None or session.is_doubted:
            return None
        if session.is_due:
            self._renew(session)
        if not session.is_ready:
            self.table.make_ready(session)
        return session.wrap

    def hold(self, to: Destination, batches: list[FrameBatch]) -> None:
        """Keep what goes there until there is a session, and open one."""
        address = to.address if isinstance(to, Contact) else to
        frames = sum(batch.frames for batch in batches)
        if self._is_taken(to, address):
            self._carrier.drop("another_peer", frames)
            return
        known = self.openings.by_address.get(address)
        opening = known or self._open(address, self._early(batches))
        if opening is None:
            self._carrier.drop("too_many_openings", frames)
            return
        if not self.openings.hold(opening, to, batches):
            self._carrier.drop("no_session", frames)
        elif known is None and opening.early:
            opening.asked = batches[0]

    def _is_taken(self, to: Destination, address: Address) -> bool:
        """Whether another peer than the one that is meant answered at the address a moment ago."""
        there = self.table.by_address.get(address)
        if there is None or there.dialled != address or not _means_another(to, there.peer):
            return False
        return self._carrier.now() - there.began_at < self.config.linger

    def _early(self, batches: list[FrameBatch]) -> bytes:
        frame = self._carrier.early_question(batches[0])
        return frame if len(frame) <= packets.MOST_EARLY else b""

    def _open(self, address: Address, early: bytes = b"") -> Opening | None:
        """Begin to open a session; at once, unless the peer there has just opened one itself."""
        now = self._carrier.now()
        opening = self.openings.begin(address, now, early)
        if opening is None:
            return None
        self._begin_sweeping()
        if self.table.is_answering(address):
            self._set_timer(opening, now)
        else:
            self._send_opening(opening)
        return opening

    def _send_opening(self, opening: Opening) -> None:
        now = self._carrier.now()
        if not opening.datagram:
            opening.write(
                self._new_index(), self._ring[0], self._identity, self._random.randbytes(32)
            )
            self.openings.by_index[opening.index] = opening
        opening.sent_at = now
        self._set_timer(opening, now)
        self._carrier.transmit(opening.datagram, opening.address)

    def _set_timer(self, opening: Opening, now: float) -> None:
        if opening.timer is not None:
            opening.timer.cancel()
        opening.timer = self._carrier.call_at(now + opening.wait, lambda: self._again(opening))

    def _again(self, opening: Opening) -> None:
        """No answer came in time."""
        opening.timer = None
        if self._carrier.now() - opening.began_at >= self.config.give_up_after:
            self._handshakes.add("unanswered")
            self._give_up(opening, "no_session")
        else:
            opening.wait = min(2 * opening.wait, LONGEST_WAIT)
            self._send_opening(opening)

    def _give_up(self, opening: Opening, reason: str) -> None:
        held = self.openings.finish(opening)
        frames = sum(batch.frames for _, batches in held for batch in batches)
        if frames:
            self._carrier.drop(reason, frames)
        if opening.doubted is not None:
            opening.doubted.is_doubted = False

    def _renew(self, session: Session) -> None:
        session.is_due = False
        assert session.contact is not None
        if session.contact.address not in self.openings.by_address:
            self._open(session.contact.address)

    # Receiving.

    def unwrap(self, datagram: bytes, source: Source) -> tuple[Contact, bytes, int] | None:
        """Who sent a datagram, and a buffer with the offset at which its frames begin.

        None for what is not frames and was dealt with; `Dropped` for what is not taken.
        """
        size = len(datagram)
        if size < HEAD.size:
            raise Dropped("truncated")
        version, flags, length, index, counter = HEAD.unpack_from(datagram)
        if flags != SEALED or version != VERSION or length != size or size < OVERHEAD:
            return self._take_other(version, flags, length, datagram, source)
        session = self.table.by_index.get(index)
        if session is None:
            self._say_lost(index, counter, source)
            raise Dropped("unknown_session")
        if not session.is_ready:
            self.table.make_ready(session)
        frames = session.unwrap(datagram, counter)
        if not session.is_confirmed:
            self._confirm(session)
        session.used_at = self._now
        if frames[:1] in (packets.WHERE, packets.HERE):
            self._take_about_address(session, frames, source)
            return None
        if source != session.source:
            self._heard_from(session, source, size)
        assert session.contact is not None
        return (session.contact, frames, 0) if frames else None

    def _take_other(
        self, version: int, flags: int, length: int, datagram: bytes, source: Source
    ) -> tuple[Contact, bytes, int] | None:
        size = len(datagram)
        if version != VERSION:
            raise Dropped("unknown_version")
        if flags in (PLAIN, UNNAMED):
            raise Dropped("unsealed")
        take = self._others.get(flags)
        if take is None and flags != SEALED:
            raise Dropped("unknown_flags")
        if length != size or size != packets.SIZES.get(flags, size) or take is None:
            raise Dropped("truncated")
        return take(datagram, source)

    def _heard_from(self, session: Session, source: Source, size: int) -> None:
        """Ask a peer whose datagram of this size came from another address whether it receives there."""
        there = sender_contact(session.peer, source)
        if there is None:
            raise Dropped("bad_source")
        assert session.contact is not None
        now = self._carrier.now()
        if there.address == session.contact.address:
            session.source = source
        elif (
            size >= packets.WHERE_BYTES
            and self.table.by_peer.get(session.peer) is session
            and now >= session.asked_at + ASK_WHERE
        ):
            token = self._random.randbytes(packets.TOKEN_BYTES)
            session.asked, session.asked_at = (there.address, token), now
            self._carrier.transmit(session.wrap((packets.WHERE, token)), there.address)

    def _take_about_address(self, session: Session, frames: bytes, source: Source) -> None:
        """Answer whether this node receives at an address, or follow a peer that does."""
        there, token = sender_contact(session.peer, source), frames[1:]
        if there is None or len(token) != packets.TOKEN_BYTES:
            raise Dropped("bad_source" if there is None else "truncated")
        if frames[:1] == packets.WHERE:
            self._carrier.transmit(session.wrap((packets.HERE, token)), there.address)
        elif session.asked == (there.address, token):
            session.asked = None
            self._move(session, there, source)

    def _move(self, session: Session, contact: Contact, source: Source) -> None:
        """The peer receives at another address than before."""
        assert session.contact is not None
        if session.contact.address != session.dialled:
            self.table.forget_address(session, session.contact.address)
        session.contact, session.source = contact, source
        if self.table.by_peer.get(session.peer) is session:
            self.table.place(session, contact.address)

    # Answering.

    def _take_opening(self, datagram: bytes, source: Source) -> None:
        contact = sender_contact(self._identity.id, source)
        if contact is None:
            raise Dropped("bad_source")
        address, now, admission = contact.address, self._carrier.now(), self._admission
        is_flooding = self._carrier.is_flooding(contact.host)
        share = FLOODING_SHARE if is_flooding else SHARE
        may_reply = admission.replies.may_send(address.host, now, share)
        if is_flooding and not may_reply and not packets.has_proof(datagram):
            raise Dropped("too_many_openings")
        key = packets.opening_key(datagram, self._ring)
        if key is None:
            raise Dropped("not_authentic")
        index, message = packets.read_opening(datagram)
        known = self.table.answered.get(message)
        admitted = "again"
        if known is None:
            admitted = admission.admits(datagram, address, now, is_flooding)
        if admitted == "yes":
            self._answer(key, index, message, address, now)
            return
        if admitted == "limit" or not may_reply:
            raise Dropped("too_many_openings")
        if known is not None:
            reply = known[1]
        else:
            cookie = admission.cookie_for(address, now)
            reply = packets.cookie_reply(key, index, self._random.randbytes(12), cookie, datagram)
            self._handshakes.add("asked_to_prove")
        admission.replies.sent(address.host)
        self._carrier.transmit(reply, address)

    def _answer(
        self,
        key: NetworkKey,
        remote_index: int,
        message: bytes,
        address: Address,
        now: float,
    ) -> None:
        secret = X25519PrivateKey.from_private_bytes(self._random.randbytes(32))
        handshake = Handshake(
            IXPSK0,
            False,
            static=self._identity.agreement,
            ephemeral=secret,
            secrets=(key.secret,),
            prologue=PROLOGUE,
        )
        try:
            public_key, frame = proven_payload(handshake, handshake.read(message))
            peer = peer_id_of(public_key)
            if peer == self._identity.id:
                raise Dropped("from_self")
            own = self.openings.by_address.get(address)
            if own is not None and self._is_answered_first(own, peer, now):
                raise Dropped("crossed")
            early = b""
            if frame:
                early = self._carrier.answer_early(Contact(peer, *address), frame)
            reply = handshake.write(packets.payload(self._identity.public_key, early))
        except HandshakeError:
            raise Dropped("not_authentic") from None
        index = self._new_index()
        session = Session(peer, key, index, remote_index, handshake.split(), False)
        session.began_at = session.used_at = now
        session.ends_at = now + self.config.give_up_after
        session.contact = Contact(
            peer, *address
        )  # who confirms the session has had the answer there
        self.table.by_index[index] = session
        datagram = packets.answer(key, remote_index, index, reply)
        self.table.answered[message] = session, datagram
        if len(self.table.answered) > self.config.max_half_open:
            _, (oldest, _) = next(iter(self.table.answered.items()))
            self.table.end(oldest)
        if own is not None and not own.has_waited:
            # The peer's opening is on its way to become the session. Only once: whoever makes up its address
            # could keep this node from ever sending its own again, or giving it up.
            own.has_waited = True
            self._set_timer(own, now)
        self._begin_sweeping()
        self._handshakes.add("answered")
        self._carrier.transmit(datagram, address)

    def _is_answered_first(self, own: Opening, peer: PeerId, now: float) -> bool:
        """Whether the peer will answer this node's opening, so that its own opening needs no answer."""
        return self._identity.id < peer and now - own.sent_at < CROSSING

    def _confirm(self, session: Session) -> None:
        """The peer has used a session that this node answered: from now on it is the current one."""
        session.is_confirmed = True
        self.table.no_longer_half_open(session)
        self._establish(session)

    # Opening.

    def _take_answer(self, datagram: bytes, source: Source) -> tuple[Contact, bytes, int] | None:
        """Frames, if the answer brings one."""
        to, remote_index, message = packets.read_answer(datagram)
        opening = self.openings.by_index.get(to)
        if opening is None or opening.key is None:
            raise Dropped("unknown_session")
        if not packets.is_by(datagram, opening.key):
            raise Dropped("not_authentic")
        key = opening.key
        try:
            public_key, frame, keys = opening.read(message)
        except HandshakeError:
            opening.forged += 1
            if opening.forged >= FORGED_ANSWERS:
                self._give_up(opening, "no_session")
            raise Dropped("not_authentic") from None
        peer = peer_id_of(public_key)
        if peer == self._identity.id:
            self._give_up(opening, "no_session")
            raise Dropped("from_self")
        session = Session(peer, key, opening.index, remote_index, keys, True)
        session.contact = Contact(peer, *opening.address)
        session.began_at = session.used_at = self._carrier.now()
        session.dialled = opening.address
        self.table.by_index[session.index] = session
        self._handshakes.add("opened")
        if frame and opening.asked is not None:
            self.openings.forget_asked(opening)
        self._establish(session)
        assert session.contact is not None
        return (session.contact, frame, 0) if frame else None

    def _establish(self, session: Session) -> None:
        """Make a session the current one of its peer, and send what waited for it."""
        assert session.contact is not None
        before = self.table.by_peer.get(session.peer)
        session.ends_at = session.began_at + self.config.end_after
        if before is not None:
            self.table.retire(before)
        self.table.by_peer[session.peer] = session
        # Peers choose these numbers: one that has seen another's does not have that one's notices go astray.
        self.table.by_remote.setdefault(session.remote_index, session)
        addresses = {session.contact.address: None}
        if session.dialled is not None:
            addresses[session.dialled] = None
        if session.key is not self._ring[0]:
            session.is_due = True
        for address in addresses:
            self.table.place(session, address)
        self._release(session, addresses)
        if len(self.table.by_peer) > self.config.max_sessions:
            self.table.make_space(session)

    def _release(self, session: Session, addresses: dict[Address, None]) -> None:
        """Let what waited for a session leave in it, and tell the peer that it is used if nothing does."""
        released: dict[Destination, list[FrameBatch]] = {}
        for opening in list(self.openings.by_address.values()):
            if opening.address in addresses:
                self._settle(opening, session, released)
                continue
            for to, batches in self.openings.take_for(opening, session.peer):
                released.setdefault(to, []).extend(batches)
        for to, batches in released.items():
            self._carrier.release(to, batches)
        if session.is_initiator and not released:
            self.table.make_ready(session)
            assert session.contact is not None
            self._carrier.transmit(session.wrap(()), session.contact.address)

    def _settle(
        self, opening: Opening, session: Session, released: dict[Destination, list[FrameBatch]]
    ) -> None:
        """An opening is over: there is a session with the peer at its address."""
        for to, batches in self.openings.finish(opening):
            if _means_another(to, session.peer):
                self._carrier.drop("another_peer", sum(batch.frames for batch in batches))
            else:
                released.setdefault(to, []).extend(batches)
        if opening.doubted is not None and opening.doubted.peer != session.peer:
            self.table.end(opening.doubted)

    def _take_cookie(self, datagram: bytes, source: Source) -> None:
        opening = self.openings.by_index.get(packets.read_cookie_index(datagram))
        if opening is None:
            raise Dropped("unknown_session")
        if not opening.take_cookie(datagram):
            raise Dropped("not_authentic")
        self._send_opening(opening)

    # Losing.

    def _say_lost(self, index: int, counter: int, source: Source) -> None:
        contact = sender_contact(self._identity.id, source)
        if contact is None:
            return
        host, notices = contact.host, self._lost_notices
        share = FLOODING_SHARE if self._carrier.is_flooding(host) else SHARE
        if not notices.may_send(host, self._carrier.now(), share):
            return
        notices.sent(host)
        self._carrier.transmit(packets.lost(self._ring[0], index, counter), contact.address)

    def _take_lost(self, datagram: bytes, source: Source) -> None:
        if not any(packets.is_by(datagram, key) for key in self._ring):
            raise Dropped("not_authentic")
        index, counter = packets.read_lost(datagram)
        session = self.table.by_remote.get(index)
        if session is None or session.is_doubted or counter >= session.sent:
            return
        contact = sender_contact(session.peer, source)
        if contact is None or not (
            is_at(session, contact.address) or contact.address == session.dialled
        ):
            return  # an outsider can have any member say that it does not know the session
        known = self.openings.by_address.get(contact.address)
        opening = known or self._open(contact.address)
        if opening is not None:
            self._handshakes.add("peer_lost_session")
            session.is_doubted = True
            opening.doubted = session

    # Time.

    def _begin_sweeping(self) -> None:
        if self._sweep_timer is None:
            self._now = self._carrier.now()
            self._sweep_timer = self._carrier.call_at(self._now + SWEEP, self._sweep)

    def _sweep(self) -> None:
        """End what has had its time, and have what is in use renewed in time."""
        self._sweep_timer = None
        now = self._now = self._carrier.now()
        config = self.config
        for session in list(self.table.by_index.values()):
            if now >= session.ends_at:
                self.table.end(session)
                continue
            # One side renews first; the other does when that one had its time and did not.
            age = config.renew_after + (0 if session.is_initiator else config.give_up_after)
            if now - session.began_at >= age or session.sent >= config.renew_count:
                session.is_due = True
        if self.table.by_index or self.openings.by_address:
            self._begin_sweeping()

    def _new_index(self) -> int:
        while True:
            index = self._random.getrandbits(32)
            if index not in self.table.by_index and index not in self.openings.by_index:
                return index


def _means_another(to: Destination, peer: PeerId) -> bool:
    return isinstance(to, Contact) and to.id != peer and to.id != ANYONE
