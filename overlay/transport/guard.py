"""Who floods this node, and what is dropped of it before it costs anything.

A datagram is *useless* when it is dropped (rubbish, altered, repeated, of an unknown session) or when a
layer above says that nobody honest sends what it brought (`Endpoint.useless`); so is the opening of a
session, of which each costs much. Others of a kind that strangers may send, questions to the DHT and probes,
and what a peer has no right to say, count as a quarter of it. Honest peers send few of these. A block
of addresses (a /24, a /64) that sends more than `limit` in a second *floods*; a quarter of it is enough while
the node cannot keep up with what arrives. From then on all that comes from the block is dropped unread, but
for

- what comes from *friends*: the addresses of peers that this node has a session or a channel with, as long
  as that one address does not send too much itself; in a network with a key, only in the session;
- one datagram of `SAMPLE` or, while that is much, of up to `SPARSEST`: by these the end of the flood is
  noticed, and they let a newcomer in, late. So a larger flood costs no more than a smaller one.

Where the transport can, it drops in the kernel (`overlay.transport.kernel_filter`): a flood then fills
neither the socket's buffer nor a processor. Who forges the addresses of others can have strangers of that
block dropped as well; in a network with a key, no friend.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import inf
from typing import Any, NamedTuple, Protocol

from overlay.context import Timer
from overlay.metrics import Metrics
from overlay.transport.address import block_of, plain_host

PERIOD = 0.25
"""Seconds over which useless datagrams are counted, and after which friends are looked up again."""

RUBBISH, QUESTION = 4, 1
"""What a useless datagram counts, and one that may come of an honest stranger."""

BEHIND = 4
"""By how much the limit is lower for a node that cannot keep up."""

SAMPLE, SPARSEST = 16, 64
"""One of as many datagrams of a flood is handled, powers of two; of a larger flood a smaller part."""

SAMPLES = 32
"""Datagrams of floods that are handled in a period; when there were more, fewer of the next are."""

MAX_BLOCKS = 4096
"""Blocks that are counted in one period; floods from more of them are not told apart."""

MAX_FLOODS = 64
"""Blocks that are dropped at one time."""

MAX_FRIENDS = 512
"""Friends in flooding blocks whose datagrams are still taken."""

_INDEX = slice(4, 8)
"""Where a sealed datagram, and an answer to an opening, names the receiver's session."""


class Friend(NamedTuple):
    """An address whose datagrams are taken even if its block floods."""

    host: str
    port: int
    session: int | None
    """The index of the session that its datagrams must name; None in a network without a key."""


@dataclass(frozen=True)
class Refusal:
    """What a transport may drop before it is received."""

    blocks: tuple[str, ...]
    friends: tuple[Friend, ...]
    sample: int = SAMPLE
    """One of as many of the rest is let through."""


NOTHING = Refusal((), ())


class GuardCarrier(Protocol):
    """What a guard needs of its endpoint."""

    def now(self) -> float: ...

    def call_at(self, when: float, action: Callable[[], None], /) -> Timer: ...

    def friends(self) -> Iterable[Friend]:
        """All addresses of peers that this node has a session, or else a channel, with."""
        ...

    def refuse(self, refusal: Refusal | None) -> bool:
        """Have the transport drop all of these but a sample; None ends it. Whether the transport does."""
        ...


class FloodGuard:
    """Counts useless datagrams by block of addresses; see the module for the promises."""

    def __init__(self, limit: int, carrier: GuardCarrier, metrics: Metrics) -> None:
        """`limit`: useless datagrams a second from one block."""
        self._limit = RUBBISH * max(1, round(limit * PERIOD))
        self._carrier = carrier
        self._now = carrier.now
        self._since = 0.0
        self._by_block: dict[str, int] = {}
        self._by_friend: Counter[tuple[str, int]] = Counter()
        self.floods: dict[str, float] = {}
        """Blocks that are dropped, and since when."""
        self._refusal = NOTHING
        self._friends: dict[tuple[str, int], set[int | None]] = {}
        """The same friends, by address."""
        self._in_kernel_since = inf
        self.is_behind = False
        """Whether something had to wait to be handled in this period."""
        self._sample = SAMPLE
        self._met = self._sampled = 0
        """Datagrams of floods that came to this process, and those that were handled in this period."""
        self._timer: Timer | None = None
        self._begun = metrics.counter("floods", "Blocks of addresses that began to flood this node")
        self._filtered = metrics.counter(
            "floods_filtered", "Times that the kernel was told whose datagrams to drop"
        )
        self._dropped = metrics.counter(
            "flood_datagrams_dropped", "Datagrams of floods that this process dropped unread"
        )

    def count(self, source: tuple[Any, ...], weight: int, is_proven: bool = False) -> None:
        """A datagram came from this address, `RUBBISH` or a `QUESTION`.

        `is_proven`: in a network with a key, a peer of a session has sent it."""
        now = self._now()
        if now - self._since >= PERIOD and not self.floods:
            self._begin_period(now)
        block = block_of(source[0])
        counts = self._by_block
        if block not in counts and len(counts) >= MAX_BLOCKS:
            return
        is_sampled = False
        if block in self.floods:
            address = plain_host(source[0]), source[1]
            is_sampled = address not in self._friends
            self._sampled += is_sampled
            if is_proven and not is_sampled:
                self._by_friend[address] += weight
                if self._by_friend[address] >= self._limit:
                    self._refuse()
        counts[block] = counts.get(block, 0) + (self._sample * weight if is_sampled else weight)
        limit = self._limit // BEHIND if self.is_behind else self._limit
        if counts[block] > limit and not is_sampled:
            self._begin(block, now)

    def drops(self, data: bytes, source: tuple[Any, ...]) -> bool:
        """Whether a datagram, or a train, is of a flood and not taken; asked while there are `floods`."""
        if block_of(source[0]) not in self.floods:
            return False
        indexes = self._friends.get((plain_host(source[0]), source[1]))
        if indexes is not None and (
            None in indexes or int.from_bytes(data[_INDEX], "big") in indexes
        ):
            return False
        if self._now() - self._in_kernel_since > PERIOD:
            return False  # what had come before the kernel dropped them is gone: this is a sample
        self._met += 1
        if self._met % self._sample == 0:
            return False
        self._dropped.value += 1
        return True

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def _begin(self, block: str, now: float) -> None:
        if block in self.floods or len(self.floods) >= MAX_FLOODS:
            return
        self._begun.value += 1
        self.floods[block] = now
        self._refuse()
        if self._timer is None:
            self._timer = self._carrier.call_at(now + PERIOD, self._look)

    def _look(self) -> None:
        """Let go of floods that have ended, and look up who is a friend now."""
        now = self._now()
        self._timer = None
        for block, began in list(self.floods.items()):
            if now - began >= PERIOD and self._by_block.get(block, 0) < self._limit / (2 * BEHIND):
                del self.floods[block]
        self._sample = self._next_sample() if self.floods else SAMPLE
        self._begin_period(now)
        self._refuse()
        if self.floods:
            self._timer = self._carrier.call_at(now + PERIOD, self._look)

    def _next_sample(self) -> int:
        """About `SAMPLES` of the next period, if it is as the one that ends."""
        wanted = self._sample * self._sampled / SAMPLES
        sample = SAMPLE
        while sample < min(wanted, SPARSEST):
            sample *= 2
        return sample

    def _begin_period(self, now: float) -> None:
        self._since = now
        self.is_behind = False
        self._sampled = 0
        self._by_block.clear()
        self._by_friend.clear()

    def _refuse(self) -> None:
        """Drop what floods now; in the kernel where that can be."""
        refusal = Refusal(tuple(self.floods), tuple(self._friends_in_floods()), self._sample)
        if refusal == self._refusal:
            return
        self._refusal = refusal
        self._friends = {}
        for host, port, index in refusal.friends:
            self._friends.setdefault((host, port), set()).add(index)
        if not self._carrier.refuse(refusal if self.floods else None) or not self.floods:
            self._in_kernel_since = inf
            return
        self._filtered.value += 1
        self._in_kernel_since = min(self._in_kernel_since, self._now())

    def _friends_in_floods(self) -> list[Friend]:
        if not self.floods:
            return []
        found = {
            friend
            for friend in self._carrier.friends()
            if block_of(friend.host) in self.floods
            and self._by_friend[friend.host, friend.port] < self._limit
        }
        return sorted(found, key=str)[:MAX_FRIENDS]
