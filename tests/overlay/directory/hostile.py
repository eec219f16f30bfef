"""Nodes that answer in bad faith."""

from __future__ import annotations

from struct import pack

from overlay.contact import Contact, PeerId
from overlay.dht.messages import StoreRefused
from overlay.directory.messages import AnnounceMember, AnnounceReply, Query, ShardReply
from overlay.directory.tree import Shard, fingerprint, point_of
from tests.overlay.directory.model_network import Answer, ModelNetwork, ModelNode, contact_of


def invents_members(network: ModelNetwork, node: ModelNode) -> Answer:
    """Holds a full shard of processes that do not exist, and nobody else."""
    made: dict[Shard, list[Contact]] = {}

    def invent(shard: Shard) -> list[Contact]:
        found: list[Contact] = []
        for index in range(40 << min(shard.depth, 8)):
            contact = contact_of(network.random, index)
            if shard.holds(point_of(shard.topic, contact.id)):
                found.append(contact)
        return found[: network.config.capacity]

    def answer(sender: Contact, request: object) -> object | None:
        if not isinstance(request, Query):
            return AnnounceReply("", True, False, 40, 0, (), b"")
        shard = Shard(request.topic, request.depth, request.prefix)
        members = made.setdefault(shard, invent(shard))
        marks = [fingerprint(shard.topic, member) for member in members]
        return ShardReply(
            True,
            False,
            0,
            shard.depth,
            pack(f">{len(marks)}I", *marks),
            tuple(members[:5]),
            True,
            (),
        )

    return answer


def leaves_members_out(network: ModelNetwork, node: ModelNode) -> Answer:
    """Holds everyone, and names only a few."""

    def answer(sender: Contact, request: object) -> object | None:
        reply = node.server.handle(sender, request)
        if isinstance(reply, ShardReply) and reply.fingerprints:
            return ShardReply(True, False, 0, reply.hint, reply.fingerprints[:12], (), True, ())
        return reply

    return answer


def exchanges_addresses(network: ModelNetwork, node: ModelNode) -> Answer:
    """Hands out members under addresses of its own choice."""

    def answer(sender: Contact, request: object) -> object | None:
        reply = node.server.handle(sender, request)
        if not isinstance(reply, ShardReply):
            return reply
        elsewhere = [Contact(contact.id, "10.255.255.255", 1) for contact in reply.contacts]
        marks = [fingerprint(request.topic, contact) for contact in elsewhere]  # type: ignore[attr-defined]
        forged = pack(f">{len(marks)}I", *marks) + reply.fingerprints[4 * len(marks) :]
        return ShardReply(True, False, 0, reply.hint, forged, tuple(elsewhere), True, ())

    return answer


def speaks_of_the_deep(network: ModelNetwork, node: ModelNode) -> Answer:
    """Sends everyone to the bottom of the tree."""

    def answer(sender: Contact, request: object) -> object | None:
        if isinstance(request, Query):
            return ShardReply(True, True, network.config.capacity, 32, b"", (), True, ())
        return AnnounceReply("", True, True, 200, 200, (), b"")

    return answer


def talks_nonsense(network: ModelNetwork, node: ModelNode) -> Answer:
    """Answers with messages of wrong types, sizes and contents."""
    stranger = Contact(PeerId(bytes(20)), "10.0.0.1", 1)
    nonsense: list[object] = [
        StoreRefused("no"),
        AnnounceMember(PeerId(bytes(20)), 0, 0, 0, b"", False),
        ShardReply(True, False, 0, 0, b"abc", (), True, ()),
        ShardReply(True, False, -1, -9, b"", (), True, ()),
        ShardReply(True, False, 0, 0, bytes(4 * 250), (), True, ()),
        ShardReply(True, False, 0, 0, b"\0\0\0\1" * 5, (), True, ()),
        ShardReply(True, False, 0, 0, b"\0\0\0\1", (stranger,), True, ()),
        ShardReply(True, False, 3, 0, b"", (stranger,) * 9, True, ()),
        ShardReply(True, True, 10**9, 10**6, b"", (), True, ()),
        AnnounceReply("!" * 1000, True, True, -5, -5, (), b""),
        "text",
    ]
    return lambda sender, request: network.random.choice(nonsense)


def is_silent(network: ModelNetwork, node: ModelNode) -> Answer:
    return lambda sender, request: None


KINDS = (
    invents_members,
    leaves_members_out,
    exchanges_addresses,
    speaks_of_the_deep,
    talks_nonsense,
    is_silent,
)
