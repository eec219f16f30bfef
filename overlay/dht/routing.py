"""The contacts that a node knows: a table in buckets that are finer the nearer they are to its own id.

`RoutingTable` finds the exact k closest; `Contacts` keeps the table true: who is entered, who is checked,
who is thrown out, and who was lost and may come back.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Callable, Iterator

from overlay.bounded import remember
from overlay.contact import Contact, PeerId
from overlay.context import Context
from overlay.dht.config import DhtConfig
from overlay.dht.exchange import Call
from overlay.dht.trust import FailureMemory
from overlay.dht.upstream import Bucket, RoutedPeer, Target, peer_of
from overlay.metrics import Metrics

FRESH = 60.0
"""Seconds: a contact heard that lately is taken to be alive."""

RECENT = 5.0
"""Seconds: a contact heard that lately is taken to be alive even where others have just died."""

CHECKS_A_DEATH = 8
"""Contacts that are checked when one was found dead."""

LOST_CONTACTS = 256
"""Dead contacts that are remembered, to be tried again now and then: the network may only have been cut."""

FEW = 16
"""Contacts about as far away from here, below which a stranger that asks something is worth a question."""

MANY = 60
"""The same for one that needs no question."""

HEARD_CONTACTS = 8192
"""Contacts of which is remembered when they were heard last."""


class RoutingTable:
    """All contacts, in buckets that cover the id space once."""

    def __init__(self, own: RoutedPeer, k: int, clock: Callable[[], float]) -> None:
        self.own = own
        self.k = k
        self._clock = clock
        self.buckets: list[Bucket] = []
        self._firsts: list[int] = []
        """The first place of each bucket's range."""
        self.clear()

    def __len__(self) -> int:
        return sum(len(bucket) for bucket in self.buckets)

    def __iter__(self) -> Iterator[RoutedPeer]:
        for bucket in self.buckets:
            yield from bucket.nodes.values()

    def clear(self) -> None:
        self.buckets = [Bucket.of_everything(self.k, self._clock())]
        self._firsts = [0]

    def bucket_of(self, place: RoutedPeer | Target) -> Bucket:
        """Upstream (routing.py:175-183) looks for the last id of a bucket in the next bucket."""
        return self.bucket_at(place.long_id)

    def bucket_at(self, place: int) -> Bucket:
        """The bucket in whose range an id is."""
        return self.buckets[bisect_right(self._firsts, place) - 1]

    def used(self, place: Target) -> None:
        """Note that a lookup goes to that place: the nodes there become known by the lookup."""
        self.bucket_of(place).last_used = self._clock()

    def unused(self, seconds: float) -> list[Bucket]:
        """The buckets into whose range no lookup went for `seconds` seconds."""
        oldest = self._clock() - seconds
        return [bucket for bucket in self.buckets if bucket.last_used < oldest]

    def add(self, peer: RoutedPeer) -> RoutedPeer | None:
        """Enter a contact, or make it a spare one; then the one seen longest ago, to be checked.

        Upstream (routing.py:159-173) starts a ping, in a task that nobody holds, for each contact too many.
        """
        bucket = self.bucket_of(peer)
        if bucket.find(peer.id) is not None:
            bucket.refresh(peer)
            return None
        bucket.add(peer)
        while peer.id not in bucket.nodes:
            if not bucket.covers(self.own) and bucket.depth() % 5 == 0:
                return bucket.head()
            index = self._index_of(peer)
            self.buckets[index : index + 1] = halves = self.buckets[index].split()
            self._firsts[index : index + 1] = [half.range[0] for half in halves]
            bucket = self.bucket_of(peer)
        return None

    def remove(self, peer: RoutedPeer) -> None:
        self.bucket_of(peer).remove(peer)

    def has_use_for(self, peer: RoutedPeer, many: int) -> bool:
        """Whether an unknown contact is of use: it is one of the k nearest, or fewer than `many` are known
        that are about as far away. Of those far away a few lead as near to any place as many do."""
        own = self.own.long_id
        width = 1 << (peer.long_id ^ own).bit_length() - 1
        nearer = self._known_within(own & -width, width)
        alike = self._known_within((own ^ width) & -width, width)
        return nearer < self.k or alike < many

    def _known_within(self, first: int, width: int) -> int:
        """The contacts of the buckets that lie in a range of ids."""
        start, end = bisect_left(self._firsts, first), bisect_left(self._firsts, first + width)
        return sum([len(bucket.nodes) for bucket in self.buckets[start:end]])

    def closest(
        self,
        place: RoutedPeer | Target,
        count: int,
        sound: Callable[[list[RoutedPeer]], list[RoutedPeer]] = lambda peers: peers,
        exclude: RoutedPeer | None = None,
    ) -> list[RoutedPeer]:
        """The true closest of those that are `sound`, nearest first.

        Upstream (routing.py:103-120, 185-195) takes buckets from the left and the right in turn, which is
        not the order of the XOR distance, and leaves out a node whose id is the one looked for. Here the
        distance of any one id of a bucket orders the buckets, for each is one subtree and their distances
        do not overlap.
        """
        found: list[RoutedPeer] = []
        goal = place.long_id
        for bucket in self._nearest_first(goal):
            if bucket.nodes:
                peers = sorted(bucket.nodes.values(), key=lambda peer: peer.long_id ^ goal)
                if exclude is not None:
                    out, home = exclude.id, exclude.home
                    peers = [peer for peer in peers if peer.home != home and peer.id != out]
                found += sound(peers)
                if len(found) >= count:
                    break
        return found[:count]

    def _nearest_first(self, goal: int) -> Iterator[Bucket]:
        """The bucket that a place is in, and the others in the order of their distances.

        The first alone mostly has enough, and then the others, some eighty of them, are not ordered.
        """
        own = self.bucket_at(goal)
        yield own
        others = {bucket.range[0] ^ goal: bucket for bucket in self.buckets if bucket is not own}
        for first in sorted(others):
            yield others[first]

    def _index_of(self, place: RoutedPeer | Target) -> int:
        return bisect_right(self._firsts, place.long_id) - 1


class Contacts:
    """The table of one node, kept true by what is heard and not heard.

    `ping(contact)` asks a contact for a sign of life; how the call ends is told by `answered` and `failed`.
    """

    def __init__(
        self, context: Context, config: DhtConfig, metrics: Metrics, ping: Callable[[Contact], Call]
    ) -> None:
        self._config = config
        self._clock = context.now
        self._ping = ping
        self.own = peer_of(context.contact)
        self.table = RoutingTable(self.own, config.k, context.now)
        self.failures = FailureMemory(config.dead_for, config.distrusted_for)
        self.lost: OrderedDict[Contact, float] = OrderedDict()
        """Contacts that were found dead, and when; the one lost longest ago first."""
        self._last_heard: OrderedDict[PeerId, float] = OrderedDict()
        """The one heard longest ago first; all contacts of the table, its spare ones, and some that were."""
        self._probing: dict[Contact, Call] = {}
        self.on_new: Callable[[RoutedPeer], None] = lambda peer: None
        """Told of each contact that enters the table."""
        self.on_return: Callable[[RoutedPeer], None] = lambda peer: None
        """Told of each contact that was lost and answers again."""
        self._evicted = metrics.family("dht_evicted", "reason", "Contacts removed")

    def closest(
        self,
        place: RoutedPeer | Target,
        count: int | None = None,
        exclude: RoutedPeer | None = None,
    ) -> list[RoutedPeer]:
        """The closest of the table that are not avoided; k unless a count is given."""
        return self.table.closest(place, count or self._config.k, self.sound, exclude)

    # What was heard.

    def requested(self, peer: RoutedPeer, is_proven: bool) -> None:
        """`peer` asked something: a sign of life, and a possible contact. One that has proven who and where
        it is becomes a contact at once; another one is asked for a sign of life if it is needed.

        Upstream (protocol.py:84-112) does not notice a known contact's new address nor its sign of life.
        """
        if peer.id == self.own.id:
            return
        self.failures.heard(peer.contact)
        if self._touch(peer) or self.is_avoided(peer):
            return
        if self.table.has_use_for(peer, MANY if is_proven else FEW):
            if is_proven:
                self._enter(peer)
            else:
                self._probe(peer.contact)

    def answered(self, call: Call, peer: RoutedPeer, from_light: bool) -> None:
        """`peer` answered `call`: it is entered, unless it is a light member."""
        self._is_over(call, peer)
        self.failures.heard(peer.contact)
        if not from_light:
            self._enter(peer)
        elif self._knows(peer):
            self._remove(peer, "light")

    def failed(self, call: Call, peer: RoutedPeer) -> None:
        """`peer` did not answer `call`: dead if that only asked for a sign of life; else it is asked for one.

        Upstream (protocol.py:119) evicts at the first time-out."""
        was_probe = self._probing.get(peer.contact) is call
        self._is_over(call, peer)
        failures = self.failures.failed(peer.contact, self._clock())
        if not self._knows(peer):
            return
        if failures < self._config.failures_to_evict and not was_probe:
            self._probe(peer.contact)
        else:
            self._remove(peer, "dead")
            remember(self.lost, peer.contact, self._clock(), LOST_CONTACTS)
            self._check_others()

    def excused(self, call: Call, peer: RoutedPeer) -> None:
        """`peer` did not answer `call`, and was not asked often enough for that to mean anything."""
        self._is_over(call, peer)

    def left(self, peer: RoutedPeer) -> None:
        """`peer` says that it closes: it is not named from now on, and asked whether it is gone."""
        if self._knows(peer):
            self.failures.failed(peer.contact, self._clock())
            self._probe(peer.contact)

    def punish(self, peer: RoutedPeer) -> None:
        """`peer` replied with nonsense: it loses its place and is not asked again for a while."""
        self._probing.pop(peer.contact, None)
        self.failures.offended(peer.contact, self._clock())
        self.lost.pop(peer.contact, None)
        if self._knows(peer):
            self._remove(peer, "malformed")

    # Whom to ask, and whom not.

    def is_avoided(self, peer: RoutedPeer) -> bool:
        return self.failures.avoids(peer.contact, self._clock())

    def sound(self, peers: list[RoutedPeer]) -> list[RoutedPeer]:
        """The peers among `peers` that are not avoided."""
        if not self.failures:
            return peers
        avoids, now = self.failures.avoids, self._clock()
        return [peer for peer in peers if not avoids(peer.contact, now)]

    def silent(self, count: int, silence: float = FRESH) -> list[RoutedPeer]:
        """At most `count` contacts of the table that were not heard for `silence` seconds, the one heard
        longest ago first."""
        limit = self._clock() - silence
        silent: list[RoutedPeer] = []
        forgotten: list[PeerId] = []
        for peer_id, heard in self._last_heard.items():
            if heard > limit or len(silent) == count:
                break
            bucket = self.table.bucket_at(int.from_bytes(peer_id, "big"))
            if (peer := bucket.nodes.get(peer_id)) is not None:
                silent.append(peer)
            elif peer_id not in bucket.spare:
                forgotten.append(peer_id)
        for peer_id in forgotten:
            del self._last_heard[peer_id]
        return silent

    def check(self, peer: RoutedPeer) -> None:
        """Ask a contact that was not heard lately whether it is still there."""
        if self._clock() - self._last_heard.get(peer.id, -FRESH) >= FRESH:
            self._probe(peer.contact)

    def probe_lost(self) -> None:
        """Ask those who were lost last whether they are back, as many as may be asked at once."""
        for contact in list(self.lost)[-self._config.probes_at_once :]:
            self._probe(contact)

    def _probe(self, contact: Contact) -> None:
        if contact not in self._probing and len(self._probing) < self._config.probes_at_once:
            self._probing[contact] = self._ping(contact)

    def _is_over(self, call: Call, peer: RoutedPeer) -> None:
        if self._probing and self._probing.get(peer.contact) is call:
            del self._probing[peer.contact]

    def _check_others(self) -> None:
        """Where one is dead there may be more: check a few, each of which may lead to a few more.

        So when over an eighth of the contacts have died the whole table is checked within seconds, and
        when they die one at a time it comes to nothing.
        """
        for peer in self.silent(CHECKS_A_DEATH, silence=RECENT):
            self._probe(peer.contact)

    # The table.

    def _knows(self, peer: RoutedPeer) -> bool:
        """Whether the table, or its spare part, holds `peer` at this very address."""
        known = self.table.bucket_of(peer).find(peer.id)
        return known is not None and known.contact == peer.contact

    def _touch(self, peer: RoutedPeer) -> bool:
        """If the table holds `peer` at this very address: now it is the one seen last."""
        bucket = self.table.bucket_of(peer)
        known = bucket.find(peer.id)
        if known is not peer and (known is None or known.contact != peer.contact):
            return False
        bucket.refresh(peer)
        remember(self._last_heard, peer.id, self._clock(), HEARD_CONTACTS)
        return True

    def _enter(self, peer: RoutedPeer) -> None:
        if self._touch(peer) or self.is_avoided(peer) or not peer.can_exist:
            return
        is_new = self.table.bucket_of(peer).find(peer.id) is None
        oldest = self.table.add(peer)
        remember(self._last_heard, peer.id, self._clock(), HEARD_CONTACTS)
        if oldest is not None:
            self.check(oldest)
        if is_new:
            self.on_new(peer)
        if peer.contact in self.lost:
            del self.lost[peer.contact]
            self.on_return(peer)

    def _remove(self, peer: RoutedPeer, reason: str) -> None:
        self._evicted.add(reason)
        self.table.remove(peer)
        self._last_heard.pop(peer.id, None)
