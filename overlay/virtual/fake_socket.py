"""What `transport.get_extra_info("socket")` gives: the few calls that programs make on a bound socket."""

from __future__ import annotations

import errno
import os
import socket

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

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Remembers any option. SO_RCVBUF sets the buffer as Linux does: up to the limit, and doubled.
        UDP_SEGMENT has what is sent cut into datagrams, as Linux does."""
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
