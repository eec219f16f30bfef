"""A session that this node is opening, and what waits to be sent in it."""

from __future__ import annotations

from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey

from overlay.contact import Address
from overlay.context import Timer
from overlay.identity import Identity, agreement_key_of
from overlay.session import packets
from overlay.session.network_key import NetworkKey
from overlay.session.noise import IXPSK0, Handshake, HandshakeError
from overlay.session.session import Session
from overlay.transport.frame import Destination, FrameBatch

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


def proven_payload(handshake: Handshake, payload: bytes) -> tuple[bytes, bytes]:
    """The Ed25519 key that a message claims, if the handshake's static key is that key in its other form; and
    the frame that it brings."""
    public_key, frame = packets.read_payload(payload)
    if agreement_key_of(public_key) != handshake.their_static:
        raise HandshakeError("the static key is not that of the identity")
    return public_key, frame
