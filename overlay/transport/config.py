"""Where a node listens, what its datagrams may be, and what may wait at its socket."""

from __future__ import annotations

from dataclasses import dataclass, field

from overlay.contact import Address
from overlay.errors import UsageError
from overlay.session.config import SessionConfig
from overlay.session.network_key import check_keys
from overlay.transport.frame import MAX_DATAGRAM

SMALLEST_DATAGRAM = 512


@dataclass(frozen=True)
class SocketConfig:
    """What may wait at a node's socket, and what is dropped there."""

    outgoing_limit: int = 4 * 1024 * 1024
    """Bytes of frames that may wait to leave; `drained` waits above the half of it."""

    incoming_limit: int = 4096
    """Datagrams that may wait to be handled; more are dropped and counted."""

    flood_limit: int = 2000
    """Useless datagrams a second from one block of addresses (a /24, a /64), above which only friends of the
    block are heard: see `overlay.transport.guard`."""

    offload: bool = True
    """Hand the kernel several datagrams at once where it can cut them apart (Linux)."""

    def __post_init__(self) -> None:
        if self.incoming_limit < 1:
            raise UsageError(f"incoming_limit={self.incoming_limit} leaves no room for a datagram")
        if self.flood_limit < 1:
            raise UsageError(f"flood_limit={self.flood_limit} must be at least 1 datagram a second")


@dataclass(frozen=True)
class EndpointConfig:
    """Where a node listens, and under which keys."""

    listen: str | Address
    """`host:port` or `[v6]:port`, a numeric IP; port 0 takes any free port."""

    keys: tuple[bytes, ...] = field(default=(), repr=False)
    """The ring of network keys, 32 bytes each: the first opens sessions, all answer. None: no sessions."""

    insecure: bool = False
    """Allow an address other than loopback without a key."""

    advertise: str | Address | None = None
    """What others call this node, where that is not `listen`: behind 0.0.0.0, ::, or a NAT. Port 0 is the
    port that is bound."""

    datagram_size: int = 1400
    """Bytes of UDP payload that the path carries, headers of this protocol included; 512 to 65,507."""

    socket: SocketConfig = field(default_factory=SocketConfig)
    """What waits and is dropped at the socket."""

    session: SessionConfig = field(default_factory=SessionConfig)
    """Sessions of a network with a key."""

    def __post_init__(self) -> None:
        check_keys(self.keys)
        address = self.listen_address
        if not self.keys and not self.insecure and not address.is_loopback:
            raise UsageError(
                f"listen={address} can be reached from outside and keys is empty: give the node a network "
                "key (`camcast key new` prints one), listen on 127.0.0.1, or say insecure=True (--insecure)"
            )
        if address.is_wildcard and self.advertise is None:
            raise UsageError(
                f"listen={address} stands for every address of the machine: say with advertise=host:port "
                "by which of them others reach it"
            )
        self._check_advertised(self.advertised_address)
        check_datagram_size(self.datagram_size)
        if self.socket.outgoing_limit < 2 * self.datagram_size:
            limit = self.socket.outgoing_limit
            raise UsageError(f"outgoing_limit={limit} is less than two datagrams")

    def _check_advertised(self, advertised: Address | None) -> None:
        if advertised is None:
            return
        if advertised.is_wildcard:
            raise UsageError(f"advertise={advertised} is not an address that others can send to")
        if advertised.port and not self.listen_address.port:
            raise UsageError(
                f"listen={self.listen_address} takes any free port, and advertise={advertised} names one: "
                "give listen a port, or advertise port 0, which stands for the one that is bound"
            )

    @property
    def listen_address(self) -> Address:
        return Address.of(self.listen)

    @property
    def advertised_address(self) -> Address | None:
        return None if self.advertise is None else Address.of(self.advertise)


def check_datagram_size(size: int) -> None:
    if not SMALLEST_DATAGRAM <= size <= MAX_DATAGRAM:
        raise UsageError(f"datagram_size={size} is not within {SMALLEST_DATAGRAM}..{MAX_DATAGRAM}")
