"""The channels of one node, by peer: who gets one, and what is answered where there is none.

When there is no place, the block of addresses with the most channels makes way for peers of other blocks,
whichever end begins the new channel: it loses a channel in which this node never said anything. Where peers
show rights, it also loses one whose peer opened it and has shown none, whatever was said. So one host,
however many ids it has, keeps nobody else out.

A packet from another address than its peer's does not make the channel follow: who repeats one that it has
seen would have a node send its events elsewhere. The address is asked first whether the peer is there (WHERE,
HERE). No answer to a stranger is larger than what it sent.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from overlay.channel.config import ChannelConfig
from overlay.channel.core import ChannelCore
from overlay.channel.machine import Phase, Voice
from overlay.channel.packet import (
    PACKET_HEAD,
    PLACE,
    ChannelRefused,
    PacketType,
    largest_message,
)
from overlay.channel.receiving import ReceiveBudget
from overlay.contact import Contact, PeerId
from overlay.context import Randomness
from overlay.errors import NetworkError, UsageError
from overlay.transport.address import block_of
from overlay.transport.frame import Buffer

_OPEN, _RESET, _WHERE = int(PacketType.OPEN), int(PacketType.RESET), int(PacketType.WHERE)
_OPENING = Phase.OPENING
"""Asked for every packet: a name of this module is found sooner than a member of an enumeration."""


class TooManyChannels(NetworkError):
    """This node has channels to `max_channels` peers; try again when some have become idle."""


class ChannelTable:
    """A bounded number of channels, with a bounded number among them that peers only began to open."""

    def __init__(self, config: ChannelConfig, max_body: int, random: Randomness) -> None:
        if config.max_message > (most := largest_message(max_body)):
            raise UsageError(
                f"max_message={config.max_message} is more than the {most} bytes that travel in datagrams of "
                "this size: set a larger datagram_size, or a smaller max_message"
            )
        self.config = config
        self.budget = ReceiveBudget(config.receive_memory)
        self.has_rights: Callable[[PeerId], bool] | None = None
        """Whether a peer has shown a right that counts; None where nobody has to."""
        self.paused = False
        """Whether new channels begin paused."""
        self.replies: list[tuple[Contact, bytes]] = []
        """Packets that belong to no channel, for the owner to send."""
        self.dropped: list[ChannelCore] = []
        """Channels to others than the latest sender that ended, for the owner to release: they had to make
        way, or another process is at the peer's address."""
        self._max_body = max_body
        self._random = random
        self.cores: dict[PeerId, ChannelCore] = {}
        self.by_session: dict[int, ChannelCore] = {}
        """By the number of this end's session."""
        self._opened_by_peers: dict[PeerId, float] = {}
        """When peers began to open, oldest first; those that finished are taken out when space is needed."""
        self._begun_by_peers: set[PeerId] = set()
        """The peers that opened the channel themselves."""
        self._block_of: dict[PeerId, str] = {}
        """The block of addresses from which each channel was begun."""
        self._in_block: Counter[str] = Counter()

    def __len__(self) -> int:
        return len(self.cores)

    def to(self, contact: Contact, now: float) -> ChannelCore:
        """The channel to a peer, made if there is none; `TooManyChannels` when there is no place for it."""
        core = self.cores.get(contact.id)
        if core is None:
            return self._add(contact, now)
        if core.phase is Phase.OPENING or core.voice is Voice.SILENT:
            core.contact = contact
        return core

    def remove(self, core: ChannelCore) -> None:
        """Let go of a channel, as its owner must as soon as it is gone."""
        peer = core.contact.id
        self.by_session.pop(core.session, None)
        if self.cores.get(peer) is core:
            del self.cores[peer]
            self._opened_by_peers.pop(peer, None)
            self._begun_by_peers.discard(peer)
            block = self._block_of.pop(peer)
            self._in_block[block] -= 1
            if not self._in_block[block]:
                del self._in_block[block]

    def receive(self, sender: Contact, packet: Buffer, now: float) -> list[Buffer]:
        """The messages to hand up; the channel to `sender`, if there is one now, may have to send.

        `ChannelRefused` when the packet, or the segment in it, is not taken; the channel may have to send
        even then.
        """
        core = self.cores.get(sender.id)
        if not packet:
            raise ChannelRefused("malformed")
        kind = packet[0]
        if core is not None and kind >= _WHERE:
            self._receive_place(core, sender, packet, now)
            return []
        was_met = core is not None and core.phase is not _OPENING
        try:
            if core is None:
                core = self._meet_stranger(sender, packet, now)
            elif kind == _OPEN:
                self._check_address(core, sender)
            messages = core.receive(packet, now)
        except ChannelRefused:
            self._look_for_usurped(sender, packet)
            raise
        known = core.contact
        if (sender.port != known.port or sender.host != known.host) and kind != _OPEN:
            if not was_met or kind == _RESET:
                core.contact = sender  # it names a number that was sent to it a moment ago
            elif len(packet) >= PLACE.size:  # the question is not larger
                number = core.asked_where = self._random.getrandbits(64)
                self.replies.append((sender, core.place(PacketType.WHERE, number)))
        return messages

    def _receive_place(
        self, core: ChannelCore, sender: Contact, packet: Buffer, now: float
    ) -> None:
        """A peer asks where this node is, or says where it is itself."""
        if len(packet) != PLACE.size or packet[0] > PacketType.HERE:
            raise ChannelRefused("malformed")
        kind, theirs, mine, number = PLACE.unpack(packet)
        if not core.is_of(theirs, mine):
            raise ChannelRefused("stale_session")
        if kind == PacketType.WHERE:
            self.replies.append((sender, core.place(PacketType.HERE, number)))
        elif number == core.asked_where:
            core.asked_where = None
            core.contact = sender
        else:
            core.take_echo(number, now)

    def _meet_stranger(self, sender: Contact, packet: Buffer, now: float) -> ChannelCore:
        if len(packet) < PACKET_HEAD.size:
            raise ChannelRefused("malformed")
        kind, theirs, mine = PACKET_HEAD.unpack_from(packet)
        if kind != PacketType.OPEN:
            if kind != PacketType.RESET:
                self.replies.append((sender, PACKET_HEAD.pack(PacketType.RESET, mine, theirs)))
            raise ChannelRefused("unknown_session")
        full = len(self._opened_by_peers) >= self.config.max_half_open
        try:
            if full and not (self._make_space(now) or self._make_way_for(sender, half_open=True)):
                raise ChannelRefused("too_many_half_open")
            core = self._add(sender, now)
        except TooManyChannels:
            raise ChannelRefused("too_many_channels") from None
        self._opened_by_peers[sender.id] = now
        self._begun_by_peers.add(sender.id)
        return core

    def _look_for_usurped(self, sender: Contact, packet: Buffer) -> None:
        """End the channel to a peer whose address another process has: it answers what the peer was sent."""
        if len(packet) < PACKET_HEAD.size:
            return
        core = self.by_session.get(PACKET_HEAD.unpack_from(packet)[2])
        if core is None or core.contact.id == sender.id or core.contact.address != sender.address:
            return
        if core.is_answered_by_another(packet):
            core.lose_address()
            self.dropped.append(core)

    def _check_address(self, core: ChannelCore, sender: Contact) -> None:
        """A peer that opens from elsewhere: believe it at once only if there is no session to protect."""
        if core.contact == sender:
            return
        if core.phase is Phase.OPENING:
            core.contact = sender
        else:
            self.replies.append((sender, core.challenge()))

    def _add(self, contact: Contact, now: float) -> ChannelCore:
        """Whoever begins it: what this node wants to say needs a place as well."""
        if len(self.cores) >= self.config.max_channels and not self._make_way_for(contact, False):
            self._make_space(now)
        if len(self.cores) >= self.config.max_channels:
            raise TooManyChannels(
                f"there are channels to {len(self.cores)} peers already, and max_channels allows no more"
            )
        core = ChannelCore(
            contact, self.config, self._max_body, self.budget, self._new_session, now
        )
        core.receiver.inbox.paused = self.paused
        self.cores[contact.id] = core
        block = self._block_of[contact.id] = block_of(contact.host)
        self._in_block[block] += 1
        return core

    def _make_way_for(self, sender: Contact, half_open: bool) -> bool:
        """Whether a channel of the block with the most of them was dropped for a peer of another block."""
        if not self._in_block:
            return False
        block, most = self._in_block.most_common(1)[0]
        if self._in_block[block_of(sender.host)] + 1 >= most:
            return False
        for peer in self._opened_by_peers if half_open else self.cores:
            if self._block_of[peer] == block and self._can_be_spared(peer):
                core = self.cores[peer]
                core.abandon()
                self.remove(core)
                self.dropped.append(core)
                return True
        return False

    def _can_be_spared(self, peer: PeerId) -> bool:
        """Whether nobody loses what this node wanted to say, or the peer has shown no right to hear it."""
        if not self.cores[peer].transmitter.buffer.was_used:
            return True
        shown = self.has_rights
        return shown is not None and peer in self._begun_by_peers and not shown(peer)

    def _make_space(self, now: float) -> bool:
        """Whether there are fewer half-open channels now: some finished opening, or the oldest was dropped.

        One that began a moment ago is kept: its peer may have been answered and be sending already, whereas
        a newcomer that is refused has sent nothing and tries again.
        """
        before = len(self._opened_by_peers)
        for peer, began_at in list(self._opened_by_peers.items()):
            core = self.cores[peer]
            if not core.is_half_open:
                del self._opened_by_peers[peer]
            elif now >= began_at + self.config.close_after:
                core.abandon()
                self.remove(core)
                self.dropped.append(core)
                break
        return len(self._opened_by_peers) < before

    def _new_session(self, core: ChannelCore) -> int:
        """A number for the next session of a channel, in place of the one that it had."""
        self.by_session.pop(core.session, None)
        session = self._random.getrandbits(32) or 1
        self.by_session[session] = core
        return session
