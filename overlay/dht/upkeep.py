"""How a node becomes part of the network, and what it does by itself to stay there.

Joining: first contacts, one's own neighbourhood, then a node of every farther part of the space.
Upkeep: each round checks a contact that has been silent, or meets a neighbour that the node was only told of
when it joined (a light member, whom nobody asks for contacts, does neither), tries one of the dead again (the
network may only have been cut in two), refreshes buckets into which nothing has looked for long, publishes
records again and hands the known contacts to the code that saves them, each at its own interval. A node that
has lost everybody looks for the bootstrap nodes again.
"""

from __future__ import annotations

import itertools
import logging
from collections.abc import Callable, Sequence
from functools import partial
from typing import Protocol

from overlay.contact import ID_BITS, ID_BYTES, Address, Contact, PeerId
from overlay.context import Context, Randomness, Timer
from overlay.dht.config import DhtConfig
from overlay.dht.exchange import Call
from overlay.dht.lookup import NodeLookup
from overlay.dht.messages import Pong
from overlay.dht.routing import Contacts
from overlay.dht.upstream import RoutedPeer, peer_of
from overlay.dht.values import GIVERS
from overlay.errors import NetworkError
from overlay.steps import Steps, answer_to, pause, together

LONGEST_BACKOFF = 30.0
"""Seconds."""

KNOWN_AT_ONCE = 32
"""Contacts from an earlier run that are tried in one attempt."""

ATTEMPTS_FOR_THE_SILENT = 3
"""Attempts, counted from 0, before a node founds a network although a bootstrap address is silent."""

AFTER_A_RETURN = 0.5
"""Seconds from the first lost contact that answers to the round in which the network is explored again."""

SEEKING_PART, LONGEST_SEEKING = 1 / 4, 20.0
"""From one question to a dead contact to the next, at least: as a part of the time since the last contact
died, and in seconds, whichever is less. After a mass crash the traffic so comes to rest."""

FEWEST_ASKED = 2 * GIVERS
"""Of the neighbourhood, when a node joins, itself among them: those of a key's holders that hand it on to a
newcomer must know the newcomer, and questions may be lost."""

EVERYBODY = 1000
"""More contacts than are named in one lookup."""

_log = logging.getLogger(__name__)


class NoBootstrapAnswer(NetworkError):
    """None of the bootstrap addresses, nor any contact known from before, answered in time."""


class Joiner(Protocol):
    """What joining and upkeep ask of their node."""

    @property
    def context(self) -> Context: ...

    @property
    def contacts(self) -> Contacts: ...

    def ping(
        self,
        to: Contact | Address,
        on_end: Callable[[Call], None] | None = None,
        tries: int | None = None,
    ) -> Call: ...

    def closest(
        self, key: PeerId, count: int, done: Callable[[list[Contact]], None]
    ) -> NodeLookup: ...

    def around(
        self, key: PeerId, exact: int, wide: int, done: Callable[[list[Contact]], None]
    ) -> NodeLookup: ...

    def meet(self, neighbour: Contact) -> None: ...

    async def publish_again(self) -> None: ...


async def find_first_contacts(
    node: Joiner, config: DhtConfig, bootstrap: Sequence[Address], known: Sequence[Contact]
) -> None:
    """Ask the bootstrap addresses, and the contacts known from before, until one is in a network.

    Tries again with back-off. Without a bootstrap address, nobody answering means the first node of a
    network; else `NoBootstrapAnswer`. Attempts that only nodes answer which are joining as well do not
    count: one of them founds the network (see `_founds`).
    """
    draw = node.context.random
    own = node.contacts.own.contact
    first = [address for address in dict.fromkeys(bootstrap) if address != own.address]
    before = [contact.address for contact in known]
    addresses = ", ".join(map(str, first))
    failed = 0
    for attempt in itertools.count():
        met = [peer.contact.address for peer in node.contacts.table]
        some = draw.sample(before, min(len(before), KNOWN_AT_ONCE)) + met[:KNOWN_AT_ONCE]
        answered = await ping_all(node, list(dict.fromkeys(first + some)))
        if any(answered.values()) or not first:
            return
        if answered:
            # These may know others who are joining, or have joined.
            await answer_to(partial(node.closest, own.id, config.k))
            if _founds(node, first, answered, attempt):
                return
        else:
            failed += 1
        if failed == config.join_attempts:
            break
        wait = backoff(config.join_backoff, attempt if not answered else 0, draw)
        problem = (
            f"all that answer at {addresses} are still looking for the network themselves"
            if answered
            else f"no node answers at {addresses}, or it has another network key"
        )
        _log.warning("%s; trying again in %.1f s", problem, wait)
        await pause(node.context, wait)
    raise NoBootstrapAnswer(
        f"none of {addresses} answered {failed} attempts: check that one of them runs,"
        " can be reached, and has the same network key"
    )


async def ping_all(node: Joiner, addresses: Sequence[Address]) -> dict[Contact, bool]:
    """Ping every address; the contacts that answered, which are in the table now.

    For each, whether it has joined a network (the value True) or is looking for one itself.
    """

    async def call(address: Address) -> Call:
        return await answer_to(partial(node.ping, address))

    own = node.contacts.own.contact
    calls = await together([call(address) for address in addresses if address != own.address])
    return {
        call.contact: not call.reply.joining
        for call in calls
        if isinstance(call.reply, Pong) and call.contact is not None and call.contact.id != own.id
    }


def _founds(
    node: Joiner, named: Sequence[Address], answered: dict[Contact, bool], attempt: int
) -> bool:
    """Whether this node is the one that founds the network for all that are joining.

    That is the node of the smallest id, as far as it knows: every node that asked it, or that it asked, is
    in its table. It waits for a second attempt, in which it asks those of whom the first ones told it;
    and while a bootstrap address is silent, which may belong to a network, for two more.
    """
    own = node.contacts.own.id
    if attempt < 1 or any(peer.id < own for peer in node.contacts.table):
        return False
    heard = {contact.address for contact in answered}
    return attempt >= ATTEMPTS_FOR_THE_SILENT or all(address in heard for address in named)


def backoff(first: float, attempt: int, draw: Randomness) -> float:
    return min(first * 2.0 ** min(attempt, 32), LONGEST_BACKOFF) * draw.uniform(0.5, 1.5)


async def explore(node: Joiner, config: DhtConfig) -> list[Contact]:
    """Learn the own neighbourhood, and be learnt by it; then a node of every farther part of the space.

    The nearest half of the neighbourhood, at least `FEWEST_ASKED` nodes with this one, is asked now: every
    lookup of a place for which this node matters comes by one of them. Those of the other half are the
    result, as far as somebody named them. A light member, whom nobody has to learn and who does no upkeep,
    asks all.

    Each part shares one bit less with the own id than the next nearer one. All nodes nearer than the last of
    those asked are known, so the first part to look into is the one where that one is; and there is none
    where they are the whole network. Where nobody is known, the nearest one is asked that was named on the
    way to the neighbourhood; where nobody was named, a lookup goes there. Others become known with time:
    whoever answers any question is a contact.
    """
    own = node.contacts.own
    half = max((config.k + 1) // 2, FEWEST_ASKED)
    count = min(half, config.k) if config.serve else config.k
    found: list[Contact] = await answer_to(partial(node.around, own.id, count, EVERYBODY))
    others = [peer_of(contact) for contact in found if contact.id != own.id]
    if len(others) < max(count - 1, 1):
        return []

    def part_of(peer: RoutedPeer) -> int:
        return (own.long_id ^ peer.long_id).bit_length()

    known = {part_of(peer) for peer in node.contacts.table}
    named = {part_of(peer): peer.contact for peer in reversed(others)}
    for part in range(part_of(others[count - 2]), ID_BITS + 1):
        if part in known:
            continue
        if part in named:
            node.meet(named[part])
        else:
            low = 1 << part - 1
            await _look(node, own.long_id ^ (low | node.context.random.getrandbits(part - 1)), 1)
    return found[count : config.k]


async def _look(node: Joiner, place: int, count: int) -> None:
    key = PeerId(place.to_bytes(ID_BYTES, "big"))
    await answer_to(partial(node.closest, key, count))


class DhtUpkeep:
    """The upkeep of one node; it runs from `start` to `close`."""

    def __init__(
        self, node: Joiner, config: DhtConfig, save: Callable[[list[Contact]], None]
    ) -> None:
        """`save(contacts)` keeps the known contacts for the next start."""
        self._node = node
        self._config = config
        self._save = save
        self._context = node.context
        self._next_save = self._context.now() + config.save_interval
        self._sought = self._context.now()
        """When a dead contact was asked last."""
        self._is_rejoining = False
        self.to_meet: list[Contact] = []
        """Neighbours that this node was told of and has not met, farthest first."""
        self._timer: Timer | None = None
        self._round: Steps[None] | None = None
        self.bootstrap: Sequence[Address] = ()
        self.on_rejoined: Callable[[], None] = lambda: None
        """Told when nodes that were lost are back and have been asked what they know."""

    def start(self) -> None:
        self._node.contacts.on_return = self._returned
        self._wait()

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        if self._round is not None:
            self._round.cancel()
        self.save()

    def save(self) -> None:
        contacts = [peer.contact for peer in self._node.contacts.table]
        if contacts:
            self._save(contacts)

    def refresh_ids(self) -> list[PeerId]:
        """A place in the range of each bucket into which no lookup went for long."""
        draw = self._context.random
        unused = self._node.contacts.table.unused(self._config.refresh_interval)
        places = [draw.randrange(low, high + 1) for low, high in (b.range for b in unused)]
        return [PeerId(place.to_bytes(ID_BYTES, "big")) for place in places]

    def _returned(self, peer: RoutedPeer) -> None:
        """A dead contact answered: what it knows is news, for the network may have been cut in two.

        The others that were lost may be back as well, and are asked at once."""
        if not self._is_rejoining:
            self._is_rejoining = True
            self._node.contacts.probe_lost()
            if self._round is None and self._timer is not None:
                self._timer.cancel()
                self._timer = self._context.call_later(AFTER_A_RETURN, self._begin_round)

    def _wait(self, _: object = None) -> None:
        self._round = None
        wait = self._config.check_interval * self._context.random.uniform(0.8, 1.2)
        if self._is_rejoining:
            wait = AFTER_A_RETURN
        self._timer = self._context.call_later(wait, self._begin_round)

    def _begin_round(self) -> None:
        self._timer = None
        steps = Steps(self._do_round(), self._wait, self._failed)
        self._round = None if steps.is_over else steps

    def _failed(self, error: Exception) -> None:
        """One round that went wrong must not end all upkeep."""
        _log.error("a round of the DHT's upkeep failed", exc_info=error)
        self._wait()

    async def _do_round(self) -> None:
        if self._config.serve:
            self._check()
        await self._look_for_the_lost()
        if self._is_rejoining:
            self._is_rejoining = False
            self.to_meet = (await explore(self._node, self._config))[::-1]
            self.on_rejoined()
        for place in self.refresh_ids():
            await _look(self._node, int.from_bytes(place, "big"), self._config.k)
        await self._node.publish_again()
        if self._context.now() >= self._next_save:
            self._next_save = self._context.now() + self._config.save_interval
            self.save()

    def _check(self) -> None:
        """Meet neighbours, or check contacts that were not heard for long."""
        contacts, count = self._node.contacts, self._config.checks_a_round
        while self.to_meet and count:
            self._node.meet(self.to_meet.pop())
            count -= 1
        for peer in contacts.silent(count):
            contacts.check(peer)

    async def _look_for_the_lost(self) -> None:
        contacts, now = self._node.contacts, self._context.now()
        last_lost = next(reversed(contacts.lost.values()), now)
        pause = min(SEEKING_PART * (now - last_lost), LONGEST_SEEKING)
        if contacts.lost and now - self._sought >= pause:
            self._sought = now
            # Once, not several times: nearly all of these are dead, and the next round tries another one.
            lost = self._context.random.choice(list(contacts.lost))
            await answer_to(partial(self._node.ping, lost, tries=1))
        if len(contacts.table) == 0 and self.bootstrap:
            answered = await ping_all(self._node, self.bootstrap)
            self._is_rejoining = bool(answered) or self._is_rejoining
