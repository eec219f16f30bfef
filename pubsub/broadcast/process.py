"""One member of a group: its rank, the others, the links to them, and the channels that are open."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from overlay.contact import Contact, PeerId
from overlay.context import Context, Timer
from overlay.errors import UsageError
from pubsub.broadcast.events import MemberFound, Receive
from pubsub.broadcast.kernel import Channel, Scheduler
from pubsub.broadcast.message import Message, Packet

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


class Process:
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
        self._channels: dict[str, Channel] = {}
        self._closed: dict[str, None] = {}
        self._early: dict[str, list[tuple[int, Packet]]] = {}
        self._early_count = 0

    @property
    def size(self) -> int:
        """How many members the group has."""
        return len(self.members)

    def add(self, channel: Channel) -> None:
        """Have packets of a channel go to it; the concern of `Stack.open` alone."""
        if channel.name in self._channels:
            raise UsageError(f"this process has a channel {channel.name!r} already: name another")
        self._channels[channel.name] = channel

    def remove(self, channel: Channel) -> None:
        """Count what comes for a channel that was closed; the concern of `Channel.close` alone."""
        del self._channels[channel.name]
        self._closed[channel.name] = None

    def take_early(self, channel: Channel) -> None:
        """Hand a channel what came before it was opened; the concern of `Stack.open` alone."""
        for source, packet in self._early.pop(channel.name, ()):
            self._early_count -= 1
            channel.rise(Receive(source, Message(packet.data, packet.headers)))

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

    def rank_of(self, contact: Contact) -> int | None:
        return self._ranks.get(contact.id)

    def receive(self, sender: Contact, packet: Packet) -> None:
        """Take a packet from the network; what cannot be placed is counted and dropped."""
        source = self._ranks.get(sender.id)
        channel = self._channels.get(packet.channel)
        if source is None:
            self.count("not_a_member")
        elif channel is None:
            self._keep_early(source, packet)
        else:
            channel.rise(Receive(source, Message(packet.data, packet.headers)))

    def _keep_early(self, source: int, packet: Packet) -> None:
        """Keep a packet for a channel that the sender has opened before this process."""
        if packet.channel in self._closed or self._early_count >= MOST_EARLY:
            self.count("no_channel")
            return
        self._early_count += 1
        self._early.setdefault(packet.channel, []).append((source, packet))

    def count(self, reason: str) -> None:
        self.dropped[reason] = self.dropped.get(reason, 0) + 1
