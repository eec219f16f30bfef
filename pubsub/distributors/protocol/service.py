"""A service at one distributor: its messages, its local subscribers, and the publishers that come here; and
when a message need not be kept for others any more (sections 4.2.1 and 4.2.2).

Each distributor tells the others, by source, the highest number that it has, and the highest that all of its
subscribers without gaps have. A message is *stable* when every distributor of the view has it. It may be
let go when, in addition, every subscriber without gaps in the system has it. So no distributor needs to know
the others' subscribers, only how far behind the slowest is. What a distributor that left the view had told
stays a claim for a while: its subscribers without gaps may be about to come here for the rest. A newcomer,
which was not told such claims, lets go of nothing for as long.

When there is no view, nothing is stable: distributors that may be there have not said what they have.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from overlay.contact import Contact, PeerId
from pubsub.distributors.config import DistributorConfig
from pubsub.distributors.messages import ServiceBlock
from pubsub.distributors.protocol.fanout import Fanout
from pubsub.distributors.protocol.service_log import ServiceLog
from pubsub.distributors.protocol.view import NO_VIEW, View
from pubsub.reliable.stability import Acknowledged

Key = tuple[str, bytes]
"""A service and a source."""

SHORT_PATIENCE = 5.0
"""Seconds for which the claims count of one that left without having told of subscribers without gaps."""


@dataclass(frozen=True, slots=True)
class _Orphans:
    """What a distributor that left the view had told before."""

    left: float
    """When it left."""
    no_gap: dict[str, bool]
    safe: dict[Key, int]


class Stability:
    """What the other distributors have, as they told this one."""

    def __init__(self, me: PeerId, patience: float) -> None:
        """`patience`: seconds for which the claims of one that left the view are kept."""
        self._me = me
        self._patience = patience
        self._view = NO_VIEW
        self._joined_at: float | None = None
        """When this one came into a view of others, while it may not know of claims that still count."""
        self._others: list[PeerId] = []
        self._runs: dict[PeerId, int] = {}
        self._no_gap: dict[PeerId, dict[str, bool]] = {}
        """Of each that has told anything: by service, whether it has subscribers without gaps."""
        self._low: Acknowledged[PeerId, Key] = Acknowledged()
        self._high: Acknowledged[PeerId, Key] = Acknowledged()
        self._safe: Acknowledged[PeerId, Key] = Acknowledged()
        self._orphans: list[_Orphans] = []

    def change_view(self, view: View, now: float) -> None:
        """Wait for the members of this view from now on."""
        if not self._view and len(view.members) > 1:
            self._joined_at = now
        self._view = view
        self._others = [member.id for member in view.members if member.id != self._me]
        runs = {member.id: member.run for member in view.members}
        for peer in [one for one in self._no_gap if runs.get(one) != self._runs.get(one)]:
            self._low.leave(peer)
            self._high.leave(peer)
            self._orphans.append(_Orphans(now, self._no_gap.pop(peer), self._safe.leave(peer)))
        self._runs = runs

    def told_service(self, peer: PeerId, service: str, no_gap: bool) -> None:
        """A distributor has a service, with or without subscribers without gaps."""
        self._no_gap.setdefault(peer, {})[service] = no_gap

    def told(self, peer: PeerId, key: Key, low: int, high: int, safe: int) -> None:
        """A distributor holds numbers `low` to `high`, and its subscribers without gaps have `safe`."""
        self._no_gap.setdefault(peer, {})
        self._low.tell(peer, key, low)
        self._high.tell(peer, key, high)
        self._safe.tell(peer, key, safe)

    def expire(self, now: float) -> None:
        if self._joined_at is not None and now - self._joined_at >= self._patience:
            self._joined_at = None
        longest, short = now - self._patience, now - min(SHORT_PATIENCE, self._patience)
        self._orphans = [
            one
            for one in self._orphans
            if one.left > (longest if any(one.no_gap.values()) else short)
        ]

    def forget_departed(self) -> None:
        """Keep nothing any more for the subscribers of those who left."""
        self._orphans.clear()
        self._joined_at = None

    def forget(self, key: Key) -> None:
        """The source is gone."""
        for numbers in (self._low, self._high, self._safe):
            numbers.forget(key)

    def forget_service(self, service: str) -> None:
        """The service is gone."""
        for told in self._no_gap.values():
            told.pop(service, None)

    @property
    def has_heard_all(self) -> bool:
        """Whether every member of the view has told something."""
        return bool(self._view) and all(peer in self._no_gap for peer in self._others)

    def stable(self, key: Key, mine: int) -> int:
        """The highest number that every distributor of the view has."""
        return self._high.stable(key, self._others, mine) if self._view else 0

    def releasable(self, key: Key, mine: int) -> int:
        """The highest number that neither a distributor nor another one's subscriber may still need."""
        number = self.stable(key, mine) if self._joined_at is None else 0
        number = self._safe.stable(key, self._others, number)
        for orphans in self._orphans:
            unknown = 0 if orphans.no_gap.get(key[0]) else number
            number = min(number, orphans.safe.get(key, unknown))
        return number

    def next_held(self, key: Key, after: int) -> int:
        """The lowest number of a source beyond `after` that any of the others still holds; above `highest` if
        none does. Who holds lower numbers only is of no help."""
        held = [
            max(low, after + 1)
            for peer in self._others
            if 0 < (low := self._low.of(peer, key)) <= (high := self._high.of(peer, key))
            and high > after
        ]
        return min(held, default=self.highest(key) + 1)

    def highest(self, key: Key) -> int:
        return self._high.highest(key, self._others)

    def holders(self, key: Key, number: int) -> list[PeerId]:
        """The other distributors that hold a message."""
        return [
            peer
            for peer in self._others
            if 0 < self._low.of(peer, key) <= number <= self._high.of(peer, key)
        ]


class Service:
    """Created by a publisher, or publicised by another distributor."""

    def __init__(
        self, log: ServiceLog, fanout: Fanout, config: DistributorConfig, version: int = 1
    ) -> None:
        self.name = log.service
        self.version = version
        """Odd: the service is there. It grows when the service is removed (even), and when it is created
        again. Of two versions the later one counts."""
        self.log = log
        self.fanout = fanout
        self.publishers: dict[bytes, Contact] = {}
        """Where to acknowledge the messages of each source that comes here."""
        self.acknowledged: dict[bytes, tuple[int, int]] = {}
        """What each of them was told."""
        self.begins: dict[bytes, tuple[int, float]] = {}
        """Before which number its publisher has nothing any more, and when it said so."""
        self.is_relayed = False
        """Whether its messages come from another group of distributors, which alone knows what is lost."""
        self.arrived_to: Callable[[bytes], int] | None = None
        """Where there is a group above: the number up to which it has a source's messages."""
        self._config = config

    @property
    def is_crowded(self) -> bool:
        """Whether new publishers have to wait."""
        return len(self.log.sources) >= 2 * self._config.most_sources

    @property
    def is_full(self) -> bool:
        """Whether publications have to wait."""
        return self.log.bytes >= self._config.buffer_bytes

    def take(self, block: ServiceBlock, now: float) -> bool:
        """Add a block to the log and to what the subscribers are sent; False if nothing of it is new."""
        before = self.log.last
        is_new = self.log.add(block, now)
        if self.log.last > before:
            self.fanout.wake()
        return is_new

    def skip(self, source: bytes, before: int, now: float) -> None:
        self.log.skip(source, before, now)
        self.fanout.wake()

    def knows_or_takes(
        self, source: bytes, now: float, after: int = 0, *, distributors: int = 0
    ) -> bool:
        """Whether a source is known, or there is room for one more, which begins after this number.

        `distributors`: how many there are in the view, for a source that one of them tells of. Each may bring
        as many as this one takes itself: otherwise they could wait for each other."""
        if source in self.log.sources:
            return True
        if len(self.log.sources) >= 2 * self._config.most_sources * (1 + distributors):
            return False
        self.log.begin(source, after, now)
        return True

    def has_left_behind(self, source: bytes, high: int) -> bool:
        """Whether a source was forgotten here after everything up to this number had been taken of it."""
        return source not in self.log.sources and high <= self.log.left_behind.get(source, -1)

    def claims(self) -> dict[bytes, tuple[int, int, int, int]]:
        """By source: after which number it begins, the lowest number held, the highest, and the highest that
        those without gaps have."""
        safe = self.log.numbers_before(self.fanout.least_acked(no_gap_only=True) + 1)
        return {
            source: (state.began, state.low, state.high, safe[source])
            for source, state in self.log.sources.items()
        }

    def trim(self, stability: Stability) -> list[bytes]:
        """Let go of what nobody needs any more, within the policy of `DistributorConfig.buffer_bytes`; which
        sources were forgotten."""
        limits: dict[bytes, int] = {}

        def may_go(source: bytes, number: int) -> bool:
            limit = limits.get(source)
            if limit is None:
                mine = self.log.sources[source].high
                limit = stability.releasable((self.name, source), mine)
                if self.arrived_to is not None:
                    limit = min(limit, self.arrived_to(source))
                limits[source] = limit
            return number <= limit

        config, least = self._config, self.fanout.least_acked
        self.log.trim(may_go, least(no_gap_only=False) + 1, config.recent_bytes)
        if self.is_full:
            self.log.trim(may_go, least(no_gap_only=True) + 1, config.buffer_bytes * 7 // 8)
        if self.is_full:
            self.fanout.forget_absent()
            stability.forget_departed()
            limits.clear()
            self.log.trim(may_go, least(no_gap_only=True) + 1, config.buffer_bytes * 7 // 8)
        if self.is_full and self.fanout.end_slowest():
            self.log.trim(may_go, least(no_gap_only=True) + 1, config.recent_bytes)
        if len(self.log.sources) > config.most_sources:
            half = max(1, config.most_sources // 2)
            self.log.trim_sources(may_go, least(no_gap_only=self.is_crowded) + 1, half)
            if self.is_crowded and self.log.busy > half:
                self.fanout.forget_absent()
                stability.forget_departed()
                limits.clear()
                self.log.trim_sources(may_go, least(no_gap_only=True) + 1, half)
        forgotten = self.log.forget_sources(config.most_sources)
        for source in forgotten:
            for known in (self.publishers, self.acknowledged, self.begins):
                known.pop(source, None)
        return forgotten

    def skip_what_is_lost(self, stability: Stability, before: float, now: float) -> None:
        """Give up messages that neither their publisher nor any distributor has, as far as was heard since
        the time `before`; all distributors that had them are gone."""
        for source, (stable, told_at) in list(self.begins.items()):
            mine = self.log.source(source, now).high
            if mine >= stable:
                del self.begins[source]
            elif told_at <= before and stability.highest((self.name, source)) <= mine:
                self.skip(source, stable, now)
