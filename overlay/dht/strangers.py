"""What a node of an open network sends to addresses that have not shown that they receive there.

Whoever makes up the source of a request would have a node send its answer to somebody else. So a node sends a
stranger at most as many bytes as came from there, until the stranger has proven its address: by a token that
it was given, or by the answer to a request of random number.

- Who asks brings the token that it was given before. Who has none makes its request larger by zeros, so that
  the answer may follow at once: this costs bytes, but neither a datagram nor a round trip.
- An answer that is larger waits, and the stranger is asked for a sign of life.
- A node may be told of peers that are not there. It sends few large requests to a host that has not answered.

In a network with a key, sessions prove addresses, and there is nothing to do.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.bounded import remember
from overlay.contact import Address, Contact
from overlay.dht.messages import Letter, Ping
from overlay.dht.trust import CHALLENGE_BYTES, PROOF_BYTES, TOKEN_BYTES
from overlay.transport.frame import FRAME_HEAD_BYTES, HEADER_BYTES
from overlay.wire import encode

BESIDE_A_LETTER = HEADER_BYTES + FRAME_HEAD_BYTES
"""Bytes of a datagram with one letter, without the letter."""

PING = encode(Ping())

SMALL = 80
"""Bytes of a letter that asks a stranger for a sign of life: more than the answer."""

INTRODUCTION = SMALL + 80
"""Bytes of the first letter to a node: enough for a sign of life, and for a question for one."""

LARGE = 1360
"""The same where the answer may be long, as far as the datagram holds it."""

WITH_A_PROOF = 2 * PROOF_BYTES + CHALLENGE_BYTES
"""Bytes more where ids are proven: for a proof, and for a question that asks for one."""

LARGE_UNANSWERED = 8
"""Large requests to one host that has not answered any."""

MOST_STRANGERS = 4096
"""Addresses whose bytes are remembered, and as many that are proven."""

MOST_WAITING = 256
"""Answers that wait for a sign of life."""

SIGNS_AT_ONCE = 32
"""Questions for a sign of life in flight for which answers wait."""


class Strangers:
    """The addresses that one node has heard from and does not trust yet."""

    def __init__(self, accepts: Callable[[Contact, bytes], bool], lifetime: float) -> None:
        """`accepts(sender, token)`: whether the sender was given the token at its address lately."""
        self._accepts = accepts
        self._lifetime = lifetime
        self._proven: dict[Address, float] = {}
        """Until when an address is trusted that answered a request."""
        self._credit: dict[Address, int] = {}
        """Bytes that came from an address, less those that were sent there."""
        self._waiting: dict[tuple[Contact, bytes], Letter] = {}
        """Answers that wait for a sign of life, by who asked and the number of the request; oldest first."""
        self._large: dict[str, int] = {}
        """Large requests to a host since it last answered."""

    # As the one who asks.

    def padded(
        self,
        letter: Letter,
        to: Contact,
        token: bytes,
        request: object,
        room: int,
        is_provoked: bool,
    ) -> Letter:
        """The letter with the token for its receiver, or with zeros for want of one."""
        if len(token) == TOKEN_BYTES:
            return letter._replace(token=token)
        return self._with_zeros(letter, to, isinstance(request, Ping), room, is_provoked)

    def _with_zeros(
        self, letter: Letter, to: Contact, is_ping: bool, room: int, is_provoked: bool
    ) -> Letter:
        size = SMALL if is_provoked else INTRODUCTION
        if not is_ping and self._may_be_large(to):
            size = LARGE
        if letter.challenge is not None:
            size += PROOF_BYTES if is_provoked else WITH_A_PROOF
        size = min(size, room)
        return letter._replace(padding=max(size - letter.size - 2, 0))

    def again(self, letter: Letter, to: Contact, room: int) -> Letter:
        """The letter as it is sent once more. Its token may be the reason why it was not answered: the peer
        may have restarted, and known nothing of it."""
        if letter.token is not None:
            bare = letter._replace(token=None)
            return self._with_zeros(bare, to, letter.payload == PING, room, False)
        if letter.padding > INTRODUCTION + WITH_A_PROOF and not self._may_be_large(to):
            return letter._replace(padding=INTRODUCTION)
        return letter

    def _may_be_large(self, to: Contact) -> bool:
        sent = self._large.get(to.host, 0)
        if sent >= LARGE_UNANSWERED:
            return False
        remember(self._large, to.host, sent + 1, MOST_STRANGERS)
        return True

    # As the one who is asked.

    def trusts(self, sender: Contact, letter: Letter, now: float) -> bool:
        """Whether the sender of a request has proven its address; if not, its bytes are counted."""
        until = self._proven.get(sender.address)
        if until is not None and now < until:
            return True
        if letter.token is not None and self._accepts(sender, letter.token):
            return True
        credit = self._credit.get(sender.address, 0) + letter.size
        remember(self._credit, sender.address, credit, MOST_STRANGERS)
        return False

    def may_send(self, to: Contact, letter: Letter) -> bool:
        """Whether as many bytes came from the stranger; they are used up then. Always, once it is trusted."""
        credit = self._credit.get(to.address)
        if credit is None:
            return to.address in self._proven
        left = credit - letter.size - BESIDE_A_LETTER
        if left < 0:
            return False
        self._credit[to.address] = left
        return True

    def hold(self, to: Contact, answer: Letter) -> None:
        """Keep an answer until its receiver has proven its address."""
        remember(self._waiting, (to, answer.number), answer, MOST_WAITING)

    def proven(self, contact: Contact, now: float) -> list[Letter]:
        """An address has answered a request; what waited for that."""
        address = contact.address
        remember(self._proven, address, now + self._lifetime, MOST_STRANGERS)
        self._credit.pop(address, None)
        self._large.pop(address.host, None)
        ready = [key for key in self._waiting if key[0] == contact] if self._waiting else []
        return [self._waiting.pop(key) for key in ready]
