"""A client that takes nothing of what it is sent, once it has been answered."""

from __future__ import annotations

import asyncio
import os
import socket

from overlay.contact import Address

UPGRADE = (
    "Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Version: 13\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Protocol: mqtt\r\n"
)
LARGE = "x" * 200_000
"""Data of which some fill what the kernel takes for a client."""


class Deaf:
    """The client; the door's host is `door`."""

    def __init__(self, door: Address) -> None:
        self._socket = socket.socket()
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        self._socket.connect(door)
        self._files = _open_files()
        self._socket.setblocking(False)

    async def ask(self, headers: str) -> None:
        """Make a request, and read the answer's head."""
        asked = f"GET /topics/a HTTP/1.1\r\nHost: x\r\n{headers}\r\n"
        await self.talk(asked.encode(), b"\r\n\r\n")

    async def talk(self, data: bytes, until: bytes) -> None:
        """Send, and read until this has come."""
        loop = asyncio.get_running_loop()
        await loop.sock_sendall(self._socket, data)
        got = b""
        while not got.endswith(until):
            got += await loop.sock_recv(self._socket, 1)

    async def is_put_out(self) -> None:
        """Wait until this process, which is the door's, has closed the door's end."""
        while _open_files() > self._files:  # noqa: ASYNC110 (it tells nobody)
            await asyncio.sleep(0.01)
        self._socket.close()


def _open_files() -> int:
    return len(os.listdir("/proc/self/fd"))
