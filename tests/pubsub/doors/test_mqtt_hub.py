"""The hub of the MQTT door by hand: a clock that is moved, a network that is looked at, clients as lists."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from overlay.metrics import Metrics
from pubsub.doors.mqtt.connection import MOST_UNREAD
from pubsub.doors.mqtt.groups import SILENT_SECONDS, Groups, group_key
from pubsub.doors.mqtt.hub import Hub
from pubsub.doors.mqtt.message import MqttMessage
from pubsub.doors.mqtt.network import MqttConfig, Open
from pubsub.doors.mqtt.packets import (
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    SUBACK,
    UNSUBACK,
    V5,
    V311,
    Ack,
    Asked,
    ConnAck,
    Connect,
    Decoder,
    Disconnect,
    Packet,
    Ping,
    Publish,
    Reason,
    Reasons,
    Subscribe,
    Unsubscribe,
    Will,
    write_packet,
)
from pubsub.doors.mqtt.subscribing import name_at_archive


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

    def tell_groups(self, groups: list[bytes]) -> None:
        self.told_groups = groups

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
        self, clock: Clock | None = None, access: Open | None = None, **config: Any
    ) -> None:
        self.clock, self.network, self.metrics = clock or Clock(), Network(), Metrics()
        settings = MqttConfig(**config)
        self.hub = Hub(self.clock, self.network, settings, access or Open(), self.metrics, "door")
        self.network.hub = self.hub

    def client(self, client_id: str, **options: Any) -> Client:
        return Client(self, client_id, **options)

    def dropped(self, reason: str) -> int:
        return self.metrics.family("mqtt_messages_dropped", "reason", "")[reason]


LASTING = {"session_expiry_interval": 100}


@pytest.mark.parametrize("version", [V311, V5])
def test_messages_reach_subscribers_with_the_lower_qos(version: int) -> None:
    door = Door()
    reader, writer = door.client("reader", version=version), door.client("writer", version=version)
    reader.subscribe("a/+", qos=1)
    for qos in (0, 1, 2):
        writer.send(Publish("a/b", b"%d" % qos, qos, packet_id=qos))
    writer.send(Publish("a/b/c", b"deeper"))
    assert reader.got[0] == ConnAck(False, 0, reader.got[0].properties)  # type: ignore[union-attr]
    assert reader.got[1] == Reasons(SUBACK, 9, (1,))
    assert [(one.payload, one.qos) for one in reader.messages()] == [
        (b"0", 0),
        (b"1", 1),
        (b"2", 1),
    ]
    assert [one.code for one in writer.got if isinstance(one, Ack)] == [PUBACK, PUBREC]


def test_qos_2_publishes_once_though_the_client_sends_twice() -> None:
    door = Door()
    writer = door.client("writer", properties=LASTING)
    door.network.held = []
    writer.send(Publish("a", b"x", 2, packet_id=5))
    writer.send(Publish("a", b"x", 2, dup=True, packet_id=5))
    assert not [one for one in writer.got if isinstance(one, Ack)], "the network has nothing yet"
    door.network.held[0](Reason.SUCCESS)
    writer.connection.lost()
    again = door.client("writer", clean_start=False, properties=LASTING)
    again.send(Publish("a", b"x", 2, dup=True, packet_id=5))
    again.send(Ack(PUBREL, 5))
    again.send(Ack(PUBREL, 5))
    assert len(door.network.published) == 1
    found = [(one.code, one.reason) for one in again.got if isinstance(one, Ack)]
    assert found == [(PUBREC, 0), (PUBCOMP, 0), (PUBCOMP, Reason.PACKET_ID_NOT_FOUND)]


def test_what_cannot_be_published_is_not_acknowledged() -> None:
    door = Door()
    new, old = door.client("new"), door.client("old", version=V311)
    door.network.held = []
    new.send(Publish("a", b"x", 1, packet_id=1))
    old.send(Publish("a", b"x", 1, packet_id=1))
    for done in door.network.held:
        done(Reason.UNSPECIFIED)
    assert Ack(PUBACK, 1, Reason.UNSPECIFIED) in new.got
    assert old.is_closed
    assert not [one for one in old.got if isinstance(one, Ack)]


def test_a_client_that_comes_back_gets_what_it_missed_in_order_and_once() -> None:
    door = Door()
    reader = door.client("reader", properties={**LASTING, "receive_maximum": 2})
    reader.subscribe("a")
    writer = door.client("writer")
    for number in range(4):
        writer.send(Publish("a", b"%d" % number, 1 + number % 2, packet_id=1 + number))
    assert reader.payloads() == [b"0", b"1"], "no more than it takes at a time"
    first, second = reader.messages()
    reader.send(Ack(PUBACK, first.packet_id))
    reader.send(Ack(PUBREC, second.packet_id))
    reader.connection.lost()
    writer.send(Publish("a", b"4", 1, packet_id=9))
    again = door.client("reader", clean_start=False, properties=LASTING)
    assert again.got[0].session_present  # type: ignore[union-attr]
    assert Ack(PUBREL, second.packet_id) in again.got
    assert [(one.payload, one.dup) for one in again.messages()] == [
        (b"2", True),
        (b"3", False),
        (b"4", False),
    ]
    for message in again.messages():
        again.send(Ack(PUBACK if message.qos == 1 else PUBREC, message.packet_id))
    for packet in list(again.got):
        if isinstance(packet, Ack) and packet.code == PUBREL:
            again.send(Ack(PUBCOMP, packet.packet_id))
    assert door.hub.sessions["reader"].waiting == 0


def test_sessions_end_when_they_expire_and_nothing_is_watched_then() -> None:
    door = Door()
    reader = door.client("reader", properties=LASTING)
    reader.subscribe("a", "b/#")
    assert door.network.watched == ["/a", "/b"]
    reader.connection.lost()
    door.clock.run(99)
    assert "reader" in door.hub.sessions
    door.clock.run(2)
    assert "reader" not in door.hub.sessions
    assert door.network.watched == []
    assert not door.client("reader", clean_start=False).got[0].session_present  # type: ignore[union-attr]


def test_a_clean_start_forgets_the_session() -> None:
    door = Door()
    door.client("reader", properties=LASTING).subscribe("a")
    again = door.client("reader", properties=LASTING)
    door.client("writer").send(Publish("a", b"x"))
    assert again.payloads() == []


def test_a_second_connection_takes_the_session_over() -> None:
    door = Door()
    first = door.client("c", properties=LASTING, will=Will("gone", b"will"))
    first.subscribe("a")
    second = door.client("c", clean_start=False, properties=LASTING)
    assert first.got[-1] == Disconnect(Reason.SESSION_TAKEN_OVER)
    assert first.is_closed
    door.client("writer").send(Publish("a", b"x"))
    assert second.payloads() == [b"x"]
    assert [one.topic for one in door.network.published] == ["gone", "a"]


@pytest.mark.parametrize(
    ("reason", "is_published"), [(Reason.SUCCESS, False), (Reason.DISCONNECT_WITH_WILL, True)]
)
def test_a_will_is_published_unless_the_client_says_goodbye(
    reason: Reason, is_published: bool
) -> None:
    door = Door()
    client = door.client("c", will=Will("gone", b"x", 1, True))
    client.send(Disconnect(reason))
    assert client.is_closed
    assert bool(door.network.published) is is_published


def test_a_delayed_will_is_not_published_when_the_client_comes_back_in_time() -> None:
    door = Door()
    will = Will("gone", b"x", properties={"will_delay_interval": 10})
    door.client("c", properties=LASTING, will=will).connection.lost()
    door.clock.run(9)
    again = door.client("c", clean_start=False, properties=LASTING, will=will)
    door.clock.run(20)
    assert not door.network.published
    again.connection.lost()
    door.clock.run(11)
    assert [one.topic for one in door.network.published] == ["gone"]
    assert "will_delay_interval" not in door.network.published[0].properties


def test_a_client_that_is_silent_for_too_long_is_gone() -> None:
    door = Door()
    client = door.client("c", keep_alive=10, will=Will("gone", b"x"))
    for _ in range(3):
        door.clock.run(14)
        client.send(Ping(PINGREQ))
    assert client.got.count(Ping(PINGRESP)) == 3
    door.clock.run(16)
    assert client.is_closed
    assert client.got[-1].reason == Reason.KEEP_ALIVE_TIMEOUT  # type: ignore[union-attr]
    assert len(door.network.published) == 1


def test_a_connection_that_says_nothing_is_closed() -> None:
    door = Door(connect_seconds=5)
    silent = door.client("-")
    door.clock.run(6)
    assert silent.is_closed
    assert door.dropped("client_without_connect") == 1


def test_retained_messages_come_with_a_new_subscription_and_can_be_cleared() -> None:
    door = Door()
    writer = door.client("writer")
    writer.send(Publish("t/1", b"old", retain=True))
    writer.send(Publish("t/1", b"new", retain=True))
    writer.send(Publish("t/2", b"brief", retain=True, properties={"message_expiry_interval": 5}))
    reader = door.client("reader")
    reader.subscribe("t/#")
    assert [(one.payload, one.retain) for one in reader.messages()] == [
        (b"new", True),
        (b"brief", True),
    ]
    writer.send(Publish("t/1", b"live", retain=True))
    assert reader.messages()[-1].retain is False
    door.clock.run(6)
    writer.send(Publish("t/1", b"", retain=True))
    late = door.client("late")
    late.subscribe("t/#")
    assert late.payloads() == []


def test_retain_handling_and_retain_as_published() -> None:
    door = Door()
    writer = door.client("writer")
    writer.send(Publish("t", b"kept", retain=True))
    reader = door.client("reader")
    reader.subscribe("t", retain_handling=2)
    reader.subscribe("t", retain_handling=1)  # it is not new
    assert reader.payloads() == []
    reader.subscribe("t", retain_handling=0, retain_as_published=True)
    writer.send(Publish("t", b"live", retain=True))
    assert [(one.payload, one.retain) for one in reader.messages()] == [
        (b"kept", True),
        (b"live", True),
    ]


def test_overlapping_subscriptions_bring_a_message_once_with_all_identifiers() -> None:
    door = Door()
    reader = door.client("reader")
    reader.subscribe("a/#", qos=0, properties={"subscription_identifier": [7]})
    reader.subscribe("a/b", qos=2, properties={"subscription_identifier": [8]})
    door.client("writer").send(Publish("a/b", b"x", 2, packet_id=1))
    (message,) = reader.messages()
    assert message.qos == 2
    assert sorted(message.properties["subscription_identifier"]) == [7, 8]


def test_no_local_spares_a_client_its_own_messages() -> None:
    door = Door()
    client, other = door.client("c"), door.client("other")
    client.subscribe("a", no_local=True)
    client.send(Publish("a", b"mine"))
    other.send(Publish("a", b"theirs"))
    assert client.payloads() == [b"theirs"]


def test_a_shared_subscription_gives_each_message_to_one_of_the_group() -> None:
    door = Door()
    members = [door.client(f"m{number}") for number in range(3)]
    for member in members:
        member.subscribe("$share/g/a/+")
    alone = door.client("alone")
    alone.subscribe("a/b")
    writer = door.client("writer")
    for number in range(6):
        writer.send(Publish("a/b", b"%d" % number))
    assert [len(member.payloads()) for member in members] == [2, 2, 2]
    assert len(alone.payloads()) == 6
    members[0].send(Unsubscribe(3, ("$share/g/a/+", "never")))
    assert members[0].got[-1] == Reasons(UNSUBACK, 3, (0, Reason.NO_SUBSCRIPTION_EXISTED))
    members[1].connection.lost()
    writer.send(Publish("a/b", b"last"))
    assert members[2].payloads()[-1] == b"last"


def test_what_an_archive_keeps_for_a_group_goes_on_to_another_member() -> None:
    door = Door()
    door.network.durable.add("/orders")
    one, two = door.client("one"), door.client("two")
    for member in (one, two):
        member.subscribe("$share/g/orders/#", qos=2)
    ((name, group),) = door.network.followed.items()
    told: list[str] = []

    def bring(text: str, qos: int) -> None:
        message = MqttMessage("orders/x", text.encode(), qos, sender=b"8 bytes.")
        door.hub.deliver(message, text.encode())  # live: the archive brings it
        group.take(message, text.encode(), lambda: told.append(text))

    for text, qos in (("a", 1), ("b", 1), ("c", 2), ("d", 2)):
        bring(text, qos)
    assert (one.payloads(), two.payloads()) == ([b"a", b"c"], [b"b", b"d"])
    _, second = one.messages()
    one.send(Ack(PUBREC, second.packet_id))
    assert told == ["c"]
    one.connection.lost()  # it has not acknowledged the first one, and its session ends
    assert two.payloads() == [b"b", b"d", b"a"]
    for message in two.messages():
        two.send(Ack(PUBACK if message.qos == 1 else PUBREC, message.packet_id))
    assert sorted(told) == ["a", "b", "c", "d"]
    bring("e", 1)
    two.connection.lost()
    assert told[4:] == [], "nobody has it: it is still the archive's"
    assert door.network.forgotten == {name: True}, "there are no members anywhere"


def test_doors_agree_which_of_them_gives_a_message_to_a_member_of_a_group() -> None:
    clock = Clock()
    doors: dict[bytes, Groups] = {}
    down: set[bytes] = set()

    def teller(here: bytes) -> Callable[[list[bytes]], None]:
        def tell(groups: list[bytes]) -> None:
            for there, other in doors.items():
                if here not in down and there not in down:
                    other.heard(here, groups)

        return tell

    for name in (b"one", b"two", b"three"):
        doors[name] = Groups(clock, name, teller(name))
    key = group_key("g", ("a", "+"))
    doors[b"one"].joined(key)
    assert all(doors[b"one"].is_ours(key, b"%d" % event) for event in range(20)), "it is alone"
    doors[b"two"].joined(key)
    doors[b"three"].joined(group_key("g", ("other",)))
    clock.run(1)

    def givers(event: int) -> list[bytes]:
        with_members = [name for name in (b"one", b"two") if name not in down]
        return [name for name in with_members if doors[name].is_ours(key, b"%d" % event)]

    chosen = Counter(name for event in range(200) for name in givers(event))
    assert sum(chosen.values()) == 200, "each by one door"
    assert min(chosen[b"one"], chosen[b"two"]) > 60, "and about as many by each"
    down.add(b"two")
    clock.run(SILENT_SECONDS + 1)
    assert all(givers(event) == [b"one"] for event in range(50))
    nonsense: list[Any] = [None, "x", [1], {}]
    for said in nonsense:
        doors[b"one"].heard(said, said)
        doors[b"one"].heard(b"hostile", said)


@pytest.mark.parametrize("qos", [0, 1])
@pytest.mark.parametrize("policy", ["drop", "disconnect"])
def test_a_slow_client_misses_messages_or_is_disconnected(policy: str, qos: int) -> None:
    door = Door(slow_clients=policy, most_waiting=2)
    slow, writer = door.client("slow"), door.client("writer")
    slow.subscribe("a")
    slow.is_full = True
    for number in range(4):
        writer.send(Publish("a", b"%d" % number, qos, packet_id=number + 1 if qos else 0))
    assert slow.is_closed is (policy == "disconnect")
    assert door.dropped("session_full" if qos else "slow_client") >= 1
    assert door.dropped("client_quota_exceeded") == (policy == "disconnect")
    slow.is_full = False
    writer.send(Publish("a", b"last", qos, packet_id=9 if qos else 0))
    if policy == "drop":
        slow.connection.writable()
        assert slow.payloads() == ([b"0", b"1"] if qos else [b"last"])


def test_topic_aliases_both_ways() -> None:
    door = Door(topic_aliases=1)
    reader = door.client("reader", properties={"topic_alias_maximum": 5})
    reader.subscribe("#", qos=0)
    writer = door.client("writer")
    writer.send(Publish("long/topic", b"1", properties={"topic_alias": 1}))
    writer.send(Publish("", b"2", properties={"topic_alias": 1}))
    writer.send(Publish("other", b"3"))
    assert [one.topic for one in door.network.published] == ["long/topic", "long/topic", "other"]
    found = [(one.topic, one.properties.get("topic_alias")) for one in reader.messages()]
    assert found == [("long/topic", 1), ("", 1), ("other", None)]
    writer.send(Publish("x", b"", properties={"topic_alias": 2}))
    assert writer.got[-1].reason == Reason.TOPIC_ALIAS_INVALID  # type: ignore[union-attr]


def test_messages_expire_while_they_wait() -> None:
    door = Door()
    door.client("reader", properties=LASTING).subscribe("a")
    door.hub.connections["reader"].lost()
    writer = door.client("writer")
    for seconds in (5, 50):
        properties = {"message_expiry_interval": seconds}
        writer.send(Publish("a", b"%d" % seconds, 1, packet_id=1, properties=properties))
    door.clock.run(10)
    again = door.client("reader", clean_start=False, properties=LASTING)
    assert again.payloads() == [b"50"]
    assert again.messages()[0].properties["message_expiry_interval"] == 40
    assert door.dropped("expired") == 1


def test_packets_larger_than_a_client_takes_are_dropped_and_the_next_ones_come() -> None:
    door = Door()
    reader = door.client("reader", properties={"maximum_packet_size": 60})
    reader.subscribe("a")
    writer = door.client("writer")
    writer.send(Publish("a", b"x" * 80, 1, packet_id=1))
    writer.send(Publish("a", b"small", 1, packet_id=2))
    assert reader.payloads() == [b"small"]
    assert door.dropped("too_large_for_client") == 1


def test_a_slow_client_misses_qos_0_and_is_sent_the_rest_later() -> None:
    door = Door(most_waiting=2)
    reader, writer = door.client("reader"), door.client("writer")
    reader.subscribe("a")
    reader.is_full = True
    writer.send(Publish("a", b"lost"))
    for number in range(3):
        writer.send(Publish("a", b"%d" % number, 1, packet_id=1 + number))
    assert reader.payloads() == []
    reader.is_full = False
    reader.connection.writable()
    assert reader.payloads() == [b"0", b"1"]
    assert door.dropped("slow_client") == 1
    assert door.dropped("session_full") == 1


def test_limits_of_clients_sessions_and_subscriptions() -> None:
    door = Door(most_clients=2, most_sessions=2, most_subscriptions=1, most_retained=1)
    one = door.client("one", properties=LASTING)
    one.subscribe("a", "b")
    assert one.got[-1] == Reasons(SUBACK, 9, (2, Reason.QUOTA_EXCEEDED))
    door.client("two")
    third = door.client("three")
    assert third.got == [ConnAck(False, Reason.SERVER_BUSY)]
    assert third.is_closed
    one.connection.lost()
    assert door.client("four").got[0].reason == Reason.SUCCESS  # type: ignore[union-attr]
    assert set(door.hub.sessions) == {"two", "four"}, "who has been away longest made room"


@pytest.mark.parametrize(
    "packet",
    [
        Connect("again"),
        ConnAck(True, 0),
        Publish("a", b"", properties={"topic_alias": 9}),
        Publish("", b"", properties={"topic_alias": 1}),
        Publish("x" * 300, b""),
        Publish("a", b"", properties={"subscription_identifier": [1]}),
        Subscribe(1, (Asked("$share/g/a", no_local=True),)),
        Ping(PINGRESP),
        Disconnect(0, {"session_expiry_interval": 9}),
    ],
)
def test_a_client_that_breaks_a_rule_is_told_and_put_out(packet: Packet) -> None:
    door = Door(topic_aliases=4)
    client = door.client("c")
    client.send(packet)
    assert client.is_closed
    assert isinstance(client.got[-1], Disconnect)
    assert client.got[-1].reason >= Reason.UNSPECIFIED
    client.send(Ping(PINGREQ))  # nothing happens any more
    assert "c" not in door.hub.connections


def test_wrong_acknowledgements_put_a_client_out() -> None:
    for code, qos in [(PUBACK, 2), (PUBREC, 1), (PUBCOMP, 2)]:
        door = Door()
        reader = door.client("reader")
        reader.subscribe("a", qos=qos)
        door.client("writer").send(Publish("a", b"x", 2, packet_id=1))
        reader.send(Ack(code, reader.messages()[0].packet_id))
        assert reader.is_closed


def test_a_first_packet_that_is_not_connect_closes_the_connection() -> None:
    door = Door()
    client = door.client("-")
    client.send(Ping(PINGREQ))
    assert client.is_closed


def test_access_is_asked() -> None:
    class Rules(Open):
        def connect(self, client_id: str, username: str | None, password: bytes | None) -> bool:
            return password == b"secret"

        def publish(self, client_id: str, topic: str) -> bool:
            return topic != "closed"

        def subscribe(self, client_id: str, filter: str) -> bool:
            return filter != "closed"

    door = Door(access=Rules())
    assert door.client("a", password=b"wrong").is_closed
    old = door.client("b", version=V311, username="u", password=b"wrong")
    assert old.got == [ConnAck(False, 5)]
    client = door.client("c", password=b"secret")
    client.subscribe("closed", "open")
    assert client.got[-1] == Reasons(SUBACK, 9, (Reason.NOT_AUTHORIZED, 2))
    client.send(Publish("closed", b"x", 1, packet_id=1))
    assert client.got[-1] == Ack(PUBACK, 1, Reason.NOT_AUTHORIZED)
    client.subscribe("$share/group/closed", "$share/group/open")
    assert client.got[-1] == Reasons(SUBACK, 9, (Reason.NOT_AUTHORIZED, 2))
    heir = door.client("d", password=b"secret", will=Will("closed", b"x", 1, True))
    assert heir.got == [ConnAck(False, Reason.NOT_AUTHORIZED)]
    assert heir.is_closed
    assert not door.network.published


def test_a_client_that_takes_no_answers_is_put_out() -> None:
    door = Door()
    client = door.client("c")
    client.is_full = True
    for _ in range(MOST_UNREAD // 2):
        client.send(Ping(PINGREQ))
    assert not client.is_closed
    client.is_full = False
    client.connection.writable()
    client.is_full = True
    for _ in range(MOST_UNREAD // 2 + 1):
        client.send(Ping(PINGREQ))
    assert client.is_closed
    assert door.dropped("client_takes_nothing") == 1


def test_a_client_without_an_id_is_given_one() -> None:
    door = Door()
    one, two = door.client(""), door.client("")
    names = {one.got[0].properties["assigned_client_identifier"] for one in (one, two)}  # type: ignore[union-attr]
    assert len(names) == 2
    assert door.client("", version=V311, clean_start=False).got == [ConnAck(False, 2)]


def test_what_an_archive_keeps_is_given_once_and_acknowledged_when_the_client_has_it() -> None:
    door = Door(most_waiting=1)
    door.network.durable.add("/orders")
    reader = door.client("reader", properties=LASTING)
    reader.subscribe("orders/+", qos=2)
    (kept,) = door.network.followed.values()
    told: list[str] = []

    def message(text: str, qos: int = 1) -> MqttMessage:
        return MqttMessage("orders/x", text.encode(), qos)

    door.hub.deliver(message("a"), b"1")  # live first
    kept.take(message("a"), b"1", lambda: told.append("a"))
    kept.take(message("b", 2), b"2", lambda: told.append("b"))  # from the archive first
    door.hub.deliver(message("b", 2), b"2")
    assert reader.payloads() == [b"a", b"b"]
    assert told == []
    first, second = reader.messages()
    reader.send(Ack(PUBACK, first.packet_id))
    assert told == ["a"]
    reader.send(Ack(PUBREC, second.packet_id))
    assert told == ["a", "b"], "the client has it, and only its packet id is left to be released"
    reader.send(Ack(PUBCOMP, second.packet_id))
    assert told == ["a", "b"]
    kept.take(message("a"), b"1", lambda: told.append("a, late"))
    kept.take(MqttMessage("orders/x/y", b"no match", 1), b"3", lambda: told.append("no match"))
    assert told[2:] == ["a, late", "no match"]
    reader.connection.lost()
    for number in range(5):  # more than may wait live: the archive has them anyway
        door.hub.deliver(message(str(number)), b"live%d" % number)
        kept.take(message(str(number)), b"live%d" % number, lambda: told.append("away"))
    again = door.client("reader", clean_start=False, properties=LASTING)
    assert again.payloads() == [b"0", b"1", b"2", b"3", b"4"]
    for one in again.messages():
        again.send(Ack(PUBACK, one.packet_id))
    assert told[4:] == ["away"] * 5


def test_a_session_that_ends_is_forgotten_at_the_archive_and_one_that_moves_is_not() -> None:
    door = Door()
    door.network.durable.add("/orders")
    names = {}
    for client_id in ("ends", "moves", "clean"):
        properties = {} if client_id == "clean" else LASTING
        client = door.client(client_id, properties=properties)
        client.subscribe("orders/#", qos=1)
        names[client_id] = (client, name_at_archive(client_id, "orders/#"))
    assert names["clean"][1] not in door.network.followed, "nothing is kept for a clean session"
    moves, name = names["moves"]
    door.network.followed[name].displaced()
    assert door.network.forgotten == {name: False}
    assert moves.got[-1] == Disconnect(Reason.SESSION_TAKEN_OVER)
    assert moves.is_closed
    ends, name = names["ends"]
    ends.connection.lost()
    assert name not in door.network.forgotten
    door.clock.run(101)
    assert door.network.forgotten[name] is True
    assert door.network.watched == ["/orders"], "the clean one's"


def test_packets_that_never_come_whole_are_bounded_in_bytes_and_in_time() -> None:
    door = Door(most_partial=1000, packet_seconds=5.0, connect_seconds=1000.0)
    whole = write_packet(Publish("a/b", bytes(2000)), V5)
    part = whole[:300]
    first, *others = [door.client(f"slow{number}") for number in range(4)]
    for client in (first, *others):
        client.connection.feed(part)
        door.clock.run(0.1)
    assert first.is_closed, "the one whose packet has taken longest"
    assert not any(client.is_closed for client in others)
    assert door.hub.partials.bytes == 900
    others[0].connection.feed(whole[300:])
    assert door.hub.partials.bytes == 600
    assert len(door.network.published) == 1
    honest = door.client("honest")
    honest.subscribe("a/#")
    door.clock.run(6)
    assert [client.is_closed for client in others[1:]] == [True, True]
    assert not honest.is_closed
    assert door.hub.partials.bytes == 0
    assert door.dropped("client_quota_exceeded") == 1
    assert door.dropped("client_keep_alive_timeout") == 2
