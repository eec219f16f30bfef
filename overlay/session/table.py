"""The sessions that a node has, found by what datagrams and senders name, and which of them make way."""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Callable

from overlay.contact import ANYONE, Address, Contact, PeerId
from overlay.session.config import SessionConfig
from overlay.session.session import Session
from overlay.transport.address import block_of
from overlay.transport.frame import Destination


class SessionTable:
    """Bounded by the configuration: the blocks of addresses with the most sessions lose theirs first."""

    def __init__(
        self, config: SessionConfig, now: Callable[[], float], evicted: Callable[[], None]
    ) -> None:
        """`evicted` is called for each session that had to make way."""
        self._config = config
        self._now = now
        self._evicted = evicted
        self.by_index: dict[int, Session] = {}
        """Every session that opens datagrams: current, half-open, and replaced a moment ago."""
        self.by_peer: dict[PeerId, Session] = {}
        """The current ones, in which frames are sent."""
        self.by_address: dict[Address, Session] = {}
        self.by_remote: dict[int, Session] = {}
        self.answered: OrderedDict[bytes, tuple[Session, bytes]] = OrderedDict()
        """Half-open sessions by the noise message that they answer, and the answers; oldest first."""
        self._ready: deque[Session] = deque()
        """Sessions whose ciphers are there, in the order in which they were made."""

    def clear(self) -> None:
        self.by_index.clear()
        self.by_peer.clear()
        self.by_address.clear()
        self.by_remote.clear()
        self.answered.clear()
        self._ready.clear()

    def towards(self, to: Destination) -> Session | None:
        """The current session with a peer, or with whoever is at an address."""
        if isinstance(to, Contact):
            session = self.by_peer.get(to.id)
            if session is None and to.id == ANYONE:
                session = self.by_address.get(to.address)
            return session
        return self.by_address.get(to)

    def is_answering(self, address: Address) -> bool:
        """Whether somebody at the address has just opened a session itself."""
        return any(is_at(session, address) for session, _ in self.answered.values())

    def place(self, session: Session, address: Address) -> None:
        """Find a session by an address, unless another peer has shown that it receives there.

        A member can make up the source of a datagram, but not answer what is sent there."""
        there = self.by_address.get(address)
        if there is None or there.dialled != address or address == session.dialled:
            self.by_address[address] = session

    def end(self, session: Session) -> None:
        """Forget a session altogether."""
        self.by_index.pop(session.index, None)
        if not session.is_confirmed:
            self.no_longer_half_open(session)
        self._forget(session)
        session.rest()

    def no_longer_half_open(self, session: Session) -> None:
        for message, (half_open, _) in self.answered.items():
            if half_open is session:
                del self.answered[message]
                break

    def retire(self, session: Session) -> None:
        """Send nothing more in a session, and open for a moment what is late."""
        self._forget(session)
        session.ends_at = min(session.ends_at, self._now() + self._config.linger)

    def _forget(self, session: Session) -> None:
        """Send nothing more in a session."""
        if self.by_peer.get(session.peer) is session:
            del self.by_peer[session.peer]
        if self.by_remote.get(session.remote_index) is session:
            del self.by_remote[session.remote_index]
        if session.contact is not None:
            self.forget_address(session, session.contact.address)
        if session.dialled is not None:
            self.forget_address(session, session.dialled)

    def forget_address(self, session: Session, address: Address) -> None:
        if self.by_address.get(address) is session:
            del self.by_address[address]

    def make_space(self, newest: Session) -> None:
        """End a few sessions: of the blocks of addresses with the most, those used longest ago."""
        by_block: Counter[str] = Counter(map(_block, self.by_peer.values()))
        for _ in range(max(1, self._config.max_sessions // 64)):
            block, most = by_block.most_common(1)[0]
            candidates = [
                s for s in self.by_peer.values() if _block(s) == block and s is not newest
            ]
            if not candidates or most < 1:
                return
            oldest = min(candidates, key=lambda session: session.used_at)
            by_block[block] -= 1
            self._evicted()
            self.end(oldest)

    def make_ready(self, session: Session) -> None:
        if session.is_ready:
            return
        session.make_ready()
        self._ready.append(session)
        while len(self._ready) > self._config.live_ciphers:
            self._ready.popleft().rest()


def is_at(session: Session, address: Address) -> bool:
    return session.contact is not None and session.contact.address == address


def _block(session: Session) -> str:
    assert session.contact is not None
    return block_of(session.contact.host)
