"""The name of a Spark master: where it is, and whether anyone answers there."""

from __future__ import annotations

import socket
import struct

from bench.spark.errors import SparkError

LOCAL = "local[*]"
MASTER_SECONDS = 10.0
"""How long a master may take to accept a connection, and then to answer."""
LAST_PORT = 65535
_STREAM_REQUEST = 6
"""The type of a message of Spark's network protocol that asks for a stream by name."""


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
        if not host or not port.isdigit() or int(port) > LAST_PORT:
            raise SparkError(f"{master} is not a master: write spark://HOST:PORT")
        found.append((host.strip("[]"), int(port)))
    return found


def check_master(master: str) -> None:
    """`SparkError` when no standalone master of that name is there: Spark itself would take a minute."""
    standalone = places(master)
    if standalone and not any(_answers(host, port) for host, port in standalone):
        raise SparkError(
            f"the master {master} does not answer: is it running, and reachable from here?"
        )


def _answers(host: str, port: int) -> bool:
    """Whether something there answers, or at least hangs up, when asked for a stream that it has not."""
    try:
        with socket.create_connection((host, port), MASTER_SECONDS) as connection:
            connection.sendall(_question("/files/camcast"))
            connection.recv(1)
    except ConnectionResetError:
        return True
    except OSError:
        return False
    return True


def _question(stream: str) -> bytes:
    """A frame: the length of the whole, the type of the message, the length of the name, the name."""
    name = stream.encode()
    body = struct.pack(">Bi", _STREAM_REQUEST, len(name)) + name
    return struct.pack(">q", 8 + len(body)) + body


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")
