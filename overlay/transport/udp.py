"""The one UDP socket of a node, opened and closed by asyncio-dgram.

asyncio-dgram's own protocol queues what arrives without a bound and raises errors on a later, unrelated call.
Here a protocol of its kind hands datagrams to the endpoint at once, and counts errors.

On Linux the kernel takes and gives several datagrams in one system call (segmentation offload). A *train* is
a run of datagrams to one address, one behind the other in one buffer, all but the last of the same size. The
socket is told that size (UDP_SEGMENT), and the kernel or the network card cuts the train: the same datagrams
are on the wire as without it. With UDP_GRO, datagrams that arrived in a row are handed over as a train again;
each says its length in its header (see `overlay.transport.frame`). Where the kernel knows neither option, or
refuses a train later on, datagrams are sent one by one.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import errno
import logging
import socket
import struct
import sys
from asyncio.trsock import TransportSocket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, cast

from asyncio_dgram.aio import DatagramServer, Protocol

from overlay.contact import Address
from overlay.errors import NetworkError, why
from overlay.metrics import CounterFamily, Metrics
from overlay.transport.frame import MAX_DATAGRAM, MAX_TRAIN
from overlay.transport.guard import Refusal

if TYPE_CHECKING:
    from overlay.transport.interface import Receive

KERNEL_BUFFER = 4 * 1024 * 1024
"""Bytes asked of the kernel for receiving and for sending; it may grant less."""

READS_A_TURN = 32
"""Datagrams, or trains, that are read before other callbacks get a turn. asyncio's own loop reads one, and
then a socket that is flooded, or a loop that is busy, drops most of what arrives; uvloop reads 32."""

CLOSE_PATIENCE = 1.0
"""Seconds that a closing socket may take to send what the kernel did not accept at once."""

# From linux/udp.h; the socket module does not name them.
UDP_SEGMENT = 103
UDP_GRO = 104

REFUSALS = {errno.EIO, errno.EINVAL, errno.EMSGSIZE, errno.EOPNOTSUPP}
"""Errors by which a kernel refuses a train: no checksums by the card, or too small a link."""

_log = logging.getLogger(__name__)


class ListenError(NetworkError):
    """The address cannot be listened on."""


class _Datagrams(Protocol):
    """asyncio-dgram's protocol, which hands datagrams on instead of queueing them."""

    def __init__(
        self,
        receive: Receive,
        failed: Callable[[Exception], None],
        may_send: Callable[[bool], None],
    ) -> None:
        """`may_send` is told whether asyncio takes more to send."""
        self.queue: asyncio.Queue[Any] = asyncio.Queue()
        self.errors: asyncio.Queue[Exception] = asyncio.Queue()
        self.writable = asyncio.Event()
        super().__init__(self.queue, self.errors, self.writable)
        self.ended = asyncio.Event()
        """Set once the socket is gone."""
        self.receive = receive
        self.failed = failed
        self.may_send = may_send
        self.more: socket.socket | None = None
        """The socket once more, to read on from after asyncio has read a datagram."""

    def connection_made(self, transport: Any) -> None:
        super().connection_made(transport)
        sock = transport.get_extra_info("socket")
        if sys.platform != "win32" and isinstance(sock, TransportSocket):
            self.more = sock.dup()
        else:  # uvloop reads on by itself
            self.datagram_received = self.receive  # type: ignore[assignment, method-assign]

    def datagram_received(self, data: bytes, source: Any) -> None:
        self.receive(data, source)
        if self.more is not None:
            self._read_on(self.more)

    def _read_on(self, sock: socket.socket) -> None:
        try:
            for _ in range(READS_A_TURN - 1):
                self.receive(*sock.recvfrom(MAX_DATAGRAM))
                if self.more is None:
                    return
        except (BlockingIOError, InterruptedError):
            pass
        except OSError as error:
            self.failed(error)

    def error_received(self, error: Exception) -> None:
        self.failed(error)

    def pause_writing(self) -> None:
        super().pause_writing()
        self.may_send(False)

    def resume_writing(self) -> None:
        super().resume_writing()
        self.may_send(True)

    def connection_lost(self, error: Exception | None) -> None:
        super().connection_lost(None)
        self.may_send(False)
        if self.more is not None:
            self.more.close()
            self.more = None
        if error is not None:
            self.failed(error)
        self.ended.set()


class UdpTransport:
    """`overlay.transport.interface.Transport` over UDP; made by `open_udp`."""

    def __init__(self, size: int, receive: Receive, resume: Callable[[], None], metrics: Metrics):
        self.train = 1
        """Datagrams that one call of `send` takes."""
        self.can_send = True
        """Whether asyncio takes more to send."""
        self._resume = resume
        self._size = size
        self._errors: CounterFamily = metrics.family(
            "socket_errors", "error", "Errors that the socket reported"
        )
        self._protocol = _Datagrams(receive, self._failed, self._may_send)

    async def bind(self, address: Address, offload: bool) -> None:
        loop = asyncio.get_running_loop()
        try:
            self._transport, _ = await loop.create_datagram_endpoint(
                lambda: self._protocol, local_addr=(address.host, address.port)
            )
        except OSError as error:
            raise ListenError(
                f"cannot listen on {address}: {why(error)}; choose another address, "
                "or port 0 for any free port"
            ) from None
        protocol = self._protocol
        # The installed type hints call the transport a protocol.
        self._stream = DatagramServer(
            cast(Any, self._transport), protocol.queue, protocol.errors, protocol.writable
        )
        name = self._stream.sockname
        self.address = Address(name[0], name[1])
        """Where the socket is bound, with the port that the system chose for port 0."""
        self.send: Callable[[bytes, tuple[str, int]], None] = self._transport.sendto
        """Send a datagram or a train, or leave it to asyncio when the kernel takes no more just now."""
        self._enlarge_buffers()
        if offload:
            self._begin_offload()

    def _may_send(self, can_send: bool) -> None:
        self.can_send = can_send
        if can_send:
            self._resume()

    def refuse(self, refusal: Refusal | None) -> bool:
        """Have the kernel drop a flood (Linux), or nothing any more; whether it does."""
        if sys.platform != "linux":
            return False
        from overlay.transport.kernel_filter import SO_ATTACH_FILTER, SO_DETACH_FILTER, program

        option, value = SO_DETACH_FILTER, struct.pack("i", 0)
        try:
            if refusal is not None:
                code = program(refusal)
                buffer = ctypes.create_string_buffer(code, len(code))
                value = struct.pack("@HP", len(code) // 8, ctypes.addressof(buffer))
                option = SO_ATTACH_FILTER
            self._stream.socket.setsockopt(socket.SOL_SOCKET, option, value)
        except (OSError, ValueError):
            return False
        return True

    async def close(self) -> None:
        """Let go of the socket; returns when it is gone."""
        self.can_send = False
        for let_go in (self._stream.close, self._transport.abort):
            let_go()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._protocol.ended.wait(), CLOSE_PATIENCE)
                break

    def _failed(self, error: Exception) -> None:
        code = error.errno if isinstance(error, OSError) else None
        self._errors.add(errno.errorcode.get(code or 0, type(error).__name__))
        if code in REFUSALS and self.train > 1:
            self._end_offload()

    def _begin_offload(self) -> None:
        """Have the kernel cut and join trains, if it can."""
        if sys.platform != "linux":
            return
        train = min(MAX_DATAGRAM // self._size, MAX_TRAIN)
        if train > 1 and self._set_option(socket.IPPROTO_UDP, UDP_SEGMENT, self._size):
            self.train = train
        self._set_option(socket.IPPROTO_UDP, UDP_GRO, 1)

    def _end_offload(self) -> None:
        """Send one by one from now on; what the kernel refused was lost, as any datagram may be."""
        self.train = 1
        self._set_option(socket.IPPROTO_UDP, UDP_SEGMENT, 0)
        _log.info("the kernel refused a train of datagrams: they are sent one by one from now on")

    def _enlarge_buffers(self) -> None:
        """Ask for large kernel buffers; a kernel that refuses is not a fault."""
        for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
            self._set_option(socket.SOL_SOCKET, option, KERNEL_BUFFER)

    def _set_option(self, level: int, option: int, value: int) -> bool:
        sock = self._stream.socket
        try:
            if level != socket.SOL_SOCKET or sock.getsockopt(level, option) < value:
                sock.setsockopt(level, option, value)
        except (OSError, AttributeError, NotImplementedError):
            _log.debug("the socket does not take option %d, %d", level, option)
            return False
        return True


async def open_udp(
    address: Address,
    size: int,
    receive: Receive,
    resume: Callable[[], None],
    metrics: Metrics,
    offload: bool = True,
) -> UdpTransport:
    """Bind to `address`; `ListenError` when it is not to be had. See `OpenTransport` for the rest."""
    transport = UdpTransport(size, receive, resume, metrics)
    await transport.bind(address, offload)
    return transport
