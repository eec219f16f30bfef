"""A rule for the virtual network: it reads every datagram, and fails the test at the first parasite event."""

from __future__ import annotations

from contextvars import Context, copy_context

from overlay.channel.packet import BUNDLE, PacketType, decode_bundle
from overlay.contact import Address
from overlay.transport.frame import FrameKind, frames_at, split_frames
from overlay.virtual import Packet
from overlay.wire import decode
from pubsub.camcast.latest import Latest
from pubsub.camcast.messages import AnnounceBlocks
from pubsub.event import Copy, read_block
from pubsub.node import Node
from pubsub.topic import included


class ParasiteWatch:
    """Knows the nodes of a test by their addresses; events larger than a datagram are not looked into."""

    def __init__(self) -> None:
        self.nodes: dict[Address, tuple[Node, Context]] = {}
        """A rule runs on the sender's host: whether a node is a member, its own clock says, and that is the
        clock of the context in which the node was added."""
        self.events = 0
        """Copies of events that were seen."""
        self.announcements = 0
        self.parasites: list[str] = []

    def add(self, node: Node) -> None:
        """Watch a node; where clocks are skewed, called on the node's host."""
        self.nodes[node.address] = (node, copy_context())

    def forget(self, node: Node) -> None:
        """A crashed node is no node any more."""
        self.nodes.pop(node.address, None)

    def __call__(self, packet: Packet) -> None:
        for kind, body in split_frames(packet.data, frames_at(packet.data)):
            for message in self._messages(kind, body):
                if type(message) is Copy:
                    self._check(packet, message)
                elif type(message) is AnnounceBlocks:
                    self.announcements += 1
                    self._check_member(packet, message.topic, "events announced")
                elif type(message) is Latest and message.blocks:
                    self._check_member(packet, message.topic, "last values")

    def _messages(self, kind: int, body: bytes) -> list[object]:
        if kind == FrameKind.DATAGRAM:
            return [decode(body)]
        if kind == FrameKind.CHANNEL and body[0] == PacketType.BUNDLE:
            return [decode(message) for message in decode_bundle(body[BUNDLE.size :])]
        return []

    def _check(self, packet: Packet, copy: Copy) -> None:
        block = read_block(copy.block, copy.community)
        self.events += block.count
        assert included(copy.community, block.topic, block.lineage)
        self._check_member(packet, copy.community, block.topic)

    def _check_member(self, packet: Packet, community: str, what: str) -> None:
        if packet.destination not in self.nodes:
            return
        node, host = self.nodes[packet.destination]
        if not host.run(node._process.is_in, community):
            self.parasites.append(f"{packet}: {what} in {community}")
