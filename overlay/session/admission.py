"""Whose openings are answered: everybody's while there are few, and under load those of proven addresses.

An answer costs about a quarter of a millisecond of processor and a place among the half-open sessions. Who
sends many openings, of its own or recorded ones of others, could so keep a node busy. Above a rate, to an
address that opens several sessions at once, and to all of a block of addresses that floods the node, it
therefore replies with a cookie, a MAC of the sender's address under a secret that changes, and keeps nothing:
only who receives at the address can go on, and each block of addresses gets a share.
"""

from __future__ import annotations

from collections import Counter
from hashlib import blake2s

from overlay.context import Randomness
from overlay.session.packets import COOKIE_BYTES, proves
from overlay.transport.address import block_of

SECRET_LIFETIME = 120.0
"""Seconds; a cookie is good for one to two of them."""

SHARE = 5
"""Of cookies and notices a block of addresses gets at most 1/5. Of answers to proven addresses there are at
most 5 times `answers_a_second`, and a block gets 1/5 of `answers_a_second`."""

OF_ONE_ADDRESS = 4
"""Openings of one address that are answered in a second without a cookie: there is one node at an address."""

REPLIES = 40
"""Cookies, and answers that are sent again, in one second, for each of `answers_a_second`."""

FLOODING_SHARE = 20
"""A block of addresses that floods gets at most 1/20 of cookies and notices."""


class Replies:
    """Counts replies of one kind: one block of addresses cannot have most of those of a second."""

    def __init__(self, limit: int) -> None:
        """`limit`: how many there are in a second."""
        self._limit = limit
        self._second = 0.0
        self._by_block: Counter[str] = Counter()
        self._all = 0
        """Who makes up addresses would have thousands of blocks added up for each reply."""

    def may_send(self, host: str, now: float, share: int) -> bool:
        """Whether one more may be sent this second; a block of addresses gets 1/`share` of all."""
        if now - self._second >= 1.0:
            self._second, self._all = now, 0
            self._by_block.clear()
        return self._all < self._limit and self._by_block[block_of(host)] * share < self._limit

    def sent(self, host: str) -> None:
        self._by_block[block_of(host)] += 1
        self._all += 1


class Admission:
    """Counts the answers of each second, and makes cookies."""

    def __init__(self, random: Randomness, answers_a_second: int) -> None:
        self._random = random
        self._limit = answers_a_second
        self._second = 0.0
        self._answers = 0
        self._unproven: Counter[tuple[str, int]] = Counter()
        """Answers of this second to openings without a cookie, by address."""
        self._proven = Replies(answers_a_second * SHARE)
        """Answers to openings with a cookie."""
        self.replies = Replies(answers_a_second * REPLIES)
        """Cookies, and answers that are sent again: they compute no key."""
        self._secrets = [random.randbytes(32)] * 2
        self._changed_at: float | None = None

    def admits(self, opening: bytes, source: tuple[str, int], now: float, is_flooding: bool) -> str:
        """`yes`; `prove` when a cookie is asked for first; `limit` when the block has had its share.

        `is_flooding`: the sender's block floods this node; each of its addresses proves itself."""
        if now - self._second >= 1.0:
            self._second, self._answers = now, 0
            self._unproven.clear()
        is_much = self._answers >= self._limit or self._unproven[source] >= OF_ONE_ADDRESS
        if is_flooding or is_much:
            if not any(proves(opening, self._cookie(s, source)) for s in self._current(now)):
                return "prove"
            if not self._proven.may_send(source[0], now, SHARE * SHARE):
                return "limit"
            self._proven.sent(source[0])
        else:
            self._unproven[source] += 1
        self._answers += 1
        return "yes"

    def cookie_for(self, source: tuple[str, int], now: float) -> bytes:
        return self._cookie(self._current(now)[0], source)

    def _current(self, now: float) -> list[bytes]:
        """The secret in use and the one before."""
        if self._changed_at is None:
            self._changed_at = now
        if now - self._changed_at >= SECRET_LIFETIME:
            keeps = now - self._changed_at < 2 * SECRET_LIFETIME
            fresh = self._random.randbytes(32)
            self._secrets = [fresh, self._secrets[0] if keeps else fresh]
            self._changed_at = now
        return self._secrets

    def _cookie(self, secret: bytes, source: tuple[str, int]) -> bytes:
        address = f"{source[0]} {source[1]}".encode()
        return blake2s(address, key=secret, digest_size=COOKIE_BYTES).digest()
