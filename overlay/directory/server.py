"""The serving side: a node answers queries, announcements and withdrawals for the shards it holds.

Whatever a peer sends, nothing raises and memory stays bounded; each refusal is counted under its reason.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from struct import Struct

from overlay.contact import Address, Contact, PeerId
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
from overlay.directory.tree import FINGERPRINT_BYTES, MAX_DEPTH, Shard, point_of, shard_at
from overlay.errors import UsageError
from overlay.metrics import Metrics

REPLY_BYTES = 1_200
"""A reply's budget where datagrams are not smaller: with all that goes around it, it fits 1,400 bytes."""

REPORTS_AT_ONCE = 64
"""Members that were reported as silent and are being asked; further reports are not followed."""

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
    contacts: list[Contact] = []
    most = room // (_SMALLEST_CONTACT + _BESIDE_CONTACT)
    if query.want and most > 0:
        for contact in held.ranked(query.salt, query.skip, min(query.want, most)):
            room -= len(contact.packed()) + _BESIDE_CONTACT
            if room < 0:
                break
            contacts.append(contact)
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
