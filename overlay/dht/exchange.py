"""Requests and their replies: sent again until answered, or given up.

What `Exchange` promises, under loss, duplication, reordering and whatever peers send:

- A call ends exactly once: answered, or given up after the tries that the measured loss asks for.
- A reply counts only with the request's number, from the address and the id that were asked, and with a
  proof where ids are verified. One of the right number that is malformed ends the call as an offence.
- Requests arrive at least once, so handlers must not mind a repetition.
- A call that is cancelled or over leaves nothing behind.

Upstream's rpcudp starts two tasks a datagram that nobody holds, keeps the entries of cancelled calls, takes a
reply from any address, and makes a remote procedure of any misspelt attribute.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from typing import Any

from overlay.contact import ANYONE, Address, Contact
from overlay.context import Context, Timer
from overlay.dht.messages import (
    HEAD_BYTES,
    LIGHT,
    NUMBER_BYTES,
    TOO_LARGE,
    Leaving,
    Letter,
    Ping,
    Pong,
    StoreRefused,
    unpack_letter,
)
from overlay.dht.round_trips import RoundTrips
from overlay.dht.strangers import PING, SIGNS_AT_ONCE, Strangers
from overlay.dht.trust import CHALLENGE_BYTES, PROOF_BYTES, IdProofs
from overlay.errors import ClosedError, UsageError
from overlay.metrics import Metrics
from overlay.wire import WireError, decode, encode

BESIDE_A_MESSAGE = HEAD_BYTES + max(CHALLENGE_BYTES, PROOF_BYTES)
"""Bytes of a letter without its message."""


class ReplyOutcome(Enum):
    """How a call ended."""

    ANSWERED = auto()
    GIVEN_UP = auto()
    OFFENDED = auto()
    CANCELLED = auto()
    CLOSED = auto()


class Call:
    """One request on its way, from the first sending to its end."""

    __slots__ = (
        "address",
        "contact",
        "due",
        "excused",
        "expects",
        "from_light",
        "is_cut",
        "is_provoked",
        "letter",
        "on_end",
        "on_overdue",
        "outcome",
        "registry",
        "reply",
        "sent",
        "timer",
        "to",
        "tries",
    )

    def __init__(self, to: Contact | Address, letter: Letter) -> None:
        self.contact = to if isinstance(to, Contact) else None
        """Who was asked; for a call to a bare address, who answered."""
        self.to = self.contact or Contact(ANYONE, *to)
        self.address = self.to.address
        self.letter = letter
        self.registry: dict[bytes, Call] = {}
        self.expects: tuple[type, ...] | None = None
        self.sent: list[float] = []
        self.due = 0.0
        self.excused = False
        self.is_provoked = False
        """Whether a stranger's request is the reason for it: it is sent only as far as the stranger paid."""
        self.is_cut = False
        """Whether it was sent less often than the measured loss asks for."""
        self.tries: int | None = None
        """How often it is sent; None: as often as the measured loss asks for."""
        self.timer: Timer | None = None
        self.outcome: ReplyOutcome | None = None
        self.reply: Any = None
        self.from_light = False
        self.on_end: Callable[[Call], None] | None = None
        self.on_overdue: Callable[[Call], None] | None = None

    @property
    def is_answered(self) -> bool:
        return self.outcome is ReplyOutcome.ANSWERED

    def cancel(self) -> None:
        self.end(ReplyOutcome.CANCELLED)

    def end(self, outcome: ReplyOutcome) -> None:
        """The first outcome counts."""
        if self.outcome is not None:
            return
        self.outcome = outcome
        if self.timer is not None:
            self.timer.cancel()
        self.registry.pop(self.letter.number, None)
        # Who waits holds the call: let go of it, or each call is left to the collector of cycles.
        on_end, self.on_end, self.on_overdue, self.timer = self.on_end, None, None, None
        if on_end is not None and outcome is not ReplyOutcome.CANCELLED:
            on_end(self)


@dataclass(frozen=True)
class Exchanges:
    """What an exchange reports to the node above it."""

    answer: Callable[[Contact, Any], object | None]
    """`answer(sender, request)`: the reply to a request, or None to stay silent."""

    requested: Callable[[Contact, bool], None]
    """`requested(sender, is_proven)`: a request of a peer that serves was answered. What is sent to its
    sender now follows the reply, so that the sender knows who asks. `is_proven`: the sender receives what is
    sent to its address, and has proven its id where ids are proven."""

    ended: Callable[[Call, ReplyOutcome], None]
    """A call is about to end, answered, given up, in an offence, or without anybody's fault; the code that
    waits for it learns it after."""


class Exchange:
    """The calls of one node, in both directions. Its context carries `Letter`s, by plain datagrams."""

    def __init__(
        self,
        context: Context,
        above: Exchanges,
        proofs: IdProofs,
        metrics: Metrics,
        room: int,
        *,
        is_light: bool,
        verifies: bool,
        strangers: Strangers | None,
        token_of: Callable[[Contact], bytes],
    ) -> None:
        """`room`: bytes of the largest message that fits into one datagram.

        `strangers`: None where addresses are proven by sessions. `token_of(peer)`: the last that it gave.

        `verifies`: ids are not taken on trust. In any case a node proves its own id to every peer that asks.
        """
        self._context = context
        self._above = above
        self._proofs = proofs
        self.room = room
        self._largest = room + BESIDE_A_MESSAGE
        self._is_light = is_light
        self._verifies = verifies
        self._strangers = strangers
        self._token_of = token_of
        self._signs = 0
        """Questions for a sign of life in flight, for which answers wait."""
        self._is_provoked = False
        """Whether calls that begin now are provoked."""
        self._calls: dict[bytes, Call] = {}
        self._numbers: list[bytes] = []
        self._closed = False
        self.round_trips = RoundTrips()
        self._sent = metrics.counter("dht_requests_sent", "DHT requests sent, repetitions included")
        self._repeated = metrics.counter("dht_requests_repeated", "DHT requests sent again")
        self._served = metrics.counter("dht_requests_served", "DHT requests answered")
        self._given_up = metrics.counter("dht_requests_given_up", "DHT requests never answered")
        self._dropped = metrics.family("dht_dropped", "reason", "DHT letters not taken")

    def __len__(self) -> int:
        """Calls in flight."""
        return len(self._calls)

    def call(
        self,
        to: Contact | Address,
        request: object,
        expects: tuple[type, ...] | None = None,
        on_end: Callable[[Call], None] | None = None,
        on_overdue: Callable[[Call], None] | None = None,
        tries: int | None = None,
    ) -> Call:
        """Send `request`; a bare address may be answered by any id.

        It is sent `tries` times, or as often as the measured loss asks for. A reply of a type that is neither
        in `expects` nor a refusal is an offence; None expects anything. `on_overdue` is called when the first
        time-out passes, `on_end` when the call is over, however it ends, unless the caller cancels it.
        """
        if self._closed:
            raise ClosedError("the DHT is closed: start a new one")
        payload = encode(request)
        if len(payload) > self.room:
            raise UsageError(
                f"{type(request).__name__} has {len(payload)} bytes, and {self.room} fit a datagram"
            )
        number = self._new_number()
        letter = Letter(False, self._is_light, 0, number, self._challenge(to), None, payload)
        call = self._calls[number] = Call(to, letter)
        if self._strangers is not None:
            token = self._token_of(call.to)
            call.is_provoked = self._is_provoked
            call.letter = self._strangers.padded(
                letter, call.to, token, request, self._largest, self._is_provoked
            )
        call.registry = self._calls
        call.expects = expects
        call.on_overdue = on_overdue
        call.on_end = on_end
        call.tries = tries
        self._send(call)
        return call

    def say_goodbye(self, to: Contact) -> None:
        """Tell a peer, once, that this node serves no longer."""
        number = self._new_number()
        self._context.send(to, Letter(False, True, 0, number, None, None, encode(Leaving())))

    def receive(self, sender: Contact, letter: Letter) -> None:
        """Take a letter; whatever it holds, this does not raise."""
        if self._closed:
            self._dropped.add("closed")
        elif letter.is_reply:
            self._take_reply(sender, letter)
        else:
            self._take_request(sender, letter)

    def is_one(self, body: bytes) -> bool:
        """Whether a letter asks for a sign of life, and nothing else: anybody may ask that at any time."""
        return (
            len(body) == HEAD_BYTES + len(PING)
            and body[0] in (0, LIGHT)
            and body[HEAD_BYTES:] == PING
        )

    def answer(self, sender: Contact, body: bytes) -> bytes:
        """The reply to a letter that `is_one`, whose sender is not proven: so it is not a sign of life."""
        asked = unpack_letter(body)
        reply = encode(self._above.answer(sender, Ping()))
        return Letter(True, self._is_light, asked.attempt, asked.number, None, None, reply).packed()

    def count_dropped(self, reason: str) -> None:
        """Something came that is not a letter."""
        self._dropped.add(reason)

    def close(self) -> None:
        """End every call, and answer nobody any more."""
        self._closed = True
        for call in list(self._calls.values()):
            call.end(ReplyOutcome.CLOSED)

    def _new_number(self) -> bytes:
        # The system's randomness costs a call each time, so numbers are drawn in batches.
        if not self._numbers:
            drawn = self._context.random.randbytes(64 * NUMBER_BYTES)
            self._numbers = [
                drawn[start : start + NUMBER_BYTES] for start in range(0, len(drawn), NUMBER_BYTES)
            ]
        return self._numbers.pop()

    def _challenge(self, to: Contact | Address) -> bytes | None:
        if not self._verifies or (isinstance(to, Contact) and self._is_verified(to)):
            return None
        return self._context.random.randbytes(CHALLENGE_BYTES)

    def _send(self, call: Call) -> None:
        attempt = len(call.sent)
        now = self._context.now()
        wait = self.round_trips.timeout(call.address, attempt)
        call.sent.append(now)
        call.due = now + wait
        call.timer = self._context.call_later(wait, lambda: self._expired(call))
        letter = call.letter if attempt == 0 else call.letter._replace(attempt=attempt)
        strangers = self._strangers
        if strangers is not None and attempt:
            letter = strangers.again(letter, call.to, self._largest)
        if call.is_provoked and strangers is not None and not strangers.may_send(call.to, letter):
            call.is_cut = True
            return
        self._context.send(call.to, letter)
        self._sent.value += 1

    def _expired(self, call: Call) -> None:
        wait = call.due - call.sent[-1]
        if self._context.now() - call.due > wait / 2 and not call.excused:
            # The process was held up, and the reply may wait in the socket: that is not the peer's fault.
            call.excused = True
            call.timer = self._context.call_later(wait / 2, lambda: self._expired(call))
            return
        attempt = len(call.sent)
        if attempt == 1 and call.on_overdue is not None:
            call.on_overdue(call)
        if call.outcome is not None:
            return
        if attempt < (call.tries or self.round_trips.tries):
            self._repeated.value += 1
            self._send(call)
        else:
            self._given_up.value += 1
            self._finish(call, ReplyOutcome.GIVEN_UP)

    def _finish(self, call: Call, outcome: ReplyOutcome) -> None:
        # Who was not asked often enough is not to blame for its silence.
        is_excused = call.is_cut and outcome is ReplyOutcome.GIVEN_UP
        self._above.ended(call, ReplyOutcome.CANCELLED if is_excused else outcome)
        call.end(outcome)

    def _take_reply(self, sender: Contact, letter: Letter) -> None:
        call = self._calls.get(letter.number)
        if call is None:
            self._dropped.add("late_reply")
            return
        asked = call.contact
        if sender != asked and (asked is not None or sender.address != call.address):
            self._dropped.add("reply_from_another")
            return
        now = self._context.now()
        challenge = call.letter.challenge
        if letter.attempt >= len(call.sent):
            self._offend(call, sender, "malformed_reply")
            return
        if challenge is not None and not self._proofs.check(sender, challenge, letter.proof, now):
            self._offend(call, sender, "unproven_reply")
            return
        try:
            reply = decode(letter.payload)
        except WireError:
            self._offend(call, sender, "malformed_reply")
            return
        expects = call.expects
        if (
            expects is not None
            and not isinstance(reply, expects)
            and type(reply) is not StoreRefused
        ):
            self._offend(call, sender, "wrong_reply")
            return
        call.reply = reply
        call.contact = sender
        call.from_light = letter.from_light
        self.round_trips.measured(call.address, now - call.sent[letter.attempt], letter.attempt)
        if self._strangers is not None:
            for answer in self._strangers.proven(sender, now):
                self._context.send(sender, answer)
        self._finish(call, ReplyOutcome.ANSWERED)

    def _offend(self, call: Call, sender: Contact, reason: str) -> None:
        self._dropped.add(reason)
        call.contact = sender
        self._finish(call, ReplyOutcome.OFFENDED)

    def _take_request(self, sender: Contact, letter: Letter) -> None:
        try:
            request = decode(letter.payload)
        except WireError as error:
            self._dropped.add(error.reason)
            return
        strangers = self._strangers
        is_stranger = strangers is not None and not strangers.trusts(
            sender, letter, self._context.now()
        )
        reply = self._above.answer(sender, request)
        stranger_to = strangers if is_stranger else None
        if reply is not None and not self._reply(sender, letter, reply, stranger_to):
            return
        if not letter.from_light:
            self._is_provoked = is_stranger
            self._above.requested(sender, not is_stranger and self._is_verified(sender))
            self._is_provoked = False

    def _is_verified(self, sender: Contact) -> bool:
        return not self._verifies or self._proofs.is_verified(sender, self._context.now())

    def _reply(
        self, sender: Contact, letter: Letter, reply: object, strangers: Strangers | None
    ) -> bool:
        """Whether the reply was sent; if not, the sender is asked for a sign of life.

        `strangers`: where the sender has not proven its address."""
        payload = encode(reply)
        if len(payload) > self.room:
            self._dropped.add("reply_too_large")
            payload = encode(TOO_LARGE)
        proof = None
        if letter.challenge is not None:
            proof = self._proofs.prove(letter.challenge, sender.id)
        answer = Letter(True, self._is_light, letter.attempt, letter.number, None, proof, payload)
        self._served.value += 1
        if strangers is None or strangers.may_send(sender, answer):
            self._context.send(sender, answer)
            return True
        if self._signs >= SIGNS_AT_ONCE:
            self._dropped.add("too_many_strangers")
            return False
        strangers.hold(sender, answer)
        self._signs += 1
        self._is_provoked = True
        self.call(sender, Ping(), (Pong,), self._sign_given, tries=1).is_cut = True
        self._is_provoked = False
        return False

    def _sign_given(self, call: Call) -> None:
        """A stranger gave a sign of life, or did not."""
        self._signs -= 1
