"""What became of the datagrams: counted per host and in all."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field


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
    """Its destination is no host of this network."""


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
