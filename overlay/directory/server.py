"""The serving side: a node answers queries, announcements and withdrawals for the shards it holds.

Whatever a peer sends, nothing raises and memory stays bounded; each refusal is counted under its reason.
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.contact import Contact, PeerId
from overlay.directory.config import DirectoryConfig
from overlay.directory.held_shard import HeldShard
from overlay.directory.messages import (
    BAD_TOKEN,
    Announce,
    AnnounceReply,
    Noted,
    Query,
    Report,
    ShardReply,
    Withdraw,
)
from overlay.directory.rate_limit import RateLimit
from overlay.directory.store import ShardStore
from overlay.directory.tree import FINGERPRINT_BYTES, MAX_DEPTH, Shard, point_of, shard_at
from overlay.errors import UsageError
from overlay.metrics import Metrics

REPLY_BYTES = 1_200
"""A reply's budget where datagrams are not smaller: with all that goes around it, it fits 1,400 bytes."""

REPORTS_AT_ONCE = 64
"""Members that were reported as silent and are being asked; further reports are not followed."""

AskAlive = Callable[[Contact, Callable[[bool], None]], None]
"""`ask_alive(contact, answered)` asks a process for a sign of life, and calls `answered` once."""

_BESIDE_MEMBERS = 32
_BESIDE_CONTACT = 2
_LARGEST_CONTACT = 40
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
        neighbours: Callable[[PeerId], tuple[Contact, ...]] = lambda key: (),
        ask_alive: AskAlive = lambda contact, answered: None,
    ) -> None:
        """`accepts_token(sender, token)` says whether this node gave the token to that sender lately.

        `neighbours(key)`: the nodes closest to a key that this node knows. `ask_alive` asks a member that
        was reported as silent.
        """
        self._give_token = give_token
        self._neighbours = neighbours
        self._ask_alive = ask_alive
        self._asking: set[tuple[Shard, Contact]] = set()
        needed = _BESIDE_MEMBERS + FINGERPRINT_BYTES * config.capacity + _LARGEST_CONTACT
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
            return self._query(request)
        if isinstance(request, Announce | Withdraw):
            return self._change(sender, request)
        if isinstance(request, Report):
            return self._report(request)
        self._refused.add("not_a_request")
        return None

    def _query(self, query: Query) -> ShardReply | None:
        if not _sound_query(query):
            self._refused.add("bad_query")
            return None
        self._served.add()
        now = self._now()
        seasoned = now - self._since >= self._config.round_time
        held = self._store.get(Shard(query.topic, query.depth, query.prefix), now)
        if held is None:
            return ShardReply(False, False, 0, query.depth, b"", (), seasoned)
        fingerprints = held.fingerprints()
        return ShardReply(
            held.settled(now),
            held.advise(),
            len(held.traces),
            held.hint(),
            fingerprints,
            _fitting(held, query, self._room - _BESIDE_MEMBERS - len(fingerprints)),
            seasoned,
        )

    def _change(self, sender: Contact, request: Announce | Withdraw) -> AnnounceReply | None:
        now = self._now()
        deepest = request.leaf_depth if isinstance(request, Announce) else request.depth
        if not 0 <= request.depth <= deepest <= MAX_DEPTH:
            self._refused.add("bad_depth")
            return None
        shard = shard_at(request.topic, request.depth, point_of(request.topic, sender.id))
        refusal = ""
        if not self._accepts_token(sender, request.token):
            refusal = BAD_TOKEN
        elif not self._rate.allows(sender.address, now):
            refusal = "flood"
        elif isinstance(request, Announce):
            refusal = self._store.put(shard, sender, request.leaf_depth, request.stay, now)
        else:
            self._store.remove(shard, sender, request.stay, now)
        if refusal:
            self._refused.add(refusal)
        else:
            self._served.add()
        return self._outcome(sender, shard, refusal, now)

    def _outcome(self, sender: Contact, shard: Shard, refusal: str, now: float) -> AnnounceReply:
        held = self._store.held(shard)
        settled, interior, members = False, False, 0
        if held is not None:
            settled, interior, members = held.settled(now), held.advise(), len(held.members)
        near, token = self._neighbours(shard.key), self._give_token(sender)
        return AnnounceReply(refusal, settled, interior, members, near, token)

    def _report(self, report: Report) -> Noted:
        """Ask a member that somebody found silent, and forget it if it is silent here as well."""
        shard = Shard(report.topic, report.depth, report.prefix)
        case = (shard, report.member)
        if case not in self._asking and len(self._asking) < REPORTS_AT_ONCE:
            held = self._store.get(shard, self._now())
            record = held.get(report.member.id) if held is not None else None
            if record is not None and record.contact == report.member:
                self._asking.add(case)
                self._ask_alive(report.member, lambda alive: self._asked(case, alive))
        return Noted()

    def _asked(self, case: tuple[Shard, Contact], alive: bool) -> None:
        self._asking.discard(case)
        if not alive:
            self._store.forget(*case)
            self._buried.add()


def _sound_query(query: Query) -> bool:
    return (
        0 <= query.depth <= MAX_DEPTH
        and 0 <= query.prefix < 1 << query.depth
        and 0 <= query.salt < 1 << 32
        and query.skip >= 0
        and query.want >= 0
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
