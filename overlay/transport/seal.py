"""Sealed datagrams: only holders of a network key can read, write, alter or repeat one.

A network has a ring of 32-byte keys. The first seals and all of them open, so a key is replaced without
a stop: add the new one behind the old on every node, then move it to the front, then take the old away.

A sender draws a boot number when it starts, greater than that of its earlier starts. It seals under a key
of its own, BLAKE2b(network key; sender id, boot number), and its n-th datagram has the nonce n: no nonce
is ever used twice under a key, without anything to remember across restarts and without an agreement
with the receiver. The cipher is ChaCha20-Poly1305, and the header is its associated data.

A receiver keeps, for each of the last senders it heard, the newest boot number and a window of
counters. It refuses what it has seen, and every boot number older than the newest. Memory is spent only on
senders whose datagram opened. A datagram that the receiver never saw, or saw before it started
itself, cannot be told from a new one: layers that mind carry session numbers. Those who
hold the key trust each other: a member of the network can pose as another one.
"""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Sequence

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305

from overlay.contact import PeerId
from overlay.errors import UsageError
from overlay.transport.frame import HEADER_BYTES, SEALED, Dropped, check_header, header

KEY_BYTES = 32
TAG_BYTES = 16
SEALED_HEADER_BYTES = HEADER_BYTES + 8 + 8

PEERS = 16_384
"""Senders: how many boot numbers and windows a receiver keeps (about 600 bytes each)."""

_BOOT = slice(HEADER_BYTES, HEADER_BYTES + 8)
_COUNTER = slice(HEADER_BYTES + 8, SEALED_HEADER_BYTES)
_NONCE_HEAD = bytes(4)

WINDOW = 1024
"""Datagrams: how far behind the newest a late one may arrive and still be taken."""

_MASK = (1 << WINDOW) - 1


class NetworkKeyError(UsageError):
    """A network key does not have the form of one."""


def new_key() -> bytes:
    """A fresh network key from the operating system's randomness."""
    return ChaCha20Poly1305.generate_key()


def parse_key(text: str) -> bytes:
    """The key that `key.hex()` printed; white space around it does not matter."""
    try:
        key = bytes.fromhex(text.strip())
    except ValueError:
        key = b""
    if len(key) != KEY_BYTES:
        raise NetworkKeyError(
            f"a network key is written as {2 * KEY_BYTES} hexadecimal digits; make one with `camcast key new`"
        )
    return key


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


class _Peer:
    """What a receiver keeps of one sender."""

    __slots__ = ("boot", "cipher", "window")

    def __init__(self, boot: bytes) -> None:
        self.boot = boot
        self.cipher: ChaCha20Poly1305 | None = None  # None: try every key of the ring
        self.window = ReplayWindow()


class SealedEnvelope:
    """Seals what one sender sends, and opens what others sealed; see the module for the promises."""

    def __init__(
        self, keys: Sequence[bytes], sender: PeerId, boot: int, peers: int = PEERS
    ) -> None:
        self.overhead = SEALED_HEADER_BYTES + TAG_BYTES
        self._sender = bytes(sender)
        self._boot = boot.to_bytes(8, "big")
        self._counter = 0
        self._peers: OrderedDict[bytes, _Peer] = OrderedDict()
        self._peer_limit = peers
        self.rekey(keys)

    @property
    def peers_known(self) -> int:
        """Senders whose boot number and window are kept."""
        return len(self._peers)

    def rekey(self, keys: Sequence[bytes]) -> None:
        """Replace the ring: the first key seals from now on, and no other ones open."""
        if not keys:
            raise NetworkKeyError("a ring has at least one network key")
        self._keys = check_keys(keys)
        self._cipher = _cipher(self._keys[0], self._sender, self._boot)
        for peer in self._peers.values():
            peer.cipher = None

    def wrap(self, frames: Sequence[bytes | memoryview]) -> bytes:
        counter = self._counter.to_bytes(8, "big")
        self._counter += 1
        clear = b"".join(frames)
        head = header(SEALED, self.overhead + len(clear), self._sender) + self._boot + counter
        return head + self._cipher.encrypt(_NONCE_HEAD + counter, clear, head)

    def unwrap(self, datagram: bytes) -> tuple[bytes, bytes, int]:
        check_header(datagram, SEALED)
        if len(datagram) < self.overhead:
            raise Dropped("truncated")
        sender, boot = datagram[4:HEADER_BYTES], datagram[_BOOT]
        counter = int.from_bytes(datagram[_COUNTER], "big")
        peer = self._peers.get(sender)
        if peer is None or boot > peer.boot:
            peer = _Peer(boot)
        elif boot < peer.boot:
            raise Dropped("old_boot")
        elif not peer.window.is_new(counter):
            raise Dropped("replayed")
        frames = self._open(peer, sender, datagram)
        peer.window.mark(counter)
        self._remember(sender, peer)
        return sender, frames, 0

    def _open(self, peer: _Peer, sender: bytes, datagram: bytes) -> bytes:
        """The frames; under the key that opened the last one, or else under any of the ring."""
        nonce = _NONCE_HEAD + datagram[_COUNTER]
        sealed, head = datagram[SEALED_HEADER_BYTES:], datagram[:SEALED_HEADER_BYTES]
        if peer.cipher is not None:
            try:
                return peer.cipher.decrypt(nonce, sealed, head)
            except InvalidTag:
                pass
        for key in self._keys:
            cipher = _cipher(key, sender, peer.boot)
            try:
                frames = cipher.decrypt(nonce, sealed, head)
            except InvalidTag:
                continue
            peer.cipher = cipher
            return frames
        raise Dropped("not_authentic")

    def _remember(self, sender: bytes, peer: _Peer) -> None:
        self._peers[sender] = peer
        self._peers.move_to_end(sender)
        if len(self._peers) > self._peer_limit:
            self._peers.popitem(last=False)


def check_keys(keys: Sequence[bytes]) -> tuple[bytes, ...]:
    """The keys as a tuple, or `NetworkKeyError` when one of them is no key."""
    for key in keys:
        if not isinstance(key, bytes) or len(key) != KEY_BYTES:
            raise NetworkKeyError(
                f"a network key is {KEY_BYTES} bytes; make one with `camcast key new`"
            )
    if len(set(keys)) != len(keys):
        raise NetworkKeyError("a network key is in the ring twice")
    return tuple(keys)


def _cipher(key: bytes, sender: bytes, boot: bytes) -> ChaCha20Poly1305:
    derived = hashlib.blake2b(
        sender + boot, key=key, digest_size=KEY_BYTES, person=b"camcast seal 1"
    )
    return ChaCha20Poly1305(derived.digest())
