"""The hub of the MQTT door by hand: slow, silent and hostile clients, limits, and who may do what."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pubsub.doors.mqtt import connection, greeting, hub, publishing, session, subscribing
from pubsub.doors.mqtt.network import Open
from pubsub.doors.mqtt.packets import (
    PINGREQ,
    PINGRESP,
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    SUBACK,
    V5,
    V311,
    Ack,
    Asked,
    ConnAck,
    Connect,
    Disconnect,
    Packet,
    Ping,
    Publish,
    Reason,
    Reasons,
    Subscribe,
    Will,
    write_packet,
)
from tests.pubsub.doors.mqtt_hub import LASTING, Door


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


def test_retained_messages_are_bounded_by_bytes_too() -> None:
    door = Door(retained_bytes=10)
    writer = door.client("writer")
    for topic, payload in (("a", b"1234"), ("b", b"1234"), ("a", b"123456"), ("c", b"12")):
        writer.send(Publish(topic, payload, retain=True))
    reader = door.client("reader")
    reader.subscribe("#")
    assert reader.payloads() == [b"123456", b"12"]
    assert door.dropped("retained_forgotten") == 1


@pytest.mark.parametrize("qos", [1, 2])
def test_what_waits_for_all_clients_is_bounded_by_bytes(qos: int) -> None:
    door = Door(waiting_bytes=10_000)
    greedy, modest = (door.client(one, properties=LASTING) for one in ("greedy", "modest"))
    greedy.subscribe("large", qos=qos)
    modest.subscribe("small", qos=qos)
    greedy.connection.lost()
    writer = door.client("writer")
    for number in range(20):
        writer.send(Publish("large", b"x" * 1_000, qos=qos, packet_id=number + 1))
        writer.send(Publish("small", b"x", qos=qos, packet_id=number + 101))
    waiting = door.hub._common.waiting
    assert waiting.bytes <= 12_000
    assert door.dropped("session_full") >= 10
    assert len(modest.payloads()) == 20
    back = door.client("greedy", properties=LASTING, clean_start=False)
    assert 5 < len(back.payloads()) <= 10
    for client in (modest, back):
        for packet in [one for one in client.got if isinstance(one, Publish)]:
            for code in (PUBACK,) if qos == 1 else (PUBREC, PUBCOMP):
                client.send(Ack(code, packet.packet_id))
    assert (waiting.bytes, waiting.shares) == (0, 0)


def test_what_waits_is_let_go_with_its_session() -> None:
    door = Door()
    client = door.client("c", properties={"session_expiry_interval": 10})
    client.subscribe("a", qos=1)
    client.connection.lost()
    door.client("writer").send(Publish("a", b"", qos=1, packet_id=1))
    waiting = door.hub._common.waiting
    assert (waiting.bytes, waiting.shares) == (session.MESSAGE_BYTES, 1)
    door.clock.run(11)
    assert (waiting.bytes, waiting.shares) == (0, 0)


def test_filters_that_no_topic_can_match_are_refused() -> None:
    door = Door()
    client = door.client("c")
    deepest = "/".join(["+"] * 32)
    fine = [deepest, deepest + "/#", "a" * 254, "$share/group/" + deepest]
    wrong = [deepest + "/+/+", deepest + "/+/#", "a" * 290, f"$share/{'g' * 290}/a"]
    client.send(Subscribe(1, tuple(Asked(one) for one in (*fine, *wrong))))
    answer = client.got[-1]
    assert isinstance(answer, Reasons)
    assert answer.reasons == (0,) * len(fine) + (Reason.TOPIC_FILTER_INVALID,) * len(wrong)


def test_a_subscribe_packet_with_very_many_filters_ends_its_connection(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(subscribing, "MOST_ASKED", 10)
    client = Door().client("c")
    client.send(Subscribe(1, (Asked("a"),) * 10))
    assert not client.is_closed
    client.send(Subscribe(1, (Asked("a"),) * 11))
    assert client.is_closed
    assert client.got[-1].reason == Reason.QUOTA_EXCEEDED  # type: ignore[union-attr]


def test_a_client_id_may_not_be_of_any_length() -> None:
    door = Door()
    assert not door.client("c" * 1_024).is_closed
    assert door.client("c" * 1_025).is_closed
    assert door.dropped("client_client_id_not_valid") == 1


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


class Rules(Open):
    def connect(self, client_id: str, username: str | None, password: bytes | None) -> bool:
        return password == b"secret"

    def publish(self, client_id: str, topic: str) -> bool:
        return topic != "closed"

    def subscribe(self, client_id: str, filter: str) -> bool:
        return filter != "closed"


def test_a_door_may_keep_to_itself_why_it_refuses() -> None:
    door = Door(access=Rules(), says_why=False)
    client = door.client("c", password=b"secret")
    client.subscribe("closed", "open")
    assert client.got[-1] == Reasons(SUBACK, 9, (Reason.UNSPECIFIED, 2))
    client.send(Publish("closed", b"x", 1, packet_id=1))
    assert client.got[-1] == Ack(PUBACK, 1, Reason.UNSPECIFIED)


def test_access_is_asked() -> None:
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


def test_clients_have_no_part_in_what_nodes_say_among_themselves() -> None:
    door = Door()
    client = door.client("c")
    client.subscribe("mqtt-doors/x", "camcast/#", "$share/g/camcast", "camcasts", "#")
    refused = Reason.NOT_AUTHORIZED
    assert client.got[-1] == Reasons(SUBACK, 9, (refused, refused, refused, 2, 2))
    client.send(Publish("mqtt-doors", b"x", 1, packet_id=1))
    assert client.got[-1] == Ack(PUBACK, 1, refused)
    assert door.client("d", will=Will("camcast", b"x", 1, True)).is_closed
    assert not door.network.published


def test_a_client_that_takes_no_answers_is_put_out(monkeypatch: pytest.MonkeyPatch) -> None:
    most = 2048
    monkeypatch.setattr(connection, "MOST_UNREAD", most)
    door = Door()
    client = door.client("c")
    client.is_full = True
    for _ in range(most // 2):
        client.send(Ping(PINGREQ))
    assert not client.is_closed
    client.is_full = False
    client.connection.writable()
    client.is_full = True
    for _ in range(most // 2 + 1):
        client.send(Ping(PINGREQ))
    assert client.is_closed
    assert door.dropped("client_takes_nothing") == 1


def test_who_is_subscribed_is_remembered_for_a_bounded_number_of_topics_and_clients(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hub, "MOST_MATCHED", 1_000)
    door = Door()
    readers = [door.client(f"reader{number}") for number in range(20)]
    for reader in readers:
        reader.subscribe("many/#", "many/+")
    writer = door.client("writer")
    for topic in ("many", "none"):
        most = 0
        for number in range(50):
            writer.send(Publish(f"{topic}/{number}", b"x"))
            most = max(most, len(door.hub._matched))
        assert 10 < most < 30
    assert [len(reader.payloads()) for reader in readers] == [50] * 20


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


@pytest.mark.parametrize("qos", [1, 2])
def test_a_client_has_a_bounded_number_of_messages_under_way(qos: int) -> None:
    door = Door(receive_maximum=2)
    door.network.held = []
    client = door.client("c")
    for round in range(3):
        for packet_id in (1, 2):
            client.send(Publish("a", b"x", qos, packet_id=packet_id))
        assert len(door.network.published) == 2 * round + 2
        waiting, door.network.held = door.network.held, []
        for done in waiting:
            done(Reason.SUCCESS)
        for packet_id in (1, 2):
            if qos == 2:
                client.send(Ack(PUBREL, packet_id))
    assert not client.is_closed
    for packet_id in (1, 2, 3):
        client.send(Publish("a", b"x", qos, packet_id=packet_id))
    assert client.is_closed
    assert door.dropped("client_receive_maximum_exceeded") == 1


def test_a_message_that_the_network_refused_may_be_sent_again() -> None:
    door = Door(receive_maximum=1)
    door.network.held = []
    client = door.client("c")
    for reason in (Reason.QUOTA_EXCEEDED, Reason.SUCCESS):
        client.send(Publish("a", b"x", 2, packet_id=1))
        door.network.held.pop()(reason)
        assert client.got[-1] == Ack(PUBREC, 1, reason)
    assert len(door.network.published) == 2


def test_no_more_is_read_while_too_many_messages_wait_to_be_published() -> None:
    door = Door()
    door.network.held = []
    client = door.client("c", version=V311)
    assert not client.connection.is_busy
    for number in range(publishing.MOST_PENDING):
        client.send(Publish("a", b"x", number % 2, packet_id=number % 2 and number))
    assert client.connection.is_busy
    for done in door.network.held:
        done(Reason.SUCCESS)
    for _ in range(publishing.MOST_PENDING - 1):
        client.send(Publish("a", b"x"))
    assert not client.connection.is_busy


def test_what_a_client_sends_before_its_session_is_there_waits(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(greeting, "MOST_EARLY", 2)
    door = Door()
    door.network.keeps_sessions = True
    openers: list[Any] = []
    monkeypatch.setattr(door.network, "open_session", lambda _, opener: openers.append(opener))
    keeping = SimpleNamespace(token=b"t", end=lambda forget: None)
    patient, pushy, twice = door.client("a"), door.client("b"), door.client("c")
    patient.subscribe("x")
    patient.send(Ping(PINGREQ))
    for _ in range(3):
        pushy.send(Ping(PINGREQ))
    twice.send(Connect("c"))
    assert [one.is_closed for one in (patient, pushy, twice)] == [False, True, True]
    assert patient.got == []
    for opener in openers:
        opener.opened(keeping, None, False, b"")
    assert [type(packet) for packet in patient.got] == [ConnAck, Reasons, Ping]
    assert set(door.hub.connections) == {"a"}


def test_a_client_that_connects_again_before_connack_is_refused_not_disconnected() -> None:
    door = Door()
    door.network.keeps_sessions = True
    door.network.open_session = lambda client_id, opener: None  # type: ignore[method-assign]
    first = door.client("c")
    second = door.client("c")
    assert [type(packet) for packet in first.got] == [ConnAck]
    assert first.got[0].reason == Reason.SERVER_UNAVAILABLE
    assert [first.is_closed, second.is_closed] == [True, False]


def test_a_refused_subscription_has_one_code_in_mqtt_311() -> None:
    door = Door(most_subscriptions=1)
    client = door.client("c", version=V311)
    client.subscribe("a", "b", qos=1)
    assert client.got[-1] == Reasons(SUBACK, 9, (1, 0x80))
