"""The datagram transport of the virtual network and its socket: both behave as asyncio's own on UDP, IPv4."""

from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys
from typing import TYPE_CHECKING, Any

from overlay.virtual.hosts import Incarnation

if TYPE_CHECKING:
    from overlay.virtual.hosts import HostPlace
    from overlay.virtual.loop import VirtualLoop
    from overlay.virtual.medium import Medium


DEFAULT_RECEIVE_BUFFER = 212_992
"""Bytes: the most that Linux grants a socket unless told otherwise."""

UDP_SEGMENT = 103
"""Linux' option that has a kernel cut what is sent into datagrams of a size."""


class VirtualSocket:
    """Answers for a datagram socket; it cannot be read or written, as a transport's socket should not be."""

    family = socket.AF_INET
    type = socket.SOCK_DGRAM
    proto = socket.IPPROTO_UDP

    def __init__(
        self, name: tuple[str, int], peer: tuple[str, int] | None, buffer_limit: int
    ) -> None:
        self._name = name
        self._peer = peer
        self._options: dict[tuple[int, int], int] = {}
        self._buffer_limit = buffer_limit
        self.receive_buffer = buffer_limit
        self.segment = 0
        """Bytes of a datagram into which more is cut; 0: nothing is."""

    def getsockname(self) -> tuple[str, int]:
        return self._name

    def getpeername(self) -> tuple[str, int]:
        if self._peer is None:
            raise OSError(errno.ENOTCONN, os.strerror(errno.ENOTCONN))
        return self._peer

    def setsockopt(self, level: int, option: int, value: int | bytes) -> None:
        """Remembers any option that is a number. SO_RCVBUF sets the buffer as Linux does: up to the limit,
        and doubled.
        UDP_SEGMENT has what is sent cut into datagrams, as Linux does."""
        if not isinstance(value, int):
            raise OSError(errno.ENOPROTOOPT, os.strerror(errno.ENOPROTOOPT))
        if (level, option) == (socket.SOL_SOCKET, socket.SO_RCVBUF):
            self.receive_buffer = 2 * min(value, self._buffer_limit)
        else:
            self._options[level, option] = value
            if (level, option) == (socket.IPPROTO_UDP, UDP_SEGMENT):
                self.segment = value

    def getsockopt(self, level: int, option: int) -> int:
        if (level, option) == (socket.SOL_SOCKET, socket.SO_RCVBUF):
            return self.receive_buffer
        return self._options.get((level, option), 0)

    def fileno(self) -> int:
        """No descriptor of the operating system stands behind it."""
        return -1

    def gettimeout(self) -> float:
        return 0.0


MAX_PAYLOAD = 65_507
"""Bytes that fit in one UDP datagram over IPv4."""
SENDS_EMPTY = sys.version_info >= (3, 13)
"""Whether asyncio sends a datagram without a payload; earlier versions do nothing."""
BOOKKEEPING = 1024
"""Bytes that a kernel charges for each datagram in a receive buffer, on top of what it carries."""
_HIGH_WATER = 64 * 1024


class VirtualTransport(asyncio.DatagramTransport):
    """One bound socket of one host; opened by `Medium.open`."""

    def __init__(
        self,
        loop: VirtualLoop,
        medium: Medium,
        incarnation: Incarnation,
        place: HostPlace,
        socket: VirtualSocket,
        peer: HostPlace | None,
    ) -> None:
        peer_name = None if peer is None else peer.name
        super().__init__(
            {"socket": socket, "sockname": socket.getsockname(), "peername": peer_name}
        )
        self.incarnation = incarnation
        self.host = incarnation.host
        self.context = incarnation.context()
        self.place = place
        self.peer = peer
        self.open = True
        self.protocol: Any = None
        self._loop = loop
        self._medium = medium
        self._places = medium.places
        self._socket = socket
        self._closing = False
        self._received = 0
        self._unsent = 0
        self._paused = False
        self.set_write_buffer_limits()

    # -- sending --

    def sendto(self, data: Any, addr: Any = None) -> None:
        """Send a datagram. Errors are told to the protocol, except for the caller's own mistakes."""
        if type(data) is not bytes:
            data = bytes(memoryview(data))
        place = self._places.get(addr)
        if place is None or self.peer is not None:
            place = self._find_place(addr)
        if place is None or not self.open or not (data or SENDS_EMPTY):
            return
        if len(data) > MAX_PAYLOAD:
            self.error(errno.EMSGSIZE)
            return
        segment = self._socket.segment
        if segment and len(data) > segment:
            for start in range(0, len(data), segment):
                self._medium.send(self, place, data[start : start + segment])
        else:
            self._medium.send(self, place, data)

    def _find_place(self, addr: Any) -> HostPlace | None:
        if self.peer is not None:
            if addr not in (None, self.peer.address):
                raise ValueError(f"Invalid address: must be None or {self.peer.address}")
            return self.peer
        if not isinstance(addr, tuple) or not 0 <= addr[1] <= 65_535:
            self._break(
                OverflowError(f"sendto(): {addr} is not an address with a port of 0 to 65535")
            )
            return None
        if addr[1] == 0:
            self.error(errno.EINVAL)
            return None
        return self._medium.place(addr)

    def error(self, code: int) -> None:
        """Tell the protocol of an error that leaves the socket usable."""
        if self.open:
            self.context.run(self.protocol.error_received, OSError(code, os.strerror(code)))

    def _break(self, failure: Exception) -> None:
        """As asyncio does on an exception that is not an OSError: the transport closes."""
        self._loop.report(failure, "Fatal write error on datagram transport")
        self._close(failure)

    # -- the queue of a host whose uplink is slower than its programs --

    def queue_to_send(self, size: int) -> None:
        self._unsent += size
        if self._unsent > self._high and not self._paused:
            self._paused = True
            self.context.run(self.protocol.pause_writing)

    def has_sent(self, size: int) -> None:
        self._unsent -= size
        if self._paused and self._unsent <= self._low and self.open:
            self._paused = False
            self.context.run(self.protocol.resume_writing)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._high = _HIGH_WATER if high is None else high
        self._low = self._high // 4 if low is None else low

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def get_write_buffer_size(self) -> int:
        return self._unsent

    # -- the receive buffer --

    def queue_received(self, size: int) -> bool:
        """Make room for a datagram that waits for the program; false when there is none."""
        charge = size + BOOKKEEPING
        if self._received and self._received + charge > self._socket.receive_buffer:
            return False
        self._received += charge
        return True

    def take_received(self, size: int) -> None:
        self._received -= size + BOOKKEEPING

    # -- its end --

    def close(self) -> None:
        self._close(None)

    abort = close

    def _close(self, reason: Exception | None) -> None:
        if not self._closing:
            self._closing = True
            self._loop.call_soon(self._connection_lost, reason, context=self.context)

    def _connection_lost(self, reason: Exception | None) -> None:
        self.vanish()
        self.protocol.connection_lost(reason)

    def vanish(self) -> None:
        """Unbind without a word to the protocol."""
        if self.open:
            self.open = False
            self._closing = True
            self.place.socket = None

    def is_closing(self) -> bool:
        return self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self.protocol
        return protocol

    def __repr__(self) -> str:
        return f"<VirtualTransport {self.place.address}{'' if self.open else ' closed'}>"
