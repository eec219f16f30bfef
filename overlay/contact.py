"""Who a peer is and where it listens: `PeerId`, `Address`, `Contact`.

An id has 160 bits, the size of Kademlia's keys. An address prints and parses as `host:port`, or as
`[host]:port` for IPv6. A contact is both together, and is all that one peer tells another about a third.
On the wire an address is its port and the bytes of the IP (6 or 18 bytes), a contact has its id before that.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from functools import lru_cache
from typing import NamedTuple

from overlay.bounded import Memo
from overlay.errors import UsageError

ID_BYTES = 20
ID_BITS = 8 * ID_BYTES


class AddressError(UsageError):
    """No numeric IP with a port, in text (`host:port`, `[v6]:port`) or in bytes."""


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


ANYONE = PeerId(bytes(ID_BYTES))
"""Stands for any peer that listens at a contact's address; no peer has it as its id."""


class Address(NamedTuple):
    """A numeric IP address and a UDP port; a tuple, so that sockets take it as it is."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can reach it."""
        return ipaddress.ip_address(self.host).is_loopback

    @property
    def is_wildcard(self) -> bool:
        """Whether it stands for every address of a machine: 0.0.0.0 or ::."""
        return ipaddress.ip_address(self.host).is_unspecified

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read `127.0.0.1:4000` or `[::1]:4000`; `localhost` stands for 127.0.0.1."""
        host, _, port = text.rpartition(":")
        if not host or not _is_port(port):
            raise AddressError(
                f"{text!r} is not an address: write host:port or [v6]:port, port 0 to 65535"
            )
        bracketed = host.startswith("[") and host.endswith("]")
        host = host[1:-1] if bracketed else host
        if host == "localhost" and not bracketed:
            host = "127.0.0.1"
        try:
            ip = ipaddress.ip_address(host)
        except ValueError:
            raise AddressError(
                f"{text!r} is not an address: {host!r} is not a numeric IP, as in 127.0.0.1:4000"
            ) from None
        if (ip.version == 6) != bracketed:
            raise AddressError(
                f"{text!r} is not an address: brackets go around IPv6 and nothing else"
            )
        if "%" in host:
            raise AddressError(
                f"{text!r} names an interface, which means nothing to other machines"
            )
        return cls(_text_of(ip.packed), int(port))

    @classmethod
    def of(cls, address: str | tuple[str, int]) -> Address:
        """`address` itself, or what `parse` makes of its text."""
        if isinstance(address, str):
            return cls.parse(address)
        host, port = address
        return cls.parse(f"[{host}]:{port}" if ":" in host else f"{host}:{port}")

    def packed(self) -> bytes:
        """The port and the numeric IP, 6 bytes for IPv4 and 18 for IPv6."""
        return _pack_address(self.host, self.port)

    @classmethod
    def unpack(cls, packed: bytes) -> Address:
        """The address that `packed()` gave; `UsageError` for any other bytes."""
        return cls(*_unpack_address(packed))


class Contact(NamedTuple):
    """A peer and where it listens; a tuple, which is hashed quickly: contacts are the keys of many tables."""

    id: PeerId
    host: str
    port: int

    @property
    def address(self) -> Address:
        return tuple.__new__(Address, self[1:])

    def __str__(self) -> str:
        return f"{self.id.hex()[:8]}@{self.address}"

    def packed(self) -> bytes:
        """The id, the port and the numeric IP, 26 bytes for IPv4 and 38 for IPv6."""
        return pack_contact(self)

    @classmethod
    def unpack(cls, packed: bytes) -> Contact:
        """The contact that `packed()` gave; `UsageError` for any other bytes."""
        return unpack_contact(packed)


def _is_port(text: str) -> bool:
    return text.isascii() and text.isdigit() and len(text) <= 5 and int(text) < 65536


# The same contacts are packed and unpacked over and over; the caches are bounded.

REMEMBERED = 32_768
"""Contacts of which such things are kept: all that a node of a network of tens of thousands meets."""


@lru_cache(maxsize=REMEMBERED)
def _pack_address(host: str, port: int) -> bytes:
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    try:
        return port.to_bytes(2, "big") + socket.inet_pton(family, host)
    except (OSError, OverflowError):
        raise AddressError(
            f"{Address(host, port)} has no numeric IP or no port 0 to 65535"
        ) from None


@lru_cache(maxsize=REMEMBERED)
def _unpack_address(packed: bytes) -> tuple[str, int]:
    if len(packed) not in (6, 18):
        raise AddressError(f"a packed address has 6 or 18 bytes, not {len(packed)}")
    return _text_of(packed[2:]), int.from_bytes(packed[:2], "big")


def _pack(contact: Contact) -> bytes:
    return contact.id + _pack_address(contact.host, contact.port)


def _unpack(packed: bytes) -> Contact:
    return Contact(PeerId(packed[:ID_BYTES]), *_unpack_address(packed[ID_BYTES:]))


pack_contact: Callable[[Contact], bytes] = Memo(_pack, REMEMBERED).__getitem__
"""`Contact.packed`, for whoever packs many."""
unpack_contact: Callable[[bytes], Contact] = Memo(_unpack, REMEMBERED).__getitem__
"""`Contact.unpack`, for whoever unpacks many."""


def _text_of(ip: bytes) -> str:
    """The text that sockets give the address, so that equal addresses are equal texts."""
    return socket.inet_ntop(socket.AF_INET if len(ip) == 4 else socket.AF_INET6, ip)
