"""The serving side: a node answers queries, announcements and withdrawals for the shards it holds, and
fetches what others hold of a shard that it begins to hold.

Whatever a peer sends, nothing raises and memory stays bounded; each refusal is counted under its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import accumulate
from struct import Struct
from typing import Any

from overlay.contact import Address, Contact, PeerId
from overlay.dht import DhtNode
from overlay.directory.config import DirectoryConfig
from overlay.directory.holding import HeldShard, ShardCopy, ShardStore
from overlay.directory.messages import (
    BAD_TOKEN,
    HELD_ELSEWHERE,
    AnnounceMember,
    AnnounceReply,
    FetchShard,
    Noted,
    Query,
    Records,
    Report,
    ShardReply,
    Withdraw,
)
from overlay.directory.peers import Peers
from overlay.directory.tree import FINGERPRINT_BYTES, MAX_DEPTH, Shard, point_of, shard_at
from overlay.errors import UsageError
from overlay.metrics import Metrics
from overlay.steps import Steps, answer_to, together

REPLY_BYTES = 1_200
"""A reply's budget where datagrams are not smaller: with all that goes around it, it fits 1,400 bytes."""

REPORTS_AT_ONCE = 64
"""Members that were reported as silent and are being asked; further reports are not followed."""

GIVERS = 2
"""Replicas that a node asks when it begins to hold a shard."""

JUST_BEGUN = 5.0
"""Seconds: replicas of a shard that is new hear of it within this time."""

FETCHES_AT_ONCE = 64
"""Shards that a node fetches at the same time; what it begins to hold meanwhile it learns from its
members."""

AskAlive = Callable[[Contact, Callable[[bool], None]], None]
"""`ask_alive(contact, answered)` asks a process for a sign of life, and calls `answered` once."""

RECORD_NUMBERS = Struct(">B?II")
"""What `Records` tells of each record beside its contact."""

_BESIDE_MEMBERS = 44
_BESIDE_CONTACT = 2
_LARGEST_CONTACT = 40
_LARGEST_RECORD = _LARGEST_CONTACT + RECORD_NUMBERS.size
_SMALLEST_CONTACT = 26


class DirectoryServer:
    """The shards that this node holds for others."""

    def __init__(
        self,
        config: DirectoryConfig,
        now: Callable[[], float],
        accepts_token: Callable[[Contact, bytes], bool],
        metrics: Metrics,
        reply_bytes: int = REPLY_BYTES,
        *,
        give_token: Callable[[Contact], bytes] = lambda sender: b"",
        neighbours: Callable[[PeerId, int], tuple[Contact, ...]] = lambda key, count: (),
        ask_alive: AskAlive = lambda contact, answered: None,
        began: Callable[[Shard], None] = lambda shard: None,
        own: Contact | None = None,
    ) -> None:
        """`accepts_token(sender, token)` says whether this node gave the token to that sender lately.

        `neighbours(key, count)`: the nodes closest to a key that this node knows. `ask_alive` asks a member
        that was reported as silent. `began(shard)` is told when this node begins to hold a shard. `own`: this
        node, as `neighbours` names it.
        """
        self._own = own
        self._began = began
        self._give_token = give_token
        self._neighbours = neighbours
        self._ask_alive = ask_alive
        self._asking: set[tuple[Shard, Contact]] = set()
        needed = _BESIDE_MEMBERS + FINGERPRINT_BYTES * config.capacity + _LARGEST_CONTACT
        needed += config.replicas * _LARGEST_CONTACT
        if reply_bytes < needed:
            raise UsageError(
                f"replies of {reply_bytes} bytes cannot list a shard of capacity={config.capacity}: "
                f"use datagrams with room for {needed} bytes, or a smaller capacity"
            )
        self._room = min(reply_bytes, REPLY_BYTES)
        self._config = config
        self._now = now
        self._since = now()
        self._store = ShardStore(config)
        self._accepts_token = accepts_token
        self._rate = RateLimit(config.announcements_per_second, config.announcement_burst)
        self._served = metrics.counter("directory_served", "Directory requests answered")
        self._refused = metrics.family(
            "directory_refused", "reason", "Directory requests refused, by reason"
        )
        self._buried = metrics.counter(
            "directory_buried", "Members that were reported as silent and did not answer"
        )
        metrics.gauge("directory_records", "Records held", lambda: self._store.records)
        metrics.gauge("directory_shards", "Shards held", lambda: len(self._store))

    @property
    def records(self) -> int:
        """Members and traces held now."""
        return self._store.records

    def handle(self, sender: Contact, request: object) -> object | None:
        """The reply to a directory request; None, and counted, when it deserves none."""
        if isinstance(request, Query):
            return self._query(sender, request)
        if isinstance(request, AnnounceMember | Withdraw):
            return self._change(sender, request)
        if isinstance(request, Report):
            return self._report(request)
        if isinstance(request, FetchShard):
            return self._fetch(request)
        self._refused.add("not_a_request")
        return None

    def _query(self, sender: Contact, query: Query) -> ShardReply | None:
        if not _sound_query(query):
            self._refused.add("bad_query")
            return None
        self._served.add()
        now = self._now()
        seasoned = now - self._since >= self._config.round_time
        shard = Shard(query.topic, query.depth, query.prefix)
        named = min(query.near, self._config.root_replicas)
        closest = self._neighbours(shard.key, max(named, self._config.replicas))
        held = self._store.get(shard, now)
        if held is None:
            near = closest[:named]
            return ShardReply(
                False,
                False,
                0,
                query.depth,
                b"",
                (),
                seasoned,
                near,
                token=self._give_token(sender),
            )
        fingerprints = held.fingerprints()
        room = self._room - _BESIDE_MEMBERS - len(fingerprints)
        near = closest[: min(named, room // _LARGEST_CONTACT)]
        room -= len(near) * _LARGEST_CONTACT
        settled = held.settled(now) and self._is_near(closest)
        return ShardReply(
            settled,
            held.advise(now),
            len(held.traces),
            held.hint(),
            fingerprints,
            _fitting(held, query, room),
            seasoned or settled,
            near,
            held.young(now),
            self._give_token(sender),
        )

    def _is_near(self, closest: tuple[Contact, ...]) -> bool:
        """Members announce themselves to the closest nodes only: one that was among them misses newcomers."""
        return self._own is None or self._own in closest[: self._config.replicas]

    def _fetch(self, fetch: FetchShard) -> Records | None:
        shard = Shard(fetch.topic, fetch.depth, fetch.prefix)
        if not _sound_shard(shard) or fetch.skip < 0:
            self._refused.add("bad_query")
            return None
        self._served.add()
        now = self._now()
        held = self._store.get(shard, now)
        if held is None:
            return Records(0, int(1000 * (now - self._since)), 0, (), b"")
        records = [*held.members.values(), *held.traces.values()]
        some = records[fetch.skip : fetch.skip + (self._room - _BESIDE_MEMBERS) // _LARGEST_RECORD]
        numbers = [
            RECORD_NUMBERS.pack(
                r.leaf_depth, r.sure, r.stay & 0xFFFFFFFF, int(1000 * (r.expires - now))
            )
            for r in some
        ]
        closest = self._neighbours(shard.key, self._config.replicas)
        age = int(1000 * (now - held.since)) if self._is_near(closest) else 0
        lived = int(1000 * (now - held.born))
        contacts = tuple(record.contact for record in some)
        return Records(len(records), age, lived, contacts, b"".join(numbers))

    def adopt(self, shard: Shard, copies: Sequence[ShardCopy], age: float, lived: float) -> None:
        """Take what other replicas hold, since `age` seconds, of a shard that this node has begun to hold;
        it began `lived` seconds ago."""
        sound = [c for c in copies if shard.holds(point_of(shard.topic, c.contact.id))]
        deep = [c for c in sound if shard.depth <= c.leaf_depth <= MAX_DEPTH]
        self._store.adopt(shard, deep, age, lived, self._now())

    def _change(self, sender: Contact, request: AnnounceMember | Withdraw) -> AnnounceReply | None:
        now = self._now()
        deepest = request.leaf_depth if isinstance(request, AnnounceMember) else request.depth
        if not 0 <= request.depth <= deepest <= MAX_DEPTH:
            self._refused.add("bad_depth")
            return None
        shard = shard_at(request.topic, request.depth, point_of(request.topic, sender.id))
        refusal = ""
        if not self._accepts_token(sender, request.token):
            refusal = BAD_TOKEN
        elif not self._rate.allows(sender.address, now):
            refusal = "flood"
        elif isinstance(request, AnnounceMember):
            is_new = self._store.get(shard, now) is None
            refusal = self._store.put(
                shard, sender, request.leaf_depth, request.stay, request.sure, now
            )
            if is_new and not refusal:
                self._began(shard)
        else:
            self._store.remove(shard, sender, request.stay, now)
        if refusal:
            self._refused.add(refusal)
        else:
            self._served.add()
        if refusal == HELD_ELSEWHERE:
            # It may have crashed and come back at another address, or somebody takes its name.
            self._doubt(shard, sender.id)
        return self._outcome(sender, shard, refusal, now)

    def _outcome(self, sender: Contact, shard: Shard, refusal: str, now: float) -> AnnounceReply:
        held = self._store.held(shard)
        settled, interior, members, below = False, False, 0, 0
        if held is not None:
            settled, interior = held.settled(now) and not held.young(now), held.advise(now)
            members, below = len(held.members), len(held.traces)
        near = self._neighbours(shard.key, self._config.replicas)
        token = self._give_token(sender)
        return AnnounceReply(refusal, settled, interior, members, below, near, token)

    def _report(self, report: Report) -> Noted:
        """Ask a member that somebody found silent, and forget it if it is silent here as well."""
        self._doubt(
            Shard(report.topic, report.depth, report.prefix), report.member.id, report.member
        )
        return Noted()

    def _doubt(self, shard: Shard, member: PeerId, at: Contact | None = None) -> None:
        """Ask a member that is held, `at` this very address if that is given; forget it if it is silent."""
        held = self._store.get(shard, self._now())
        record = held.get(member) if held is not None else None
        if record is None or (at is not None and record.contact != at):
            return
        case = (shard, record.contact)
        if case not in self._asking and len(self._asking) < REPORTS_AT_ONCE:
            self._asking.add(case)
            self._ask_alive(record.contact, lambda alive: self._asked(case, alive))

    def _asked(self, case: tuple[Shard, Contact], alive: bool) -> None:
        self._asking.discard(case)
        if not alive:
            self._store.forget(*case)
            self._buried.add()


def read_records(reply: object) -> list[ShardCopy] | None:
    """The records of a reply; None for what is not such a reply."""
    if not isinstance(reply, Records):
        return None
    if len(reply.numbers) != RECORD_NUMBERS.size * len(reply.contacts):
        return None
    numbers = RECORD_NUMBERS.iter_unpack(reply.numbers)
    return [
        ShardCopy(contact, depth, stay, sure, milliseconds / 1000)
        for contact, (depth, sure, stay, milliseconds) in zip(reply.contacts, numbers, strict=True)
    ]


def _sound_shard(shard: Shard) -> bool:
    return 0 <= shard.depth <= MAX_DEPTH and 0 <= shard.prefix < 1 << shard.depth


def _sound_query(query: Query) -> bool:
    return (
        _sound_shard(Shard(query.topic, query.depth, query.prefix))
        and 0 <= query.salt < 1 << 32
        and query.skip >= 0
        and query.want >= 0
        and query.near >= 0
    )


def _fitting(held: HeldShard, query: Query, room: int) -> tuple[Contact, ...]:
    """As many of the wanted contacts as the reply has room for."""
    most = min(query.want, room // (_SMALLEST_CONTACT + _BESIDE_CONTACT))
    if most <= 0:
        return ()
    contacts = held.ranked(query.salt, query.skip, most)
    if len(contacts) * (_LARGEST_CONTACT + _BESIDE_CONTACT) > room:
        ends = accumulate(len(contact.packed()) + _BESIDE_CONTACT for contact in contacts)
        contacts = contacts[: sum(end <= room for end in ends)]
    return tuple(contacts)


class RateLimit:
    """At most `rate` requests a second from one address, after a burst; remembers a bounded number of
    addresses.

    An address that is forgotten starts anew with a full burst: a flooder cannot lock others out.
    """

    MAX_ADDRESSES = 4_096

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._budgets: dict[Address, tuple[float, float]] = {}

    def allows(self, address: Address, now: float) -> bool:
        left, since = self._budgets.pop(address, (self._burst, now))
        left = min(self._burst, left + self._rate * (now - since))
        allowed = left >= 1
        self._budgets[address] = (left - 1 if allowed else left, now)
        if len(self._budgets) > self.MAX_ADDRESSES:
            del self._budgets[next(iter(self._budgets))]
        return allowed


@dataclass(frozen=True, slots=True)
class _Voice:
    """What one node told of a shard, and since how many seconds its word is complete."""

    copies: dict[Contact, ShardCopy]
    age: float
    lived: float
    """Seconds since the shard began."""


class ShardReplication:
    """What a node does when it begins to hold a shard: it fetches what other replicas hold of it.

    Two of them are asked, and others where these know nothing. Its own word is then as good as theirs. A
    replica that is new and holds nothing says nothing: where all replicas are of that kind, as where many
    nodes have come at once or the shard has just begun, the nodes around them are asked as well. A record
    counts that two name; one voice is enough while there are not two who have been there for long.
    """

    def __init__(
        self,
        peers: Peers,
        server: DirectoryServer,
        config: DirectoryConfig,
        is_joining: Callable[[], bool] = lambda: False,
    ) -> None:
        """`is_joining()`: this node does not know its neighbours yet."""
        self._peers = peers
        self._server = server
        self._config = config
        self._is_joining = is_joining
        self._running: dict[Steps[Any], None] = {}

    def begin(self, shard: Shard) -> None:
        if len(self._running) < FETCHES_AT_ONCE:
            Steps(self._complete(shard), among=self._running)

    def close(self) -> None:
        for steps in list(self._running):
            steps.cancel()

    async def _complete(self, shard: Shard) -> None:
        near = self._others(self._peers.known_closest(shard.key, self._config.replicas + 1))
        left = near = near[: self._config.replicas]
        voices: list[_Voice] = []
        while left and len(self._known_to(voices, shard)) < GIVERS:
            some, left = left[:GIVERS], left[GIVERS:]
            voices += await self._ask(shard, some)
            if not any(map(self._is_settled, voices)):
                # Others ask this node meanwhile: where a network has just begun, one voice is believed.
                self._server.adopt(shard, self._believed(voices), 0.0, 0.0)
        if not self._known_to(voices, shard) and not self._is_joining():
            # What nobody around its place knows of, or all for a moment only, is new.
            farther = [c for c in await self._around(shard) if c not in near]
            voices += await self._ask(shard, farther)
            is_new = 2 * len(voices) >= len(near) + len(farther)
        else:
            is_new = False
        known_to = self._known_to(voices, shard)
        if known_to:
            age = min(voice.age for voice in known_to)
            lived = min(voice.lived for voice in known_to)
            self._server.adopt(shard, self._believed(voices), age, lived)
        elif voices:
            age = self._config.round_time if is_new else 0.0
            self._server.adopt(shard, self._believed(voices), age, 0.0)

    async def _around(self, shard: Shard) -> list[Contact]:
        """The nodes around a shard. Those around a root are looked up: all newcomers meet there."""
        replicas, wide = self._config.replicas, self._config.root_replicas
        if shard.depth:
            return self._others(self._peers.known_closest(shard.key, wide))
        look = partial(self._peers.around, shard.key, replicas, wide)
        return self._others(await answer_to(look))

    def _others(self, nodes: Sequence[Contact]) -> list[Contact]:
        own = self._peers.context.contact
        return [contact for contact in nodes if contact.id != own.id]

    def _known_to(self, voices: Sequence[_Voice], shard: Shard) -> list[_Voice]:
        """Those who know the shard, and for longer than a moment; of a root, those who know all of it."""
        if not shard.depth:
            return [voice for voice in voices if voice.copies and self._is_settled(voice)]
        return [v for v in voices if v.copies and (self._is_settled(v) or v.lived > JUST_BEGUN)]

    def _is_settled(self, voice: _Voice) -> bool:
        return voice.age >= self._config.round_time

    def _believed(self, voices: Sequence[_Voice]) -> list[ShardCopy]:
        knowing = [voice for voice in voices if voice.copies]
        is_old = sum(self._is_settled(voice) for voice in voices) >= GIVERS
        needed = min(GIVERS, len(knowing)) if is_old else 1
        named: dict[Contact, list[ShardCopy]] = {}
        for voice in knowing:
            for contact, copy in voice.copies.items():
                named.setdefault(contact, []).append(copy)
        return [min(c, key=lambda copy: copy.left) for c in named.values() if len(c) >= needed]

    async def _ask(self, shard: Shard, givers: Sequence[Contact]) -> list[_Voice]:
        answers = await together([self._copy(shard, giver) for giver in givers])
        return [voice for voice in answers if voice is not None]

    async def _copy(self, shard: Shard, giver: Contact) -> _Voice | None:
        """All that a replica holds of the shard; None if it does not answer."""
        copies: dict[Contact, ShardCopy] = {}
        age = lived = 0.0
        while len(copies) <= 2 * self._config.capacity:
            request = FetchShard(shard.topic, shard.depth, shard.prefix, len(copies))
            reply = await answer_to(partial(self._peers.ask, giver, request))
            page = read_records(reply)
            if page is None or not isinstance(reply, Records):
                return _Voice(copies, age, lived) if copies else None
            age, lived = reply.age / 1000, reply.lived / 1000
            fresh = {copy.contact: copy for copy in page if copy.contact not in copies}
            copies |= fresh
            if not fresh or len(copies) >= reply.total:
                break
        return _Voice(copies, age, lived)


def serve_directory(
    node: DhtNode, config: DirectoryConfig, metrics: Metrics, max_message: int
) -> ShardReplication:
    """Hold shards for others on a node of the DHT, as every node does that is not a light member."""
    server = DirectoryServer(
        config,
        node.context.now,
        node.accepts_token,
        metrics,
        max_message,
        give_token=node.give_token,
        neighbours=node.known_closest,
        ask_alive=node.ask_alive,
        began=lambda shard: replication.begin(shard),
        own=node.context.contact,
    )
    replication = ShardReplication(node, server, config, lambda: node.is_joining)
    for request in (Query, AnnounceMember, Withdraw, Report, FetchShard):
        node.serve(request, server.handle)
    return replication
