"""An address that datagrams are sent to, whether or not anybody listens there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from overlay.contact import Address
from overlay.virtual.host import Host

if TYPE_CHECKING:
    from overlay.virtual.transport import VirtualTransport


class Place:
    """One address of the network, and the socket that is bound there now."""

    __slots__ = ("address", "host", "key", "name", "socket")

    def __init__(self, address: Address, host: Host | None) -> None:
        self.address = address
        self.name = (address.host, address.port)
        """The address as programs get it from a socket, a plain tuple."""
        self.host = host
        """None for an address that is no host of this network."""
        self.key = 0 if host is None else host.number << 16 | address.port
        """The address as a number, for the trace."""
        self.socket: VirtualTransport | None = None
