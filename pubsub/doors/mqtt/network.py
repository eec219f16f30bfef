"""What the hub is given: its settings, the network behind the door, and who may do what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal, Protocol

from overlay.errors import UsageError, check_positive
from pubsub.doors.mqtt.kept import Keeping, KeptSubscription, Record
from pubsub.doors.mqtt.message import MqttMessage
from pubsub.doors.mqtt.packets import Reason
from pubsub.doors.mqtt.session import Following
from pubsub.doors.mqtt.wills import KeptWill


@dataclass(frozen=True)
class MqttConfig:
    """What the door allows each client and all of them."""

    most_clients: int = 20_000
    """Connections at one time; further ones are refused as "server busy"."""
    most_sessions: int = 50_000
    """Sessions, connected or not. When there are more, the one that has been away longest is dropped."""
    most_waiting: int = 1_000
    """Messages of QoS 1 and 2 that may wait for one client; further ones are dropped and counted."""
    waiting_bytes: int = 1024 * 1024 * 1024
    """Of all messages of QoS 1 and 2 that wait for clients, and of those of 1 KiB or more that are on their
    way; with more, a client with more than an equal share is given no further ones, which are counted."""
    slow_clients: Literal["drop", "disconnect"] = "drop"
    """What becomes of a client that takes less than it is sent: messages are dropped for it, or with the
    first of them it is disconnected too. Both are counted."""
    most_subscriptions: int = 1_000
    """Filters of one client; further ones are refused as "quota exceeded"."""
    longest_expiry: float = 7 * 24 * 3600.0
    """Seconds that a session lasts at most without a connection, whatever the client asks for."""
    receive_maximum: int = 256
    """Messages of QoS 1 and 2 that one client may have under way to the door."""
    topic_aliases: int = 64
    """Topic aliases that one client may use."""
    largest_packet: int = 1024 * 1024
    """Bytes of a packet from a client."""
    most_retained: int = 10_000
    """Retained messages; when there are more, the one that was set longest ago is dropped."""
    retained_bytes: int = 256 * 1024 * 1024
    """Of the payloads of all retained messages; with more, those that were set longest ago are dropped."""
    longest_keep_alive: int = 65_535
    """Seconds; a client of MQTT 5.0 that asks for more, or for none, is told this."""
    says_why: bool = True
    """Whether a client of MQTT 5.0 is told "not authorized" where it may not publish or subscribe; otherwise
    "unspecified error", which MQTT 5.0 has for servers that do not wish to reveal the reason."""
    most_partial: int = 64 * 1024 * 1024
    """Bytes of packets that have not come whole, of all clients together. With more, the client whose packet
    has taken longest is disconnected."""
    packet_seconds: float = 120.0
    """How long one packet may take to come whole."""
    connect_seconds: float = 10.0
    """How long a connection may take to send its first packet."""

    def __post_init__(self) -> None:
        none_will_do = ("topic_aliases", "most_retained", "longest_expiry")
        check_positive(self, besides=none_will_do)
        for name in none_will_do:
            if not getattr(self, name) >= 0:
                raise UsageError(f"{name} is 0 or more, not {getattr(self, name)}")
        for name in ("receive_maximum", "longest_keep_alive", "topic_aliases"):
            if getattr(self, name) > 65_535:
                raise UsageError(f"{name} is at most 65,535, not {getattr(self, name)}")
        if self.slow_clients not in ("drop", "disconnect"):
            raise UsageError(f'slow_clients is "drop" or "disconnect", not {self.slow_clients!r}')
        if not isinstance(self.says_why, bool):
            raise UsageError(f"says_why must be true or false, not {self.says_why!r}")


class Follower(Protocol):
    """What takes the messages that an archive keeps for a subscription."""

    def ready(self, reason: Reason) -> None:
        """The archive keeps what is published from now on; or why there is none."""
        ...

    def take(self, message: MqttMessage, key: bytes, done: Callable[[], None]) -> None:
        """A message, the id of its event, and what is to be called when the client has it."""
        ...

    def displaced(self) -> None:
        """The client has gone to another door."""
        ...


class Network(Protocol):
    """What the hub asks of the network."""

    keeps_sessions: bool
    """Whether sessions that outlive a connection are kept at an archive."""

    def publish(
        self, message: MqttMessage, done: Callable[[Reason], None], id: bytes = b""
    ) -> None:
        """Publish; `done` is called once, with success when the network has the message. `id`: what its event
        is called where an archive has it; one that is published twice is there once."""
        ...

    def watch(self, topic: str, ready: Callable[[Reason], None]) -> None:
        """Bring all messages of a camcast topic and its subtopics, from when `ready` is called on."""
        ...

    def keeps(self, topic: str) -> bool:
        """Whether an archive is to have the messages of the topic."""
        ...

    def follow(
        self,
        name: str,
        topic: str,
        follower: Follower,
        afresh: bool,
        before: KeptSubscription | None = None,
        shared: bool = False,
    ) -> Following:
        """Bring what the archive keeps for this name, from where it was, or with `afresh` from now on;
        nothing that the client has by the position in `before`. `shared`: other doors have the name too, and
        each message is brought to one of them."""
        ...

    def open_session(self, client_id: str, opener: Opener) -> None:
        """Fetch what an archive keeps of a client's session, and become the one that writes it."""
        ...

    def unwatch(self, topic: str) -> None:
        """One `watch` of the topic less."""
        ...

    door: bytes
    """Tells this door from others."""

    def tell_doors(
        self, groups: list[bytes], segments: list[bytes] | None, orphans: list[bytes]
    ) -> None:
        """Tell other doors which groups have members at this one, which segments of wills this one has, and
        of which it knows that they have no door; what they say comes to `Hub.doors`."""
        ...

    def forget(self, name: str, topic: str) -> None:
        """Have an archive forget a name and what it keeps for that, whichever door had it."""
        ...

    def keep_will(
        self,
        will: KeptWill | None,
        before: bytes,
        written: Callable[[bytes | None], None],
        is_same: bool = False,
    ) -> None:
        """Have the archive keep a client's will, in place of the one that was kept under the id `before`.
        `written` is told the will's id (empty without one), or None: no archive has answered. `is_same`: the
        two are one will, which another door has taken over; it comes once."""
        ...

    def will_over(self, id: bytes) -> None:
        """A will that is kept was published, or is not to be."""
        ...

    def look_for_end(self, id: bytes, then: Callable[[], None]) -> None:
        """`then` is called when this door has heard all that the archive has of a will, however long that
        takes; at once if another door has the will."""
        ...

    def end_elsewhere(self, id: bytes) -> None:
        """A will that is not to come, unless this door keeps it."""
        ...

    def inherit(self, segment: bytes) -> None:
        """The door that had these wills is gone: bring them to `Hub.wills`."""
        ...


class Opener(Protocol):
    """What takes a session that was kept."""

    afresh: bool
    """The session that was kept is to end."""

    def opened(self, keeping: Keeping, record: Record | None, is_over: bool, will: bytes) -> None:
        """Called once; without a record nothing is kept; `is_over`: the session has ended. `will`: the id of
        the client's will that was kept last; empty without one."""
        ...

    def will_kept(self, id: bytes) -> None:
        """A will of the client has come to the archive after `opened`, by whichever door."""
        ...

    def failed(self) -> None:
        """No archive has answered; in place of `opened`, or the archive has ended what was opened."""
        ...

    def displaced(self, afresh: bool) -> None:
        """Another door writes the session from here on; `afresh`: another session of the client. In
        place of `opened`, or after it."""
        ...


class Access(Protocol):
    """Who may do what; a method returns whether it is allowed."""

    def connect(self, client_id: str, username: str | None, password: bytes | None) -> bool: ...

    def publish(self, client_id: str, topic: str) -> bool:
        """A message, or as it connects its will."""
        ...

    def subscribe(self, client_id: str, filter: str) -> bool:
        """`filter` is what follows `$share/GROUP/` in a shared subscription."""
        ...


class Open:
    """Everybody may do everything; with `authenticated`, all whom the door's authenticator has let in."""

    def __init__(self, authenticated: bool = False) -> None:
        self._authenticated = authenticated

    def connect(self, client_id: str, username: str | None, password: bytes | None) -> bool:
        return not self._authenticated

    def publish(self, client_id: str, topic: str) -> bool:
        return True

    def subscribe(self, client_id: str, filter: str) -> bool:
        return True
