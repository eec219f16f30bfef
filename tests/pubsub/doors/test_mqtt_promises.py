"""What docs/mqtt.md and the specification promise, asked from outside: an archive and two doors, each a
process of its own, and a client that shows every packet and sends what no library would."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tests.pubsub.doors.mqtt_processes import Doors
from tests.pubsub.doors.mqtt_raw import (
    ALIAS,
    DISCONNECT,
    IDENTIFIER,
    MAXIMUM,
    PUBACK,
    PUBCOMP,
    PUBLISH,
    PUBREC,
    PUBREL,
    SESSION,
    SUBACK,
    SUBSCRIBE,
    UNSUBACK,
    UNSUBSCRIBE,
    WILL_DELAY,
    Raw,
    properties,
    text,
)

LASTING = {SESSION: 300}


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    with ExitStack() as stack:
        yield Doors(tmp_path_factory.mktemp("doors"), stack)


@pytest.fixture(scope="module")
def ports(doors: Doors) -> list[int]:
    return doors.ports


pytestmark = pytest.mark.sweep


def test_retained(ports: list[int]) -> None:
    first, second = ports
    with Raw(first, "r-pub", clean=True) as pub, Raw(second, "r-sub", clean=True) as sub:
        pub.published("sensors/a", "1", retain=True)
        pub.published("sensors/a", "2", retain=True)
        deadline = time.monotonic() + 10
        while True:  # gossip takes a moment to the other door
            sub.send(SUBSCRIBE, 2, struct.pack("!H", 1) + b"\0" + text("sensors/+") + b"\1")
            sub.expect(SUBACK)
            packet = sub.read(1)
            if packet is not None and packet.payload == b"2":
                break
            assert time.monotonic() < deadline
        assert packet.retain
        sub.answer(PUBACK, packet.id)
        pub.published("sensors/a", "3", retain=True)
        live = sub.expect(PUBLISH)
        assert (live.payload, live.retain) == (b"3", False)
        sub.answer(PUBACK, live.id)
        pub.published("sensors/a", "", retain=True)  # forgets it
        assert sub.expect(PUBLISH).payload == b""
    for port in ports:
        with Raw(port, "r-new", clean=True) as new:
            new.subscribe("sensors/#")
            new.nothing()


def test_retain_handling_and_as_published(ports: list[int]) -> None:
    with Raw(ports[0], "h", clean=True) as one:
        one.published("sensors/h", "kept", retain=True)
        one.subscribe("sensors/h", options=1 | 2 << 4)  # never on subscribe
        one.nothing()
        one.subscribe("sensors/h", options=1 | 1 << 4)  # only if the subscription is new: it is not
        one.nothing()
        one.subscribe("sensors/h", options=1)
        assert one.take(1) == ["kept"]
        one.subscribe("sensors/h", options=1 | 8 | 2 << 4)  # retain as published
        one.publish("sensors/h", "again", 0, retain=True)
        got = one.expect(PUBLISH)
        assert (got.payload, got.retain) == (b"again", True)
        one.subscribe("sensors/h", options=1 | 4 | 2 << 4)  # no local
        one.publish("sensors/h", "own", 0)
        one.nothing()
        one.publish("sensors/h", "", 0, retain=True)


def test_a_will_comes_when_the_socket_breaks_and_not_after_a_goodbye(ports: list[int]) -> None:
    first, second = ports
    with Raw(second, "w-sub", clean=True) as sub:
        sub.subscribe("wills/#", options=1)
        for index, (last, comes) in enumerate([(None, True), (0, False), (4, True)]):
            client = Raw(
                first, f"w-{index}", clean=True, will=(f"wills/{index}", f"gone {index}", 1)
            )
            if last is None:
                client.socket.close()
            else:
                client.disconnect(last)
            if comes:
                assert sub.take(1) == [f"gone {index}"]
            else:
                sub.nothing(1)


def test_a_will_comes_once_though_the_door_of_its_client_was_killed(doors: Doors) -> None:
    with Raw(doors.ports[1], "wk-sub", clean=True) as sub:
        sub.subscribe("orders/wk", options=2)
        stays = Raw(doors.ports[0], "wk-1", clean=True, will=("orders/wk", "gone", 2))
        moves = Raw(
            doors.ports[0],
            "wk-2",
            properties=LASTING,
            will=("orders/wk", "here", 2),
            will_properties={WILL_DELAY: 5},
        )
        doors.kill(0)
        with Raw(doors.ports[1], "wk-2", properties=LASTING) as back:
            assert back.present
            assert sub.take(1, 30) == ["gone"]
            assert sub.expect(PUBREL).id
            sub.nothing(8)
        for client in (stays, moves):
            client.socket.close()
    doors.start(0)


def test_a_session_expiry_that_was_none_cannot_be_made_longer(ports: list[int]) -> None:
    with Raw(ports[0], "xx", clean=True) as one:
        one.send(DISCONNECT, 0, b"\0" + properties({SESSION: 10}))
        assert one.ended() == 0x82


def test_a_publisher_repeats_qos_2_at_the_other_door(doors: Doors) -> None:
    first, second = doors.ports
    with Raw(second, "d-sub", clean=True) as sub:
        sub.subscribe("orders/d")
        pub = Raw(first, "d-pub", clean=True, properties=LASTING)
        pub.publish("orders/d", "1", 2, id=7)
        pub.expect(PUBREC)
        pub.socket.close()
        with Raw(second, "d-pub", properties=LASTING) as pub:
            assert pub.present
            for _ in range(2):
                pub.publish("orders/d", "1", 2, id=7, again=True)
                assert pub.expect(PUBREC).code in (0, 0x10)
            for _ in range(2):
                pub.answer(PUBREL, 7)
                pub.expect(PUBCOMP)
            pub.publish("orders/d", "2", 2, id=7)  # the id is free again: another message
            pub.expect(PUBREC)
            pub.answer(PUBREL, 7)
            pub.expect(PUBCOMP)
        assert sub.take(2) == ["1", "2"]
        while (packet := sub.read(1)) is not None:
            assert packet.kind == PUBREL


def test_a_killed_door_between_publish_and_release(doors: Doors) -> None:
    with Raw(doors.ports[1], "k-sub", clean=True, properties=LASTING) as sub:
        sub.subscribe("orders/k")
        pub = Raw(doors.ports[0], "k-pub", clean=True, properties=LASTING)
        for number in range(1, 6):
            pub.publish("orders/k", str(number), 2, id=number)
        assert {pub.expect(PUBREC).id for _ in range(3)} <= set(range(1, 6))
        doors.kill(0)
        with Raw(doors.ports[1], "k-pub", properties=LASTING) as pub:
            assert pub.present
            for number in range(1, 6):
                pub.publish("orders/k", str(number), 2, id=number, again=True)
            for _ in range(5):
                pub.expect(PUBREC)
            for number in range(1, 6):
                pub.answer(PUBREL, number)
            for _ in range(5):
                pub.expect(PUBCOMP)
        assert sorted(sub.take(5)) == list("12345")
        while (packet := sub.read(1)) is not None:
            assert packet.kind == PUBREL
    doors.start(0)


def test_a_subscriber_of_qos_2_goes_on_after_its_door_was_killed(doors: Doors) -> None:
    sub = Raw(doors.ports[0], "s-sub", clean=True, properties=LASTING)
    sub.subscribe("orders/s")
    with Raw(doors.ports[1], "s-pub", clean=True) as pub:
        for number in range(4):
            pub.published("orders/s", str(number), 2)
        got = [sub.expect(PUBLISH) for _ in range(4)]
        first = {one.id: one.payload for one in got}
        for one in got[:2]:
            sub.answer(PUBREC, one.id)
        assert {sub.expect(PUBREL).id for _ in range(2)} == {one.id for one in got[:2]}
        doors.kill(0)
        pub.published("orders/s", "4", 2)
    with Raw(doors.ports[1], "s-sub", properties=LASTING) as sub:
        assert sub.present
        released, fresh = set(), {}
        while (packet := sub.read(6)) is not None:
            if packet.kind == PUBREL:
                released.add(packet.id)
                sub.answer(PUBCOMP, packet.id)
                continue
            assert packet.kind == PUBLISH
            assert packet.payload not in fresh.values()
            if packet.id in first and packet.again:
                assert first[packet.id] == packet.payload
            fresh[packet.id] = packet.payload
            sub.answer(PUBREC, packet.id)
        assert {one.id for one in got[:2]} <= released
        assert sorted(fresh.values()) == [b"2", b"3", b"4"]
    doors.start(0)


@pytest.mark.parametrize("qos", [1, 2])
def test_a_group_goes_on_without_the_door_that_was_killed(doors: Doors, qos: int) -> None:
    """Each message comes to a member; those that the killed door's member had not acknowledged come again."""
    filter = f"$share/g{qos}/orders/g{qos}"
    left = Raw(doors.ports[0], "g-left", clean=True)
    with Raw(doors.ports[1], "g-right", clean=True) as right:
        for member in (left, right):
            member.subscribe(filter, options=qos)
        with Raw(doors.ports[1], "g-pub", clean=True) as pub:
            for number in range(20):
                pub.published(f"orders/g{qos}", str(number), qos)
            had = left.take(1)
            doors.kill(0)
            for number in range(20, 40):
                pub.published(f"orders/g{qos}", str(number), qos)
        got: list[str] = []
        while len({*had, *got}) < 40:
            got += right.take(1)
    assert len(set(got)) == len(got)
    assert len(got) >= 38, (
        "what the killed door's member had acknowledged may have been noted, or not"
    )
    doors.start(0)


def test_receive_maximum_bounds_what_is_on_its_way(ports: list[int]) -> None:
    with Raw(ports[0], "m-sub", clean=True, properties={MAXIMUM: 2, **LASTING}) as sub:
        sub.subscribe("orders/m")
        with Raw(ports[1], "m-pub", clean=True) as pub:
            for number in range(6):
                pub.published("orders/m", str(number), 1 + number % 2)
        one, two = sub.expect(PUBLISH), sub.expect(PUBLISH)
        assert (one.payload, two.payload) == (b"0", b"1")
        sub.nothing()
        sub.answer(PUBREC, two.id)  # does not make room
        assert sub.expect(PUBREL).id == two.id
        sub.nothing()
        sub.answer(PUBACK, one.id)
        assert sub.expect(PUBLISH).payload == b"2"
        sub.nothing()
        sub.answer(PUBCOMP, two.id)
        assert sub.expect(PUBLISH).payload == b"3"
    with Raw(ports[0], "m-sub", properties={MAXIMUM: 10, **LASTING}) as sub:
        again = [sub.expect(PUBLISH) for _ in range(4)]
        assert [one.payload for one in again] == [b"2", b"3", b"4", b"5"]
        assert [one.again for one in again] == [True, True, False, False]


def test_who_sends_more_than_the_doors_receive_maximum_is_told(ports: list[int]) -> None:
    with Raw(ports[0], "over", clean=True, properties=LASTING) as one:
        [most] = one.connack.properties.get(MAXIMUM, [65535])
        assert isinstance(most, int)
        for _ in range(min(most + 1, 65535)):
            one.publish("orders/over", "", 2)
        code = None
        try:
            while (packet := one.read(20)) is not None:
                if packet.kind == DISCONNECT:
                    code = packet.code
                    break
        except (EOFError, ConnectionResetError):
            pass
        assert code == 0x93


def test_aliases(ports: list[int]) -> None:
    with Raw(ports[0], "a", clean=True) as one:
        [most] = one.connack.properties.get(34, [0])
        assert isinstance(most, int)
        one.subscribe("alias/x", options=0)
        if most:
            one.publish("alias/x", "1", properties={ALIAS: 1})
            one.publish("", "2", properties={ALIAS: 1})
            assert one.take(2) == ["1", "2"]
        one.publish("alias/x", "3", properties={ALIAS: most + 1})
        assert one.ended() == 0x94
    with Raw(ports[0], "a", clean=True) as one:
        one.publish("alias/x", "3", properties={ALIAS: 0})
        assert one.ended() in (0x81, 0x94)


def test_the_same_client_at_another_door_ends_the_first_connection(ports: list[int]) -> None:
    with Raw(ports[0], "t", clean=True, properties=LASTING) as one:
        one.subscribe("orders/t")
        with Raw(ports[0], "t", properties=LASTING) as two:
            assert two.present
            assert one.ended() == 0x8E
            with Raw(ports[1], "t", properties=LASTING) as three:
                assert three.present
                assert two.ended(20) == 0x8E
                three.published("orders/t", "x", 1)
                assert three.take(1) == ["x"]


def test_identifiers_of_overlapping_subscriptions(ports: list[int]) -> None:
    with Raw(ports[0], "i", clean=True) as one:
        one.subscribe("ids/#", options=0, properties={IDENTIFIER: 5})
        one.subscribe("ids/+", options=1, properties={IDENTIFIER: 300})
        one.publish("ids/a", "x", 1)
        found: list[object] = []
        while (packet := one.read(1)) is not None:
            found += packet.properties.get(IDENTIFIER, [])
        assert sorted(found) == [5, 300]  # type: ignore[type-var]
        assert one.subscribe("$share/g/ids/#", options=0) == [0]
        one.send(SUBSCRIBE, 2, struct.pack("!H", 9) + b"\0" + text("$share/g/ids/#") + bytes([4]))
        assert one.ended() == 0x82  # no local on a shared subscription


def test_what_was_missed_comes_in_order_at_either_door(ports: list[int]) -> None:
    for qos, (here, there) in enumerate((ports, ports[::-1]), 1):
        name = f"o-{here}"
        with Raw(here, name, clean=True, properties=LASTING) as sub:
            sub.subscribe(f"orders/{name}")
            sub.disconnect()
        with Raw(there, "o-pub", clean=True) as pub:
            for number in range(40):
                pub.published(f"orders/{name}", str(number), qos)
        with Raw(there, name, properties=LASTING) as sub:
            assert sub.present
            assert sub.take(40) == [str(number) for number in range(40)]
            sub.send(UNSUBSCRIBE, 2, struct.pack("!H", 77) + b"\0" + text(f"orders/{name}"))
            while (packet := sub.read()) is not None and packet.kind != UNSUBACK:
                assert packet.kind == PUBREL
                sub.answer(PUBCOMP, packet.id)
            sub.disconnect()
        with Raw(here, name, properties=LASTING) as sub, Raw(there, "o-pub", clean=True) as pub:
            assert sub.present
            pub.published(f"orders/{name}", "late", 2)
            sub.nothing(1)


def test_a_clean_start_forgets_what_waited(ports: list[int]) -> None:
    with Raw(ports[0], "c", clean=True, properties=LASTING) as sub:
        sub.subscribe("orders/c")
        sub.disconnect()
    with Raw(ports[0], "c-pub", clean=True) as pub:
        pub.published("orders/c", "old", 1)
    with Raw(ports[0], "c", clean=True, properties=LASTING) as sub:
        assert not sub.present
        sub.subscribe("orders/c")
        sub.nothing(1)
