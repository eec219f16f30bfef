"""The hub of an MQTT door by hand: a clock that is moved, a network that is looked at, clients as lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from overlay.metrics import Metrics
from pubsub.doors.mqtt.hub import Hub
from pubsub.doors.mqtt.message import MqttMessage
from pubsub.doors.mqtt.network import MqttConfig, Open
from pubsub.doors.mqtt.packets import (
    V5,
    Asked,
    Connect,
    Decoder,
    Packet,
    Publish,
    Reason,
    Subscribe,
    write_packet,
)


class Clock:
    def __init__(self) -> None:
        self.time = 0.0
        self._timers: list[tuple[float, Callable[[], None], list[bool]]] = []

    def now(self) -> float:
        return self.time

    def call_later(self, delay: float, action: Callable[[], None]) -> Any:
        alive = [True]
        self._timers.append((self.time + delay, action, alive))

        class Timer:
            def cancel(self) -> None:
                alive[0] = False

        return Timer()

    def run(self, seconds: float) -> None:
        end = self.time + seconds
        while due := sorted((one for one in self._timers if one[0] <= end), key=lambda one: one[0]):
            timer = due[0]
            self._timers.remove(timer)
            self.time = max(self.time, timer[0])
            if timer[2][0]:
                timer[1]()
        self.time = end


class Following:
    """What the network's archive keeps for a subscription."""

    position, finished = b"", ()

    def __init__(self, network: Network, name: str) -> None:
        self._network, self._name = network, name

    def end(self, forget: bool) -> None:
        del self._network.followed[self._name]
        self._network.forgotten[self._name] = forget


class Network:
    """Keeps what is published until it is told that the network has it; then it comes back as an event."""

    keeps_sessions = False
    door = b"a door"

    def tell_doors(
        self, groups: list[bytes], segments: list[bytes] | None, orphans: list[bytes]
    ) -> None:
        pass

    def __init__(self) -> None:
        self.published: list[MqttMessage] = []
        self.watched: list[str] = []
        self.held: list[Callable[[Reason], None]] | None = None
        self.durable: set[str] = set()
        self.followed: dict[str, Any] = {}
        self.forgotten: dict[str, bool] = {}
        self.hub: Hub

    def publish(
        self, message: MqttMessage, done: Callable[[Reason], None], id: bytes = b""
    ) -> None:
        self.published.append(message)
        if self.held is not None:
            self.held.append(done)
            return
        done(Reason.SUCCESS)
        self.hub.deliver(message)

    def watch(self, topic: str, ready: Callable[[Reason], None]) -> None:
        self.watched.append(topic)
        ready(Reason.SUCCESS)

    def unwatch(self, topic: str) -> None:
        self.watched.remove(topic)

    def keeps(self, topic: str) -> bool:
        return topic in self.durable

    def open_session(self, client_id: str, opener: Any) -> None:
        raise AssertionError("this network keeps no sessions")

    keep_will = will_over = look_for_end = end_elsewhere = inherit = forget = open_session

    def follow(
        self,
        name: str,
        topic: str,
        follower: Any,
        afresh: bool,
        before: Any = None,
        shared: bool = False,
    ) -> Following:
        self.followed[name] = follower
        follower.ready(Reason.SUCCESS)
        return Following(self, name)


class Client:
    """One connection, as a client sees it."""

    def __init__(self, door: Door, client_id: str, **options: Any) -> None:
        self.is_full = self.is_closed = False
        self.got: list[Packet] = []
        self.version = options.get("version", V5)
        self._decoder = Decoder(version=self.version)
        self.connection = door.hub.accept(self)
        if client_id != "-":
            self.send(Connect(client_id, **options))

    def write(self, data: bytes) -> None:
        assert not self.is_closed
        self.got += self._decoder.feed(data)

    def close(self) -> None:
        self.is_closed = True

    def send(self, packet: Packet) -> None:
        self.connection.feed(write_packet(packet, self.version))

    def subscribe(self, *filters: str, qos: int = 2, **options: Any) -> None:
        properties = options.pop("properties", {})
        asked = tuple(Asked(one, qos, **options) for one in filters)
        self.send(Subscribe(9, asked, properties))

    def messages(self) -> list[Publish]:
        return [packet for packet in self.got if isinstance(packet, Publish)]

    def payloads(self) -> list[bytes]:
        return [packet.payload for packet in self.messages()]


class Door:
    def __init__(
        self,
        clock: Clock | None = None,
        access: Open | None = None,
        authenticator: Any = None,
        **config: Any,
    ) -> None:
        self.clock, self.network, self.metrics = clock or Clock(), Network(), Metrics()
        settings = MqttConfig(**config)
        self.hub = Hub(
            self.clock, self.network, settings, access, self.metrics, "door", authenticator
        )
        self.network.hub = self.hub

    def client(self, client_id: str, **options: Any) -> Client:
        return Client(self, client_id, **options)

    def dropped(self, reason: str) -> int:
        return self.metrics.family("mqtt_messages_dropped", "reason", "")[reason]


LASTING = {"session_expiry_interval": 100}
