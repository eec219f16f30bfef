"""The datagrams that travel outside of sessions, and who may make them.

    OPENING  head (4), my index (4), noise message (160), mac (16), proof of address (16)
    ANSWER   head (4), your index (4), my index (4), noise message (160), mac (16)
    COOKIE   head (4), your index (4), nonce (12), hidden cookie (32)
    LOST     head (4), the index that is not known (4), counter of the datagram (8), mac (16)

The head is that of every datagram: version, flags, length. A noise message brings the sender's Ed25519 key,
and one short frame or none (length, 1 byte; the frame; zeros, 32 bytes in all): a question that may be asked
before there is a session, and its answer.
Each mac is made with a key of the network over all that stands before it. No reply is larger than what it
replies to, so nobody's traffic is made larger by pretending to be somebody.

In a session two datagrams have no frames, but a byte that no frame begins with, and a token (8):

    WHERE    a datagram of yours, at least as large as this one, came from here: do you receive here?
    HERE     yes: the same token
"""

from __future__ import annotations

import hmac
import struct
from hashlib import blake2s

from overlay.identity import PUBLIC_KEY_BYTES
from overlay.session.network_key import MAC_BYTES, NetworkKey
from overlay.session.noise import KEY_BYTES, TAG_BYTES
from overlay.session.session import OVERHEAD
from overlay.transport.frame import ANSWER, COOKIE, LOST, OPENING, VERSION

EARLY_BYTES = 32
MOST_EARLY = EARLY_BYTES - 1
"""Bytes of a frame that fits into an opening or an answer."""

PAYLOAD_BYTES = PUBLIC_KEY_BYTES + EARLY_BYTES
NOISE_BYTES = KEY_BYTES + (KEY_BYTES + TAG_BYTES) + (PAYLOAD_BYTES + TAG_BYTES)
COOKIE_BYTES = 16
TOKEN_BYTES = 8
WHERE, HERE = b"\x00", b"\xff"
WHERE_BYTES = OVERHEAD + 1 + TOKEN_BYTES
_NONCE_BYTES = 12

_OPENING = struct.Struct(f">BBHI{NOISE_BYTES}s{MAC_BYTES}s{MAC_BYTES}s")
_ANSWER = struct.Struct(f">BBHII{NOISE_BYTES}s{MAC_BYTES}s")
_COOKIE = struct.Struct(f">BBHI{_NONCE_BYTES}s{COOKIE_BYTES + TAG_BYTES}s")
_LOST = struct.Struct(f">BBHIQ{MAC_BYTES}s")

SIZES = {
    OPENING: _OPENING.size,
    ANSWER: _ANSWER.size,
    COOKIE: _COOKIE.size,
    LOST: _LOST.size,
}
"""Bytes of each kind of datagram."""

assert max(_ANSWER.size, _COOKIE.size) <= _OPENING.size, (
    "no reply is larger than what it replies to"
)

_NO_PROOF = bytes(MAC_BYTES)


def payload(public_key: bytes, frame: bytes) -> bytes:
    """What a noise message brings; `frame` has at most `MOST_EARLY` bytes, and may be empty."""
    return public_key + bytes((len(frame),)) + frame.ljust(MOST_EARLY, b"\0")


def read_payload(payload: bytes) -> tuple[bytes, bytes]:
    """The public key and the frame, empty where there is none or where its length is wrong."""
    public_key, early = payload[:PUBLIC_KEY_BYTES], payload[PUBLIC_KEY_BYTES:]
    return public_key, early[1 : 1 + early[0]] if early[0] <= MOST_EARLY else b""


def opening(key: NetworkKey, index: int, message: bytes) -> bytes:
    """An opening without a proof of address."""
    size = _OPENING.size
    begin = _OPENING.pack(VERSION, OPENING, size, index, message, b"", b"")[: -2 * MAC_BYTES]
    return begin + key.mac(begin) + _NO_PROOF


def with_proof(datagram: bytes, cookie: bytes) -> bytes:
    """The same opening with the proof that the cookie was received at the sender's address."""
    begin = datagram[:-MAC_BYTES]
    return begin + _proof(begin, cookie)


def has_proof(datagram: bytes) -> bool:
    """Whether the opening says that it brings a proof."""
    return not datagram.endswith(_NO_PROOF)


def proves(datagram: bytes, cookie: bytes) -> bool:
    """Whether the opening was made by one who has the cookie."""
    return hmac.compare_digest(datagram[-MAC_BYTES:], _proof(datagram[:-MAC_BYTES], cookie))


def _proof(begin: bytes, cookie: bytes) -> bytes:
    return blake2s(begin, key=cookie, digest_size=MAC_BYTES).digest()


def opening_key(datagram: bytes, ring: tuple[NetworkKey, ...]) -> NetworkKey | None:
    """The key of the ring that the opening was made with, or None."""
    begin, mac = datagram[: -2 * MAC_BYTES], datagram[-2 * MAC_BYTES : -MAC_BYTES]
    return next((key for key in ring if key.made(mac, begin)), None)


def read_opening(datagram: bytes) -> tuple[int, bytes]:
    """The sender's index and the noise message."""
    _, _, _, index, message, _, _ = _OPENING.unpack(datagram)
    return index, message


def answer(key: NetworkKey, to: int, index: int, message: bytes) -> bytes:
    size = _ANSWER.size
    begin = _ANSWER.pack(VERSION, ANSWER, size, to, index, message, b"")[:-MAC_BYTES]
    return begin + key.mac(begin)


def read_answer(datagram: bytes) -> tuple[int, int, bytes]:
    """The receiver's index, the sender's index and the noise message."""
    _, _, _, to, index, message, _ = _ANSWER.unpack(datagram)
    return to, index, message


def is_by(datagram: bytes, key: NetworkKey) -> bool:
    """Whether the mac at the end of an answer, or of a notice of loss, was made with the key."""
    return key.made(datagram[-MAC_BYTES:], datagram[:-MAC_BYTES])


def cookie_reply(key: NetworkKey, to: int, nonce: bytes, cookie: bytes, about: bytes) -> bytes:
    """Tells the sender of the opening `about` its cookie."""
    hidden = key.hide(cookie, nonce, _mac_of_opening(about))
    return _COOKIE.pack(VERSION, COOKIE, _COOKIE.size, to, nonce, hidden)


def read_cookie_index(datagram: bytes) -> int:
    index: int = _COOKIE.unpack(datagram)[3]
    return index


def read_cookie(datagram: bytes, key: NetworkKey, about: bytes) -> bytes | None:
    """The cookie in a reply to the opening `about`, or None when it is not authentic."""
    _, _, _, _, nonce, hidden = _COOKIE.unpack(datagram)
    return key.show(hidden, nonce, _mac_of_opening(about))


def lost(key: NetworkKey, index: int, counter: int) -> bytes:
    """Tells the sender of a datagram that its session is not known here."""
    size = _LOST.size
    begin = _LOST.pack(VERSION, LOST, size, index, counter, b"")[:-MAC_BYTES]
    return begin + key.mac(begin)


def read_lost(datagram: bytes) -> tuple[int, int]:
    """The index and the counter of the datagram that was not taken."""
    _, _, _, index, counter, _ = _LOST.unpack(datagram)
    return index, counter


def _mac_of_opening(datagram: bytes) -> bytes:
    return datagram[-2 * MAC_BYTES : -MAC_BYTES]
