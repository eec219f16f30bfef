"""The datagram transport of the virtual network, as asyncio's own behaves on UDP over IPv4."""

from __future__ import annotations

import asyncio
import errno
import os
from typing import TYPE_CHECKING, Any

from overlay.virtual.fake_socket import VirtualSocket
from overlay.virtual.host import Incarnation

if TYPE_CHECKING:
    from overlay.virtual.loop import VirtualLoop
    from overlay.virtual.medium import Medium, Route

MAX_PAYLOAD = 65_507
"""Bytes that fit in one UDP datagram over IPv4."""
_MAX_ROUTES = 1024


class VirtualTransport(asyncio.DatagramTransport):
    """One bound socket of one host; made by `Medium.open`."""

    def __init__(
        self,
        loop: VirtualLoop,
        medium: Medium,
        incarnation: Incarnation,
        name: tuple[str, int],
        bound: tuple[str, int],
        peer: tuple[str, int] | None,
    ) -> None:
        self.socket = VirtualSocket(name, peer)
        super().__init__({"socket": self.socket, "sockname": name, "peername": peer})
        self.incarnation = incarnation
        self.host = incarnation.host
        self.bound = bound
        self.key = self.host.number << 16 | bound[1]
        self.peer = peer
        self.context = incarnation.context()
        self.protocol: Any = None
        self.open = True
        self.queued_bytes = 0
        self.routes: dict[tuple[str, int] | None, Route] = {}
        self._loop = loop
        self._medium = medium
        self._closing = False

    def sendto(self, data: Any, addr: Any = None) -> None:
        if type(data) is not bytes:
            data = bytes(memoryview(data))
        if not self.open or not data:
            return
        route = self.routes.get(addr)
        if route is None:
            route = self._find_route(addr)
            if route is None:
                return
        if len(data) > MAX_PAYLOAD:
            self.error(OSError(errno.EMSGSIZE, os.strerror(errno.EMSGSIZE)))
            return
        self._medium.send(route, data)

    def _find_route(self, addr: tuple[str, int] | None) -> Route | None:
        if self.peer is not None:
            if addr not in (None, self.peer):
                raise ValueError(f"Invalid address: must be None or {self.peer}")
            destination = self.peer
        elif addr is None or not 0 <= addr[1] <= 65535:
            self._break(OverflowError(f"sendto(): {addr} has no port of 0 to 65535"))
            return None
        elif addr[1] == 0:
            self.error(OSError(errno.EINVAL, os.strerror(errno.EINVAL)))
            return None
        else:
            destination = addr
        if len(self.routes) >= _MAX_ROUTES:
            self.routes.clear()
        self.routes[addr] = route = self._medium.route(self, destination)
        return route

    def error(self, failure: OSError) -> None:
        """Tell the protocol of an error that leaves the socket usable."""
        self.context.run(self.protocol.error_received, failure)

    def _break(self, failure: Exception) -> None:
        """As asyncio does on an exception that is no OSError: the transport closes."""
        self._loop.report(failure, "Fatal write error on datagram transport")
        self._close(failure)

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
        self.open = False
        self._closing = True
        self.routes.clear()
        self._medium.unbind(self)

    def is_closing(self) -> bool:
        return self._closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self.protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self.protocol
        return protocol

    def get_write_buffer_size(self) -> int:
        return 0

    def __repr__(self) -> str:
        return f"<VirtualTransport {self.bound[0]}:{self.bound[1]}{'' if self.open else ' closed'}>"
