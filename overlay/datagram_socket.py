"""asyncio-dgram's server with bounds: what it queues without limit or raises too late is counted here.

asyncio-dgram is handed its two queues and its write event, so its traps are closed from outside:
received datagrams beyond a limit are dropped and counted, errors of the socket are counted at once and
surface on no later call, and whoever waits for the socket to be writable again is called back.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import logging
import socket
from collections import deque
from collections.abc import Callable
from typing import Any, TypeAlias, cast

from asyncio_dgram.aio import DatagramServer, Protocol, TransportClosed

from overlay.contact import Address
from overlay.errors import NetworkError
from overlay.metrics import Counter, CounterFamily, Metrics

Receive: TypeAlias = Callable[[bytes, tuple[Any, ...]], None]
Item: TypeAlias = tuple[Any, Any]
"""A datagram and its source, or twice None at the end."""

BURST = 256
"""Datagrams: the most that are handed over before other tasks get a turn."""

KERNEL_BUFFER = 4 * 1024 * 1024
"""Bytes asked of the kernel for receiving and for sending; it may grant less."""

CLOSE_PATIENCE = 1.0
"""Seconds that a closing socket may take to send what the kernel did not accept at once."""

_log = logging.getLogger(__name__)


class ListenError(NetworkError):
    """The address cannot be listened on."""


class ReceiveQueue(asyncio.Queue[Item]):
    """What asyncio-dgram takes for its queue: bounded, and readable without awaiting."""

    def __init__(self, limit: int, overflow: Counter) -> None:
        super().__init__()
        self.items: deque[Item] = deque()
        self.ended = asyncio.Event()
        """Set once the socket is gone, which asyncio-dgram says by an item of two Nones."""
        self._limit = limit
        self._overflow = overflow
        self._waiter: asyncio.Future[None] | None = None

    def put_nowait(self, item: Item) -> None:
        if item[0] is None:
            self.ended.set()
        elif len(self.items) >= self._limit:
            self._overflow.value += 1
            return
        self.items.append(item)
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)

    async def get(self) -> Item:
        while not self.items:
            self._waiter = asyncio.get_running_loop().create_future()
            await self._waiter
        return self.items.popleft()


class _ErrorCount(asyncio.Queue[Exception]):
    """What asyncio-dgram takes for its queue of errors: counts them, and is always empty."""

    def __init__(self, errors: CounterFamily) -> None:
        super().__init__()
        self._errors = errors

    def put_nowait(self, item: Exception) -> None:
        code = item.errno if isinstance(item, OSError) else None
        self._errors.add(errno.errorcode.get(code or 0, type(item).__name__))


class _Writable(asyncio.Event):
    """What asyncio-dgram takes for its write event: calls back when it is set again."""

    def __init__(self, resume: Callable[[], None]) -> None:
        super().__init__()
        super().set()
        self._resume = resume

    def set(self) -> None:
        was_paused = not self.is_set()
        super().set()
        if was_paused:
            self._resume()


class DatagramSocket:
    """One UDP socket: hands received datagrams over in bursts, sends without waiting."""

    def __init__(
        self,
        transport: asyncio.DatagramTransport,
        queue: ReceiveQueue,
        errors: _ErrorCount,
        writable: _Writable,
    ) -> None:
        self._transport = transport
        self._queue = queue
        self._writable = writable
        # The installed type hints call the transport a protocol.
        self._stream = DatagramServer(cast(Any, transport), queue, errors, writable)
        self._task: asyncio.Task[None] | None = None
        self.send: Callable[[bytes, tuple[str, int]], None] = transport.sendto
        """Send a datagram, or leave it to the transport when the kernel takes no more just now."""

    @classmethod
    async def open(
        cls, address: Address, queue_limit: int, metrics: Metrics, resume: Callable[[], None]
    ) -> DatagramSocket:
        """Bind to `address`; `resume` is called when sending is possible again after it was not."""
        overflow = metrics.counter(
            "receive_queue_overflows", "Datagrams dropped because the receive queue was full"
        )
        queue = ReceiveQueue(queue_limit, overflow)
        errors = _ErrorCount(
            metrics.family("socket_errors", "error", "Errors that the socket reported")
        )
        writable = _Writable(resume)
        try:
            transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
                lambda: Protocol(queue, errors, writable), local_addr=(address.host, address.port)
            )
        except OSError as error:
            raise ListenError(
                f"cannot listen on {address}: {error.strerror or error}; choose another address, "
                "or port 0 for any free port"
            ) from None
        _enlarge_buffers(transport)
        return cls(transport, queue, errors, writable)

    @property
    def address(self) -> Address:
        """Where the socket is bound, with the port that the system chose for port 0."""
        name = self._stream.sockname
        return Address(name[0], name[1])

    @property
    def can_send(self) -> bool:
        return self._writable.is_set() and not self._transport.is_closing()

    def start(self, receive: Receive) -> None:
        """Hand every datagram and its source to `receive`, which must not raise, until closed."""
        self._task = asyncio.get_running_loop().create_task(self._receive(receive))

    async def _receive(self, receive: Receive) -> None:
        items = self._queue.items
        try:
            while True:
                first, origin = await self._stream.recv()
                receive(first, cast(tuple[Any, ...], origin))
                for _ in range(min(len(items), BURST)):
                    data, source = items.popleft()
                    if data is not None:
                        receive(data, source)
                if items:
                    await asyncio.sleep(0)
        except TransportClosed:
            pass

    async def close(self) -> None:
        """Let go of the socket and of the receiving task; returns when both are gone."""
        for let_go in (self._stream.close, self._transport.abort):
            let_go()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._queue.ended.wait(), CLOSE_PATIENCE)
                break
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])


def _enlarge_buffers(transport: asyncio.DatagramTransport) -> None:
    """Ask for large kernel buffers; a transport without a socket, or a kernel that refuses, is no fault."""
    sock = transport.get_extra_info("socket")
    if sock is None:
        return
    for option in (socket.SO_RCVBUF, socket.SO_SNDBUF):
        try:
            if sock.getsockopt(socket.SOL_SOCKET, option) < KERNEL_BUFFER:
                sock.setsockopt(socket.SOL_SOCKET, option, KERNEL_BUFFER)
        except (OSError, AttributeError, NotImplementedError):
            _log.debug("the kernel buffer %s stays as it is", option)
