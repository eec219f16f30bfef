"""Becoming part of the network: first contacts, one's own neighbourhood, the rest of the space."""

from __future__ import annotations

import asyncio
import itertools
import logging
import random
from collections.abc import Sequence

from overlay.contact import ID_BITS, Address, Contact, PeerId
from overlay.dht.config import DhtConfig
from overlay.dht.errors import NoBootstrapAnswer
from overlay.dht.server import DhtServer

LONGEST_BACKOFF = 30.0
"""Seconds."""

KNOWN_AT_ONCE = 32
"""Contacts from an earlier run that are tried in one attempt."""

ATTEMPTS_FOR_THE_SILENT = 3
"""Attempts, counted from 0, before a node founds a network although a bootstrap address is silent."""

ENOUGH_OF_A_PART = 2
"""Contacts in a farther part of the space, in multiples of alpha, with which lookups find their way."""

_log = logging.getLogger(__name__)


async def find_first_contacts(
    server: DhtServer,
    config: DhtConfig,
    bootstrap: Sequence[Address],
    known: Sequence[Contact],
    draw: random.Random,
) -> None:
    """Ask the bootstrap addresses, and the contacts known from before, until one is in a network.

    Tries again with back-off. Without a bootstrap address, nobody answering means the first node of a
    network; else `NoBootstrapAnswer`. Attempts that only nodes answer which are joining as well do not
    count: one of them founds the network (see `_founds`).
    """
    own = server.node.contact.address
    first = [address for address in dict.fromkeys(bootstrap) if address != own]
    before = [contact.address for contact in known]
    failed = 0
    for attempt in itertools.count():
        met = [peer.contact.address for peer in server.protocol.router]
        some = draw.sample(before, min(len(before), KNOWN_AT_ONCE)) + met[:KNOWN_AT_ONCE]
        answered = await server.bootstrap(list(dict.fromkeys(first + some)))
        if any(answered.values()) or not first:
            return
        if answered:
            # These may know others who are joining, or have joined.
            await server.closest(server.node.id, config.k)
            if _founds(server, first, answered, attempt):
                return
        else:
            failed += 1
        if failed == config.join_attempts:
            break
        pause = backoff(config.join_backoff, attempt if not answered else 0, draw)
        _log.warning("no bootstrap node is in a network; trying again in %.1f s", pause)
        await asyncio.sleep(pause)
    addresses = ", ".join(map(str, first))
    raise NoBootstrapAnswer(
        f"none of {addresses} answered {failed} attempts: check that one of them runs,"
        " can be reached, and has the same network key"
    )


def _founds(
    server: DhtServer, named: Sequence[Address], answered: dict[Contact, bool], attempt: int
) -> bool:
    """Whether this node is the one that founds the network for all that are joining.

    That is the node of the smallest id, as far as it knows: every node that asked it, or that it asked, is
    in its table. It waits for a second attempt, in which it asks those of whom the first ones told it;
    and while a bootstrap address is silent, which may belong to a network, for two more.
    """
    if attempt < 1 or any(peer.id < server.node.id for peer in server.protocol.router):
        return False
    heard = {contact.address for contact in answered}
    return attempt >= ATTEMPTS_FOR_THE_SILENT or all(address in heard for address in named)


def backoff(first: float, attempt: int, draw: random.Random) -> float:
    return min(first * 2.0 ** min(attempt, 32), LONGEST_BACKOFF) * draw.uniform(0.5, 1.5)


async def explore(server: DhtServer, config: DhtConfig, draw: random.Random) -> None:
    """Learn the own neighbourhood, and be learnt by it; then a few nodes of every farther part of the space.

    Each part shares one bit less with the own id than the next nearer one. All nodes nearer than the last of
    the neighbourhood are known, so the first part to look into is the one where that one is; and there is
    none where the neighbourhood is the whole network. Parts of which enough is known are left out.
    """
    own = server.node
    closest = [c for c in await server.closest(own.id, config.k) if c.id != own.id]
    if len(closest) < config.k - 1:
        return
    farthest = int.from_bytes(closest[-1].id, "big") ^ own.long_id
    for bit in range(farthest.bit_length() - 1, ID_BITS):
        low = 1 << bit
        known = sum(low <= peer.long_id ^ own.long_id < 2 * low for peer in server.protocol.router)
        if known < ENOUGH_OF_A_PART * config.alpha:
            place = own.long_id ^ (low | draw.getrandbits(bit))
            await server.closest(PeerId(place.to_bytes(ID_BITS // 8, "big")), config.alpha)
