"""The messages on the wire, and what peers may not do with them."""

from __future__ import annotations

import contextlib
import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from overlay.contact import Contact
from overlay.errors import UsageError
from overlay.virtual.stage import numbered_contact
from overlay.wire import WireError, decode, encode, is_message
from pubsub.distributors import messages
from pubsub.distributors.config import ClientConfig, DistributorConfig
from pubsub.distributors.messages import (
    Carried,
    ServiceBlock,
    ServiceNameError,
    SpreadBlocks,
    check_service,
    event_id_of,
    pack_event,
    unpack_content,
)
from pubsub.distributors.protocol.view import ViewMember
from pubsub.event import Event, Origin
from pubsub.reliable.runs import source_of
from tests.pubsub.distributors.theatre import Theatre

KINDS = [
    kind
    for kind in vars(messages).values()
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and kind not in (Contact, Carried)
]


def test_every_message_has_a_code_of_this_part() -> None:
    assert len(KINDS) == 20
    for kind in KINDS:
        value = _example(kind)
        assert is_message(value)
        packed = encode(value)
        assert packed[1] == 0xCC  # a code above 0x7f takes two bytes
        assert packed[2] >> 4 in (0x8, 0xB)
        assert decode(packed) == value


def _example(kind: type) -> object:
    contact = numbered_contact(1)
    piece = messages.StreamPiece(b"s", 1, 0, 0, 1, (b"data",))
    block = ServiceBlock("news", b"s" * 24, 1, (b"x", b"y"))
    examples: dict[str, object] = {
        "contact": contact,
        "members": (ViewMember(contact, 7),),
        "block": block,
        "blocks": (block,),
        "payloads": block.payloads,
        "pieces": (piece,),
        "services": (("news", 1, True),),
        "names": ("news",),
        "sources": (("news", b"s", 0, 1, 2, 3),),
        "missing": (1, 2),
        "have": ((b"s", 3),) if kind is messages.ClientAnswer else {b"s": 3},
        "pace": 0.5,
        "since": 1.5,
    }
    plain: dict[str, object] = {"int": 1, "str": "a", "bytes": b"b", "bool": True}
    plain |= {"Group": (1, b"g"), "Ballot": (1, b"g")}
    return kind(
        *(
            examples.get(field.name, plain.get(str(field.type)))
            for field in dataclasses.fields(kind)
        )
    )


@settings(max_examples=150, deadline=None)
@given(
    kind=st.sampled_from(KINDS),
    numbers=st.lists(st.integers(-(2**40), 2**40), min_size=8, max_size=8),
    texts=st.lists(st.binary(max_size=40), min_size=4, max_size=4),
    flag=st.booleans(),
)
def test_whatever_a_peer_sends_a_distributor_stands(
    kind: type, numbers: list[int], texts: list[bytes], flag: bool
) -> None:
    """Any well-formed message with any values is taken or counted, and raises nothing."""
    theatre = Theatre(1)
    one = theatre.distributor()
    subscriber = theatre.subscriber()
    theatre.run(4.0)
    number, text = iter(numbers), iter(texts)
    fields: dict[str, object] = {}
    for field in dataclasses.fields(kind):
        if field.type == "int":
            fields[field.name] = next(number)
        elif field.type == "bytes":
            fields[field.name] = next(text)
        elif field.type == "bool":
            fields[field.name] = flag
        elif field.type in ("Group", "Ballot"):
            fields[field.name] = (next(number), next(text))
    message = dataclasses.replace(_example(kind), **fields)  # type: ignore[type-var]
    for sender in (numbered_contact(50), subscriber.contact):
        theatre.stage.context(sender).send(one.contact, message)
    theatre.stage.context(one.contact).send(subscriber.contact, message)
    theatre.run(3.0)
    assert one.core.view


def test_nobody_publishes_under_anothers_name() -> None:
    theatre = Theatre(2)
    one = theatre.distributor()
    theatre.run(4.0)
    mallory, victim = numbered_contact(60), numbered_contact(61)
    forged = ServiceBlock("news", source_of(victim.id, b"the run1"), 1, (b"lies",))
    one.core.receive_spread(mallory, SpreadBlocks((forged,)))
    assert one.core.dropped.values == {"not_its_source": 1}
    assert one.taken == {}


def test_hostile_blocks_are_dropped_and_cost_bounded_memory() -> None:
    theatre = Theatre(4)
    one = theatre.distributor()
    theatre.run(4.0)
    sender = numbered_contact(60)
    source = source_of(sender.id, b"the run1")
    for wrong in (
        ServiceBlock("news", source, 0, (b"x",)),
        ServiceBlock("news", source, -5, (b"x",) * 9),
        ServiceBlock("news", source, 1, ()),
        ServiceBlock("news", source[:-1], 1, (b"x",)),
    ):
        one.core.receive_spread(sender, SpreadBlocks((wrong,)))
    assert one.core.dropped.values == {"malformed": 4}
    for first in (1 << 62, 20_000, 5_000, 3, 2, 4):  # far ahead, overlapping, backwards
        block = ServiceBlock("news", source, first, (b"%d" % first,) * 4000)
        one.core.receive_spread(sender, SpreadBlocks((block,)))
    log = one.core.services["news"].log
    assert log.last == 0, "the first message never came"
    assert log._order.waiting <= 8192
    one.core.receive_spread(sender, SpreadBlocks((ServiceBlock("news", source, 1, (b"1",)),)))
    theatre.run(1.0)
    assert log.sources[source].high == 4003
    assert [number for _, number in one.taken] == list(range(1, 4004))


def test_a_service_holds_so_many_sources_and_no_more() -> None:
    theatre = Theatre(3, config=DistributorConfig(most_sources=4))
    one = theatre.distributor()
    theatre.run(4.0)
    for number in range(100, 120):
        sender = numbered_contact(number)
        source = source_of(sender.id, b"the run1")
        one.core.receive_spread(sender, SpreadBlocks((ServiceBlock("news", source, 1, (b"x",)),)))
    assert len(one.core.services["news"].log.sources) == 8
    assert one.core.dropped["too_many_sources"] == 12


@given(st.binary(max_size=60))
def test_content_is_read_or_refused(content: bytes) -> None:
    event_id_of(content)
    with contextlib.suppress(WireError):
        assert isinstance(unpack_content(content), Carried)


def test_events_of_a_topic_are_carried_whole() -> None:
    event = Event(Origin("/soccer", numbered_contact(1).id, b"i" * 8, 2), {"a": [1, b"x"]}, 7)
    content = pack_event(event)
    assert unpack_content(content) == Carried(event.data, "/soccer", event.publisher, event.id)
    assert event_id_of(content) == event.id


@pytest.mark.parametrize(
    ("settings", "name"),
    [
        ({"tick": 0}, "tick"),
        ({"reform_after": -1.0}, "reform_after"),
        ({"window": 3}, "window"),
        ({"recent_bytes": 10, "buffer_bytes": 5}, "recent_bytes"),
        ({"no_gap_patience": 0}, "no_gap_patience"),
    ],
)
def test_a_configuration_that_cannot_work_is_refused(settings: dict[str, float], name: str) -> None:
    with pytest.raises(UsageError, match=name):
        DistributorConfig(**settings)  # type: ignore[arg-type]


def test_a_clients_configuration_is_checked_too() -> None:
    with pytest.raises(UsageError, match="in_flight"):
        ClientConfig(in_flight=100, retained=10)
    with pytest.raises(ServiceNameError):
        check_service("")
