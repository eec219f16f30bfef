"""The head that pairs a reply with its request, in front of one typed message.

    flags (1 byte), attempt (1), number (8), challenge (16, if flagged), proof (96, if flagged), message

A request's number is random, and its reply repeats it: who cannot see the request cannot forge the reply.
The attempt counts how often the request was sent; the reply repeats that too, so that a round trip is
measured from the right sending, and one that was lost is told from one that was late.
"""

from __future__ import annotations

from typing import NamedTuple

from overlay.wire import WireError

NUMBER_BYTES = 8
CHALLENGE_BYTES = 16
PROOF_BYTES = 96
HEAD_BYTES = 2 + NUMBER_BYTES

_REPLY = 1
_LIGHT = 2
_CHALLENGE = 4
_PROOF = 8
_KNOWN_FLAGS = _REPLY | _LIGHT | _CHALLENGE | _PROOF


class Letter(NamedTuple):
    """One request or reply between two nodes of the DHT."""

    is_reply: bool
    from_light: bool
    """The sender uses the DHT without serving it: not to be entered in a routing table."""
    attempt: int
    number: bytes
    challenge: bytes | None
    """A request's: prove your id by signing this. See `id_proof`."""
    proof: bytes | None
    """A reply's: the sender's answer to the challenge."""
    payload: bytes

    def packed(self) -> bytes:
        flags = (
            (_REPLY if self.is_reply else 0)
            | (_LIGHT if self.from_light else 0)
            | (_CHALLENGE if self.challenge is not None else 0)
            | (_PROOF if self.proof is not None else 0)
        )
        parts = (
            bytes((flags, self.attempt)),
            self.number,
            self.challenge or b"",
            self.proof or b"",
        )
        return b"".join(parts) + self.payload


def resent(packed: bytes, attempt: int) -> bytes:
    """The same packed letter under another attempt."""
    return packed[:1] + bytes((attempt,)) + packed[2:]


def unpack_letter(body: bytes) -> Letter:
    """The letter that `packed()` gave; `WireError` for what is none. The payload is not looked at."""
    if len(body) < HEAD_BYTES:
        raise WireError("truncated")
    flags = body[0]
    if flags & ~_KNOWN_FLAGS:
        raise WireError("unknown_flags")
    start = HEAD_BYTES
    challenge = proof = None
    if flags & _CHALLENGE:
        challenge, start = body[start : start + CHALLENGE_BYTES], start + CHALLENGE_BYTES
    if flags & _PROOF:
        proof, start = body[start : start + PROOF_BYTES], start + PROOF_BYTES
    if start > len(body):
        raise WireError("truncated")
    return Letter(
        bool(flags & _REPLY),
        bool(flags & _LIGHT),
        body[1],
        body[2:HEAD_BYTES],
        challenge,
        proof,
        body[start:],
    )
