"""One session: the keys of a pair of peers, one for each direction, and which datagrams were seen.

    version (1 byte), flags (1), length (2), receiver's index (4), counter (8), sealed frames, tag (16)

The n-th datagram of a direction has the counter n, which is its nonce and never comes twice under a key. The
index is the receiver's own name of the session, so an address may change without a word. A datagram opens
only in the session that it was sealed for: nobody else, and no other life of the same node, takes it.
"""

from __future__ import annotations

import struct
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from overlay.contact import Address, Contact, PeerId
from overlay.session.network_key import NetworkKey
from overlay.session.noise import TAG_BYTES, nonce_of
from overlay.transport.frame import SEALED, VERSION, Dropped

HEAD = struct.Struct(">BBHIQ")
"""Version, flags, length of the whole datagram, receiver's index, counter."""

OVERHEAD = HEAD.size + TAG_BYTES

WINDOW = 1024
"""Datagrams: how far behind the newest a late one may arrive and still be taken."""

_MASK = (1 << WINDOW) - 1


class ReplayWindow:
    """Which counters of one sender have been seen, in the manner of IPsec (RFC 4303, section 3.4.3).

    Takes each counter once; what is more than `WINDOW` behind the newest is taken for seen.

    Asking and marking are apart, so that a counter is marked only once its datagram proved genuine.
    """

    __slots__ = ("_newest", "_seen")

    def __init__(self) -> None:
        self._newest = -1
        self._seen = 0  # bit i: newest - i was seen

    def is_new(self, counter: int) -> bool:
        behind = self._newest - counter
        return behind < 0 or (behind < WINDOW and not self._seen >> behind & 1)

    def mark(self, counter: int) -> None:
        ahead = counter - self._newest
        if ahead > 0:
            self._seen = (self._seen << ahead | 1) & _MASK if ahead < WINDOW else 1
            self._newest = counter
        else:
            self._seen |= 1 << -ahead & _MASK


class Session:
    """Seals for one peer and opens what it sealed; `Sessions` decides when it begins and ends."""

    __slots__ = (
        "_ciphers",
        "_keys",
        "_window",
        "asked",
        "asked_at",
        "began_at",
        "contact",
        "dialled",
        "ends_at",
        "index",
        "is_confirmed",
        "is_doubted",
        "is_due",
        "is_initiator",
        "key",
        "peer",
        "remote_index",
        "sent",
        "source",
        "used_at",
    )

    def __init__(
        self,
        peer: PeerId,
        key: NetworkKey,
        index: int,
        remote_index: int,
        keys: tuple[bytes, bytes],
        is_initiator: bool,
    ) -> None:
        """`keys`: for what the initiator sends, and for what the responder sends."""
        self.peer = peer
        """Who is at the other end: proven by the handshake."""
        self.key = key
        self.index = index
        self.remote_index = remote_index
        self.is_initiator = is_initiator
        self._keys = keys if is_initiator else (keys[1], keys[0])
        self._ciphers: tuple[ChaCha20Poly1305, ChaCha20Poly1305] | None = None
        self._window = ReplayWindow()
        self.sent = 0
        """Datagrams sealed, and so the next counter."""
        self.contact: Contact | None = None
        """The peer at the address at which it has shown that it receives."""
        self.source: tuple[object, ...] | None = None
        """The same address as the socket says it, once the peer has sent from there."""
        self.asked: tuple[Address, bytes] | None = None
        """Another address at which it was asked whether it receives there, and the token that it then has."""
        self.asked_at = float("-inf")
        self.dialled: Address | None = None
        """The address that this node opened the session to."""
        self.is_confirmed = is_initiator
        """Whether the peer has shown that it has the keys; only then is anything sent."""
        self.is_due = False
        """Whether a new session should take its place."""
        self.is_doubted = False
        """Whether the peer says that it does not know this session."""
        self.began_at = self.used_at = 0.0
        self.ends_at = float("inf")

    @property
    def is_ready(self) -> bool:
        """Whether the ciphers are there; they take most of a session's memory."""
        return self._ciphers is not None

    def make_ready(self) -> None:
        self._ciphers = ChaCha20Poly1305(self._keys[0]), ChaCha20Poly1305(self._keys[1])

    def rest(self) -> None:
        """Give the memory of the ciphers back until they are needed again."""
        self._ciphers = None

    def wrap(self, frames: Sequence[bytes | memoryview], is_unnamed: bool = False) -> bytes:
        """The next datagram to the peer, which the session tells; `make_ready` comes before."""
        counter = self.sent
        self.sent = counter + 1
        clear = b"".join(frames)
        head = HEAD.pack(VERSION, SEALED, OVERHEAD + len(clear), self.remote_index, counter)
        return head + self._ciphers[0].encrypt(nonce_of(counter), clear, None)  # type: ignore[index]

    def unwrap(self, datagram: bytes, counter: int) -> bytes:
        """The frames of a datagram that says `counter`, or `Dropped`; `make_ready` comes before."""
        if not self._window.is_new(counter):
            raise Dropped("replayed")
        try:
            frames = self._ciphers[
                1
            ].decrypt(  # type: ignore[index]
                nonce_of(counter), memoryview(datagram)[HEAD.size :], None
            )
        except InvalidTag:
            raise Dropped("not_authentic") from None
        self._window.mark(counter)
        return frames
