"""The sessions that a node is opening, and what waits to be sent in them."""

from __future__ import annotations

from collections import Counter

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from overlay.contact import Address, Contact, PeerId
from overlay.context import Timer
from overlay.identity import Identity, agreement_key_of
from overlay.session import packets
from overlay.session.config import SessionConfig
from overlay.session.network_key import NetworkKey
from overlay.session.noise import IXPSK0, Handshake, HandshakeError
from overlay.session.session import Session
from overlay.transport.address import block_of
from overlay.transport.frame import Destination, FrameBatch

OF_ONE_BLOCK = 2
"""One block of addresses has at most half of the openings: members may name peers that are not there."""

LONGEST_WAIT = 1.0
"""Seconds between two sendings of an opening, at most."""

PROLOGUE = b"camcast session 1"


class Opening:
    """One opening to one address: the same bytes are sent until an answer comes or it is given up."""

    __slots__ = (
        "_cookie",
        "_handshake",
        "address",
        "asked",
        "began_at",
        "datagram",
        "doubted",
        "early",
        "forged",
        "has_waited",
        "held",
        "held_bytes",
        "index",
        "key",
        "sent_at",
        "timer",
        "wait",
    )

    def __init__(self, address: Address, now: float, wait: float, early: bytes = b"") -> None:
        self.address = address
        self.early = early
        """A question that is asked in the opening."""
        self.asked: FrameBatch | None = None
        """The same among those that are held, to be sent if it is not answered at once."""
        self.began_at = now
        self.wait = wait
        """Seconds until the opening is sent again."""
        self.index = 0
        self.key: NetworkKey | None = None
        self.datagram = b""
        """The opening as it is sent; empty before the first sending."""
        self.sent_at = float("-inf")
        self.held: list[tuple[Destination, list[FrameBatch]]] = []
        self.held_bytes = 0
        self.timer: Timer | None = None
        self.doubted: Session | None = None
        """The session that the peer says it has lost."""
        self.has_waited = False
        """Whether it was put off for an opening that came from its address."""
        self.forged = 0
        """Answers that were not by the one whose key they show."""
        self._cookie = b""
        self._handshake: Handshake | None = None

    def write(self, index: int, key: NetworkKey, identity: Identity, secret: bytes) -> None:
        """Make the datagram; `secret`: 32 random bytes for the ephemeral key."""
        self.index, self.key = index, key
        self._handshake = Handshake(
            IXPSK0,
            True,
            static=identity.agreement,
            ephemeral=X25519PrivateKey.from_private_bytes(secret),
            secrets=(key.secret,),
            prologue=PROLOGUE,
        )
        payload = packets.payload(identity.public_key, self.early)
        self.datagram = packets.opening(key, index, self._handshake.write(payload))
        if self._cookie:
            self.datagram = packets.with_proof(self.datagram, self._cookie)

    def take_cookie(self, reply: bytes) -> bool:
        """Whether a reply brought a cookie that is new; the datagram then has the proof."""
        assert self.key is not None
        cookie = packets.read_cookie(reply, self.key, self.datagram)
        if cookie is None or cookie == self._cookie:
            return False
        self._cookie = cookie
        self.datagram = packets.with_proof(self.datagram, cookie)
        return True

    def read(self, message: bytes) -> tuple[bytes, bytes, tuple[bytes, bytes]]:
        """The peer's proven public key, its frame and the session's keys; `HandshakeError` if not proven."""
        assert self._handshake is not None
        # A copy: a member that saw the opening may have made this up, and the true answer is still to come.
        handshake = self._handshake.copy()
        return *proven_payload(handshake, handshake.read(message)), handshake.split()


class Openings:
    """All openings of one node: at most as many, and as much that waits, as the configuration says."""

    def __init__(self, config: SessionConfig) -> None:
        self._config = config
        self.by_address: dict[Address, Opening] = {}
        self.by_index: dict[int, Opening] = {}
        """Those that were sent."""
        self.in_block: Counter[str] = Counter()
        """Openings to each block of addresses."""
        self.held_bytes = 0

    def begin(self, address: Address, now: float, early: bytes) -> Opening | None:
        """A new opening; None when there are too many."""
        block, most = block_of(address.host), self._config.max_openings
        if len(self.by_address) >= most or self.in_block[block] >= max(1, most // OF_ONE_BLOCK):
            return None
        self.in_block[block] += 1
        opening = self.by_address[address] = Opening(address, now, self._config.retry, early)
        return opening

    def hold(self, opening: Opening, to: Destination, batches: list[FrameBatch]) -> bool:
        """Keep what goes there; False when too much waits already."""
        size = sum(batch.size for batch in batches)
        config = self._config
        is_much = opening.held_bytes + size > config.held_bytes
        if is_much or self.held_bytes + size > config.held_total:
            return False
        opening.held.append((to, batches))
        self._count(opening, size)
        return True

    def finish(self, opening: Opening) -> list[tuple[Destination, list[FrameBatch]]]:
        """Forget an opening; what it held."""
        if opening.timer is not None:
            opening.timer.cancel()
        if self.by_address.get(opening.address) is opening:
            del self.by_address[opening.address]
            block = block_of(opening.address.host)
            self.in_block[block] -= 1
            if not self.in_block[block]:
                del self.in_block[block]
        if opening.datagram:
            self.by_index.pop(opening.index, None)
        self._count(opening, -opening.held_bytes)
        held, opening.held = opening.held, []
        return held

    def forget_asked(self, opening: Opening) -> None:
        """The question that was asked in the opening is answered, and is not sent again."""
        for _, batches in opening.held:
            if batches[0] is opening.asked:
                self._count(opening, -batches.pop(0).size)
                break
        opening.held = [(to, batches) for to, batches in opening.held if batches]

    def take_for(
        self, opening: Opening, peer: PeerId
    ) -> list[tuple[Destination, list[FrameBatch]]]:
        """What an opening to whatever address holds for this peer; the opening goes on with the rest."""
        taken = [one for one in opening.held if _is_for(one[0], peer)]
        if taken:
            opening.held = [one for one in opening.held if not _is_for(one[0], peer)]
            self._count(opening, -sum(batch.size for _, batches in taken for batch in batches))
        return taken

    def _count(self, opening: Opening, size: int) -> None:
        opening.held_bytes += size
        self.held_bytes += size


def _is_for(to: Destination, peer: PeerId) -> bool:
    return isinstance(to, Contact) and to.id == peer


def proven_payload(handshake: Handshake, payload: bytes) -> tuple[bytes, bytes]:
    """The Ed25519 key that a message claims, if the handshake's static key is that key in its other form; and
    the frame that it brings."""
    public_key, frame = packets.read_payload(payload)
    if agreement_key_of(public_key) != handshake.their_static:
        raise HandshakeError("the static key is not that of the identity")
    return public_key, frame
