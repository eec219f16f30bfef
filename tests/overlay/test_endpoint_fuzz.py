"""Garbage at the endpoint: no exception escapes, no task dies, and valid traffic still flows."""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import Callable

import pytest

from overlay.contact import Contact
from overlay.identity import Identity
from overlay.loops import run
from overlay.metrics import Metrics
from overlay.session import SessionConfig
from overlay.transport.config import EndpointConfig, SocketConfig
from overlay.transport.endpoint import Endpoint, FrameKind
from overlay.transport.frame import PlainEnvelope, frame_head
from overlay.wire import Data, WireError, decode, encode, message
from tests.overlay.endpoint_parties import Insider

KEY = bytes(range(32))
SOURCE = ("127.0.0.9", 4000)
BUSY = SessionConfig(answers_a_second=100_000, max_half_open=8, max_sessions=16)


@message(0xFF20)
class Note:
    number: int
    text: str
    author: Contact | None
    data: Data


class Fuzzer:
    """Datagrams by seed: random ones, valid ones, and valid ones with something done to them."""

    def __init__(self, seed: int, target: Endpoint) -> None:
        self.random = random.Random(seed)
        self._target = target
        self._earlier: list[bytes] = []
        self._senders = [self._sender() for _ in range(8)]
        self._earlier.append(self._valid())

    def _sender(self) -> PlainEnvelope | Insider:
        identity = Identity(self.random.randbytes(32))
        if self._target.sessions is None:
            return PlainEnvelope(identity.id)
        insider = Insider(self._target, identity)
        insider.open(SOURCE)
        self._earlier += insider.sent
        return insider

    def datagram(self) -> bytes:
        choice = self.random.random()
        if choice < 0.2:
            return self._random_bytes(200)
        if choice < 0.3:
            return self._mangle(self.random.choice(self._earlier))
        if choice < 0.5:
            return self._from_an_insider()
        datagram = self._valid()
        if self.random.random() < 0.05:
            self._earlier = [*self._earlier[-20:], datagram]
        mangled = self._mangle(datagram)
        if self.random.random() < 0.5 and len(mangled) > 4:  # so that it is looked at further
            mangled = mangled[:2] + len(mangled).to_bytes(2, "big") + mangled[4:]
        return mangled

    def _valid(self) -> bytes:
        return self._seal([self._frame() for _ in range(self.random.randint(1, 4))])

    def _from_an_insider(self) -> bytes:
        """Sealed as it should be, with frames that are not as they should be."""
        return self._seal([self._mangle(self._frame()) for _ in range(self.random.randint(0, 3))])

    def _seal(self, frames: list[bytes]) -> bytes:
        if self.random.random() < 0.01:
            self._senders[self.random.randrange(8)] = self._sender()
        return self.random.choice(self._senders).wrap(frames)

    def _frame(self) -> bytes:
        kind = self.random.choice(
            [FrameKind.DHT, FrameKind.DATAGRAM, FrameKind.CHANNEL, self.random.randrange(256)]
        )
        note = Note(self.random.getrandbits(40), "text", None, [1, {"a": b"b"}, None, 2.5])
        body = encode(note)
        if self.random.random() < 0.5:
            body = self._mangle(body)
        return frame_head(kind, len(body)) + body

    def _random_bytes(self, most: int) -> bytes:
        return self.random.randbytes(self.random.randrange(most))

    def _mangle(self, whole: bytes) -> bytes:
        mangled = bytearray(whole)
        for _ in range(self.random.randrange(4)):
            self.random.choice(_WAYS)(self.random, mangled)
        return bytes(mangled)


def _flip(chance: random.Random, mangled: bytearray) -> None:
    if mangled:
        mangled[chance.randrange(len(mangled))] ^= 1 << chance.randrange(8)


def _overwrite(chance: random.Random, mangled: bytearray) -> None:
    if mangled:
        mangled[chance.randrange(len(mangled))] = chance.choice(
            [0, 1, 0x7F, 0x80, 0xC1, 0xDD, 0xFF]
        )


def _cut(chance: random.Random, mangled: bytearray) -> None:
    del mangled[chance.randrange(len(mangled) + 1) :]


def _extend(chance: random.Random, mangled: bytearray) -> None:
    mangled += chance.randbytes(chance.randrange(40))


def _repeat(chance: random.Random, mangled: bytearray) -> None:
    start = chance.randrange(len(mangled) + 1)
    mangled[start:start] = mangled[start : start + chance.randrange(30)]


def _remove(chance: random.Random, mangled: bytearray) -> None:
    start = chance.randrange(len(mangled) + 1)
    del mangled[start : start + chance.randrange(10)]


_WAYS: list[Callable[[random.Random, bytearray], None]] = [
    _flip,
    _overwrite,
    _cut,
    _extend,
    _repeat,
    _remove,
]


async def open_endpoint(keys: tuple[bytes, ...]) -> Endpoint:
    """An endpoint with handlers as layers have them, one of which is faulty; it takes floods for honest."""
    config = EndpointConfig(
        "127.0.0.1:0", keys=keys, session=BUSY, socket=SocketConfig(flood_limit=10**9)
    )
    endpoint = await Endpoint.open(config, Identity.create(), Metrics())

    def read(sender: Contact, body: bytes) -> None:
        with contextlib.suppress(WireError):
            assert type(decode(body)) is not bytes

    def fail_at_times(sender: Contact, body: bytes) -> None:
        if len(body) % 7 == 0:
            raise RuntimeError("a faulty handler")

    endpoint.on(FrameKind.DHT, read)
    endpoint.on(FrameKind.CHANNEL, fail_at_times)
    return endpoint


async def assert_traffic_flows(target: Endpoint, keys: tuple[bytes, ...]) -> None:
    arrived = asyncio.Event()
    target.on(FrameKind.DATAGRAM, lambda sender, body: arrived.set() if body == b"valid" else None)
    peer = await Endpoint.open(
        EndpointConfig("127.0.0.1:0", keys=keys), Identity.create(), Metrics()
    )
    peer.send(target.contact.address, FrameKind.DATAGRAM, b"valid")
    async with asyncio.timeout(10):
        await arrived.wait()
    await peer.close()


def check_counters(target: Endpoint, taken: int) -> None:
    counters = target.metrics.as_dict()
    assert taken <= counters["datagrams_received"] < 1.2 * taken, "a wrong length cuts one in two"  # type: ignore[operator]
    dropped = counters["dropped_in"]
    assert isinstance(dropped, dict)
    expected = {"unknown_version", "unknown_flags", "truncated", "unknown_kind"}
    if not target.config.keys:
        expected |= {"empty"}  # in a session, a datagram without frames says that it is used
    else:
        expected |= {"not_authentic", "replayed", "unknown_session", "unsealed"}
    assert expected <= dropped.keys(), "the garbage reached every check"
    assert counters["frames_received"] > taken / 100, "and some of it was let in"  # type: ignore[operator]
    assert counters["handler_errors"] != {}


@pytest.mark.parametrize("keys", [(), (KEY,)], ids=["plain", "sealed"])
@pytest.mark.parametrize(
    ("seed", "count"),
    [(1, 20_000), pytest.param(2, 100_000, marks=pytest.mark.sweep)],
)
def test_any_amount_of_garbage_changes_nothing(
    seed: int, count: int, keys: tuple[bytes, ...]
) -> None:
    async def main() -> None:
        target = await open_endpoint(keys)
        fuzzer = Fuzzer(seed, target)
        tasks = asyncio.all_tasks()
        for number in range(count):
            target.receive(fuzzer.datagram(), SOURCE)
            if number % 50 == 0:
                await asyncio.sleep(0)
        check_counters(target, count)
        await assert_traffic_flows(target, keys)
        assert asyncio.all_tasks() == tasks
        await target.close()

    run(main())


@pytest.mark.parametrize("keys", [(), (KEY,)], ids=["plain", "sealed"])
def test_garbage_through_a_real_socket_changes_nothing(keys: tuple[bytes, ...]) -> None:
    count = 3_000

    async def main() -> None:
        target = await open_endpoint(keys)
        fuzzer = Fuzzer(3, target)
        tasks = asyncio.all_tasks()
        transport, _ = await asyncio.get_running_loop().create_datagram_endpoint(
            asyncio.DatagramProtocol, local_addr=("127.0.0.1", 0)
        )
        for number in range(count):
            transport.sendto(fuzzer.datagram() or b"\0", tuple(target.contact.address))
            if number % 20 == 0:
                await asyncio.sleep(0)
        await assert_traffic_flows(target, keys)
        check_counters(target, count + 1)
        assert asyncio.all_tasks() == tasks
        transport.close()
        await target.close()

    run(main())
