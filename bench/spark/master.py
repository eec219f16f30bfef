"""The name of a Spark master: where it is, and whether anyone answers there."""

from __future__ import annotations

import socket

from bench.spark.errors import SparkError

LOCAL = "local[*]"
ACCEPT_SECONDS = 10.0
"""How long a master may take to accept a connection."""


def is_local(master: str) -> bool:
    """Whether Spark runs in one Java process that it starts itself."""
    return master.startswith("local")


def is_on_this_machine(master: str) -> bool:
    """Whether its executors can reach this process by way of loopback."""
    standalone = places(master)
    return is_local(master) or (bool(standalone) and all(_is_loopback(h) for h, _ in standalone))


def places(master: str) -> list[tuple[str, int]]:
    """Host and port of each standalone master that is named; none for other kinds of master."""
    if not master.startswith("spark://"):
        return []
    found = []
    for place in master.removeprefix("spark://").split(","):
        host, _, port = place.rpartition(":")
        if not host or not port.isdigit():
            raise SparkError(f"{master} is no master: write spark://HOST:PORT")
        found.append((host.strip("[]"), int(port)))
    return found


def check_master(master: str) -> None:
    """`SparkError` when no standalone master of that name is there: Spark itself would take a minute."""
    standalone = places(master)
    if standalone and not any(_accepts(host, port) for host, port in standalone):
        raise SparkError(
            f"the master {master} does not answer: is it running, and reachable from here?"
        )


def _accepts(host: str, port: int) -> bool:
    try:
        socket.create_connection((host, port), ACCEPT_SECONDS).close()
    except OSError:
        return False
    return True


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
