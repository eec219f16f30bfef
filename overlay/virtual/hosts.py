"""Hosts, the places at which they listen, and what is counted of each.

A host is an IP address of 127.0.0.0/8 with its clock, its speed and its present life. Whatever runs on a host
runs in a context that names the host's present `Incarnation`; tasks, timers and callbacks made there inherit
the context. A crash ends the incarnation, and the loop runs nothing of an ended one; a restart begins the
next. A place is an address that datagrams are sent to, with the socket that is bound there, if there is one.
"""

from __future__ import annotations

import enum
import errno
import math
import os
from contextvars import Context, ContextVar, copy_context
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from overlay.contact import Address
from overlay.errors import NetworkError, UsageError

if TYPE_CHECKING:
    from overlay.virtual.transport import VirtualTransport


class Loss(enum.IntEnum):
    """Why a datagram never reached a socket."""

    CHANCE = 1
    """The network's or the link's loss rate."""
    PARTITION = 2
    """A partition lay between the two hosts when it was sent or when it would have arrived."""
    RULE = 3
    """A rule dropped it."""
    NO_SOCKET = 4
    """Nobody listened at its destination, or the socket was connected to somebody else."""
    CRASH = 5
    """The host that held it, or that it was meant for, was down."""
    OVERFLOW = 6
    """The receive buffer of its destination was full."""
    UNREACHABLE = 7
    """The packet's destination is not a host of this network."""


@dataclass(frozen=True)
class HostStats:
    """The datagrams of one host: those it sent, those it was handed, those it sent and that were lost."""

    sent: int = 0
    sent_bytes: int = 0
    delivered: int = 0
    delivered_bytes: int = 0
    lost: int = 0
    lost_bytes: int = 0


@dataclass(frozen=True)
class Stats(HostStats):
    """The datagrams of a whole network.

    A duplicate is delivered or lost like any other, and not counted as sent:
    sent + duplicated = delivered + lost + those on their way.
    """

    duplicated: int = 0
    corrupted: int = 0
    lost_by: dict[str, int] = field(default_factory=dict)
    """Datagrams lost, by the lower-case name of the `Loss`."""
    hosts: dict[str, HostStats] = field(default_factory=dict)
    """The same for each host, by its address."""


def total(
    hosts: dict[str, HostStats], duplicated: int, corrupted: int, lost_by: dict[Loss, int]
) -> Stats:
    """The stats of a network from those of its hosts."""
    rows = list(hosts.values())
    return Stats(
        sent=sum(row.sent for row in rows),
        sent_bytes=sum(row.sent_bytes for row in rows),
        delivered=sum(row.delivered for row in rows),
        delivered_bytes=sum(row.delivered_bytes for row in rows),
        lost=sum(row.lost for row in rows),
        lost_bytes=sum(row.lost_bytes for row in rows),
        duplicated=duplicated,
        corrupted=corrupted,
        lost_by={reason.name.lower(): count for reason, count in lost_by.items()},
        hosts=hosts,
    )


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
        "is_skewed",
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
        self.is_skewed = False
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

    def skew(self, offset: float, rate: float) -> None:
        self.clock_offset, self.clock_rate = offset, rate
        self.is_skewed = True

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
    raise UsageError(f"{address!r} is not a virtual host: hosts are the addresses of 127.0.0.0/8")


def nth_host(n: int) -> str:
    """The address of the n-th host, counted from 127.0.0.1 as number 0."""
    if not 0 <= n < (1 << 24) - 2:
        raise UsageError(
            f"there is no host number {n}: hosts are numbered from 0 to {(1 << 24) - 3}"
        )
    return ".".join(map(str, ((127 << 24) + 1 + n).to_bytes(4, "big")))


def _is_octet(text: str) -> bool:
    return text.isascii() and text.isdigit() and int(text) < 256 and str(int(text)) == text


class HostPlace:
    """One address of the network, and the socket that is bound there now."""

    __slots__ = ("address", "host", "key", "name", "socket")

    def __init__(self, address: Address, host: Host | None) -> None:
        self.address = address
        self.name = (address.host, address.port)
        """The address as programs get it from a socket, a plain tuple."""
        self.host = host
        """None for an address that is not a host of this network."""
        self.key = 0 if host is None else host.number << 16 | address.port
        """The address as a number, for the trace."""
        self.socket: VirtualTransport | None = None


DEFAULT_HOST = "127.0.0.1"
"""Where code that runs on no host binds when it names no address."""
_LAST_PORT = 65_535


class SocketTable:
    """All hosts of a network and all places on them, each from the moment that it is first named."""

    def __init__(self, bandwidth: float | None) -> None:
        self.hosts: dict[str, Host] = {}
        self.places: dict[tuple[str, int], HostPlace] = {}
        self._bandwidth = bandwidth

    def host(self, address: str) -> Host:
        """The host of an address; `UsageError` when it cannot be one."""
        host = self.hosts.get(address)
        if host is None:
            host = self.hosts[address] = Host(address, self._bandwidth)
        return host

    def place(self, address: tuple[str, int]) -> HostPlace:
        """The place of an address; any pair of a text and a port is one."""
        place = self.places.get(address)
        if place is None:
            host = resolve(address[0])
            place = self.places[address] = (
                self._new_place(Address(*address))
                if host == address[0]
                else self.place((host, address[1]))
            )
        return place

    def _new_place(self, address: Address) -> HostPlace:
        try:
            return HostPlace(address, self.host(address.host))
        except UsageError:
            return HostPlace(address, None)

    def choose(self, local: tuple[str, int] | None) -> tuple[Incarnation, HostPlace]:
        """Where to bind, as a kernel would: `OSError` when it cannot be had."""
        wanted, port = ("0.0.0.0", 0) if local is None else (resolve(local[0]), local[1])
        incarnation = self._incarnation(wanted)
        if not incarnation.alive:
            raise OSError(errno.ENETDOWN, f"the host {incarnation.host.address} is down")
        return incarnation, self._free_place(incarnation.host, port)

    def _incarnation(self, wanted: str) -> Incarnation:
        here = RUNNING_ON.get()
        if wanted == "0.0.0.0":
            return self.host(DEFAULT_HOST).incarnation if here is None else here
        if here is not None and here.host.address == wanted:
            return here
        try:
            there = self.host(wanted).incarnation
        except UsageError as unknown:
            raise OSError(errno.EADDRNOTAVAIL, str(unknown)) from None
        if here is not None:
            raise OSError(
                errno.EADDRNOTAVAIL, f"{wanted} is not an address of the host {here.host.address}"
            )
        return there

    def _free_place(self, host: Host, wanted: int) -> HostPlace:
        if wanted:
            place = self.place((host.address, wanted))
            if place.socket is not None:
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
            return place
        for port in range(host.next_port, _LAST_PORT + 1):
            place = self.place((host.address, port))
            if place.socket is None:
                host.next_port = port + 1
                return place
        raise OSError(errno.EADDRINUSE, f"{host.address} has no ephemeral port left")

    def vanish(self, host: Host | None = None) -> None:
        """Close the sockets of a host, or all, without a word to anybody."""
        for place in list(self.places.values()):
            if place.socket is not None and (host is None or place.host is host):
                place.socket.vanish()


def resolve(host: str) -> str:
    """The only name that needs no resolver."""
    return DEFAULT_HOST if host == "localhost" else host
