"""Ids that an attacker chose, next to a topic's key in the DHT, get it nothing in a sealed network."""

from __future__ import annotations

import asyncio
import random
from struct import pack
from typing import Any

import pytest

from overlay import Overlay
from overlay.contact import Contact, PeerId
from overlay.directory.messages import AnnounceMember, AnnounceReply, Query, ShardReply
from overlay.directory.tree import Shard, by_rank, fingerprint, topic_key
from overlay.identity import Identity
from overlay.virtual import Latency, Network

KEY = bytes(range(32))
ROOT = Shard(topic_key("/t"), 0, 0)
NOWHERE = "127.9.9.9"
HONEST, MEMBERS, ATTACKERS = 24, 10, 6


def lie(request: Any) -> object:
    """Invented members for who asks for the root of the topic, and a friendly word for who announces."""
    if isinstance(request, AnnounceMember):
        return AnnounceReply("", True, False, 5, (), b"")
    draw = random.Random(1)
    fakes = [Contact(PeerId(draw.randbytes(20)), NOWHERE, 1 + port) for port in range(200)]
    marks = {fingerprint(ROOT.topic, fake): fake for fake in fakes}
    order = by_rank(marks, request.salt)[request.skip : request.skip + min(request.want, 10)]
    contacts = tuple(marks[mark] for mark in order)
    return ShardReply(True, False, 0, 0, pack(f">{len(marks)}I", *marks), contacts, True, ())


async def honest(number: int, key: bytes | None) -> None:
    bootstrap = ["127.0.1.1:4000"] if number else []
    async with Overlay(f"127.0.1.{number + 1}:4000", bootstrap, key) as overlay:
        if number < MEMBERS:
            await overlay.announce("/t")
        await asyncio.sleep(1e9)


async def attacker(number: int, key: bytes | None) -> None:
    identity = Identity(bytes([number + 1]) * 32)
    identity.id = PeerId((int.from_bytes(ROOT.key, "big") ^ (number + 1)).to_bytes(20, "big"))
    bootstrap = ["127.0.1.1:4000"]
    async with Overlay(f"127.0.2.{number + 1}:4000", bootstrap, key, identity) as overlay:
        assert overlay._dht is not None
        handlers = overlay._dht.node._handlers
        for kind in (Query, AnnounceMember):
            handlers[kind] = lambda sender, request: lie(request)
        await asyncio.sleep(1e9)


@pytest.mark.parametrize("key", [KEY, None], ids=["sealed", "open"])
def test_a_topic_is_found_though_nodes_chose_ids_next_to_its_key(key: bytes | None) -> None:
    net = Network(seed=1, latency=Latency.uniform(0.005, 0.05))

    async def main() -> None:
        for number in range(HONEST):
            net.spawn(f"127.0.1.{number + 1}", honest(number, key))
            await asyncio.sleep(0.1)
        await asyncio.sleep(60)
        for number in range(ATTACKERS):
            net.spawn(f"127.0.2.{number + 1}", attacker(number, key))
        await asyncio.sleep(60)
        async with Overlay("127.0.3.1:4000", ["127.0.1.2:4000"], key) as newcomer:
            found = await newcomer.sample("/t", MEMBERS) + await newcomer.contacts("/t", 5)
        invented = [contact for contact in found if contact.host == NOWHERE]
        if key is None:
            assert invented, "without a key the attack works; else this test shows nothing"
        else:
            assert not invented
            assert len(set(found)) == MEMBERS

    net.run(main(), limit=1000)
