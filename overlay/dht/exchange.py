"""Requests and their replies over the endpoint: sent again until answered, or given up.

Replaces rpcudp/protocol.py. What it promises, under loss, duplication, reordering and whatever peers send:

- A call ends exactly once: answered, or given up after the tries that the measured loss asks for.
- A reply counts only with the request's number, from the address and the id that were asked, and with a
  proof where ids are verified. One of the right number that is malformed ends the call as an offence.
- Requests arrive at least once, so handlers must not mind a repetition.
- No task is started, for requests or for replies; a call that is cancelled or over leaves nothing behind.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from overlay.contact import Address, Contact
from overlay.dht.call import Call, Outcome
from overlay.dht.id_proof import IdProofs
from overlay.dht.letter import (
    CHALLENGE_BYTES,
    HEAD_BYTES,
    NUMBER_BYTES,
    PROOF_BYTES,
    Letter,
    resent,
    unpack_letter,
)
from overlay.dht.messages import TOO_LARGE, Refused
from overlay.dht.round_trips import RoundTrips
from overlay.errors import ClosedError, UsageError
from overlay.transport.endpoint import Endpoint
from overlay.transport.frame import Kind
from overlay.wire import WireError, decode, encode


@dataclass(frozen=True)
class Exchanges:
    """What an exchange reports to the protocol above it."""

    answer: Callable[[Contact, bool, Any], object | None]
    """`answer(sender, from_light, request)`: the reply to a request, or None to stay silent."""

    ended: Callable[[Call, Outcome], None]
    """A call is about to end, answered, given up or in an offence; whoever waits for it learns it after."""


class Exchange:
    """The calls of one node, in both directions."""

    def __init__(
        self,
        endpoint: Endpoint,
        above: Exchanges,
        draw: random.Random,
        *,
        is_light: bool,
        proofs: IdProofs,
        verifies: bool,
    ) -> None:
        """`verifies`: ids are not taken on trust. A node proves its own to whoever asks in any case."""
        self._endpoint = endpoint
        self._above = above
        self._draw = draw
        self._is_light = is_light
        self._proofs = proofs
        self._verifies = verifies
        self._loop = asyncio.get_running_loop()
        self._calls: dict[bytes, Call] = {}
        self._numbers: list[bytes] = []
        self._closed = False
        self.round_trips = RoundTrips()
        metrics = endpoint.metrics
        self._sent = metrics.counter("dht_requests_sent", "DHT requests sent, repetitions included")
        self._repeated = metrics.counter("dht_requests_repeated", "DHT requests sent again")
        self._served = metrics.counter("dht_requests_served", "DHT requests answered")
        self._given_up = metrics.counter("dht_requests_given_up", "DHT requests never answered")
        self._dropped = metrics.family("dht_dropped", "reason", "DHT letters not taken")
        self.room = endpoint.max_body - HEAD_BYTES - max(CHALLENGE_BYTES, PROOF_BYTES)
        """Bytes of the largest message that fits into one datagram."""

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

        It is sent `tries` times, or as often as the measured loss asks for.

        A reply of a type that is neither in `expects` nor a refusal is an offence; None expects
        anything. `on_overdue` is called when the first time-out passes, `on_end` when the call is over,
        however it ends.
        """
        if self._closed:
            raise ClosedError("the DHT is closed: start a new one")
        payload = encode(request)
        if len(payload) > self.room:
            raise UsageError(
                f"{type(request).__name__} has {len(payload)} bytes, and {self.room} fit a datagram"
            )
        number = self._new_number()
        challenge = self._challenge(to)
        letter = Letter(False, self._is_light, 0, number, challenge, None, payload)
        call = self._calls[number] = Call(number, to, letter.packed(), challenge)
        call.registry = self._calls
        call.expects = expects
        call.on_overdue = on_overdue
        call.on_end = on_end
        call.tries = tries
        self._send(call)
        return call

    def receive(self, sender: Contact, body: bytes) -> None:
        """Take a frame of kind DHT; whatever it holds, this does not raise."""
        if self._closed:
            self._dropped.add("closed")
            return
        try:
            letter = unpack_letter(body)
        except WireError as error:
            self._dropped.add(error.reason)
            return
        if letter.is_reply:
            self._take_reply(sender, letter)
        else:
            self._take_request(sender, letter)

    def close(self) -> None:
        """End every call, and answer nobody any more; those who await a call get `ClosedError`."""
        self._closed = True
        for call in list(self._calls.values()):
            call.end(Outcome.CLOSED)

    def _new_number(self) -> bytes:
        # The system's randomness costs a call each time, so numbers are drawn in batches.
        if not self._numbers:
            drawn = self._draw.randbytes(64 * NUMBER_BYTES)
            self._numbers = [
                drawn[start : start + NUMBER_BYTES] for start in range(0, len(drawn), NUMBER_BYTES)
            ]
        return self._numbers.pop()

    def _challenge(self, to: Contact | Address) -> bytes | None:
        if not self._verifies:
            return None
        if isinstance(to, Contact) and self._proofs.is_verified(to, self._loop.time()):
            return None
        return self._draw.randbytes(CHALLENGE_BYTES)

    def _send(self, call: Call) -> None:
        attempt = len(call.sent)
        now = self._loop.time()
        wait = self.round_trips.timeout(call.address, attempt)
        call.sent.append(now)
        call.due = now + wait
        call.timer = self._loop.call_at(call.due, self._expired, call)
        frame = call.frame if attempt == 0 else resent(call.frame, attempt)
        self._endpoint.send(call.address, Kind.DHT, frame)
        self._sent.value += 1

    def _expired(self, call: Call) -> None:
        now = self._loop.time()
        wait = call.due - call.sent[-1]
        if now - call.due > wait / 2 and not call.excused:
            # The loop was held up, and the reply may wait in the socket: that is not the peer's fault.
            call.excused = True
            call.timer = self._loop.call_later(wait / 2, self._expired, call)
            return
        attempt = len(call.sent)
        if attempt == 1 and call.on_overdue is not None:
            call.on_overdue(call)
        if attempt < (call.tries or self.round_trips.tries):
            self._repeated.value += 1
            self._send(call)
        else:
            self._given_up.value += 1
            self._finish(call, Outcome.GIVEN_UP)

    def _finish(self, call: Call, outcome: Outcome) -> None:
        self._above.ended(call, outcome)
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
        now = self._loop.time()
        if letter.attempt >= len(call.sent):
            self._offend(call, sender, "malformed_reply")
            return
        if call.challenge is not None and not self._proofs.check(
            sender, call.challenge, letter.proof, now
        ):
            self._offend(call, sender, "unproven_reply")
            return
        try:
            reply = decode(letter.payload)
        except WireError:
            self._offend(call, sender, "malformed_reply")
            return
        if call.expects is not None and not isinstance(reply, (*call.expects, Refused)):
            self._offend(call, sender, "wrong_reply")
            return
        call.reply = reply
        call.contact = sender
        call.from_light = letter.from_light
        self.round_trips.measured(call.address, now - call.sent[letter.attempt], letter.attempt)
        self._finish(call, Outcome.ANSWERED)

    def _offend(self, call: Call, sender: Contact, reason: str) -> None:
        self._dropped.add(reason)
        call.contact = sender
        self._finish(call, Outcome.OFFENDED)

    def _take_request(self, sender: Contact, letter: Letter) -> None:
        try:
            request = decode(letter.payload)
        except WireError as error:
            self._dropped.add(error.reason)
            return
        reply = self._above.answer(sender, letter.from_light, request)
        if reply is None:
            return
        payload = encode(reply)
        if len(payload) > self.room:
            self._dropped.add("reply_too_large")
            payload = encode(TOO_LARGE)
        proof = None
        if letter.challenge is not None:
            proof = self._proofs.prove(letter.challenge, sender.id)
        answer = Letter(True, self._is_light, letter.attempt, letter.number, None, proof, payload)
        self._endpoint.send(sender.address, Kind.DHT, answer.packed())
        self._served.value += 1
