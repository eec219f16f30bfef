"""The hub of the MQTT door by hand: shared subscriptions, at one door and over several."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from pubsub.doors.mqtt.message import MqttMessage
from pubsub.doors.mqtt.other_doors import BEAT_SECONDS, SILENT_SECONDS, OtherDoors, group_key
from pubsub.doors.mqtt.packets import (
    PUBACK,
    PUBREC,
    UNSUBACK,
    Ack,
    Publish,
    Reason,
    Reasons,
    Unsubscribe,
)
from tests.pubsub.doors.mqtt_hub import Clock, Door


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
    doors: dict[bytes, OtherDoors] = {}
    down: set[bytes] = set()

    def teller(here: bytes) -> Callable[[list[bytes], list[bytes] | None, list[bytes]], None]:
        def tell(groups: list[bytes], segments: list[bytes] | None, orphans: list[bytes]) -> None:
            for there, other in doors.items():
                if here not in down and there not in down:
                    other.heard(here, groups, segments, orphans)

        return tell

    for name in (b"one", b"two", b"three"):
        doors[name] = OtherDoors(clock, name, teller(name))
    key = group_key("g", ("a", "+"))
    doors[b"one"].joined(key)
    assert not any(doors[b"one"].whose(key, b"%d" % event) for event in range(20)), "it is alone"
    doors[b"two"].joined(key)
    doors[b"three"].joined(group_key("g", ("other",)))
    clock.run(1)

    def givers(event: int) -> list[bytes]:
        with_members = [name for name in (b"one", b"two") if name not in down]
        return [name for name in with_members if not doors[name].whose(key, b"%d" % event)]

    chosen = Counter(name for event in range(200) for name in givers(event))
    assert sum(chosen.values()) == 200, "each by one door"
    assert min(chosen[b"one"], chosen[b"two"]) > 60, "and about as many by each"
    down.add(b"two")
    clock.run(SILENT_SECONDS + 1)
    assert all(givers(event) == [b"one"] for event in range(50))
    nonsense: list[Any] = [None, "x", [1], {}]
    for said in nonsense:
        doors[b"one"].heard(said, said, said)
        doors[b"one"].heard(b"hostile", said, said, said)
        doors[b"one"].heard(b"hostile", [], [], said)


@pytest.mark.parametrize("is_suspected", [True, False])
def test_what_was_the_turn_of_a_door_that_is_gone_goes_to_a_member_elsewhere(
    is_suspected: bool,
) -> None:
    door = Door()
    member = door.client("m")
    member.subscribe("$share/g/a/+", qos=1)
    key = group_key("g", ("a", "+"))

    def deliver(text: str, qos: int = 1) -> None:
        message = MqttMessage("a/b", text.encode(), qos, sender=b"8 bytes.")
        door.hub.deliver(message, text.encode())

    door.hub.doors.heard(b"two", [key], None)
    door.hub.doors.heard(b"three", [group_key("g", ("other",))], None)
    for number in range(20):
        deliver(f"old {number}")
    door.clock.run(BEAT_SECONDS + 1)
    door.hub.doors.heard(b"two", [key], None)
    for number in range(40):
        deliver(f"new {number}", qos=number % 2)
    before = set(member.payloads())
    assert 5 < len(before) < 55, "the other door has its turns"
    if is_suspected:
        door.hub.doors.gone(b"two")
    else:
        door.clock.run(SILENT_SECONDS + BEAT_SECONDS)
    given = member.payloads()
    assert len(given) == len(set(given))
    wanted = {b"new %d" % number for number in range(1, 40, 2)}
    assert set(given) - before == wanted - before, (
        "of QoS 1, since shortly before the last sign of life"
    )
    deliver("later")
    assert member.payloads()[-1] == b"later"
