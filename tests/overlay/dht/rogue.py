"""A peer that answers whatever a test tells it to."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from overlay.contact import Address, Contact
from overlay.dht.messages import Letter, unpack_letter
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.transport.config import EndpointConfig
from overlay.transport.endpoint import Endpoint, FrameKind
from overlay.wire import decode, encode

Answer = Callable[[Contact, Any], object | None]
"""What to reply to a request: a message, raw bytes of a payload, or None to stay silent."""


class Rogue:
    """One endpoint that speaks the DHT's language without keeping its rules."""

    def __init__(self, endpoint: Endpoint, answer: Answer) -> None:
        self.endpoint = endpoint
        self.answer = answer
        self.heard: list[Any] = []
        endpoint.on(FrameKind.DHT, self._receive)

    @classmethod
    async def open(cls, host: str, answer: Answer, port: int = 4000) -> Rogue:
        config = EndpointConfig(listen=f"{host}:{port}")
        return cls(await Endpoint.open(config, Identity.create(), Metrics()), answer)

    @property
    def contact(self) -> Contact:
        return self.endpoint.contact

    def _receive(self, sender: Contact, body: bytes) -> None:
        letter = unpack_letter(body)
        message = decode(letter.payload)
        self.heard.append(message)
        if not letter.is_reply:
            reply = self.answer(sender, message)
            if reply is not None:
                payload = reply if isinstance(reply, bytes) else encode(reply)
                self.reply(sender.address, letter, payload)

    def reply(self, to: Address, request: Letter, payload: bytes) -> None:
        answer = Letter(True, False, request.attempt, request.number, None, None, payload)
        self.endpoint.send(to, FrameKind.DHT, answer.packed())

    def request(self, to: Address, message: object) -> None:
        """Send a request that is as large as its answer, and do not wait for the reply."""
        letter = Letter(False, False, 0, bytes(8), None, None, encode(message), padding=1000)
        self.endpoint.send(to, FrameKind.DHT, letter.packed())
