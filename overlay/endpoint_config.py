"""How an endpoint is set up: where it listens, under which keys, and within which bounds."""

from __future__ import annotations

from dataclasses import dataclass, field

from overlay.contact import Address
from overlay.errors import UsageError
from overlay.frame import MAX_DATAGRAM
from overlay.seal import check_keys

SMALLEST_DATAGRAM = 512


@dataclass(frozen=True)
class EndpointConfig:
    """Where a node listens, and under which keys."""

    listen: str | Address
    """`host:port` or `[v6]:port`, a numeric IP; port 0 takes any free port."""

    keys: tuple[bytes, ...] = field(default=(), repr=False)
    """The ring of network keys, 32 bytes each: the first seals, all open. None: nothing is sealed."""

    insecure: bool = False
    """Allow an address other than loopback without a key."""

    advertise: str | Address | None = None
    """What others call this node, where that is not `listen`: behind 0.0.0.0, ::, or a NAT. Port 0 is the
    port that is bound."""

    datagram_size: int = 1400
    """Bytes of UDP payload that the path carries, headers of this protocol included; 512 to 65,507."""

    outgoing_limit: int = 4 * 1024 * 1024
    """Bytes of frames that may wait to leave; `drained` waits above the half of it."""

    incoming_limit: int = 4096
    """Datagrams that may wait to be read; more are dropped and counted."""

    def __post_init__(self) -> None:
        check_keys(self.keys)
        address = self.listen_address
        if not self.keys and not self.insecure and not address.is_loopback:
            raise UsageError(
                f"listen={address} can be reached from outside and keys is empty: give the node a network "
                "key (`camcast key new` prints one), listen on 127.0.0.1, or say insecure=True"
            )
        if address.is_wildcard and self.advertise is None:
            raise UsageError(
                f"listen={address} stands for every address of the machine: say with advertise=host:port "
                "by which of them others reach it"
            )
        self._check_advertised(self.advertised_address)
        if not SMALLEST_DATAGRAM <= self.datagram_size <= MAX_DATAGRAM:
            raise UsageError(
                f"datagram_size={self.datagram_size} is not within {SMALLEST_DATAGRAM}..{MAX_DATAGRAM}"
            )
        if self.outgoing_limit < 2 * self.datagram_size:
            raise UsageError(f"outgoing_limit={self.outgoing_limit} is less than two datagrams")
        if self.incoming_limit < 1:
            raise UsageError(f"incoming_limit={self.incoming_limit} leaves no room for a datagram")

    def _check_advertised(self, advertised: Address | None) -> None:
        if advertised is None:
            return
        if advertised.is_wildcard:
            raise UsageError(f"advertise={advertised} is no address that others can send to")
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
