"""Enhanced authentication (section 4.12): a client and an `Authenticator` send each other data until the
authenticator is content; and again whenever the client wants to."""

from __future__ import annotations

from typing import NamedTuple, Protocol

from pubsub.doors.mqtt.packets import Auth, Connect, MqttError, Reason, violation
from pubsub.doors.mqtt.properties import Properties


class Answer(NamedTuple):
    """What a client is sent in the course of its authentication."""

    data: bytes
    is_done: bool
    """The client is who it says it is."""


class Exchange(Protocol):
    """One authentication of one client."""

    def step(self, data: bytes) -> Answer | None:
        """The answer to what the client has sent, which may be anything; None: the client is refused."""
        ...


class Authenticator(Protocol):
    """Knows how clients show who they are."""

    def begin(self, client_id: str, method: str) -> Exchange | None:
        """Begin an authentication by this method; None for a method that there is not. `client_id` is empty
        for a client that brings none."""
        ...


class Authentication:
    """How far the authentication of one connection is."""

    __slots__ = ("_authenticator", "_client_id", "_exchange", "_method", "connect", "properties")

    def __init__(self, authenticator: Authenticator | None, connect: Connect) -> None:
        """`MqttError` when there is no such method."""
        self.connect: Connect | None = connect
        """The packet that waits for the first authentication."""
        self.properties: Properties = {}
        """Of the packet that answers the client."""
        self._authenticator = authenticator
        self._client_id = connect.client_id
        self._method: str = connect.properties["authentication_method"]
        self._exchange: Exchange | None = self._begin()

    def _begin(self) -> Exchange:
        exchange = None
        if self._authenticator is not None:
            exchange = self._authenticator.begin(self._client_id, self._method)
        if exchange is None:
            what = f"there is no authentication method {self._method!r:.60} here"
            raise MqttError(Reason.BAD_AUTHENTICATION_METHOD, what)
        return exchange

    def hear(self, packet: Auth) -> bool:
        """As `step`, with an AUTH packet of the client."""
        if packet.properties.get("authentication_method") != self._method:
            raise violation("an AUTH packet has another method than CONNECT")
        if packet.reason == Reason.RE_AUTHENTICATE:
            if self._exchange is not None:
                raise violation("an authentication has not ended when another one begins")
            self._exchange = self._begin()
        elif packet.reason != Reason.CONTINUE_AUTHENTICATION or self._exchange is None:
            raise violation("there is no authentication that could go on")
        return self.step(packet.properties.get("authentication_data", b""))

    def step(self, data: bytes) -> bool:
        """Whether the client is who it says; `properties` are those of the answer. `MqttError` when it is
        not."""
        assert self._exchange is not None
        answer = self._exchange.step(data)
        if answer is None:
            raise MqttError(Reason.NOT_AUTHORIZED, "the client is not who it says it is")
        self.properties = {"authentication_method": self._method}
        if answer.data:
            self.properties["authentication_data"] = answer.data
        if answer.is_done:
            self._exchange = None
        return answer.is_done
