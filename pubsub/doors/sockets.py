"""Many TCP connections in one epoll, with no transport for each: an idle one costs about 150 bytes.

    sockets = Sockets(asyncio.get_running_loop())
    sockets.listen(listening_on(Address("127.0.0.1", 1883), "MQTT"), accept)

`accept` is given each connection and returns its reader. What a connection writes within one turn of the loop
leaves together and in order; what the kernel does not take waits here, and `is_full` says that too much does:
its writer has to stop then, until its reader is told `writable`. A turn reads each connection once, so that
none keeps the others waiting. Linux only: elsewhere, and for TLS, there are the loop's transports, on a
socket of `listening_on` too.
"""

from __future__ import annotations

import asyncio
import logging
import os
import select
import socket
from collections.abc import Callable
from contextlib import suppress
from typing import Protocol

from overlay.contact import Address
from overlay.errors import NetworkError, why

_log = logging.getLogger(__name__)

CAN_HOLD = hasattr(select, "epoll")

FULL_BYTES = 256 * 1024
"""Bytes that may wait to be written to a client that keeps up; it does so again at a quarter of them."""

GATHERED_BYTES = 64 * 1024
"""Bytes for a client that are gathered within a turn of the loop, before they are handed to the kernel."""

LINGER_SECONDS = 1.0
"""How long a connection that this side has ended is read, and what comes thrown away: it would reset the
connection, and the client would not see why it ended. A client that takes nothing of what it was sent for as
long is cut off."""

_MOST_LINGERS = 30
"""How often a client that takes a little each time is given as long once more."""

_READ_BYTES = 64 * 1024
_EVENTS_A_TURN = 256
_ACCEPTS_A_TURN = 64

_PAUSE_SECONDS = 0.01
"""How often a reader that was busy is asked whether it takes more."""

_NO_FILES_SECONDS = 1.0
"""How long nobody is let in after this process has run out of files."""

_BACKLOG = 1024


class Reader(Protocol):
    """What takes the bytes of one connection. It hears nothing more once it has closed the connection."""

    @property
    def is_busy(self) -> bool:
        """Nothing more is to be read for the moment."""
        ...

    def feed(self, data: bytes) -> None: ...

    def writable(self) -> None:
        """The connection was full, and is so no more."""
        ...

    def lost(self) -> None:
        """The connection is over."""
        ...


class Flushed(Protocol):
    def flush(self) -> None: ...


class Turn:
    """The connections that something was written to in this turn of the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._written: list[Flushed] = []

    def add(self, connection: Flushed) -> None:
        if not self._written:
            self._loop.call_soon(self._flush)
        self._written.append(connection)

    def _flush(self) -> None:
        written, self._written = self._written, []
        for connection in written:
            connection.flush()


_OPEN, _PAUSED, _CLOSING, _ENDED, _GONE = range(5)
"""A connection is read and its reader fed; not read while its reader is busy; ended by this side, while the
other may not have read everything; ended by the other side, while what was written before is still sent; and
gone. Only forwards, but for the first two."""

_READ = (_OPEN, _CLOSING)

_NOTHING: list[bytes] = []
"""Stands for what waits to be written to a client that has taken everything; never changed."""


class HeldSocket:
    """One connection."""

    __slots__ = (
        "_fd",
        "_is_stuck",
        "_out",
        "_size",
        "_sockets",
        "_state",
        "is_full",
        "reader",
    )

    reader: Reader

    def __init__(self, sockets: Sockets, fd: int) -> None:
        self._sockets = sockets
        self._fd = fd
        self._state = _OPEN
        self._out = _NOTHING
        """Gathered in this turn, behind what the kernel has not taken."""
        self._size = 0
        self._is_stuck = False
        """The kernel has not taken everything; it says when it takes more."""
        self.is_full = False

    def write(self, data: bytes) -> None:
        """Send; nothing happens once the connection has ended. Never calls the reader."""
        if self._state >= _CLOSING:
            return
        self._size += len(data)
        if self._out:
            self._out.append(data)
        else:
            self._out = [data]
            self._sockets.turn.add(self)
        if self._is_stuck:
            self.is_full = self.is_full or self._size > FULL_BYTES
        elif self._size > GATHERED_BYTES:
            self.flush()

    def flush(self) -> None:
        """Hand what was written to the kernel."""
        if self._is_stuck or not self._out:
            return
        data = self._out[0] if len(self._out) == 1 else b"".join(self._out)
        try:
            sent = os.write(self._fd, data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.abort()
            return
        if sent == len(data):
            self._out, self._size = _NOTHING, 0
            return
        self._out, self._size = [data[sent:]], len(data) - sent
        self._is_stuck = True
        self.is_full = self.is_full or self._size > FULL_BYTES
        self._watch()

    def close(self) -> None:
        """End behind what was written."""
        if self._state < _CLOSING:
            self.flush()
            self._finish(_CLOSING)

    def abort(self) -> None:
        """End at once; the reader is told in the next turn."""
        if self._state < _CLOSING:
            self._sockets.loop.call_soon(self.reader.lost)
        self._forget()

    def ready(self, events: int) -> None:
        """The kernel has something for this connection."""
        if events & select.EPOLLOUT:
            self._write_on()
        if self._state in _READ and events & ~select.EPOLLOUT:
            self._read()
        elif self._state < _GONE and events & (select.EPOLLHUP | select.EPOLLERR):
            self.abort()

    def resume(self) -> None:
        """Read again what was paused, if the reader is no more busy."""
        if self._state == _PAUSED:
            if self.reader.is_busy:
                self._sockets.pause(self)
            else:
                self._state = _OPEN
                self._watch()

    def _watch(self) -> None:
        events = select.EPOLLIN if self._state in _READ else 0
        self._sockets.watch(self._fd, events | (select.EPOLLOUT if self._is_stuck else 0))

    def _read(self) -> None:
        try:
            data = os.read(self._fd, _READ_BYTES)
        except BlockingIOError:
            return
        except OSError:  # the other side has reset the connection, or has vanished
            self.abort()
            return
        if not data:
            self._ended()
        elif self._state == _OPEN:
            self.reader.feed(data)
            if self._state == _OPEN and self.reader.is_busy:
                self._state = _PAUSED
                self._watch()
                self._sockets.pause(self)

    def _ended(self) -> None:
        """The other side sends nothing more."""
        self.flush()
        was_open = self._state == _OPEN  # if not, the reader knows, or is told
        self._finish(_ENDED)
        if was_open:
            self.reader.lost()

    def _write_on(self) -> None:
        """The kernel takes more."""
        self._is_stuck = False
        self.flush()
        if self._state == _GONE or self._is_stuck:
            pass
        elif self._state < _CLOSING:
            self._watch()
        else:
            self._written()
        if self.is_full and self._size <= FULL_BYTES // 4:
            self.is_full = False
            if self._state < _CLOSING:
                self.reader.writable()

    def _finish(self, state: int) -> None:
        """Send what is left, read what still comes unless the other side has ended, and go."""
        if self._state == _GONE:
            return
        is_first = self._state < _CLOSING
        self._state = state
        if self._out:
            self._watch()
        else:
            self._written()
        if is_first and self._state != _GONE:
            self._linger(_MOST_LINGERS)

    def _written(self) -> None:
        """An ending connection has sent everything."""
        if self._state == _CLOSING and _end_writing(self._fd):
            self._watch()
        else:
            self._forget()

    def _linger(self, left: int) -> None:
        self._sockets.loop.call_later(LINGER_SECONDS, self._cut_off, self._size, left - 1)

    def _cut_off(self, size: int, left: int) -> None:
        """End for good, unless the client has taken some of the `size` bytes that waited for it."""
        if self._size < size and left > 0:
            self._linger(left)
        else:
            self._forget()

    def _forget(self) -> None:
        if self._state != _GONE:
            self._state = _GONE
            self._out, self._size = _NOTHING, 0
            self._sockets.forget(self._fd)


def _end_writing(fd: int) -> bool:
    """Tell the other side that nothing more comes; False if it is not there any more."""
    ending = socket.socket(fileno=fd)
    try:
        ending.shutdown(socket.SHUT_WR)
        return True
    except OSError:
        return False
    finally:
        ending.detach()


class Sockets:
    """Connections, and the sockets that listen for them."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.turn = Turn(loop)
        self._epoll = select.epoll()
        self._held: dict[int, HeldSocket] = {}
        self._listening: dict[int, tuple[socket.socket, Callable[[HeldSocket], Reader]]] = {}
        self._paused: list[HeldSocket] = []
        self._is_empty = asyncio.Event()
        loop.add_reader(self._epoll.fileno(), self._ready)

    def __len__(self) -> int:
        return len(self._held)

    def listen(self, listening: socket.socket, accept: Callable[[HeldSocket], Reader]) -> None:
        """Let clients in from now on."""
        self._listening[listening.fileno()] = (listening, accept)
        self._epoll.register(listening.fileno(), select.EPOLLIN)

    def stop_listening(self) -> None:
        listening, self._listening = self._listening, {}
        for one, _ in listening.values():
            self._epoll.unregister(one)
            one.close()

    async def close(self) -> None:
        """End everything; clients have a moment to take what was written to them."""
        self.stop_listening()
        for held in list(self._held.values()):
            held.reader.lost()
            held.close()
        try:
            if self._held:
                self._is_empty.clear()
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._is_empty.wait(), LINGER_SECONDS)
        finally:
            for held in list(self._held.values()):
                held.abort()
            self.loop.remove_reader(self._epoll.fileno())
            self._epoll.close()

    def watch(self, fd: int, events: int) -> None:
        self._epoll.modify(fd, events)

    def pause(self, held: HeldSocket) -> None:
        """Ask its reader in a moment whether it takes more."""
        if not self._paused:
            self.loop.call_later(_PAUSE_SECONDS, self._resume)
        self._paused.append(held)

    def forget(self, fd: int) -> None:
        del self._held[fd]
        self._epoll.unregister(fd)
        os.close(fd)
        if not self._held:
            self._is_empty.set()

    def _resume(self) -> None:
        paused, self._paused = self._paused, []
        for held in paused:
            held.resume()

    def _ready(self) -> None:
        for fd, events in self._epoll.poll(0, _EVENTS_A_TURN):
            # The number may be that of a connection that has ended in this turn, and by now that of a new
            # one, where a read finds nothing yet.
            held = self._held.get(fd)
            if held is None:
                if fd in self._listening:
                    self._accept(*self._listening[fd])
                continue
            try:
                held.ready(events)
            except Exception as error:
                what = "a connection is ended because its reader failed"
                self.loop.call_exception_handler({"message": what, "exception": error})
                held.abort()

    def _accept(self, listening: socket.socket, accept: Callable[[HeldSocket], Reader]) -> None:
        for _ in range(_ACCEPTS_A_TURN):
            try:
                connected, _address = listening.accept()
            except BlockingIOError:
                return
            except ConnectionAbortedError:
                continue
            except OSError as error:  # no file is left: those who are here are served
                _log.warning("nobody is let in for %g s: %s", _NO_FILES_SECONDS, error)
                self._epoll.modify(listening.fileno(), 0)
                self.loop.call_later(_NO_FILES_SECONDS, self._listen_again, listening)
                return
            connected.setblocking(False)
            fd = connected.detach()
            held = self._held[fd] = HeldSocket(self, fd)
            self._epoll.register(fd, select.EPOLLIN)
            held.reader = accept(held)

    def _listen_again(self, listening: socket.socket) -> None:
        if listening.fileno() in self._listening:
            self._epoll.modify(listening.fileno(), select.EPOLLIN)


def listening_on(at: Address, what: str, takes_within: float = 0.0) -> socket.socket:
    """A socket that listens there; `NetworkError`, with `what` was to be served, when that is not possible.

    The kernel asks clients every ten seconds, after a minute of silence, whether they are there; six times:
    one that vanished without a word is found out. `takes_within`: seconds after which one that is there, and
    takes nothing of what waits for it, is put out (Linux); a coroutine that writes to it waits as long."""
    family = socket.AF_INET6 if ":" in at.host else socket.AF_INET
    try:
        listening = socket.create_server(at, family=family, backlog=_BACKLOG)
    except OSError as error:
        raise NetworkError(
            f"{what} cannot be served on {at}: {why(error)}; choose another port"
        ) from None
    listening.setblocking(False)
    # These settings of a listening socket are given to all that it accepts.
    listening.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {"TCP_NODELAY": 1, "TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 6}
    for name, value in (options | {"TCP_USER_TIMEOUT": int(1000 * takes_within)}).items():
        if hasattr(socket, name):  # not everywhere
            listening.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)
    return listening
