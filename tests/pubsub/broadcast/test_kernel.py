"""Stacks are checked, events stay in order, sessions may be shared, unknown events are passed on."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest

from overlay.virtual.stage import Stage, numbered_contact
from overlay.wire import decode, encode
from pubsub.broadcast import stacks
from pubsub.broadcast.events import (
    Broadcast,
    Crash,
    Deliver,
    GroupPacket,
    LayerMessage,
    StartDetector,
)
from pubsub.broadcast.kernel import (
    ChannelClose,
    CompositionError,
    Layer,
    LayerChannel,
    LayerEvent,
    LayerSession,
    Stack,
    TimeOut,
)
from pubsub.broadcast.links import BestEffort, PerfectDetector, PerfectLinks, UnreliableLinks
from pubsub.broadcast.order import CausalLayer, FifoLayer
from pubsub.broadcast.probabilistic import Probabilistic
from pubsub.broadcast.process import GroupProcess
from pubsub.broadcast.reliable import LazyReliable, UniformAllAck


@dataclass(frozen=True)
class Chat(LayerEvent):
    """An event that no layer knows."""

    text: str


class Echo(Layer):
    """Answers each Chat from above with two of its own, from within the handling of the first."""

    name = "echo"

    def session(self, process: GroupProcess) -> LayerSession:
        return EchoSession(process)


class EchoSession(LayerSession):
    def on_down(self, channel: LayerChannel, event: LayerEvent) -> None:
        if isinstance(event, Chat):
            channel.up(self, Chat(event.text + " 1"))
            channel.up(self, Chat(event.text + " 2"))


def process(
    stage: Stage | None = None, rank: int = 0, members: int = 2, **more: Any
) -> GroupProcess:
    contacts = [numbered_contact(number) for number in range(members)]
    world = stage or Stage(1)
    made = GroupProcess(rank, contacts, world.context(contacts[rank]), **more)
    world.attach(contacts[rank], made.receive)  # type: ignore[arg-type]
    return made


@pytest.mark.parametrize(
    ("layers", "complaint"),
    [
        (
            (UniformAllAck(), BestEffort(), PerfectLinks()),
            "'urb' requires 'perfect failure detector'",
        ),
        (
            (LazyReliable(), PerfectDetector(), PerfectLinks()),
            "'rb' requires 'best-effort broadcast'",
        ),
        ((BestEffort(), UnreliableLinks()), "'beb' requires 'perfect links'"),
        ((PerfectLinks(), BestEffort()), "'beb' requires 'perfect links'"),
        ((FifoLayer(), PerfectLinks()), "'fifo' requires 'broadcast'"),
        ((CausalLayer(), BestEffort(), PerfectLinks()), "'causal' requires 'reliable broadcast'"),
        ((Probabilistic(), PerfectLinks()), "'pb' requires 'unreliable links'"),
        ((PerfectLinks(), PerfectLinks()), "'perfect links' twice"),
        ((), "has no layer"),
        (("beb",), "'beb' is not a layer"),
    ],
)
def test_a_stack_in_which_something_is_missing_is_refused_by_name(
    layers: tuple[Layer, ...], complaint: str
) -> None:
    with pytest.raises(CompositionError, match=complaint):
        Stack([*layers], "test")


@pytest.mark.parametrize("order", stacks.ORDERS)
@pytest.mark.parametrize("name", stacks.NAMES)
def test_every_named_stack_composes_with_every_order(name: str, order: str) -> None:
    assert stacks.stack(name, order).name == name


def test_events_keep_their_order_and_do_not_interrupt_a_session() -> None:
    seen: list[LayerEvent] = []
    channel = Stack([BestEffort(), PerfectLinks(), Echo()], "test").open(process(), seen.append)
    channel.push(Chat("a"))
    channel.push(Chat("b"))
    assert [event.text for event in seen if isinstance(event, Chat)] == ["a 1", "a 2", "b 1", "b 2"]


@pytest.mark.parametrize("order", stacks.ORDERS)
@pytest.mark.parametrize("name", stacks.NAMES)
def test_every_layer_passes_on_what_it_does_not_know(name: str, order: str) -> None:
    layers = stacks.stack(name, order).layers
    seen: list[LayerEvent] = []
    channel = Stack([*layers, Echo()], "test").open(process(), seen.append)
    channel.push(Chat("hello"))
    assert seen == [Chat("hello 1"), Chat("hello 2")]


def test_a_session_shared_by_two_channels_orders_across_both() -> None:
    stage = Stage(seed=3)
    inboxes: list[list[object]] = [[], []]
    channels = []
    for rank in range(2):
        member = process(stage, rank)
        qos = stacks.stack("beb", "fifo")

        def take(event: LayerEvent, inbox: list[object] = inboxes[rank]) -> None:
            if isinstance(event, Deliver):
                inbox.append(event.message.data)

        one = qos.open(member, take, channel="one")
        two = qos.open(member, take, channel="two", sessions={"fifo": one.session("fifo")})
        channels.append((one, two))
    for number in range(40):
        channels[0][number % 2].push(Broadcast(LayerMessage(number)))
    stage.run_for(10)
    assert inboxes == [list(range(40)), list(range(40))]


def test_the_detector_speaks_once_of_each_member_and_not_before_it_is_started() -> None:
    told: list[Any] = []
    seen: list[LayerEvent] = []
    member = process(members=3, watch=told.append)
    channel = Stack([PerfectDetector(), PerfectLinks()], "test").open(member, seen.append)
    assert told == []
    channel.push(StartDetector())
    channel.push(StartDetector())
    (crashed,) = told
    for rank in (1, 1, 0, 2):
        crashed(rank)
    assert seen == [Crash(1), Crash(2)]


def test_messages_for_a_member_that_is_not_met_yet_wait_for_it() -> None:
    stage = Stage(seed=1)
    here, there = numbered_contact(0), numbered_contact(1)
    got: list[GroupPacket] = []
    stage.attach(there, lambda sender, packet: got.append(packet))  # type: ignore[arg-type]
    member = GroupProcess(0, [here, None], stage.context(here))
    channel = stacks.stack("beb").open(member, lambda event: None)
    channel.push(Broadcast(LayerMessage("early")))
    stage.run_for(1)
    assert got == []
    member.found(1, there)
    stage.run_for(1)
    assert [packet.data for packet in got] == ["early"]


@pytest.mark.parametrize("name", stacks.NAMES)
@pytest.mark.parametrize(
    "headers", [(), ((),), ((-1, 0, 0),), ((9, 9, 9),), ((0, 99, 1),), ((0, 1),), ((1,) * 9,)]
)
def test_what_a_peer_sends_never_raises(
    name: str, headers: tuple[tuple[int, ...], ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pubsub.broadcast.process.MOST_EARLY", 1)
    member = process()
    seen: list[LayerEvent] = []
    stacks.stack(name, "causal").open(member, seen.append)
    peer = numbered_contact(1)
    member.receive(peer, decode(encode(GroupPacket(name, headers, "x"))))  # type: ignore[arg-type]
    for place in ("nowhere", "nowhere else"):
        member.receive(peer, GroupPacket(place, headers, "x"))  # type: ignore[arg-type]
    member.receive(numbered_contact(7), GroupPacket(name, headers, "x"))  # type: ignore[arg-type]
    assert seen == []
    assert member.dropped["no_channel"] == member.dropped["not_a_member"] == 1


class Farewell(Layer):
    """Sends a last message when its channel is closed, and remembers what it was told."""

    name = "farewell"
    requires = ("broadcast",)

    def session(self, process: GroupProcess) -> LayerSession:
        return FarewellSession(process)


class FarewellSession(LayerSession):
    def __init__(self, process: GroupProcess) -> None:
        super().__init__(process)
        self.rang: list[object] = []
        self.ended = 0

    def on_down(self, channel: LayerChannel, event: LayerEvent) -> None:
        if isinstance(event, ChannelClose):
            channel.down(self, Broadcast(LayerMessage("goodbye")))
        channel.down(self, event)

    def on_up(self, channel: LayerChannel, event: LayerEvent) -> None:
        if isinstance(event, TimeOut):
            self.rang.append(event.what)
        else:
            channel.up(self, event)

    def closed(self, channel: LayerChannel) -> None:
        self.ended += 1


def test_a_channel_that_is_closed_says_its_last_words_and_then_nothing() -> None:
    stage = Stage(seed=5)
    stack = Stack([Farewell(), BestEffort(), PerfectLinks()], "test")
    seen: list[list[object]] = [[], []]
    members = [process(stage, rank) for rank in range(2)]

    def inbox(rank: int) -> Callable[[LayerEvent], None]:
        def take(event: LayerEvent) -> None:
            if isinstance(event, Deliver):
                seen[rank].append(event.message.data)

        return take

    channels = [stack.open(member, inbox(rank)) for rank, member in enumerate(members)]
    session = channels[0].session("farewell")
    assert isinstance(session, FarewellSession)
    channels[0].after(session, 1.0, "soon")
    channels[0].after(session, 60.0, "never")
    stage.run_for(2)
    channels[1].push(Broadcast(LayerMessage("on its way")))
    channels[0].close()
    channels[0].close()
    channels[0].push(Broadcast(LayerMessage("too late")))
    stage.run_for(100)
    assert session.rang == ["soon"]
    assert session.ended == 1
    assert seen == [["goodbye"], ["on its way", "goodbye"]]
    assert members[0].dropped == {"no_channel": 1}


def test_what_comes_before_a_channel_is_opened_waits_for_it() -> None:
    stage = Stage(seed=6)
    stack = stacks.stack("beb", "fifo")
    members = [process(stage, rank) for rank in range(2)]
    early = stack.open(members[0], lambda event: None, channel="second")
    for number in range(3):
        early.push(Broadcast(LayerMessage(number)))
    stage.run_for(5)
    seen: list[object] = []
    stack.open(
        members[1],
        lambda event: seen.append(event.message.data) if isinstance(event, Deliver) else None,
        channel="second",
    )
    stage.run_for(5)
    assert seen == [0, 1, 2]


def test_a_session_that_the_stack_has_no_layer_for_cannot_be_shared() -> None:
    one = stacks.stack("beb", "fifo").open(process(), lambda event: None)
    with pytest.raises(CompositionError, match="no layer 'fifo' to share"):
        stacks.stack("beb").open(
            process(), lambda event: None, sessions={"fifo": one.session("fifo")}
        )
