"""How long to wait for a reply, and how often to ask, from what was measured.

A round trip has two parts: the way to the peer and back, which is the peer's own and steady, and the time
spent in queues, most of it on this machine, which comes and goes and is the same for everybody. The
first is learnt for each peer as the shortest time lately, the second from all replies as in RFC 6298,

    time-out = way(peer) + smoothed queueing + 4 x its mean deviation,

so that a moment of heavy load is forgotten as fast for a peer that is seldom asked as for the others.

Every reply says which sending it answers, so each gives a sample, and tells how many sendings before it
were lost. From the share f of lost sendings follows the number of tries: the least n with f^n <= 10^-7. The
measured f may be too low by chance, so two of its standard errors are added. So a live peer is given up
about once in ten million requests, at any loss up to a third, and a dead one after three tries where nothing
is lost. A lookup asks tens of peers and is wrong if one of them is given up: 10^-5 would show.
"""

from __future__ import annotations

import math
from collections import OrderedDict

from overlay.contact import Address
from overlay.smoothed import Smoothed

FIRST_TIMEOUT = 0.5
"""Seconds, before anything is measured."""

LEAST_TIMEOUT = 0.03
"""Seconds: a busy process may take this long to get round to a datagram."""

LEAST_MARGIN = 0.02
"""Seconds above the expected round trip, however steady it is."""

FIRST_MARGIN = 0.1
"""The same at first: how steady round trips are shows only when peers answer a second time."""

MOST_TIMEOUT = 2.0
"""Seconds."""

LEAST_TRIES = 3
MOST_TRIES = 16
FIRST_TRIES = 5
"""How often a request is sent before anything is measured: an address may be a wrong one."""

FALSE_ALARMS = 1e-7
"""The share of requests to live peers that may fail."""

FIRST_LOSS = 0.05
"""The share of lost sendings assumed before anything is measured; it weighs as much as four sendings."""

LOSS_WEIGHT = 1 / 64
"""The weight of one sending in the measured loss; that of the first ones is greater."""

PEERS = 4096
"""Peers whose round trips are remembered: those heard last."""


class RoundTrips:
    """What one node has measured of its peers."""

    def __init__(self) -> None:
        self._ways: OrderedDict[Address, float] = OrderedDict()
        self._typical_way = Smoothed()
        self._queueing = Smoothed()
        self._queueing.smoothed, self._queueing.variation = 0.0, FIRST_MARGIN / 4
        self._loss = FIRST_LOSS
        self._loss_weight = 1 / 4

    def measured(self, address: Address, seconds: float, lost: int) -> None:
        """A reply came `seconds` after its request was sent; `lost` sendings before had no reply."""
        ways = self._ways
        way = ways.get(address)
        if way is None:  # the first reply of a peer does not tell how long it was in queues
            way = seconds
        else:
            longer = seconds - way
            self._queueing.sample(longer if longer > 0.0 else 0.0)
            way = way + longer / 8 if longer > 0.0 else seconds
        ways[address] = way
        ways.move_to_end(address)
        if len(ways) > PEERS:
            ways.popitem(last=False)
        self._typical_way.sample(way)
        for is_lost in [1.0] * lost + [0.0]:
            self._loss_weight = max(1 / (1 / self._loss_weight + 1), LOSS_WEIGHT)
            self._loss += (is_lost - self._loss) * self._loss_weight

    def timeout(self, address: Address, attempt: int = 0) -> float:
        """Seconds to wait for the reply to the given sending, counted from 0.

        1, 1, 1.25, 1.5, ... 2, 2, ... times the peer's time-out: the wait grows, but not enough for one lost
        datagram to hold a lookup up.
        """
        first = self._first_timeout(address)
        return first if attempt < 2 else first * min(1 + 0.25 * (attempt - 1), 2)

    def _first_timeout(self, address: Address) -> float:
        if self._typical_way.smoothed is None:
            return FIRST_TIMEOUT
        way = self._ways.get(address)
        if way is None:
            way = self._typical_way.expected(0.0)
        wanted = self._queueing.expected(LEAST_MARGIN, beside=way)
        return min(max(wanted, LEAST_TIMEOUT), MOST_TIMEOUT)

    @property
    def loss(self) -> float:
        """The share of sendings that get no reply from a live peer."""
        return self._loss

    @property
    def tries(self) -> int:
        """How often a request is sent before its peer is given up."""
        if self._typical_way.smoothed is None:
            return FIRST_TRIES
        error = math.sqrt(self._loss * (1 - self._loss) * self._loss_weight / 2)
        needed = math.ceil(math.log(FALSE_ALARMS) / math.log(min(self._loss + 2 * error, 0.9)))
        return min(max(needed, LEAST_TRIES), MOST_TRIES)
