"""The hub of the MQTT door by hand: sessions that outlive connections, and wills."""

from __future__ import annotations

import pytest

from pubsub.doors.mqtt.message import MqttMessage
from pubsub.doors.mqtt.packets import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    Ack,
    Disconnect,
    Publish,
    Reason,
    Will,
)
from pubsub.doors.mqtt.subscribing import name_at_archive
from tests.pubsub.doors.mqtt_hub import LASTING, Door


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
