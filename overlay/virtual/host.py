"""Hosts: an IP address of 127.0.0.0/8, its clock, its speed and its present life.

Whatever runs on a host runs in a context that names the host's present `Incarnation`; tasks, timers and
callbacks made there inherit it, as context variables do. A crash ends the incarnation, and the loop runs
nothing of an ended one; a restart begins the next.
"""

from __future__ import annotations

import math
from contextvars import Context, ContextVar, copy_context

from overlay.errors import NetworkError, UsageError
from overlay.virtual.stats import HostStats

FIRST_EPHEMERAL_PORT = 32768
TURN = 0.0001
"""Seconds that a datagram or a timer takes a host of slowness 1, on which it is not modelled: there it
is far below any latency."""
HEADERS = 28
"""Bytes of the IP and UDP headers, which take their share of a link's bandwidth."""


class HostCrashed(NetworkError):
    """What was waited for ran on a host that has crashed."""


class Incarnation:
    """One life of a host, from its start to its crash."""

    __slots__ = ("alive", "host")

    def __init__(self, host: Host) -> None:
        self.host = host
        self.alive = True

    def context(self) -> Context:
        """A copy of the caller's context that belongs to this incarnation."""
        context = copy_context()
        context.run(RUNNING_ON.set, self)
        return context


RUNNING_ON: ContextVar[Incarnation | None] = ContextVar("RUNNING_ON", default=None)
"""The incarnation that the running code belongs to; none for the code that drives the whole run."""


class Host:
    """A machine of the virtual network: what outlives a crash, and the present incarnation."""

    __slots__ = (
        "_downlink_free",
        "_turn_free",
        "_uplink_free",
        "address",
        "bandwidth",
        "clock_offset",
        "clock_rate",
        "delivered",
        "delivered_bytes",
        "incarnation",
        "lost",
        "lost_bytes",
        "next_port",
        "number",
        "queues",
        "sent",
        "sent_bytes",
        "slowness",
    )

    def __init__(self, address: str, bandwidth: float | None = None) -> None:
        self.address = address
        self.number = host_number(address)
        self.incarnation = Incarnation(self)
        self.next_port = FIRST_EPHEMERAL_PORT
        self.clock_offset = 0.0
        self.clock_rate = 1.0
        self.slowness = 1.0
        self.bandwidth = bandwidth
        self.queues = bandwidth is not None
        self._uplink_free = self._downlink_free = self._turn_free = 0.0
        self.sent = self.sent_bytes = 0
        self.delivered = self.delivered_bytes = 0
        self.lost = self.lost_bytes = 0

    @property
    def is_up(self) -> bool:
        return self.incarnation.alive

    def restart(self) -> None:
        """Begin the next life, with empty queues."""
        self.incarnation = Incarnation(self)
        self._uplink_free = self._downlink_free = self._turn_free = 0.0

    # -- its clock --

    def clock(self, now: float) -> float:
        """What this host's clock shows at the true time `now`."""
        return self.clock_offset + self.clock_rate * now

    def true_time(self, shown: float) -> float:
        """The first moment at which this host's clock shows `shown` or more, never a rounding before it.

        A timer that fired just before its moment would be set again for the same true time, for ever.
        """
        when = (shown - self.clock_offset) / self.clock_rate
        while self.clock(when) < shown:
            when = max(math.nextafter(when, math.inf), when + math.ulp(shown) / self.clock_rate)
        return when

    # -- its speed --

    def slow_down(self, factor: float) -> None:
        self.slowness = factor
        self.queues = True

    def limit(self, bandwidth: float | None) -> None:
        self.bandwidth = bandwidth
        self.queues = True

    def uplink(self, now: float, size: int) -> float:
        """Send one datagram after another: when this one has left."""
        self._uplink_free = self._after(self._uplink_free, now, self._seconds_on_link(size))
        return self._uplink_free

    def downlink(self, now: float, size: int) -> float:
        """Take in one datagram after another, then handle it: when the program has this one."""
        self._downlink_free = self._after(self._downlink_free, now, self._seconds_on_link(size))
        return self.turn(self._downlink_free)

    def turn(self, now: float) -> float:
        """Handle one thing after another: when this one is done. A host at full speed takes no time."""
        cost = TURN * self.slowness if self.slowness > 1 else 0.0
        self._turn_free = self._after(self._turn_free, now, cost)
        return self._turn_free

    def _seconds_on_link(self, size: int) -> float:
        return 0.0 if self.bandwidth is None else (size + HEADERS) / self.bandwidth

    @staticmethod
    def _after(free: float, now: float, cost: float) -> float:
        return max(free, now) + cost

    def stats(self) -> HostStats:
        return HostStats(
            self.sent,
            self.sent_bytes,
            self.delivered,
            self.delivered_bytes,
            self.lost,
            self.lost_bytes,
        )


def host_number(address: str) -> int:
    """The 32 bits of an address of 127.0.0.0/8; `UsageError` for any other text."""
    parts = address.split(".")
    if len(parts) == 4 and parts[0] == "127" and all(map(_is_octet, parts)):
        return int.from_bytes(bytes(map(int, parts)), "big")
    raise UsageError(f"{address!r} is no virtual host: hosts are the addresses of 127.0.0.0/8")


def nth_host(n: int) -> str:
    """The address of the n-th host, counted from 127.0.0.1 as number 0."""
    if not 0 <= n < (1 << 24) - 2:
        raise UsageError(
            f"there is no host number {n}: hosts are numbered from 0 to {(1 << 24) - 3}"
        )
    return ".".join(map(str, ((127 << 24) + 1 + n).to_bytes(4, "big")))


def _is_octet(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) < 256 and str(int(text)) == text
