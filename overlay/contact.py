"""Who a peer is and where it listens: `PeerId`, `Address`, `Contact`.

An id has 160 bits, the size of Kademlia's keys. An address prints and parses as `host:port`, or as
`[host]:port` for IPv6. A contact is both together, and is all that one peer tells another about a third.
On the wire an address is its port and the bytes of the IP (6 or 18 bytes), a contact has its id before that.
"""

from __future__ import annotations

import ipaddress
import socket
from dataclasses import dataclass
from functools import lru_cache
from typing import NamedTuple

from overlay.errors import UsageError

ID_BYTES = 20
ID_BITS = 8 * ID_BYTES


class AddressError(UsageError):
    """The text is no `host:port` or `[v6]:port`."""


class PeerId(bytes):
    """A 160-bit identifier; compares, hashes and travels as its 20 bytes."""

    __slots__ = ()

    def __new__(cls, value: bytes) -> PeerId:
        if len(value) != ID_BYTES:
            raise UsageError(f"a peer id has {ID_BYTES} bytes, not {len(value)}")
        return super().__new__(cls, value)

    def __repr__(self) -> str:
        return f"PeerId({self.hex()[:8]})"

    def __str__(self) -> str:
        return self.hex()


class Address(NamedTuple):
    """A numeric IP address and a UDP port; a tuple, so that sockets take it as it is."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        return ipaddress.ip_address(self.host).is_loopback

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `127.0.0.1:4000` or `[::1]:4000`; `localhost` stands for 127.0.0.1."""
        host, colon, port = text.rpartition(":")
        if not colon or not port.isascii() or not port.isdigit() or int(port) > 65535:
            raise AddressError(
                f"{text!r} is no address: write host:port or [v6]:port, port 0 to 65535"
            )
        bracketed = host.startswith("[") and host.endswith("]")
        host = host[1:-1] if bracketed else host
        if host == "localhost":
            host = "127.0.0.1"
        try:
            version = ipaddress.ip_address(host).version
        except ValueError:
            raise AddressError(f"{text!r} is no address: {host!r} is not a numeric IP") from None
        if (version == 6) != bracketed:
            raise AddressError(f"{text!r} is no address: brackets go around IPv6 and nothing else")
        return cls(str(ipaddress.ip_address(host)), int(port))

    def packed(self) -> bytes:
        """The port and the numeric IP, 6 bytes for IPv4 and 18 for IPv6."""
        return _pack_address(self.host, self.port)

    @classmethod
    def unpack(cls, packed: bytes) -> Address:
        """The address that `packed()` gave; `UsageError` for any other bytes."""
        return cls(*_unpack_address(packed))


@dataclass(frozen=True, slots=True)
class Contact:
    """A peer and where it listens."""

    id: PeerId
    host: str
    port: int

    @property
    def address(self) -> Address:
        return Address(self.host, self.port)

    def __str__(self) -> str:
        return f"{self.id.hex()[:8]}@{self.address}"

    def packed(self) -> bytes:
        """The id, the port and the numeric IP, 26 bytes for IPv4 and 38 for IPv6."""
        return self.id + _pack_address(self.host, self.port)

    @classmethod
    def unpack(cls, packed: bytes) -> Contact:
        """The contact that `packed()` gave; `UsageError` for any other bytes."""
        return _unpack_contact(packed)


# The same few contacts are packed and unpacked over and over; the caches are bounded.


@lru_cache(maxsize=8192)
def _pack_address(host: str, port: int) -> bytes:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return port.to_bytes(2, "big") + socket.inet_pton(family, host)


@lru_cache(maxsize=8192)
def _unpack_address(packed: bytes) -> tuple[str, int]:
    if len(packed) not in (6, 18):
        raise UsageError(f"a packed address has 6 or 18 bytes, not {len(packed)}")
    family = socket.AF_INET if len(packed) == 6 else socket.AF_INET6
    return socket.inet_ntop(family, packed[2:]), int.from_bytes(packed[:2], "big")


@lru_cache(maxsize=8192)
def _unpack_contact(packed: bytes) -> Contact:
    return Contact(PeerId(packed[:ID_BYTES]), *_unpack_address(packed[ID_BYTES:]))
