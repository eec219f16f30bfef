"""Packets of MQTT: what is written is read again, and other bytes raise nothing but MqttError."""

from __future__ import annotations

import random
from contextlib import suppress
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub.doors.mqtt.filters import FilterTree, TopicFilter, matches
from pubsub.doors.mqtt.message import MARK, MqttMessage, message_in, mqtt_name, topic_of
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
    Auth,
    ConnAck,
    Connect,
    Decoder,
    Disconnect,
    MqttError,
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

few = settings(max_examples=60)
texts = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
names = texts.map(lambda text: text.replace("+", "").replace("#", "")).filter(bool)
payloads = st.binary(max_size=300)
ids = st.integers(1, 0xFFFF)
reasons = st.sampled_from([0, 0x10, 0x80, 0x97])
user = st.fixed_dictionaries(
    {}, optional={"user_property": st.lists(st.tuples(texts, texts), min_size=1, max_size=3)}
)
message_properties = st.fixed_dictionaries(
    {},
    optional={
        "payload_format_indicator": st.integers(0, 1),
        "message_expiry_interval": st.integers(0, 2**32 - 1),
        "content_type": texts,
        "correlation_data": payloads,
        "user_property": st.lists(st.tuples(texts, texts), min_size=1, max_size=3),
    },
)
wills = st.builds(Will, names, payloads, st.integers(0, 2), st.booleans(), message_properties)
connects = st.builds(
    Connect,
    texts,
    st.booleans(),
    st.integers(0, 0xFFFF),
    st.just(V5),
    texts | st.none(),
    payloads | st.none(),
    wills | st.none(),
    st.fixed_dictionaries({}, optional={"receive_maximum": st.integers(1, 0xFFFF)}),
)
asked = st.builds(Asked, texts, st.integers(0, 2), st.booleans(), st.booleans(), st.integers(0, 2))
packets = st.one_of(
    connects,
    st.builds(ConnAck, st.booleans(), reasons, user),
    st.builds(
        Publish,
        names,
        payloads,
        st.integers(1, 2),
        st.booleans(),
        st.booleans(),
        ids,
        message_properties,
    ),
    st.builds(Publish, names, payloads, retain=st.booleans(), properties=message_properties),
    st.builds(Ack, st.sampled_from([PUBACK, PUBREC, PUBREL, PUBCOMP]), ids, reasons, user),
    st.builds(Subscribe, ids, st.lists(asked, min_size=1, max_size=4).map(tuple), user),
    st.builds(
        Reasons,
        st.sampled_from([SUBACK, UNSUBACK]),
        ids,
        st.lists(reasons, min_size=1, max_size=4).map(tuple),
        user,
    ),
    st.builds(Unsubscribe, ids, st.lists(texts, min_size=1, max_size=4).map(tuple), user),
    st.builds(Ping, st.sampled_from([PINGREQ, PINGRESP])),
    st.builds(Disconnect, reasons, user),
    st.builds(Auth, st.sampled_from([0, 0x18, 0x19]), user),
)


@few
@given(st.lists(packets, max_size=5), st.data())
def test_what_is_written_is_read_again_however_the_bytes_are_cut(
    sent: list[Packet], data: st.DataObject
) -> None:
    stream = b"".join(write_packet(packet, V5) for packet in sent)
    decoder, found = Decoder(), []
    while stream:
        size = data.draw(st.integers(1, len(stream)))
        found += decoder.feed(stream[:size])
        stream = stream[size:]
    assert found == sent


@few
@given(packets)
def test_mqtt_3_has_the_same_packets_without_properties(packet: Packet) -> None:
    match packet:
        case Auth():
            return
        case Connect():
            will = packet.will and replace(packet.will, properties={})
            username = packet.username if packet.password is None else "someone"
            sent: Packet = replace(
                packet, version=V311, will=will, username=username, properties={}
            )
        case Ack() | Disconnect():
            sent = replace(packet, reason=0, properties={})
        case Subscribe():
            plain = tuple(Asked(one.filter, one.qos) for one in packet.asked)
            sent = replace(packet, asked=plain, properties={})
        case Reasons(code=code):
            kept = packet.reasons if code == SUBACK else ()
            sent = replace(packet, reasons=kept, properties={})
        case Ping():
            sent = packet
        case _:
            sent = replace(packet, properties={})
    decoder = Decoder(version=V311)
    assert list(decoder.feed(write_packet(sent, V311))) == [sent]


@few
@given(st.binary(max_size=200), st.sampled_from([V311, V5]))
def test_any_bytes_are_packets_or_an_mqtt_error(data: bytes, version: int) -> None:
    with suppress(MqttError):
        list(Decoder(version=version).feed(data))


@few
@given(packets, st.data())
def test_a_packet_with_a_changed_byte_is_a_packet_or_an_mqtt_error(
    packet: Packet, data: st.DataObject
) -> None:
    written = bytearray(write_packet(packet, V5))
    written[data.draw(st.integers(0, len(written) - 1))] = data.draw(st.integers(0, 255))
    with suppress(MqttError):
        list(Decoder().feed(bytes(written)))


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"\x31\x80\x80\x80\x80\x01", "length of five bytes"),
        (b"\xc0\x80\x00", "length with a byte too many"),
        (b"\xc1\x00", "flags"),
        (b"\xc0\x01\x00", "bytes behind the end"),
        (b"\x36\x05\x00\x01a\x00\x01", "QoS 3"),
        (b"\x32\x06\x00\x01a\x00\x00\x00", "packet id 0"),
        (b"\x38\x04\x00\x01a\x00", "DUP with QoS 0"),
        (b"\x30\x04\x00\x01+\x00", "a wildcard in a topic"),
        (b"\x30\x05\x00\x02\xed\xa0\x00", "not UTF-8"),
        (b"\x82\x03\x00\x01\x00", "no filter"),
        (b"\x80\x07\x00\x01\x00\x00\x01a\x00", "SUBSCRIBE without its flags"),
        (b"\x82\x07\x00\x01\x00\x00\x01a\x03", "QoS 3 asked for"),
        (b"\x30\x08\x00\x01a\x04\x01\x00\x01\x00", "a property twice"),
        (b"\x30\x06\x00\x01a\x02\x01\x02", "a value that a property cannot have"),
        (b"\x30\x06\x00\x01a\x02\x7e\x02", "an unknown property"),
        (b"\x30\x05\x00\x01a\x80\x00", "a length of properties with a byte too many"),
    ],
)
def test_malformed_packets_are_refused(data: bytes, why: str) -> None:
    with pytest.raises(MqttError):
        list(Decoder().feed(data))


def test_a_packet_that_is_too_large_is_refused_before_it_has_come() -> None:
    with pytest.raises(MqttError, match="limit") as raised:
        list(Decoder(largest=100).feed(b"\x30\xff\x7f"))
    assert raised.value.reason == Reason.PACKET_TOO_LARGE


# -- topics --


@few
@given(names.filter(lambda name: len(name.encode()) < 60))
def test_a_topic_name_comes_back_from_its_topic(name: str) -> None:
    assert mqtt_name(topic_of(name)) == name


@few
@given(names.filter(lambda n: len(n.encode()) < 60), names.filter(lambda n: len(n.encode()) < 60))
def test_different_names_are_different_topics(one: str, other: str) -> None:
    assert (topic_of(one) == topic_of(other)) == (one == other)


def test_plain_names_are_plain_topics() -> None:
    assert topic_of("soccer/italy") == "/soccer/italy"
    assert topic_of("/soccer//italy") == "/%/soccer/%/italy"
    assert mqtt_name("/") is None
    with pytest.raises(MqttError, match="255"):
        topic_of("x" * 300)


@few
@given(names.filter(lambda n: len(n.encode()) < 60), payloads, message_properties, st.booleans())
def test_a_message_comes_back_from_its_event(
    name: str, payload: bytes, properties: dict[str, object], retain: bool
) -> None:
    message = MqttMessage(name, payload, 1, retain, b"12345678", properties)
    if "message_expiry_interval" in properties:
        message.published_at = 1.5
    assert message_in(topic_of(name), message.to_data(1.5)) == message


@pytest.mark.parametrize(
    "rest",
    [
        b"",
        b"\x00",
        b"\x03\x00",
        b"\x20\x00",
        b"\x08sender",
        b"\x10\0\0\0\0",
        b"\x00\x03\x00",
        b"\x00\x02\x0b\x01",
        b"\x00\x03\x23\x00\x01",
        b"\x00\x02\x01\x02",
    ],
)
def test_data_that_claims_to_be_a_message_is_checked(rest: bytes) -> None:
    assert message_in("/a", MARK + b"\x00\x00") == MqttMessage("a", b"", 0)
    assert message_in("/a", MARK + rest) is None


def test_what_python_publishes_is_a_payload() -> None:
    for data, payload in [(b"\0", b"\0"), ("é", "é".encode()), ({"a": [1]}, b'{"a": [1]}')]:
        found = message_in("/a/b", data)
        assert found is not None
        assert (found.topic, found.payload) == ("a/b", payload)


# -- filters --


@pytest.mark.parametrize(
    ("filter", "topic", "is_match"),
    [
        ("sport/tennis/player1/#", "sport/tennis/player1", True),
        ("sport/tennis/player1/#", "sport/tennis/player1/score/wimbledon", True),
        ("sport/#", "sport", True),
        ("#", "sport", True),
        ("#", "$SYS/x", False),
        ("+/x", "$SYS/x", False),
        ("$SYS/#", "$SYS/x", True),
        ("sport/+", "sport", False),
        ("sport/+", "sport/", True),
        ("+", "/finance", False),
        ("/+", "/finance", True),
        ("+/+", "/finance", True),
        ("a/+/c", "a/b/c", True),
        ("a/+/c", "a/b/d", False),
    ],
)
def test_filters_match_as_the_specification_says(filter: str, topic: str, is_match: bool) -> None:
    levels = TopicFilter.parse(filter).levels
    assert matches(levels, topic) is is_match
    topics: FilterTree[str] = FilterTree()
    topics.put(tuple(topic.split("/")), None, topic)
    assert list(topics.matched_by(levels)) == [topic] * is_match


def test_the_topics_that_a_filter_matches_are_found_without_asking_each() -> None:
    rng = random.Random(1)
    names = ["/".join(rng.choices(["a", "b", "", "$x"], k=rng.randint(1, 4))) for _ in range(200)]
    topics: FilterTree[str] = FilterTree()
    for name in names:
        topics.put(tuple(name.split("/")), None, name)
    for _ in range(300):
        levels = rng.choices(["a", "b", "", "$x", "+"], k=rng.randint(1, 4))
        levels += rng.choice([[], ["#"]])
        expected = {name for name in names if matches(tuple(levels), name)}
        assert set(topics.matched_by(tuple(levels))) == expected


@pytest.mark.parametrize(
    "text", ["", "a#", "a/#/b", "a+", "a/b+", "$share", "$share/g", "$share//a", "$share/g+/a"]
)
def test_texts_that_are_not_filters(text: str) -> None:
    with pytest.raises(MqttError):
        TopicFilter.parse(text)


def test_a_filter_tree_forgets_levels_that_nothing_is_under() -> None:
    tree: FilterTree[int] = FilterTree()
    tree.put(("a", "+", "#"), "one", 1)
    tree.put(("a",), "two", 2)
    assert set(tree.matching("a/b/c")) == {1}
    tree.remove(("a", "+", "#"), "one")
    tree.remove(("a", "+", "#"), "one")
    tree.remove(("a",), "two")
    assert not tree._root.below
