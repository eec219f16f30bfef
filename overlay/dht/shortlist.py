"""The candidates of one lookup, nearest first: whom to ask next, and when it is over.

Kademlia's lookup without rounds. While it approaches, alpha requests are in flight; as soon as one is
answered or overdue the next leaves. Once the nearest candidate has answered and so knew nobody
nearer, all of the k nearest are asked at once. An overdue request keeps waiting but gives up its place
in the window, and further candidates are asked in its stead. The lookup is over when the k nearest
candidates that did not fail have all answered: under any loss and any number of crashed nodes,
these are the k nearest live ones as far as anybody asked knows any.

Where some of the near ones are dead, those who do not know it yet name them, and so leave out as many
live ones at the end of their replies. So with F dead or overdue ones nearer than the k-th of the others,
the nearest peers are asked (again, if they were before) to name k + F contacts.

A peer vouches for those it names. It has a little credit, which grows by one with each of them that
answers and shrinks by one with each that is overdue. A candidate for whom nobody with credit vouches is
left out while there are enough others: who invents nodes wastes a few requests, and hides nobody whom
others name too. Where many have died at once, all who are near name the dead first and lose their credit
by it: so candidates that several vouch for are asked nevertheless, up to k that do not answer.

Bounded whatever peers reply: `budget` requests in all, the contacts asked for taken from each reply, four
addresses tried for one id (a peer that names a wrong address for an id must not keep the right one
from being tried).
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Sequence
from enum import Enum, auto

from overlay.contact import PeerId
from overlay.dht.upstream import RoutedPeer

ADDRESSES_AN_ID = 4

VOUCHERS = 8
"""Peers that can vouch for one candidate: the first to name it."""

FIRST_CREDIT = 4

MOST_REACH = 64
"""Contacts that one reply may be asked for."""


class _State(Enum):
    NEW = auto()
    ASKED = auto()
    OVERDUE = auto()
    ANSWERED = auto()
    OUT = auto()


# Names of a module are found faster than members of an enumeration, and every reply looks at all candidates.
_NEW, _ASKED, _OVERDUE, _ANSWERED, _OUT = _State


class _Candidate:
    __slots__ = (
        "addresses",
        "credit",
        "distance",
        "hops",
        "peer",
        "reach",
        "state",
        "tried",
        "vouchers",
    )

    def __init__(
        self, peer: RoutedPeer, distance: int, hops: int, voucher: _Candidate | None
    ) -> None:
        self.peer = peer
        self.distance = distance
        self.hops = hops
        self.state = _NEW
        self.addresses = [peer]
        self.tried = 0
        self.reach = 0
        self.credit = FIRST_CREDIT
        self.vouchers = [] if voucher is None else [voucher]

    @property
    def is_credible(self) -> bool:
        """Somebody with credit vouches for it, or this node knows it itself."""
        vouchers = self.vouchers
        return not vouchers or any(voucher.credit > 0 for voucher in vouchers)


def _not_overdue(candidates: list[_Candidate]) -> list[_Candidate]:
    return [candidate for candidate in candidates if candidate.state is not _OVERDUE]


class Shortlist:
    """The state of one lookup; a core: it is told what happened and says whom to ask."""

    def __init__(self, target: int, k: int, alpha: int, budget: int, least_reach: int = 0) -> None:
        """`least_reach`: contacts that every peer is asked for at least, though `k` are looked for."""
        self._least_reach = least_reach
        self._target = target
        self._k = k
        self._alpha = alpha
        self._budget = budget
        self._in_window = 0
        self._candidates: list[_Candidate] = []
        self._distances: list[int] = []
        self._dead: list[int] = []
        self._discredited = 0
        self._vain = 0
        """Candidates without credit that were asked nevertheless, and did not answer."""
        self._overdue = 0
        self._by_id: dict[PeerId, _Candidate] = {}
        self._by_entry: dict[bytes, _Candidate] = {}
        self.asked = 0
        """Requests so far."""

    def unknown(self, entries: Sequence[bytes], introduced_by: RoutedPeer) -> list[bytes]:
        """Those of a reply's entries that are not candidates yet; for the others the peer vouches as well."""
        voucher = self._by_id[introduced_by.id]
        fresh: list[bytes] = []
        for entry in entries[: voucher.reach]:
            known = self._by_entry.get(entry)
            if known is None:
                fresh.append(entry)
            elif 0 < len(known.vouchers) < VOUCHERS:
                known.vouchers.append(voucher)
        return fresh

    def add(self, peers: Sequence[RoutedPeer], introduced_by: RoutedPeer | None = None) -> None:
        """Candidates from this node's own table, or from the reply of one of them, nearest first."""
        voucher = None if introduced_by is None else self._by_id.get(introduced_by.id)
        hops, most = (1, self._k) if voucher is None else (voucher.hops + 1, voucher.reach)
        for peer in peers[:most]:
            known = self._by_id.get(peer.id)
            if known is None:
                self._insert(_Candidate(peer, peer.long_id ^ self._target, hops, voucher))
            else:
                self._add_address(known, peer)

    def add_self(self, peer: RoutedPeer) -> None:
        """This node takes part in the DHT, and need not be asked."""
        candidate = _Candidate(peer, peer.long_id ^ self._target, 0, None)
        candidate.state = _ANSWERED
        candidate.reach = MOST_REACH
        self._insert(candidate)

    def rule_out(self, peers: Sequence[RoutedPeer], introduced_by: RoutedPeer) -> None:
        """These were named by a reply, and are known to be dead."""
        voucher = self._by_id.get(introduced_by.id)
        for peer in peers[:MOST_REACH]:
            if peer.id not in self._by_id:
                candidate = _Candidate(peer, peer.long_id ^ self._target, 0, voucher)
                candidate.tried = 1
                self._by_id[peer.id] = candidate
                self._by_entry[peer.entry] = candidate
                self._leave(candidate)

    def next_to_ask(self) -> list[tuple[RoutedPeer, int]]:
        """Whom to ask now, and for how many contacts; they count as asked."""
        sound, reach = self._sound()
        if reach > self._k and all(c.state is _ANSWERED for c in sound):
            for candidate in self._too_short(sound, reach):
                candidate.state = _NEW
        window = self._k if sound and sound[0].state is _ANSWERED else self._alpha
        room = min(window - self._in_window, self._budget - self.asked)
        chosen = [c for c in sound if c.state is _NEW][: max(room, 0)]
        # Where some are missing more will be: to ask for a few more now saves asking again.
        ample = max(min(2 * reach - self._k, MOST_REACH), self._least_reach)
        for candidate in chosen:
            candidate.state = _ASKED
            candidate.reach = ample
        self._in_window += len(chosen)
        self.asked += len(chosen)
        return [(candidate.peer, ample) for candidate in chosen]

    def answered(self, peer: RoutedPeer) -> None:
        candidate = self._by_id.get(peer.id)
        if candidate is not None:
            self._leave_window(candidate)
            candidate.state = _ANSWERED
            self._reward_vouchers(candidate, +1)

    def overdue(self, peer: RoutedPeer) -> None:
        """`peer` should have answered by now; it is still waited for."""
        candidate = self._by_id.get(peer.id)
        if candidate is not None and candidate.state is _ASKED:
            self._leave_window(candidate)
            candidate.state = _OVERDUE
            self._overdue += 1
            self._vain += not candidate.is_credible
            self._reward_vouchers(candidate, -1)

    def failed(self, peer: RoutedPeer) -> None:
        """`peer` is given up: another address of the same id is tried, or the id is out."""
        candidate = self._by_id.get(peer.id)
        if candidate is None or candidate.state is _OUT:
            return
        self._leave_window(candidate)
        candidate.tried += 1
        if candidate.tried < len(candidate.addresses):
            candidate.peer = candidate.addresses[candidate.tried]
            candidate.state = _NEW
        else:
            index = bisect_left(self._distances, candidate.distance)
            del self._candidates[index], self._distances[index]
            self._leave(candidate)

    @property
    def is_finished(self) -> bool:
        """Nothing that may still come can change the result."""
        if self.asked >= self._budget:
            return self._in_window == 0
        sound, reach = self._sound()
        for candidate in sound:
            if candidate.state is not _ANSWERED:
                return False
        return not self._too_short(sound, reach) and not self._awaited(sound)

    def result(self) -> list[RoutedPeer]:
        """The k nearest that have answered so far, nearest first."""
        return [c.peer for c in self._candidates if c.state is _ANSWERED][: self._k]

    def near(self, count: int) -> list[RoutedPeer]:
        """The nearest that did not fail, nearest first, whether they were asked or only named."""
        return [c.peer for c in _not_overdue(self._candidates)][:count]

    @property
    def hops(self) -> int:
        """How many peers in a row had to be asked until the nearest of the result was found."""
        answered = (c.hops for c in self._candidates if c.state is _ANSWERED)
        return next(answered, 0)

    def _sound(self) -> tuple[list[_Candidate], int]:
        """The k nearest that are credible and not overdue, and how many contacts to ask them for."""
        if not (self._overdue or self._dead or self._discredited):
            return self._candidates[: self._k], self._k
        considered = self._considered()
        sound = _not_overdue(considered)[: self._k]
        if len(sound) < self._k:
            missing = len(self._dead) + len(considered) - len(sound)
        else:
            last = sound[-1].distance
            nearer = sum(candidate.distance <= last for candidate in considered)
            missing = bisect_left(self._dead, last) + nearer - self._k
        return sound, min(self._k + missing, MOST_REACH)

    def _considered(self) -> list[_Candidate]:
        """The credible candidates; all, if the credible ones are too few for a result."""
        if self._discredited:
            credible = [candidate for candidate in self._candidates if self._counts(candidate)]
            if len(_not_overdue(credible)) >= self._k:
                return credible
        return self._candidates

    def _counts(self, candidate: _Candidate) -> bool:
        if candidate.is_credible:
            return True
        return len(candidate.vouchers) > 1 and (candidate.state is not _NEW or self._vain < self._k)

    def _too_short(self, sound: list[_Candidate], reach: int) -> list[_Candidate]:
        """Those of the nearest who were asked for too few, when fewer were known to be dead."""
        nearest = sound[: self._alpha] if reach > self._k else []
        return [candidate for candidate in nearest if candidate.reach < reach]

    def _awaited(self, sound: list[_Candidate]) -> bool:
        """Whether somebody overdue would belong to the result, if he still answered."""
        if not self._overdue:
            return False
        is_full = len(sound) == self._k
        for candidate in self._considered():
            if is_full and candidate.distance > sound[-1].distance:
                return False
            if candidate.state is _OVERDUE:
                return True
        return False

    def _reward_vouchers(self, candidate: _Candidate, credit: int) -> None:
        for voucher in candidate.vouchers:
            before = voucher.credit
            voucher.credit += credit
            self._discredited += (voucher.credit <= 0) - (before <= 0)

    def _leave_window(self, candidate: _Candidate) -> None:
        if candidate.state is _ASKED:
            self._in_window -= 1
        elif candidate.state is _OVERDUE:
            self._overdue -= 1

    def _leave(self, candidate: _Candidate) -> None:
        candidate.state = _OUT
        if candidate.is_credible or len(candidate.vouchers) > 1:
            insort(self._dead, candidate.distance)

    def _insert(self, candidate: _Candidate) -> None:
        index = bisect_left(self._distances, candidate.distance)
        self._distances.insert(index, candidate.distance)
        self._candidates.insert(index, candidate)
        self._by_id[candidate.peer.id] = candidate
        self._by_entry[candidate.peer.entry] = candidate

    def _add_address(self, candidate: _Candidate, peer: RoutedPeer) -> None:
        if len(candidate.addresses) == ADDRESSES_AN_ID:
            return
        if any(peer.contact == known.contact for known in candidate.addresses):
            return
        candidate.addresses.append(peer)
        self._by_entry[peer.entry] = candidate
        if candidate.state is _OUT:
            candidate.peer = peer
            candidate.state = _NEW
            index = bisect_left(self._dead, candidate.distance)
            if self._dead[index : index + 1] == [candidate.distance]:
                del self._dead[index]
            self._insert(candidate)
