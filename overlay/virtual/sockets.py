"""Which socket listens where: binding, ports and the hosts they belong to."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterable

from overlay.errors import UsageError
from overlay.virtual.host import RUNNING_ON, Host, Incarnation
from overlay.virtual.transport import VirtualTransport

DEFAULT_HOST = "127.0.0.1"
"""Where code that runs on no host binds when it names no address."""
_LAST_PORT = 65_535


class SocketTable:
    """All hosts of a network, and the sockets bound on them, in the order of binding."""

    def __init__(self, bandwidth: float | None) -> None:
        self.hosts: dict[str, Host] = {}
        self.bound: dict[tuple[str, int], VirtualTransport] = {}
        self._bandwidth = bandwidth

    def host(self, address: str) -> Host:
        """The host of an address, which exists as soon as it is named."""
        host = self.hosts.get(address)
        if host is None:
            host = self.hosts[address] = Host(address, self._bandwidth)
        return host

    def choose(self, local: tuple[str, int] | None) -> tuple[Incarnation, int]:
        """The incarnation and the port to bind, as a kernel would: `OSError` when they cannot be had."""
        wanted, port = ("0.0.0.0", 0) if local is None else (resolve(local[0]), local[1])
        incarnation = self._incarnation(wanted)
        if not incarnation.alive:
            raise OSError(errno.ENETDOWN, f"the host {incarnation.host.address} is down")
        return incarnation, self._free_port(incarnation.host, port)

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

    def _free_port(self, host: Host, wanted: int) -> int:
        if wanted:
            if (host.address, wanted) in self.bound:
                raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
            return wanted
        for port in range(host.next_port, _LAST_PORT + 1):
            if (host.address, port) not in self.bound:
                host.next_port = port + 1
                return port
        raise OSError(errno.EADDRINUSE, f"{host.address} has no ephemeral port left")

    def vanish(self, host: Host | None = None) -> None:
        """Close the sockets of a host, or all, without a word to anybody."""
        for transport in list(self.bound.values()):
            if host is None or transport.host is host:
                transport.vanish()

    def transports(self) -> Iterable[VirtualTransport]:
        return self.bound.values()


def resolve(host: str) -> str:
    """The only name that needs no resolver."""
    return DEFAULT_HOST if host == "localhost" else host
