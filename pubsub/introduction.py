"""Who listens at an address: asked of gateways, which are configured by address and not by identity.

The question and its answer are plain datagrams, for a channel needs the peer's id. The answer may be forged
by anybody who can send from that address; what is then said to the peer goes over a channel to that id.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.contact import ANYONE, Address, Contact
from overlay.context import Context, Timer
from overlay.wire import message

TRIES = 4
RETRY_SECONDS = 0.5


@message(0x4A)
class WhoIsThere:
    nonce: int


@message(0x4B)
class ItIsMe:
    """The answer; who it is from is said by the frame that carries it."""

    nonce: int


class _Question:
    __slots__ = ("address", "found", "timer", "tries_left")

    def __init__(
        self, address: Address, found: Callable[[Contact | None], None], timer: Timer
    ) -> None:
        self.address = address
        self.found = found
        self.timer = timer
        self.tries_left = TRIES


class Introduction:
    """Asks, and answers; its context's messages may be lost."""

    def __init__(self, context: Context) -> None:
        self._context = context
        self._questions: dict[int, _Question] = {}

    def resolve(self, address: Address, found: Callable[[Contact | None], None]) -> None:
        """Call `found` once, with None when nobody has answered within two seconds."""
        nonce = self._context.random.getrandbits(63)
        timer = self._context.call_later(RETRY_SECONDS, lambda: self._again(nonce))
        self._questions[nonce] = _Question(address, found, timer)
        self._ask(nonce)

    def receive_question(self, sender: Contact, question: WhoIsThere) -> None:
        self._context.send(sender, ItIsMe(question.nonce))

    def receive_answer(self, sender: Contact, answer: ItIsMe) -> None:
        question = self._questions.get(answer.nonce)
        if question is not None and sender.address == question.address:
            del self._questions[answer.nonce]
            question.timer.cancel()
            question.found(sender)

    def _ask(self, nonce: int) -> None:
        address = self._questions[nonce].address
        self._context.send(Contact(ANYONE, address.host, address.port), WhoIsThere(nonce))

    def _again(self, nonce: int) -> None:
        question = self._questions[nonce]
        question.tries_left -= 1
        if not question.tries_left:
            del self._questions[nonce]
            question.found(None)
            return
        question.timer = self._context.call_later(RETRY_SECONDS, lambda: self._again(nonce))
        self._ask(nonce)
