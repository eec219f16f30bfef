"""What `transport.get_extra_info("socket")` gives: the few calls that programs make on a bound socket."""

from __future__ import annotations

import socket

DEFAULT_RECEIVE_BUFFER = 212_992


class VirtualSocket:
    """Answers for a datagram socket; it cannot be read or written, as a transport's socket should not be."""

    family = socket.AF_INET
    type = socket.SOCK_DGRAM
    proto = socket.IPPROTO_UDP

    def __init__(self, name: tuple[str, int], peer: tuple[str, int] | None) -> None:
        self._name = name
        self._peer = peer
        self._options: dict[tuple[int, int], int] = {}
        self.receive_buffer = DEFAULT_RECEIVE_BUFFER

    def getsockname(self) -> tuple[str, int]:
        return self._name

    def getpeername(self) -> tuple[str, int]:
        if self._peer is None:
            raise OSError(107, "Transport endpoint is not connected")
        return self._peer

    def setsockopt(self, level: int, option: int, value: int) -> None:
        """Remembers any option; SO_RCVBUF also sets the buffer, doubled for bookkeeping as Linux does."""
        if (level, option) == (socket.SOL_SOCKET, socket.SO_RCVBUF):
            self.receive_buffer = 2 * value
        else:
            self._options[level, option] = value

    def getsockopt(self, level: int, option: int) -> int:
        if (level, option) == (socket.SOL_SOCKET, socket.SO_RCVBUF):
            return self.receive_buffer
        return self._options.get((level, option), 0)

    def fileno(self) -> int:
        """No descriptor of the operating system stands behind it."""
        return -1

    def gettimeout(self) -> float:
        return 0.0
