"""A group whose members are known, with a choice of guarantees: broadcast to it, iterate over what it
delivers.

    async with Group(["127.0.0.1:25000", "127.0.0.1:25100"], rank=0, qos="urb") as group:
        await group.broadcast({"score": "1-0"})
        async for message in group:
            print(message.source, message.data)

`qos` is one of those in `pubsub.broadcast.stacks`, whose layers say what is promised under which faults:

    beb    best effort: all correct members deliver, if the sender does not crash
    rb     reliable: all correct members deliver, or none
    urb    uniform: all correct members deliver what any member delivers, even one that crashes then
    iurb   the same without a failure detector, while a majority of the members is correct
    pb     probabilistic: each member delivers with high probability, at a cost that does not grow with N^2

or a `Stack` of layers that the caller composed:

    Group(members, rank=0, qos=Stack([FifoLayer(), BestEffort(), PerfectLinks()]))

`order` is "none", "fifo" or "causal". Further channels of the same members, with stacks of their own, are
opened by `group.channel(...)`, and may share sessions with others.

With a `log`, a file of its own for each member, `iurb` outlives crashes: a member that comes back with its
log delivers what it missed, and again what the application was not done with when it crashed, that is, the
last message that it got from the iterator and those after it. `rb` and `urb` rely on a failure detector that
must not be started before every process runs: by default it is started when all members have been met.

With an `authority` a group belongs to a `topic`, and whoever takes part needs the rights to publish and to
subscribe on it: each member asks the others for these when they meet. Who is in the group stays in it, as its
guarantees count all members: a right that ends or is taken back keeps its holder out of the next start of the
group, and not of this one. Session keys (`keys`) prove who is who; without them a right can be borrowed."""

from __future__ import annotations

import asyncio
import hashlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Self

from overlay.channel import ChannelState
from overlay.contact import Address, Contact
from overlay.errors import CamcastError, ClosedError, UsageError
from overlay.identity import Identity
from overlay.runtime import Runtime, RuntimeConfig
from overlay.transport.config import EndpointConfig
from overlay.wire import encode
from pubsub.broadcast import stacks
from pubsub.broadcast.events import (
    Broadcast,
    Crash,
    Deliver,
    Finished,
    GroupPacket,
    LayerMessage,
    StartDetector,
)
from pubsub.broadcast.kernel import CompositionError, LayerChannel, LayerEvent, LayerSession, Stack
from pubsub.broadcast.log import SqliteGroupLog
from pubsub.broadcast.probabilistic import Probabilistic
from pubsub.broadcast.process import GroupHello, GroupProcess, GroupRefusal, Meeting, OnCrash
from pubsub.config import all_bytes
from pubsub.gate import Gate
from pubsub.reliable.journal import opened
from pubsub.reliable.receipts import MessageReceipt, News, Wait, budget, check_wait
from pubsub.rights import Action, Holder
from pubsub.topic import Topic

DetectorStart = Literal["when_met", "by_hand"]

HEADERS = 512
"""Bytes that the layers may add to a message that must fit one datagram."""

DETECTOR = "perfect failure detector"

TO_TAKE_PART = (Action.PUBLISH, Action.SUBSCRIBE)
"""What a member needs the right to: all of them broadcast, and all deliver."""

LINGER = 2.0
"""Seconds that closing waits for what was sent to be acknowledged."""


class GroupError(CamcastError):
    """The group cannot do this; the text says why."""


@dataclass(frozen=True, slots=True)
class GroupMessage:
    """What a member broadcast."""

    source: int
    """The rank of the member."""

    data: Any
    """None, bool, int, float, str, bytes, list or dict."""

    number: int
    """Of this broadcast among those of the member, from 1; 0 with `beb`, which does not count."""


class GroupChannel:
    """One channel of a group, under one stack; iterate over it inside `async with`, from one task at a time.

    Delivered messages wait without bound for the application, since dropping one would break what was
    promised; this member's own broadcasts wait while `most_unread` do.
    """

    def __init__(
        self,
        group: Group,
        name: str,
        stack: Stack,
        share: Mapping[str, LayerSession],
        most_unread: int,
    ) -> None:
        self.stack = stack
        self._group = group
        self._name = name
        self._share = share
        self._most_unread = most_unread
        self._inbox: deque[GroupMessage] = deque()
        self._news = News()
        self._own: dict[int, None] = {}
        """The own broadcasts, by number, that this member has not delivered yet."""
        self._log: SqliteGroupLog | None = None
        """What this member keeps over a crash; of the group's first channel."""
        self._untaken: Finished | None = None
        self._channel: LayerChannel | None = None
        self._closed = False

    async def __aenter__(self) -> Self:
        self._group._check_open()
        if self._channel is not None:
            raise UsageError("a channel is entered once; make another one")
        self._open_channel(self._group._process)
        return self

    def _open_channel(self, process: GroupProcess) -> None:
        self._channel = self.stack.open(
            process, self._delivered, channel=self._name, sessions=self._share
        )
        self._group._channels[self] = None
        if self._group._detector_is_started:
            self._channel.push(StartDetector())

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close this channel alone; the other members' channels of this name go on."""
        self._closed = True
        self._news.tell()
        self._group._channels.pop(self, None)
        if self._channel is not None:
            self._channel.close()

    def session(self, layer: str) -> LayerSession:
        """The session of the layer with this name, to share it with another channel (`Group.channel`)."""
        return self._check_open().session(layer)

    # Messages.

    async def broadcast(
        self, data: Any, *, wait: Wait = "sent", deadline: float | None = None
    ) -> MessageReceipt:
        """Broadcast; returns when the message is "sent", that is, on its way, and on the disk if there is a
        log, which may be before anyone delivers it.

        With uniform broadcast (`urb`, `iurb`) `wait="safe"` returns when every correct member has the message
        or will: when this member has delivered it; the same goes for "acked". Others do not know who has a
        message. Waits while the channels to the members are full. `NotInTime` when all that takes more than
        `deadline` seconds. `UsageError` for data that cannot travel, or, with unreliable links, that does not
        fit one datagram.
        """
        is_uniform = self.stack.provides("uniform broadcast")
        check_wait(wait, deadline, most="safe" if is_uniform else "sent")
        async with budget(deadline, "the broadcast"):
            receipt = await self._broadcast(data, is_uniform)
            await receipt.wait(wait)
        return receipt

    async def _broadcast(self, data: Any, is_uniform: bool) -> MessageReceipt:
        channel = self._check_open()
        self._check_data(data, channel)
        runtime = self._group._open_runtime()
        await runtime.writable(self._group._others())
        while len(self._inbox) >= self._most_unread:
            self._check_open()
            await self._news.wait()
        number = self._check_open().sent + 1
        if is_uniform:
            self._own[number] = None
        channel.push(Broadcast(LayerMessage(data)))
        if self._log is not None:
            await self._log.journal.written()

        def reached(wait: Wait) -> bool:
            return wait == "sent" or (is_uniform and number not in self._own)

        async def change() -> None:
            self._check_open()
            await self._news.wait()

        return MessageReceipt(number, reached, change)

    def _check_data(self, data: Any, channel: LayerChannel) -> None:
        runtime = self._group._open_runtime()
        size = len(encode(GroupPacket(channel.name, (), data))) + HEADERS
        most = runtime.channels.config.max_message
        if self.stack.provides("unreliable links"):
            most = runtime.endpoint.max_body
        if size > most:
            raise UsageError(
                f"the message has {size - HEADERS} bytes, and {most - HEADERS} is the most that "
                f"{self.stack.name} carries"
            )

    def _delivered(self, event: LayerEvent) -> None:
        if isinstance(event, Deliver):
            if event.source == self._group.rank:
                self._own.pop(event.number, None)
            self._inbox.append(GroupMessage(event.source, event.message.data, event.number))
        elif isinstance(event, Crash):
            self._group._has_crashed(event.rank)
        self._news.tell()

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> GroupMessage:
        if self._untaken is not None and not self._closed:
            self._check_open().push(self._untaken)
            self._untaken = None
        while not self._inbox:
            if self._closed:
                raise StopAsyncIteration
            self._check_open()
            await self._news.wait()
        self._news.tell()
        message = self._inbox.popleft()
        if self._log is not None:
            self._untaken = Finished(message.source, message.number)
        return message

    def _check_open(self) -> LayerChannel:
        if self._closed or self._channel is None:
            raise ClosedError("use a group, and a channel of it, inside `async with`")
        self._group._check_not_refused()
        return self._channel


class Group(GroupChannel):
    """One member of a group, and its first channel; iterate over it inside `async with`."""

    def __init__(
        self,
        members: Sequence[str | tuple[str, int]],
        rank: int,
        qos: str | Stack = "urb",
        *,
        order: str = "none",
        probabilistic: Probabilistic | None = None,
        detector: DetectorStart = "when_met",
        log: str | Path | None = None,
        on_crash: Callable[[int], None] | None = None,
        runtime: Runtime | None = None,
        keys: tuple[bytes, ...] = (),
        insecure: bool = False,
        identity: Identity | None = None,
        topic: str | None = None,
        authority: Iterable[bytes | str] = (),
        rights: Iterable[bytes | str] = (),
        most_unread: int = 10_000,
    ) -> None:
        """`members`: the addresses, in the order of their ranks, the same at every member.

        `runtime`: one that is open, at this member's address; else it is opened, with `keys` as its ring of
        network keys (`insecure` allows a public address without), and closed at the end. `on_crash` is
        called with the rank of a member that the failure detector declares crashed. `topic`, `authority`,
        `rights`: who may take part; `identity` is the key whose rights they are.
        """
        self._topic = None if topic is None else Topic.of(topic).name
        self._identity = identity
        self._authority = all_bytes("authority", authority)
        self._rights = all_bytes("rights", rights)
        self._gate: Gate | None = None
        self._check_rights(runtime)
        self.addresses = _addresses_of(members, rank)
        self.rank = rank
        if detector not in ("when_met", "by_hand"):
            raise UsageError(f'detector is "when_met" or "by_hand", not {detector!r}')
        if log is not None and (qos != "iurb" or order != "none"):
            raise UsageError('a log goes with qos="iurb" and order="none"')
        stack = _stack(qos, order, probabilistic)
        name = f"{stack.name} {order}" + (" with logs" if log is not None else "")
        if isinstance(qos, Stack):  # members with another stack are not taken in
            name = _with_layers(stack, stack.name)
        name = " on ".join(filter(None, [name, self._topic]))
        super().__init__(self, name, stack, {}, most_unread)
        self._channels: dict[GroupChannel, None] = {}
        self.crashed: list[int] = []
        """The members that the failure detector has declared crashed."""
        self._detector_start = detector
        self._detector_is_started = False
        self._on_crash = on_crash
        self._given = runtime
        self._config = RuntimeConfig(
            EndpointConfig(self.addresses[rank], keys=keys, insecure=insecure)
        )
        self._log_path = log
        self._refused_by: int | None = None
        self._watched: list[Contact] = []
        self._end_watches: list[Callable[[], object]] = []
        self._runtime: Runtime | None = None

    def _check_rights(self, runtime: Runtime | None) -> None:
        if self._authority and self._topic is None:
            raise UsageError(
                "rights are rights on a topic: give topic=, the one that the group is for"
            )
        if self._authority and runtime is not None:
            raise UsageError("a group with an authority opens its own runtime: leave runtime= out")
        if (self._rights or self._topic is not None) and not self._authority:
            raise UsageError("rights on a topic need the network's authority: give its public keys")

    # Opening and closing.

    async def __aenter__(self) -> Self:
        if self._runtime is not None or self._closed:
            raise UsageError("a group is entered once; make another one")
        if self._log_path is not None:
            group = " ".join(map(str, self.addresses))
            owner = f"member {self.rank} of the {self._name} group {group}"
            path = self._log_path
            self._log = await opened(lambda: SqliteGroupLog(path, owner, self._disk_failed))
            self.stack = stacks.recoverable(self._log)
        try:
            self._runtime = self._given or await Runtime.open(self._config, self._identity)
            self._ask_for_rights(self._runtime)
        except BaseException:
            await self._close(self._runtime)
            raise
        self._open(self._runtime)
        return self

    def _open(self, runtime: Runtime) -> None:
        members: list[Contact | None] = [None] * len(self.addresses)
        members[self.rank] = runtime.contact
        self._process = GroupProcess(
            self.rank,
            members,
            runtime.context("channel"),
            runtime.context("datagram"),
            self._watch,
            runtime.metrics.family(
                "group_dropped", "reason", "Packets of groups that were not taken"
            ).values,
        )
        text = " ".join([self._name, *map(str, self.addresses)])
        self._meeting = Meeting(
            self._process,
            self.addresses,
            hashlib.sha256(text.encode()).digest()[:16],
            may_return=self._log is not None,
            on_met=self._met,
            on_refused=self._refused,
        )
        runtime.on(GroupPacket, self._process.receive)
        runtime.on(GroupHello, self._meeting.hello)
        runtime.on(GroupRefusal, self._meeting.refusal)
        self._open_channel(self._process)
        self._meeting.start()
        if not self._meeting.missing:
            self._met(self.rank)

    def channel(
        self,
        name: str,
        qos: str | Stack = "urb",
        *,
        order: str = "none",
        share: Mapping[str, LayerSession] | None = None,
        most_unread: int = 10_000,
    ) -> GroupChannel:
        """Another channel among the same members, to be entered with `async with`.

        Every member opens it under the same name with the same layers; what comes before it is opened waits.
        `share`: sessions of other channels, by the name of their layer. With
        `share={"fifo": group.session("fifo")}` one order holds over both channels. All channels have one
        failure detector."""
        stack = _stack(qos, order, None)
        share = dict(share or {})
        if stack.provides(DETECTOR) and self.stack.provides(DETECTOR):
            share.setdefault("pfd", self.session("pfd"))
        full_name = _with_layers(stack, "channel", name)
        return GroupChannel(self, full_name, stack, share, most_unread)

    async def close(self) -> None:
        """Leave; to the others it is a crash. What was sent has `LINGER` seconds to arrive."""
        runtime, self._runtime = self._runtime, None
        for channel in list(self._channels):
            channel._closed = True
            channel._news.tell()
        self._closed = True
        if runtime is None:
            return
        try:
            async with asyncio.timeout(LINGER):
                await self._drained(runtime)
        except (TimeoutError, ClosedError):
            pass  # those that do not answer, or a runtime that was closed first
        finally:
            self._process.stop()
            for end_watch in self._end_watches:
                end_watch()
            for contact in self._watched:
                runtime.failure.unwatch(contact)
            for packet in (GroupPacket, GroupHello, GroupRefusal):
                runtime.off(packet)
            await self._close(runtime)

    async def _close(self, runtime: Runtime | None) -> None:
        if self._gate is not None:
            self._gate.stop()
        if runtime is not None and self._given is None:
            await runtime.close()
        if self._log is not None:
            await self._log.close()

    def _ask_for_rights(self, runtime: Runtime) -> None:
        """Meet those with both rights alone; `RightError` when this member lacks one."""
        if self._topic is None:
            return
        from pubsub.attach import make_gate

        topic, gate = self._topic, make_gate(runtime, self._authority, self._rights)
        assert gate is not None, "a topic comes with an authority"
        self._gate = gate

        def takes_part(peer: Holder, hello: GroupHello | GroupRefusal) -> bool:
            return all(peer.may(action, topic) for action in TO_TAKE_PART)

        for action in TO_TAKE_PART:
            gate.own.check(action, topic)
        gate.require({GroupHello: takes_part, GroupRefusal: takes_part})

    def _disk_failed(self, error: Exception) -> None:
        """The log cannot be written: nothing is lost, and nothing acknowledged or delivered, until it can."""
        runtime = self._runtime
        if runtime is not None:
            runtime.metrics.counter(
                "group_log_failures", "Writes of a group's log that failed, and were tried again"
            ).add()

    async def _drained(self, runtime: Runtime) -> None:
        for contact in self._others():
            channel = runtime.channels.to(contact)
            while channel.buffered and channel.state is not ChannelState.CLOSED:
                await channel.change()

    # Meeting the others.

    @property
    def missing(self) -> list[int]:
        """The ranks of the members that were not met yet."""
        return self._meeting.missing if self._channel is not None else []

    async def met(self) -> None:
        """Wait until every member has been met; `GroupError` when another process has this rank."""
        self._check_open()
        while self._meeting.missing:
            await self._news.wait()
            self._check_open()

    def start_detector(self) -> None:
        """Start the failure detector (`rb`, `urb`); every member must have been met."""
        self._check_open()
        if missing := self._meeting.missing:
            raise GroupError(
                f"member {missing[0]} has not been met: start every process before the detector"
            )
        self._detector_is_started = True
        for channel in list(self._channels):
            channel._check_open().push(StartDetector())

    def _met(self, rank: int) -> None:
        if not self._meeting.missing and self._detector_start == "when_met":
            self.start_detector()
        self._wake()

    def _refused(self, rank: int) -> None:
        self._refused_by = rank
        self._wake()

    def _wake(self) -> None:
        for channel in self._channels:
            channel._news.tell()

    def _has_crashed(self, rank: int) -> None:
        if rank not in self.crashed:
            self.crashed.append(rank)
            if self._on_crash is not None:
                self._on_crash(rank)

    def _check_not_refused(self) -> None:
        if self._refused_by is not None:
            raise GroupError(
                f"member {self._refused_by} knows an earlier process of rank {self.rank}, whose state "
                "is lost: start the whole group again"
            )

    def _open_runtime(self) -> Runtime:
        if self._runtime is None:
            raise ClosedError("use a group inside `async with`")
        return self._runtime

    def _watch(self, on_crash: OnCrash) -> None:
        """The strict mode of the node's failure detector, as the perfect one of the stack."""
        runtime, process = self._runtime, self._process
        assert runtime is not None

        def suspect(contact: Contact) -> None:
            rank = process.rank_of(contact)
            if rank is not None:
                on_crash(rank)

        self._end_watches.append(runtime.failure.subscribe(suspect, strict=True))
        if not self._watched:
            self._watched = self._others()
            for contact in self._watched:
                runtime.failure.watch(contact)

    def _others(self) -> list[Contact]:
        members = enumerate(self._process.members)
        return [member for rank, member in members if member is not None and rank != self.rank]


def _addresses_of(members: Sequence[str | tuple[str, int]], rank: int) -> list[Address]:
    """The addresses of a group's members; `UsageError` where they are not those of a group with this rank."""
    addresses = [Address.of(member) for member in members]
    if not addresses:
        raise UsageError("members is empty: give the addresses of all members, this one's too")
    if rank not in range(len(addresses)):
        raise UsageError(f"rank={rank!r} is not one of 0 to {len(addresses) - 1}")
    if len(dict.fromkeys(addresses)) < len(addresses):
        raise UsageError("two members have the same address: each needs its own")
    return addresses


def _with_layers(stack: Stack, *name: str) -> str:
    return " / ".join([*name, *(layer.name for layer in stack.layers)])


def _stack(qos: str | Stack, order: str, probabilistic: Probabilistic | None) -> Stack:
    if not isinstance(qos, Stack):
        return stacks.stack(qos, order, probabilistic)
    if order != "none" or probabilistic is not None:
        raise UsageError(
            "order and probabilistic go with a named qos: put the layer into the stack"
        )
    if not qos.provides("broadcast"):
        raise CompositionError(
            f"the stack {qos.name!r} has no layer that broadcasts, such as BestEffort: a group needs one"
        )
    return qos
