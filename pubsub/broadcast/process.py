"""One member of a group: its rank, the others, the links to them, and the channels that are open.

`Meeting` is how the members, known by their addresses, find out who each other are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from overlay.contact import ANYONE, Address, Contact, PeerId
from overlay.context import Context, OneTimer, Timer
from overlay.errors import UsageError
from overlay.wire import message
from pubsub.broadcast.events import GroupPacket, LayerMessage, MemberFound, Receive
from pubsub.broadcast.kernel import LayerChannel, Scheduler

MOST_EARLY = 10_000
"""Packets kept for channels that are not open here yet; more are dropped and counted."""

OnCrash = Callable[[int], None]
WatchMembers = Callable[[OnCrash], None]


def _nobody_watches(on_crash: OnCrash) -> None:
    """Where no stack has a failure detector."""


class _Stopped:
    """A context in which nothing happens any more."""

    def __init__(self, before: Context) -> None:
        self.contact = before.contact
        self.random = before.random
        self.now = before.now

    def send(self, to: Contact, message: object) -> None:
        pass

    def call_later(self, delay: float, action: Callable[[], None]) -> Timer:
        return self

    def cancel(self) -> None:
        """It is its own timer, and never rings."""


class GroupProcess:
    """What all sessions of one process share. It is told of packets by `receive`.

    `perfect` sends so that what one correct process sends to another arrives, once; `unreliable` may lose,
    repeat and reorder. `watch` starts the perfect failure detector, which then calls back at most once for
    each member that crashed. A member whose contact is None becomes known by `found`.
    """

    def __init__(
        self,
        rank: int,
        members: Sequence[Contact | None],
        perfect: Context,
        unreliable: Context | None = None,
        watch: WatchMembers = _nobody_watches,
        dropped: dict[str, int] | None = None,
    ) -> None:
        """`dropped`: where packets that are not taken are counted, by reason."""
        if not 0 <= rank < len(members):
            raise UsageError(f"rank {rank} is not one of 0 to {len(members) - 1}")
        self.rank = rank
        self.members: list[Contact | None] = list(members)
        self.perfect = perfect
        self.unreliable = unreliable or perfect
        self.watch = watch
        self.dropped: dict[str, int] = {} if dropped is None else dropped
        self.scheduler = Scheduler(self.count)
        self._ranks: dict[PeerId, int] = {
            member.id: number for number, member in enumerate(members) if member is not None
        }
        self._channels: dict[str, LayerChannel] = {}
        self._closed: dict[str, None] = {}
        self._early: dict[str, list[tuple[int, GroupPacket]]] = {}
        self._early_count = 0

    @property
    def size(self) -> int:
        """How many members the group has."""
        return len(self.members)

    def add(self, channel: LayerChannel) -> None:
        """Have packets of a channel go to it; the concern of `Stack.open` alone."""
        if channel.name in self._channels:
            raise UsageError(f"this process has a channel {channel.name!r} already: name another")
        self._channels[channel.name] = channel

    def remove(self, channel: LayerChannel) -> None:
        """Count what comes for a channel that was closed; the concern of `LayerChannel.close` alone."""
        del self._channels[channel.name]
        self._closed[channel.name] = None

    def take_early(self, channel: LayerChannel) -> None:
        """Hand a channel what came before it was opened; the concern of `Stack.open` alone."""
        for source, packet in self._early.pop(channel.name, ()):
            self._early_count -= 1
            channel.rise(Receive(source, LayerMessage(packet.data, packet.headers)))

    def found(self, rank: int, contact: Contact) -> None:
        """A member's contact has become known, or is another one since the member came back."""
        before = self.members[rank]
        if before is not None:
            self._ranks.pop(before.id, None)
        self.members[rank] = contact
        self._ranks[contact.id] = rank
        for channel in list(self._channels.values()):
            channel.rise(MemberFound(rank))

    def stop(self) -> None:
        """Send nothing and set no timer from now on."""
        self.perfect = self.unreliable = _Stopped(self.perfect)

    def timer(self, action: Callable[[], None]) -> OneTimer:
        """A timer that does not ring any more once the process has stopped."""
        return OneTimer(lambda delay, ring: self.perfect.call_later(delay, ring), action)

    def rank_of(self, contact: Contact) -> int | None:
        return self._ranks.get(contact.id)

    def receive(self, sender: Contact, packet: GroupPacket) -> None:
        """Take a packet from the network; what cannot be placed is counted and dropped."""
        source = self._ranks.get(sender.id)
        channel = self._channels.get(packet.channel)
        if source is None:
            self.count("not_a_member")
        elif channel is None:
            self._keep_early(source, packet)
        else:
            channel.rise(Receive(source, LayerMessage(packet.data, packet.headers)))

    def _keep_early(self, source: int, packet: GroupPacket) -> None:
        """Keep a packet for a channel that the sender has opened before this process."""
        if packet.channel in self._closed or self._early_count >= MOST_EARLY:
            self.count("no_channel")
            return
        self._early_count += 1
        self._early.setdefault(packet.channel, []).append((source, packet))

    def count(self, reason: str) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + 1


AGAIN_AFTER = 0.25
"""Seconds between two hellos to a member that has not answered."""


@message(0x51)
class GroupHello:
    group: bytes
    rank: int
    is_answer: bool


@message(0x52)
class GroupRefusal:
    """The rank is taken by an earlier process."""

    group: bytes


class Meeting:
    """Tells `process.found` of each member; it speaks over the unreliable links.

    A member says hello to the address of each one that it has not met, `again_after` seconds after the last
    time, until it is answered. The hello names the group, so that processes with another list of members or
    another stack are not taken in. A rank belongs to the first process that had it: one that started again
    has lost its state, and is refused, unless `may_return` says that members keep what they must in a log.
    """

    def __init__(
        self,
        process: GroupProcess,
        addresses: Sequence[Address],
        group: bytes,
        *,
        may_return: bool,
        on_met: Callable[[int], None],
        on_refused: Callable[[int], None],
    ) -> None:
        self._process = process
        self._addresses = addresses
        self._group = group
        self._may_return = may_return
        self._on_met = on_met
        self._on_refused = on_refused

    @property
    def missing(self) -> list[int]:
        """The members that were not met yet."""
        return [rank for rank, one in enumerate(self._process.members) if one is None]

    def start(self) -> None:
        """Say hello now, and again as long as somebody is missing."""
        missing = self.missing
        for rank in missing:
            self._say_hello(Contact(ANYONE, *self._addresses[rank]), is_answer=False)
        if missing:
            self._process.unreliable.call_later(AGAIN_AFTER, self.start)

    def hello(self, sender: Contact, hello: GroupHello) -> None:
        if hello.group != self._group or not 0 <= hello.rank < len(self._addresses):
            self._process.count("another_group")
            return
        if hello.rank == self._process.rank or sender.address != self._addresses[hello.rank]:
            self._process.count("wrong_rank")
            return
        known = self._process.members[hello.rank]
        if known is not None and known.id != sender.id and not self._may_return:
            self._process.count("returned")
            self._process.unreliable.send(sender, GroupRefusal(self._group))
            return
        if not hello.is_answer:
            self._say_hello(sender, is_answer=True)
        if known is None or known.id != sender.id:
            self._process.found(hello.rank, sender)
            self._on_met(hello.rank)

    def refusal(self, sender: Contact, refusal: GroupRefusal) -> None:
        if refusal.group == self._group and sender.address in self._addresses:
            self._on_refused(self._addresses.index(sender.address))

    def _say_hello(self, to: Contact, is_answer: bool) -> None:
        self._process.unreliable.send(to, GroupHello(self._group, self._process.rank, is_answer))
