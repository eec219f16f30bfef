"""A service at one distributor: its messages, its local subscribers, and the publishers that come here."""

from __future__ import annotations

from overlay.contact import Contact
from pubsub.distributors.config import DistributorConfig
from pubsub.distributors.messages import Publication
from pubsub.distributors.protocol.fanout import Fanout
from pubsub.distributors.protocol.service_log import ServiceLog
from pubsub.distributors.protocol.stability import Stability


class Service:
    """Created by a publisher, or publicised by another distributor."""

    def __init__(self, log: ServiceLog, fanout: Fanout, config: DistributorConfig) -> None:
        self.name = log.service
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
        self._config = config

    @property
    def is_crowded(self) -> bool:
        """Whether new publishers have to wait."""
        return len(self.log.sources) >= 2 * self._config.most_sources

    @property
    def is_full(self) -> bool:
        """Whether publications have to wait."""
        return self.log.bytes >= self._config.buffer_bytes

    def take(self, publication: Publication, now: float) -> bool:
        """Add a message to the log and to what the subscribers are sent; False if it is not new."""
        before = self.log.last
        is_new = self.log.add(publication, now)
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
                limit = limits[source] = stability.releasable((self.name, source), mine)
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
