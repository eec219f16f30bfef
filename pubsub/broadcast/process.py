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
"""Packets kept for channels that are not open here yet, or of members that are not met; more are dropped and
counted."""

MOST_UNMET = 256
"""Processes that say to be members and of which packets are kept."""

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
        """Nothing to do: this context gives itself out as every timer, and none of them rings."""


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
        self._unmet: dict[PeerId, list[GroupPacket]] = {}
        """Packets of processes that say to be members, and are asked whether they are."""

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
        for packet in self._unmet.pop(contact.id, ()):
            self._early_count -= 1
            self.receive(contact, packet)

    def expect(self, peer: PeerId) -> None:
        """A process says to be a member, and is asked whether it is: what it sends waits for that."""
        if peer not in self._unmet:
            for forgotten in list(self._unmet)[: len(self._unmet) + 1 - MOST_UNMET]:
                self._early_count -= len(self._unmet.pop(forgotten))
            self._unmet[peer] = []

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
            waiting = self._unmet.get(sender.id)
            if waiting is None or self._early_count >= MOST_EARLY:
                self.count("not_a_member")
            else:
                self._early_count += 1
                waiting.append(packet)
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
    """I have this rank; who are you, at your address?"""

    group: bytes
    rank: int
    nonce: int
    """To be said again in the answer. Only who receives at the address that it was sent to knows it: a member
    of the network can make up where its datagrams come from."""
    is_answer: bool
    """I have this rank, and this was your nonce."""


@message(0x52)
class GroupRefusal:
    """The rank is taken by an earlier process."""

    group: bytes
    nonce: int
    """That of the hello that is refused."""


class Meeting:
    """Tells `process.found` of each member; it speaks over the unreliable links.

    A member says hello to the address of each one that it has not met, `again_after` seconds after the last
    time, until it is answered. The hello names the group, so that processes with another list of members or
    another stack are not taken in. A rank belongs to the first process that had it: one that started again
    has lost its state, and is refused, unless `may_return` says that members keep what they must in a log;
    then the others say hello to its address anew.
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
        random = process.unreliable.random
        self._nonces = [random.getrandbits(62) for _ in addresses]
        """What each member was, or is to be, asked with."""
        self._returned: dict[int, None] = {}
        """Members of which another process says that it has come back."""
        self._is_asking = False

    @property
    def missing(self) -> list[int]:
        """The members that were not met yet."""
        return [rank for rank, one in enumerate(self._process.members) if one is None]

    def start(self) -> None:
        """Say hello now, and again as long as somebody is missing."""
        for rank in (*self.missing, *self._returned):
            self._say_hello(self._address(rank), self._nonces[rank], False)
        self._ask_again()

    def _ask_again(self) -> None:
        self._is_asking = bool(self.missing or self._returned)
        if self._is_asking:
            self._process.unreliable.call_later(AGAIN_AFTER, self.start)

    def _address(self, rank: int) -> Contact:
        return Contact(ANYONE, *self._addresses[rank])

    def hello(self, sender: Contact, hello: GroupHello) -> None:
        rank = hello.rank
        if hello.group != self._group or not 0 <= rank < len(self._addresses):
            self._process.count("another_group")
            return
        if rank == self._process.rank or sender.address != self._addresses[rank]:
            self._process.count("wrong_rank")
            return
        known = self._process.members[rank]
        is_another = known is not None and known.id != sender.id
        if hello.is_answer:
            self._answered(rank, sender, hello.nonce, is_another)
        elif is_another and not self._may_return:
            self._process.count("returned")
            self._process.unreliable.send(sender, GroupRefusal(self._group, hello.nonce))
        else:
            self._say_hello(sender, hello.nonce, True)
            if known is None or is_another:
                self._process.expect(sender.id)
                self._say_hello(self._address(rank), self._nonces[rank], False)
            if is_another:
                self._returned[rank] = None
                if not self._is_asking:
                    self._ask_again()

    def _answered(self, rank: int, sender: Contact, nonce: int, is_another: bool) -> None:
        if nonce != self._nonces[rank]:
            self._process.count("wrong_nonce")
            return
        if is_another and rank not in self._returned:
            return  # a late answer of an earlier process
        self._returned.pop(rank, None)
        if is_another or self._process.members[rank] is None:
            self._process.found(rank, sender)
            self._on_met(rank)

    def refusal(self, sender: Contact, refusal: GroupRefusal) -> None:
        if refusal.group == self._group and sender.address in self._addresses:
            rank = self._addresses.index(sender.address)
            if refusal.nonce == self._nonces[rank]:
                self._on_refused(rank)
            else:
                self._process.count("wrong_nonce")

    def _say_hello(self, to: Contact, nonce: int, is_answer: bool) -> None:
        hello = GroupHello(self._group, self._process.rank, nonce, is_answer)
        self._process.unreliable.send(to, hello)
