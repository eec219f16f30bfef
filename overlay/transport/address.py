"""Between what a socket calls an address and what peers tell each other.

An IPv6 socket also speaks to IPv4 hosts, which it calls `::ffff:1.2.3.4`; peers always call them
`1.2.3.4`. Addresses that no single peer can have are refused in both directions.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Callable
from functools import lru_cache
from typing import Any

from overlay.bounded import Memo
from overlay.contact import REMEMBERED, Contact, PeerId

_MAPPED = "::ffff:"


# Asked for every datagram, with the same few answers; the caches are bounded.


@lru_cache(maxsize=REMEMBERED)
def socket_address(host: str, port: int, is_ipv6: bool) -> tuple[str, int] | None:
    """What to hand to a socket of that family, or None when no peer can be there."""
    if not _is_a_peers(host, port):
        return None
    if ":" in host:
        return (host, port) if is_ipv6 else None
    return (_MAPPED + host, port) if is_ipv6 else (host, port)


@lru_cache(maxsize=REMEMBERED)
def sender_contact(sender: bytes, source: tuple[Any, ...]) -> Contact | None:
    """The sender at the address that its datagram came from, or None when no peer can be there."""
    host, port = plain_host(source[0]), source[1]
    return Contact(PeerId(sender), host, port) if _is_a_peers(host, port) else None


def plain_host(host: str) -> str:
    """What peers call the host that a socket calls so."""
    return host[len(_MAPPED) :] if host.startswith(_MAPPED) and "." in host else host


def _block_of(host: str) -> str:
    host = plain_host(host)
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return host
    if ip.is_loopback:
        return host
    return str(ipaddress.ip_network((ip, 24 if ip.version == 4 else 64), strict=False))


block_of: Callable[[str], str] = Memo(_block_of, REMEMBERED).__getitem__
"""The addresses that one owner usually has all of: a /24 of IPv4, a /64 of IPv6.

On loopback, where everybody is one owner, each address is a block. It takes a host as peers or sockets name
it.
"""


def _is_a_peers(host: str, port: int) -> bool:
    return 0 < port < 65536 and _is_one_host(host)


@lru_cache(maxsize=REMEMBERED)
def _is_one_host(host: str) -> bool:
    """Apart from the port: a flood comes from many ports of few hosts."""
    try:
        ip = ipaddress.ip_address(host)
    except ValueError:
        return False
    # A zone (fe80::1%eth0) means something to one machine only.
    return not (ip.is_multicast or ip.is_unspecified or "%" in host)
