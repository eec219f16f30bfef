"""TCP connections in one epoll: partial writes, peers that reset, end halfway, flood, or take nothing."""

from __future__ import annotations

import asyncio
import os
import resource
import socket
import struct
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager, suppress
from functools import lru_cache

import pytest

from overlay import loops
from overlay.contact import Address
from pubsub.doors import sockets as module
from pubsub.doors.sockets import FULL_BYTES, HeldSocket, Sockets, listening_on

LARGE = 8 * FULL_BYTES
"""More bytes than the kernel takes for one connection over loopback."""

on_both_loops = pytest.mark.parametrize("run", [asyncio.run, loops.run], ids=["asyncio", "uvloop"])
Run = Callable[[Awaitable[None]], None]


@pytest.fixture(autouse=True)
def long_lingering(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test ends because a connection was cut off, unless it says so."""
    monkeypatch.setattr(module, "LINGER_SECONDS", 60.0)


class Echo:
    """Writes down what happens to a connection, and gives back what it is told."""

    def __init__(self, scene: Scene, held: HeldSocket) -> None:
        self.held = held
        self.heard = b""
        self.is_busy = False
        self.writables = self.ends = 0
        self._scene = scene
        scene.readers.append(self)

    def feed(self, data: bytes) -> None:
        self.heard += data
        self._scene.fed.append(self)
        if self._scene.on_feed is not None:
            self._scene.on_feed(self, data)
        else:
            self.held.write(data)

    def writable(self) -> None:
        self.writables += 1

    def lost(self) -> None:
        self.ends += 1


class Scene:
    """Sockets that listen, and the peers that a test makes."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.sockets = Sockets(self.loop)
        self.readers: list[Echo] = []
        self.fed: list[Echo] = []
        self.on_feed: Callable[[Echo, bytes], None] | None = None
        listening = listening_on(Address("127.0.0.1", 0), "echo")
        self.address = listening.getsockname()
        self.sockets.listen(listening, lambda held: Echo(self, held))
        for listening, _ in self.sockets._listening.values():
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 64 * 1024)
        self.peers: list[socket.socket] = []
        self.failures: list[Exception] = []
        self.loop.set_exception_handler(lambda _, what: self.failures.append(what["exception"]))

    def knock(self) -> socket.socket:
        """A peer that the kernel has connected; nothing of it is seen until the loop runs."""
        peer = socket.socket()
        peer.setsockopt(
            socket.SOL_SOCKET, socket.SO_RCVBUF, 64 * 1024
        )  # what is large comes in parts
        peer.connect(self.address)
        peer.setblocking(False)
        self.peers.append(peer)
        return peer

    async def peer(self) -> tuple[socket.socket, Echo]:
        peer, place = self.knock(), len(self.readers)
        await until(lambda: len(self.readers) > place)
        return peer, self.readers[place]

    async def ask(self, peer: socket.socket, data: bytes) -> bytes:
        await self.loop.sock_sendall(peer, data)
        return await self.read(peer, len(data))

    async def read(self, peer: socket.socket, size: int = -1) -> bytes:
        """As many bytes, or all until the end."""
        got = bytearray()
        while size < 0 or len(got) < size:
            most = 1 << 20 if size < 0 else size - len(got)
            data = await self.loop.sock_recv(peer, most)
            if not data:
                break
            got += data
        return bytes(got)


async def until(condition: Callable[[], object]) -> None:
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110 (the kernel tells nobody)
            await asyncio.sleep(0.001)


@asynccontextmanager
async def scene() -> AsyncIterator[Scene]:
    made = Scene()
    try:
        yield made
    finally:
        for peer in made.peers:
            peer.close()
        await made.sockets.close()
        assert len(made.sockets) == 0


def reset(peer: socket.socket) -> None:
    """End as a machine that was switched off and on does."""
    peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    peer.close()


def fill(peer: socket.socket) -> int:
    """Send what the kernel takes; its bytes."""
    sent = 0
    with suppress(BlockingIOError):
        while True:
            sent += peer.send(bytes(1 << 20))
    return sent


def ran(run: Run, test: Callable[[Scene], Awaitable[None]]) -> None:
    async def main() -> None:
        async with asyncio.timeout(20), scene() as made:
            await test(made)
            assert not made.failures

    run(main())


@lru_cache
def numbered(size: int) -> bytes:
    """Bytes of which none can go missing, or change places, without being noticed."""
    return b"".join(struct.pack(">I", number) for number in range(size // 4))


@on_both_loops
def test_what_is_said_comes_back_and_the_settings_are_inherited(run: Run) -> None:
    async def test(scene: Scene) -> None:
        peer, echo = await scene.peer()
        assert await scene.ask(peer, b"hello") == b"hello"
        copy = socket.socket(fileno=os.dup(echo.held._fd))
        with copy:
            assert copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY)
            assert copy.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE)
            assert copy.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 60
        peer.close()
        await until(lambda: echo.ends)
        assert len(scene.sockets) == 0
        echo.held.write(b"nobody")
        echo.held.close()
        assert echo.ends == 1

    ran(run, test)


@on_both_loops
def test_what_the_kernel_does_not_take_waits_and_comes_in_order(run: Run) -> None:
    async def test(scene: Scene) -> None:
        peer, echo = await scene.peer()
        data = numbered(LARGE)
        for at in range(0, LARGE, 10_000):
            echo.held.write(data[at : at + 10_000])
        assert echo.held.is_full
        assert await scene.read(peer, LARGE // 2) == data[: LARGE // 2]
        assert await scene.read(peer, LARGE - LARGE // 2) == data[LARGE // 2 :]
        await until(lambda: echo.writables)
        assert (echo.writables, echo.held.is_full) == (1, False)
        assert await scene.ask(peer, b"more") == b"more"

    ran(run, test)


@on_both_loops
@pytest.mark.parametrize("state", ["idle", "paused", "stuck", "closing"])
def test_a_peer_that_resets_is_gone_once(run: Run, state: str) -> None:
    async def test(scene: Scene) -> None:
        peer, echo = await scene.peer()
        other, _ = await scene.peer()
        if state == "paused":
            echo.is_busy = True
            await scene.ask(peer, b"x")
        elif state == "stuck":
            echo.held.write(bytes(LARGE))
        elif state == "closing":
            echo.held.close()
        reset(peer)
        await until(lambda: len(scene.sockets) == 1)
        assert await scene.ask(other, b"hello") == b"hello"
        assert echo.ends == (0 if state == "closing" else 1), "who closes knows it"

    ran(run, test)


@on_both_loops
def test_a_peer_that_ends_its_half_gets_what_was_written_before(run: Run) -> None:
    async def test(scene: Scene) -> None:
        for size in (3, LARGE):
            peer, echo = await scene.peer()
            data = numbered(size) or b"abc"
            echo.held.write(data)
            peer.shutdown(socket.SHUT_WR)
            scene.sockets._ready()
            assert await scene.read(peer) == data
            await until(lambda: not len(scene.sockets))
            assert echo.ends == 1

    ran(run, test)


@on_both_loops
def test_nobody_waits_for_a_peer_that_floods(run: Run) -> None:
    async def test(scene: Scene) -> None:
        flood, flooded = await scene.peer()
        quiet = [await scene.peer() for _ in range(20)]
        parts: list[int] = []
        scene.on_feed = lambda echo, data: parts.append(len(data))
        sent = fill(flood)
        for peer, _ in quiet:
            peer.send(b"x")
        await until(lambda: len(flooded.heard) == sent)
        assert max(parts) <= 64 * 1024, "it is not read in one go"
        last = max(scene.fed.index(echo) for _, echo in quiet)
        assert last <= len(quiet), "each is read once before any is read twice"

    ran(run, test)


@on_both_loops
def test_a_busy_reader_is_not_fed(run: Run) -> None:
    async def test(scene: Scene) -> None:
        peer, echo = await scene.peer()
        echo.is_busy = True
        assert await scene.ask(peer, b"one") == b"one"
        await scene.loop.sock_sendall(peer, b"two")
        other, _ = await scene.peer()
        for _ in range(20):
            await scene.ask(other, b"x")
        assert echo.heard == b"one"
        echo.is_busy = False
        assert await scene.read(peer, 3) == b"two"

    ran(run, test)


@on_both_loops
def test_the_last_words_come_though_more_was_sent_and_not_read(run: Run) -> None:
    """What is unread when a socket is closed resets the connection, and the other side loses what it had not
    read."""

    async def test(scene: Scene) -> None:
        def refuse(echo: Echo, data: bytes) -> None:
            echo.held.write(words)
            echo.held.close()

        scene.on_feed = refuse
        for words in (b"no", numbered(LARGE)):
            peer, echo = await scene.peer()
            peer.send(b"a wrong word")
            await until(lambda echo=echo: echo.heard)  # type: ignore[misc]
            fill(peer)
            assert await scene.read(peer) == words
            assert echo.heard == b"a wrong word", "nothing is heard behind the end"
            peer.close()
        await until(lambda: not len(scene.sockets))
        assert (echo.ends, echo.writables) == (0, 0)

    ran(run, test)


def test_a_client_that_takes_nothing_is_cut_off_and_a_slow_one_is_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def test(scene: Scene) -> None:
        slow, echo = await scene.peer()
        echo.held.write(numbered(LARGE))
        echo.held.close()
        waiting = echo.held._size
        await scene.read(slow, LARGE // 2)
        await until(lambda: echo.held._size < waiting)
        echo.held._cut_off(waiting, 1)
        rest = await scene.read(slow)
        assert rest == numbered(LARGE)[LARGE // 2 :]
        monkeypatch.setattr(module, "LINGER_SECONDS", 0.01)
        _, deaf = await scene.peer()
        deaf.held.write(bytes(LARGE))
        deaf.held.close()
        slow.close()
        await until(lambda: not len(scene.sockets))
        monkeypatch.setattr(module, "LINGER_SECONDS", 60.0)
        _, miser = await scene.peer()
        miser.held.write(bytes(LARGE))
        miser.held.close()
        miser.held._cut_off(LARGE, 0)
        assert len(scene.sockets) == 0, "and who takes little is, after a while"

    ran(asyncio.run, test)


def test_a_reader_that_fails_ends_its_connection_alone() -> None:
    async def test(scene: Scene) -> None:
        peer, echo = await scene.peer()
        other, _ = await scene.peer()

        def fail(echo: Echo, data: bytes) -> None:
            if data == b"bad":
                raise RuntimeError("a mistake")
            echo.held.write(data)

        scene.on_feed = fail
        peer.send(b"bad")
        assert await scene.ask(other, b"good") == b"good"
        await until(lambda: echo.ends)
        assert [type(one) for one in scene.failures] == [RuntimeError]
        scene.failures.clear()

    ran(asyncio.run, test)


def test_a_number_that_is_used_again_is_another_connection() -> None:
    """Ten connections have something to be read when the first of them ends the others, and as many peers
    knock: they get the same numbers in the same turn."""

    async def test(scene: Scene) -> None:
        old = [await scene.peer() for _ in range(10)]
        numbers = {echo.held._fd for _, echo in old}
        copy = os.dup(old[0][1].held._fd)  # as a process has that was started meanwhile

        def end_all(first: Echo, data: bytes) -> None:
            scene.on_feed = lambda echo, data: echo.held.write(data)
            for _, echo in old:
                echo.held.abort()

        scene.on_feed = end_all
        for peer, _ in old:
            peer.send(b"old")
        peers = [scene.knock() for _ in range(10)]
        await until(lambda: len(scene.readers) == 20)
        assert {echo.held._fd for echo in scene.readers[10:]} & numbers
        for number, peer in enumerate(peers):
            assert await scene.ask(peer, b"new%d" % number) == b"new%d" % number
        assert all(echo.ends == 1 for _, echo in old)
        assert not any(echo.ends for echo in scene.readers[10:])
        old[0][0].send(b"more")
        assert scene.sockets._epoll.poll(0) == []
        os.close(copy)
        assert b"old" not in b"".join(echo.heard for echo in scene.readers[10:])

    ran(asyncio.run, test)


@contextmanager
def most_files(most: int) -> Iterator[None]:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (most, before[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_without_files_those_who_are_in_are_served_and_others_wait(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "_NO_FILES_SECONDS", 60.0)

    async def test(scene: Scene) -> None:
        peer, _ = await scene.peer()
        late = scene.knock()
        free = os.open("/dev/null", os.O_RDONLY)
        os.close(free)
        with most_files(free):
            for _ in range(10):
                assert await scene.ask(peer, b"hello") == b"hello"
            assert len(scene.sockets) == 1
            assert scene.sockets._epoll.poll(0) == [], "the loop does not run hot"
        for listening, _ in scene.sockets._listening.values():
            scene.sockets._listen_again(listening)
        assert await scene.ask(late, b"late") == b"late"

    ran(asyncio.run, test)


def test_thousands_of_connections_and_nothing_is_left_of_them() -> None:
    most = 2_000
    files = len(os.listdir("/proc/self/fd"))

    async def test(scene: Scene) -> None:
        peers = []
        for _ in range(most):
            peers.append(scene.knock())
            if not len(peers) % 500:
                await until(lambda: len(scene.sockets) == len(peers))
        for number, peer in enumerate(peers):
            peer.send(b"%d" % number)
        for number, peer in enumerate(peers):
            assert await scene.read(peer, len(str(number))) == b"%d" % number
        assert len(scene.sockets) == most
        for echo in scene.readers[:100]:
            echo.held.close()
        for peer in peers:
            peer.close()
        await until(lambda: not len(scene.sockets))
        assert sum(echo.ends for echo in scene.readers) == most - 100

    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with most_files(min(hard, 2 * most + 500)):
        ran(loops.run, test)
    assert len(os.listdir("/proc/self/fd")) <= files + 1


def test_closing_gives_clients_the_last_words_and_lets_nobody_in(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "LINGER_SECONDS", 0.05)

    async def test(scene: Scene) -> None:
        peer, echo = await scene.peer()
        deaf, _ = await scene.peer()
        echo.held.write(b"goodbye")
        reading = asyncio.create_task(scene.read(peer))
        deaf.close()
        await scene.sockets.close()
        assert await reading == b"goodbye"
        assert echo.ends == 1
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection(scene.address)

    async def main() -> None:
        made = Scene()
        await test(made)
        for peer in made.peers:
            peer.close()

    asyncio.run(asyncio.wait_for(main(), 60))


def test_closing_may_be_cancelled() -> None:
    files = len(os.listdir("/proc/self/fd"))

    async def main() -> None:
        made = Scene()
        peer, _ = await made.peer()  # which does not end its half
        closing = asyncio.create_task(made.sockets.close())
        await asyncio.sleep(0)
        closing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await closing
        assert len(made.sockets) == 0
        peer.close()

    asyncio.run(asyncio.wait_for(main(), 60))
    assert len(os.listdir("/proc/self/fd")) == files
