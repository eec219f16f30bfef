"""Which socket listens where: hosts, places, binding and ports."""

from __future__ import annotations

import errno
import os

from overlay.contact import Address
from overlay.errors import UsageError
from overlay.virtual.host import RUNNING_ON, Host, Incarnation
from overlay.virtual.place import Place

DEFAULT_HOST = "127.0.0.1"
"""Where code that runs on no host binds when it names no address."""
_LAST_PORT = 65_535


class SocketTable:
    """All hosts of a network and all places on them, each from the moment that it is first named."""

    def __init__(self, bandwidth: float | None) -> None:
        self.hosts: dict[str, Host] = {}
        self.places: dict[tuple[str, int], Place] = {}
        self._bandwidth = bandwidth

    def host(self, address: str) -> Host:
        """The host of an address; `UsageError` when it cannot be one."""
        host = self.hosts.get(address)
        if host is None:
            host = self.hosts[address] = Host(address, self._bandwidth)
        return host

    def place(self, address: tuple[str, int]) -> Place:
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

    def _new_place(self, address: Address) -> Place:
        try:
            return Place(address, self.host(address.host))
        except UsageError:
            return Place(address, None)

    def choose(self, local: tuple[str, int] | None) -> tuple[Incarnation, Place]:
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

    def _free_place(self, host: Host, wanted: int) -> Place:
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
