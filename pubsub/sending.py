"""How blocks leave a node: encoded once, sent to the members that keep up, and accounted for."""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from functools import partial

from overlay.channel import OnAck, Until
from overlay.contact import Contact, PeerId
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.runtime import Runtime
from overlay.turn import Turn
from pubsub.camcast.leases import WITHHELD
from pubsub.camcast.observer import EventDrops
from pubsub.data import DATA_LIMIT, DataError
from pubsub.event import (
    LAST_NUMBER,
    SOURCE_BYTES,
    Block,
    Gossip,
    Head,
    encode_copy,
    longest_head,
    make_block,
    numbers_in_copy,
)
from pubsub.pace import Pace
from pubsub.publishing import Outlet, OwnBlock, OwnRuns
from pubsub.rights import Holder
from pubsub.topic import Topic
from pubsub.validation import SIGNATURE_SIZE, sign_block

EVENTS_A_TURN = 256
"""Events that publishers may publish before others on the loop get a turn, and before they are paced."""

BYTES_A_TURN = 256 * 1024
"""Bytes of copies that may be handed over before publishers are paced."""

ROOM_AROUND_COPIES = 96
"""Bytes of a datagram that are left to the heads of channels and messages."""

BEHIND_PART = 0.75
"""Of a channel's send buffer: a member for which more waits is behind. An eighth of the buffer is where
publishers begin to wait, and what is left is for what the member is told meanwhile."""

EXPECT_SECONDS = 0.25
"""A member that was sent something and has not acknowledged it after this long is watched for its answer."""

SMALLEST_BLOCK = 48 * 1024
"""Bytes: over channels a block may be this large even where a datagram takes less."""

_LONGER_HEADS = 6
"""What says how long the data and the block are takes this many bytes more for long ones than for none."""


class Ways:
    """How copies of blocks reach members: over acknowledged channels, or as datagrams that may be lost."""

    def __init__(self, runtime: Runtime, over_channels: bool) -> None:
        self.over_channels = over_channels
        self.room = max(runtime.endpoint.max_body - ROOM_AROUND_COPIES, 1)
        """Bytes of a copy that travels in one datagram, together with all that is around it."""
        self.largest = runtime.endpoint.max_body
        """Bytes of the largest message that travels as a datagram."""
        self._runtime = runtime
        self._channels = runtime.channels
        self._live = runtime.channels.live
        self._pace = Pace(runtime.channels)
        self._most_buffered = int(BEHIND_PART * runtime.channels.config.send_buffer)
        self._sent_to: dict[PeerId, Contact] = {}
        """Members that were sent something and may not answer; the failure detector is told soon."""

    def send(
        self,
        to: Contact,
        data: bytes,
        on_ack: OnAck | None,
        until: Until,
        is_told: bool,
        at_once: bool = False,
    ) -> bool | None:
        """Send a copy of a block, encoded; `on_ack` is called once over channels, and never otherwise.

        A channel sends it until the time `until.at`, and never after. `at_once`: it does not wait for what
        else this turn of the loop has for the member. `is_told`: the member is told of the block, too. Then
        None, and nothing is sent, when the member is *behind*: more waits for it than it should be able to
        take. False for what is larger than a datagram where events travel as datagrams: it never leaves."""
        if not self.over_channels:
            return self._runtime.send_encoded_datagram(to, data)
        channel = self._live.get(to.id)
        if channel is None or channel.contact != to:
            is_taken = False
        elif is_told and channel.was_full and channel.buffered > self._most_buffered:
            return None
        else:
            is_taken = (at_once and channel.send_alone(data, on_ack, until)) or (
                channel.try_send(data, on_ack, until)
            )
        if not is_taken and not self._runtime.send_encoded(to, data, on_ack, until):
            if on_ack is not None:
                on_ack(False)
            return True
        if not self._sent_to:
            self._runtime.call_later(EXPECT_SECONDS, self._expect_answers)
        self._sent_to[to.id] = to
        return True

    def _expect_answers(self) -> None:
        """Have those that owe an acknowledgement watched: their silence counts from now on."""
        sent_to, self._sent_to = self._sent_to, {}
        for peer, contact in sent_to.items():
            if self._channels.owes(peer):
                self._runtime.failure.expect(contact)

    def withdraw(self, to: Contact, community: str, source: bytes) -> list[range]:
        """Take back the copies of a source's blocks that have not left for a member: of which events."""
        found: list[range] = []

        def is_unwanted(message: bytes) -> bool:
            numbers = numbers_in_copy(message, community, source)
            if numbers is not None:
                found.append(numbers)
            return numbers is not None

        channel = self._live.get(to.id)
        if channel is not None:
            channel.withdraw(is_unwanted)
        return found

    def ask(self, peer: PeerId) -> None:
        """Have a member acknowledge what it was sent: by itself it does so with what else comes."""
        channel = self._live.get(peer)
        if channel is not None:
            channel.ping()

    def tell(self, to: Contact, message: object, until: Until) -> None:
        """Send a message over a channel, and never after the time `until.at`."""
        self._runtime.send(to, message, until=until)

    async def writable(self, contacts: Collection[Contact]) -> None:
        """Give others a turn, and wait for these members as `Pace` says."""
        await asyncio.sleep(0)
        if self.over_channels:
            await self._pace.wait([*contacts])
        else:
            await self._runtime.endpoint.drained()


class BlockCarrier:
    """The `Carrier` of a process's blocks: sends them, paces publishers, and keeps account of own copies.

    A member that is behind is not sent a block that it is told of anyway (lazy dissemination): it fetches
    what it misses when it can. Publishers wait for the members that keep up, as `Pace` says; forwarding
    never waits."""

    def __init__(
        self,
        ways: Ways,
        turn: Turn,
        runs: OwnRuns,
        drops: EventDrops,
        metrics: Metrics,
        *,
        signer: Identity | None,
        rights: Holder | None = None,
        block_size: int | None = None,
        traced: bool = False,
    ) -> None:
        """`signer`: who signs own blocks, None leaves them unsigned; `rights`: what this node may publish,
        None where everybody may; `block_size`: bytes at which a block is full, None: as suits the links;
        `traced`: blocks may carry the span in which they were published."""
        self.runs = runs
        self._traced = traced
        self.is_pace_due = False
        """Whether a publisher is to call `pace` after its event."""
        self._ways = ways
        self._turn = turn
        self._drops = drops
        self._signer = signer
        self._rights = rights
        self._right_of: dict[str, bytes] = {}
        """The right with which this node publishes on each topic."""
        self.is_sure = self._acknowledged = acknowledged = ways.over_channels
        self._block_bytes = ways.room
        if block_size is not None:
            self._block_bytes = block_size if acknowledged else min(block_size, self._block_bytes)
        elif acknowledged:
            self._block_bytes = max(self._block_bytes, SMALLEST_BLOCK)
        self._filling: dict[Outlet, None] = {}
        self._is_alone = False
        """The block that is being closed is the only one of its turn, as far as is known."""
        self._open: dict[Block, OwnBlock] = {}
        """Own blocks of which a copy is neither acknowledged nor given up."""
        self._encoded: tuple[Gossip | None, bytes] = (None, b"")
        self._withheld = metrics.counter("events_withheld", WITHHELD)
        self._published = 0
        self._handed_over = 0
        self._published_to: dict[PeerId, Contact] = {}
        self._held_back = 0

    # Blocks that are being filled.

    def room_in(self, topic: Topic) -> int:
        """Bytes of packed data that a block of the topic takes."""
        return max(self.data_limit(topic, self._block_bytes), 1)

    def largest_in(self, topic: Topic) -> int:
        """Bytes of packed data that an event of the topic may have."""
        if self._acknowledged:
            return DATA_LIMIT
        return self.data_limit(topic, self._ways.largest)

    def data_limit(self, topic: Topic, room: int) -> int:
        """Bytes of packed data in a message of `room` bytes, on its whole way up."""
        names = (topic.name, *topic.lineage)
        longest = max(names, key=lambda name: len(name.encode()))
        head = longest_head(topic.name, topic.lineage, self._traced)
        empty = make_block(bytes(SOURCE_BYTES), LAST_NUMBER, head, ())
        right = 0 if self._rights is None else self._rights.longest
        empty.signature = b"" if self._signer is None else bytes(SIGNATURE_SIZE + right)
        return max(room - len(encode_copy(Gossip(empty, longest, 0, True))) - _LONGER_HEADS, 0)

    def check_fits(self, topic: Topic, packed: bytes) -> None:
        """`DataError` unless an event of this data can travel."""
        if len(packed) > (limit := self.largest_in(topic)):
            raise DataError(
                f"the data has {len(packed)} bytes as msgpack, and one datagram of this node takes {limit} "
                f'in an event of {topic}: use links="channel", or a larger datagram_size'
            )

    def make(self, source: bytes, first: int, head: Head, payloads: Sequence[bytes]) -> Block:
        """The block of these events, signed where the network signs."""
        block = make_block(source, first, head, payloads)
        if self._signer is not None:
            signature = sign_block(self._signer, block.encoded)
            block.signature = signature + self._right_of.get(head.topic, b"")
        return block

    def make_kept(self, topic: Topic, packed: bytes) -> Block:
        """A block of one event that goes to an archive alone: its run is not that of what spreads."""
        kept = f"kept {topic.name}"
        source, number = self.runs.take(kept)
        self.runs.put(kept, source, number + 1)
        return self.make(source, number, Head(topic.name, topic.lineage, None, True), (packed,))

    def check_right(self, topic: Topic) -> None:
        """`RightError` unless this node may publish on the topic; asked before each block is begun."""
        if self._rights is not None:
            above = (name for name in topic.lineage if name != "/")
            self._right_of[topic.name] = self._rights.to_publish((topic.name, *above))

    @property
    def has_rights(self) -> bool:
        """Whether a right is needed to publish."""
        return self._rights is not None

    def begun(self, outlet: Outlet) -> None:
        """An outlet has begun to fill a block: it is closed at the end of this turn at the latest."""
        self._filling[outlet] = None
        self._turn.before_flush(self.close_blocks)
        self._published += 1
        if self._published >= EVENTS_A_TURN:
            self.is_pace_due = True

    def close_blocks(self) -> None:
        """Close every block that is being filled, and have it leave."""
        while self._filling:
            filling, self._filling = self._filling, {}
            self._is_alone = len(filling) == 1
            for outlet in filling:
                outlet.close()
            self._is_alone = False

    def opened(self, own: OwnBlock, payloads: Sequence[bytes]) -> Block:
        """A block that is about to be spread; its copies are counted for as long as any is open."""
        block = own.block = self.make(own.source, own.first, own.head, payloads)
        self._open[block] = own
        self._published += block.count
        if self._published >= EVENTS_A_TURN:
            self.is_pace_due = True
        return block

    def completed(self, own: OwnBlock) -> None:
        """All copies of the block have been decided on, unless one fails."""
        own.complete = True
        if own.wants_answers:
            self.ask(own)
        if (
            own.waiter is not None
            or own.acknowledged + own.failed >= own.copies
            or not self._acknowledged
        ):
            self._changed(own)

    def ask(self, own: OwnBlock) -> None:
        """Have the members that were sent an own block acknowledge it now."""
        for peer in own.awaited:
            self._ways.ask(peer)

    # What the process sends.

    def accepted(self, gossip: Gossip, copies: int) -> None:
        own = self._open.get(gossip.block)
        if own is not None:
            own.copies += copies

    def refused(self, gossip: Gossip) -> None:
        own = self._open.get(gossip.block)
        if own is not None:
            own.refused += 1
            own.failed += 1
            self._changed(own)

    def send(self, to: Sequence[Contact], gossip: Gossip, untils: Mapping[PeerId, Until]) -> int:
        last, data = self._encoded
        if gossip is not last:
            data = encode_copy(gossip)
            self._encoded = (gossip, data)
        block = gossip.block
        # Then a member that is behind need not be sent it, too.
        is_told = not (block.eager or gossip.upward) and block.topic == gossip.community
        own = self._open.get(block)
        # The first member need not wait until all copies are accounted for, nor until the last one is made.
        # But who wants answers asks for them in the same datagram: one of its own could overtake this one.
        at_once = (
            self._is_alone
            and own is not None
            and len(data) <= self._ways.room
            and not own.wants_answers
        )
        send, on_ack = self._ways.send, None
        behind = 0
        for contact in to:
            peer = contact.id
            if own is not None and self._acknowledged:
                own.awaited[peer] = own.awaited.get(peer, 0) + 1
                on_ack = partial(self._answered, own, peer)
            sent = send(contact, data, on_ack, untils[peer], is_told, at_once)
            if sent is None:
                behind += 1
                if own is not None:
                    own.forget(peer)
            elif not sent:
                self._drops.add("too_large", gossip.community, block.source, (block.numbers,), peer)
            elif own is not None:
                self._published_to[peer] = contact
        copies = len(to) - behind
        self._withheld.value += behind * block.count
        if own is not None:
            self._count_own(own, copies, behind, copies * len(data))
        return copies

    def _count_own(self, own: OwnBlock, copies: int, behind: int, size: int) -> None:
        """Copies of an own block have left, `size` bytes in all; those for members behind have failed."""
        own.sent += copies
        own.refused += behind
        own.failed += behind
        self._handed_over += size
        if self._handed_over >= BYTES_A_TURN:
            self.is_pace_due = True
        if own.complete:
            self._changed(own)

    def tell(self, to: Contact, message: object, until: Until) -> None:
        self._ways.tell(to, message, until)

    def withdraw(self, to: Contact, community: str, source: bytes) -> list[range]:
        return self._ways.withdraw(to, community, source)

    def suspect(self, peer: PeerId) -> None:
        """Give up the copies that are on their way to a member that seems to have crashed.

        Its channel goes on for longer, and they may arrive after all; that changes no receipt any more."""
        for own in [own for own in self._open.values() if peer in own.awaited]:
            own.failed += own.awaited.pop(peer)
            self._changed(own)

    # Pacing.

    async def pace(self) -> None:
        """Give others a turn, and wait while too much waits for those published to."""
        self.close_blocks()
        self._published = self._handed_over = 0
        to, self._published_to = self._published_to, {}
        self._held_back += 1
        self.is_pace_due = True
        try:
            await self._ways.writable(to.values())
        finally:
            self._held_back -= 1
            if not self._held_back:
                self.is_pace_due = False

    # Own copies.

    def _answered(self, own: OwnBlock, peer: PeerId, arrived: bool) -> None:
        """A copy of an own block is acknowledged, or given up by its channel."""
        if own.forget(peer):
            if arrived:
                own.acknowledged += 1
            else:
                own.failed += 1
            if own.waiter is not None or own.acknowledged + own.failed >= own.copies:
                self._changed(own)

    def _changed(self, own: OwnBlock) -> None:
        """Tell those who wait for an own block, and forget it once nothing more will be known of it."""
        if own.is_settled if self._acknowledged else own.all_sent:
            self._open.pop(own.block, None)
        own.wake()
