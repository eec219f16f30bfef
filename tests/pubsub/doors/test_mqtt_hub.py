"""The hub of the MQTT door by hand: messages, retained ones, and what comes with them."""

from __future__ import annotations

import pytest

from pubsub.doors.mqtt.packets import (
    PUBACK,
    PUBCOMP,
    PUBREC,
    PUBREL,
    SUBACK,
    V5,
    V311,
    Ack,
    ConnAck,
    Publish,
    Reason,
    Reasons,
)
from tests.pubsub.doors.mqtt_hub import LASTING, Door


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


def test_a_client_without_an_id_is_given_one() -> None:
    door = Door()
    one, two = door.client(""), door.client("")
    names = {one.got[0].properties["assigned_client_identifier"] for one in (one, two)}  # type: ignore[union-attr]
    assert len(names) == 2
    assert door.client("", version=V311, clean_start=False).got == [ConnAck(False, 2)]
