"""The speed of single layers, mostly in processor time of one core, so that other work on the machine
counts little.

Sealing: what it costs to seal a datagram and to open it, against leaving it plain, for datagrams of the
default size and of the largest on loopback. Channels: messages a second between two processes, by the wall
clock, against blocking sockets (what the system calls allow) and asyncio-dgram on the fastest loop, both with
one message a datagram and no acknowledgement. Virtual network: datagrams a second of an echo, beside the same
echo over real sockets as the measure of the machine, and a DHT's boot. Filters: how many events a second
one evaluates, beside a Python function, and what the worst ones cost: those that spend all the steps that
an evaluation may take. Web services: what envelopes of WS-ReliableMessaging cost, beside table 2 of the
reliable delivery paper."""

from __future__ import annotations

import argparse
import asyncio
import logging
import socket
import statistics
import time
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from contextlib import asynccontextmanager
from multiprocessing.connection import Connection
from typing import Any

import asyncio_dgram

from bench.players import Players, Role
from bench.workloads.workload import Option, Row, RowTable, Values, Workload, rows_of
from overlay.channel import ChannelConfig, Channels
from overlay.contact import Contact, PeerId
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.session.network_key import NetworkKey, new_key
from overlay.session.session import HEAD, Session
from overlay.transport.config import EndpointConfig
from overlay.transport.endpoint import Endpoint
from overlay.transport.frame import Buffer, FrameKind, PlainEnvelope, Wrap, frame_head
from overlay.virtual import Latency, Network, nth_host
from pubsub.filters import Filter

BODY = 256
"""Bytes of a frame's body."""


def sealing() -> Iterator[Row]:
    """The cost of wrapping and unwrapping, sealed and plain, a datagram and a frame."""
    for frames, datagrams in ((5, 5000), (230, 250)):
        yield from _seal_size(frames, datagrams)


def _seal_size(frames: int, datagrams: int) -> Iterator[Row]:
    alice, bob = PeerId(b"A" * 20), PeerId(b"B" * 20)
    keys, network = (new_key(), new_key()), NetworkKey(new_key())
    here, there = (
        Session(peer, network, index, 3 - index, keys, index == 1)
        for index, peer in ((1, bob), (2, alice))
    )
    here.make_ready()
    there.make_ready()
    parts = [frame_head(FrameKind.DATAGRAM, BODY), b"x" * BODY] * frames
    what = f"{frames} frames of {BODY} bytes"
    sealed = _costs(here.wrap, lambda d: there.unwrap(d, HEAD.unpack_from(d)[-1]), parts, datagrams)
    plain_here, plain_there = PlainEnvelope(alice), PlainEnvelope(bob)
    plain = _costs(
        plain_here.wrap, lambda d: plain_there.unwrap(d, ("127.0.0.1", 9)), parts, datagrams
    )
    for name, own, other in zip(("seal", "open"), sealed, plain, strict=True):
        note = f"plain: {other * 1e6:.2f}"
        yield _row("sealing", f"{name}, {what}", own * 1e6, "us/datagram", note)
    added = (sum(sealed) - sum(plain)) / frames * 1e6
    yield _row("sealing", f"sealing adds, {what}", added, "us/frame", "both sides together")


def _costs(
    wrap: Wrap, unwrap: Callable[[bytes], object], parts: list[bytes], datagrams: int
) -> tuple[float, float]:
    """Seconds of processor time to wrap one datagram, and to unwrap it."""
    rounds = [_one_round(wrap, unwrap, parts, datagrams) for _ in range(ROUNDS)]
    return min(there for there, _ in rounds), min(back for _, back in rounds)


def _one_round(
    wrap: Wrap, unwrap: Callable[[bytes], object], parts: list[bytes], datagrams: int
) -> tuple[float, float]:
    start = time.process_time()
    wrapped = [wrap(parts) for _ in range(datagrams)]
    half = time.process_time()
    for datagram in wrapped:
        unwrap(datagram)
    end = time.process_time()
    return (half - start) / datagrams, (end - half) / datagrams


DATAGRAMS = 60_000
IN_FLIGHT = 10
PAYLOAD = bytes(256)
SERVERS = 500
ROUNDS = 3
"""The fastest round counts: the others were disturbed."""


def virtual_network() -> Iterator[Row]:
    """Takes about fifteen seconds."""
    echo = _best_rate(_virtually, _echo)
    streams = _best_rate(_virtually, _echo_streams)
    real = _best_rate(asyncio.run, _echo)
    yield _row("virtual network", "echo, protocols", echo, "datagrams/s")
    yield _row("virtual network", "echo, asyncio-dgram", streams, "datagrams/s")
    note = f"loopback {real:,.0f}/s, asyncio"
    yield _row("virtual network", "against loopback", echo / real, "x", note)
    name = f"boot of {SERVERS} kademlia servers"
    yield _row("virtual network", name, _boot_seconds(), "s")


def _virtually(main: Coroutine[Any, Any, Any]) -> None:
    Network(seed=1, latency=Latency.uniform(0.005, 0.050)).run(main)


def _best_rate(
    run: Callable[[Coroutine[Any, Any, Any]], object],
    program: Callable[[int], Coroutine[Any, Any, Any]],
) -> float:
    seconds = []
    for _ in range(ROUNDS):
        began = time.process_time()
        run(program(DATAGRAMS))
        seconds.append(time.process_time() - began)
    return DATAGRAMS / min(seconds)


class _Echo(asyncio.DatagramProtocol):
    """Sends back what it gets, until all its sisters together have had enough."""

    left = 0
    done: asyncio.Future[None]
    transport: Any

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport

    def datagram_received(self, data: bytes, addr: Any) -> None:
        _Echo.left -= 1
        if _Echo.left > 0:
            self.transport.sendto(data, addr)
        elif not _Echo.done.done():
            _Echo.done.set_result(None)


async def _echo(datagrams: int) -> None:
    loop = asyncio.get_running_loop()
    _Echo.left, _Echo.done = datagrams, loop.create_future()
    one, _ = await loop.create_datagram_endpoint(_Echo, local_addr=("127.0.0.1", 0))
    other, _ = await loop.create_datagram_endpoint(_Echo, local_addr=("127.0.0.1", 0))
    for _ in range(IN_FLIGHT):
        one.sendto(PAYLOAD, other.get_extra_info("sockname"))
    await _Echo.done
    one.close()
    other.close()


async def _echo_streams(datagrams: int) -> None:
    server = await asyncio_dgram.bind(("127.0.0.1", 0))
    client = await asyncio_dgram.connect(server.sockname)

    async def answer() -> None:
        while True:
            data, sender = await server.recv()
            await server.send(data, sender)

    answering = asyncio.create_task(answer())
    for _ in range(IN_FLIGHT):
        await client.send(PAYLOAD)
    for _ in range(datagrams // 2 - IN_FLIGHT):
        await client.recv()
        await client.send(PAYLOAD)
    answering.cancel()
    client.close()
    server.close()


def _boot_seconds() -> float:
    for noisy in ("kademlia", "rpcudp"):
        logging.getLogger(noisy).setLevel(logging.CRITICAL)
    began = time.process_time()
    _virtually(_boot(SERVERS))
    return time.process_time() - began


async def _boot(servers: int) -> None:
    """One server after another joins by the first, and at the end finds what another has stored."""
    from kademlia.network import Server

    booted: list[Any] = []
    for number in range(servers):
        server = Server()
        await server.listen(4000, nth_host(number))
        if booted:
            await server.bootstrap([(nth_host(0), 4000)])
        booted.append(server)
    await booted[1].set("key", "value")
    assert await booted[-1].get("key") == "value"
    for server in booted:
        server.stop()


EVENT = {"price": 12, "symbol": "ACME", "order": {"lines": [{"qty": 3}, {"qty": 5}]}}

FILTERS: dict[str, Callable[[Any], bool]] = {
    "price > 10": lambda data: data["price"] > 10,
    "price > 10 AND symbol IN ('ACME', 'B', 'C')": lambda data: (
        data["price"] > 10 and data["symbol"] in {"ACME", "B", "C"}
    ),
    "order.lines[0].qty + order.lines[1].qty * 2 = 13 AND symbol LIKE 'A%E'": lambda data: (
        data["order"]["lines"][0]["qty"] + data["order"]["lines"][1]["qty"] * 2 == 13
        and data["symbol"].startswith("A")
        and data["symbol"].endswith("E")
    ),
}
"""Filters, and Python functions that do the same."""

WORST: dict[str, tuple[str, Any]] = {
    "LIKE over a long text": ("$ LIKE '%a_b%'", "a" * 249_000),
    "membership in a long list": ("-1 IN $", list(range(250_000))),
    "as much as can be written": (" OR ".join(["a + a * a > 9"] * 73), {"a": 1}),
}

SECONDS = 0.5


def filters() -> Iterator[Row]:
    """Evaluations a second, and the milliseconds of the worst ones."""
    for text, function in FILTERS.items():
        wanted = Filter.parse(text)
        rate, plain = _rate(lambda w=wanted: w.matches(EVENT)), _rate(lambda f=function: f(EVENT))  # type: ignore[misc]
        yield _row("filters", text, rate, "events/s")
        yield _row("filters", f"{text}, as a Python function", plain / rate, "times as many")
        yield _row("filters", f"parsing {text}", _rate(lambda t=text: Filter.parse(t)), "filters/s")  # type: ignore[misc]
    for name, (text, data) in WORST.items():
        wanted = Filter.parse(text)
        milliseconds = 1000 / _rate(lambda w=wanted, d=data: w.evaluate(d))  # type: ignore[misc]
        yield _row("filters", f"worst: {name}", milliseconds, "ms")


def _rate(work: Callable[[], object]) -> float:
    """How often a second of processor time."""
    times, start = 0, time.process_time()
    while time.process_time() - start < SECONDS:
        for _ in range(10):
            work()
        times += 10
    return times / (time.process_time() - start)


RUNS = 100
"""Of each operation on envelopes, as in the paper."""

_SEQUENCE = "urn:uuid:62711ba3-b389-8b7b-e57a-81c6ba5b97fd"
_HEADER = (
    "<wsa:MessageID>urn:uuid:1</wsa:MessageID><wsa:To>http://127.0.0.1/topics/soccer</wsa:To>"
    "<wsa:ReplyTo><wsa:Address>{anonymous}</wsa:Address></wsa:ReplyTo><wsa:Action>urn:score</wsa:Action>"
    "<wsrm:Sequence><wsrm:Identifier>{sequence}</wsrm:Identifier><wsrm:MessageNumber>7"
    "</wsrm:MessageNumber></wsrm:Sequence>"
)


def web_services() -> Iterator[Row]:
    """Mean and deviation of reading and writing envelopes, in processor time, beside the paper's mean."""
    from pubsub.doors.wsrm import soap

    header = _HEADER.format(anonymous=soap.ANONYMOUS, sequence=_SEQUENCE)
    envelope = (
        f'<s:Envelope xmlns:s="{soap.SOAP_12.namespace}" xmlns:wsa="{soap.WSA}" xmlns:wsrm="{soap.RM}">'
        f"<s:Header>{header}</s:Header><s:Body><score>1-0</score></s:Body></s:Envelope>"
    ).encode()
    request = soap.read(envelope)
    told = soap.Acknowledgement(_SEQUENCE, 7)
    fault = soap.SoapFault("there is no such sequence here", "UnknownSequence", _SEQUENCE)
    operations: dict[str, tuple[Callable[[], object], float]] = {
        "read an envelope with its headers": (lambda: soap.read(envelope), 711.74),
        "write a fault": (lambda: soap.faulted(request, fault), 413.80),
        "write CreateSequenceResponse": (lambda: soap.created(request, _SEQUENCE, 60), 234.97),
        "write SequenceAcknowledgement": (lambda: soap.acknowledged(request, (told,)), 461.17),
        "write TerminateSequenceResponse": (lambda: soap.ended(request, "Terminate", told), 20.95),
    }
    for name, (work, paper) in operations.items():
        work()
        times = []
        for _ in range(RUNS):
            began = time.process_time_ns()
            work()
            times.append((time.process_time_ns() - began) / 1000)
        found: Values = {
            "mean": (statistics.mean(times), "us"),
            "deviation": (statistics.stdev(times), "us"),
            "the paper": (paper, "us"),
        }
        yield from rows_of({"operation": name}, found)


# Channels: messages of 256 bytes between two processes on loopback, each way in a race of its own: a sender
# at full speed, and a receiver that counts what reaches it.

RACE_SECONDS = 0.5
END = b"end"
HOST = "127.0.0.1"
SENDS_A_TURN = 32


class _Count:
    """Counts messages until the end is announced."""

    def __init__(self) -> None:
        self.messages = 0
        self._began = self._processor = 0.0

    def take(self, message: Buffer) -> bool:
        """Whether this was the end."""
        if len(message) == len(END):
            return True
        if not self.messages:
            self._began, self._processor = time.perf_counter(), time.process_time()
        self.messages += 1
        return False

    def rates(self) -> tuple[float, float]:
        """Messages a second, and microseconds of the receiver's processor for each."""
        seconds = time.perf_counter() - self._began
        return self.messages / seconds, 1e6 * (
            time.process_time() - self._processor
        ) / self.messages


def channels() -> Iterator[Row]:
    """Acknowledged channels, where everything arrives, against plain datagrams, of which many are lost."""
    ways: dict[str, tuple[Role, Role, int]] = {
        "blocking sockets, one a datagram": (_receive_blocking, _send_blocking, 0),
        "asyncio-dgram, one a datagram": (_receive_plain, _send_plain, 0),
        "channel, datagrams of 1,400": (_receive_by_channel, _send_by_channel, 1_400),
        "channel, datagrams of 32,768": (_receive_by_channel, _send_by_channel, 32_768),
    }
    found = {way: max(_race(*roles) for _ in range(ROUNDS)) for way, roles in ways.items()}
    (blocking, _), (plain, _), *_ = found.values()
    for way, (rate, cost) in found.items():
        metrics: Values = {
            "rate": (rate, "messages/s"),
            "cpu": (cost, "us/message"),
            "against asyncio-dgram": (rate / plain, "x"),
            "against blocking sockets": (rate / blocking, "x"),
        }
        yield from rows_of({"way": way}, metrics)


def _race(receive: Role, send: Role, datagram: int) -> tuple[float, float]:
    with Players() as players:
        receiver = players.start(receive, datagram)
        players.start(send, receiver.answer(), datagram)
        rates: tuple[float, float] = receiver.answer()
        return rates


def _receive_blocking(parent: Connection, _: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((HOST, 0))
        parent.send(sock.getsockname())
        count = _Count()
        while not count.take(sock.recv(2048)):
            pass
        parent.send(count.rates())


def _send_blocking(pipe: Connection, place: tuple[str, int], _: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        until = time.perf_counter() + RACE_SECONDS
        while time.perf_counter() < until:
            for _turn in range(SENDS_A_TURN):
                sock.sendto(PAYLOAD, place)
    _announce_end(place)


def _announce_end(place: tuple[str, int]) -> None:
    """Datagrams are lost while the receiver is busy: say it until it must have been heard."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _ in range(50):
            sock.sendto(END, place)
            time.sleep(0.01)


async def _receive_plain(parent: Connection, _: int) -> None:
    stream = await asyncio_dgram.bind((HOST, 0))
    parent.send(stream.sockname)
    count = _Count()
    while not count.take((await stream.recv())[0]):
        pass
    parent.send(count.rates())
    stream.close()


async def _send_plain(pipe: Connection, place: tuple[str, int], _: int) -> None:
    stream = await asyncio_dgram.connect(place)
    until = time.perf_counter() + RACE_SECONDS
    while time.perf_counter() < until:
        for _turn in range(SENDS_A_TURN):
            await stream.send(PAYLOAD)
        await asyncio.sleep(0)
    stream.close()
    _announce_end(place)


@asynccontextmanager
async def _open_channels(datagram: int) -> AsyncIterator[tuple[Endpoint, Channels]]:
    config = EndpointConfig(f"{HOST}:0", datagram_size=datagram)
    endpoint = await Endpoint.open(config, Identity.create(), Metrics())
    opened = Channels(endpoint, ChannelConfig())
    yield endpoint, opened
    await opened.close()
    await endpoint.close()


async def _receive_by_channel(parent: Connection, datagram: int) -> None:
    count, end = _Count(), asyncio.Event()

    def receive(sender: Contact, message: Buffer) -> None:
        if count.take(message):
            end.set()

    async with _open_channels(datagram) as (endpoint, opened):
        opened.on_message(receive)
        parent.send(endpoint.contact)
        await end.wait()
        parent.send(count.rates())
        await asyncio.sleep(0.1)  # for the last acknowledgement


async def _send_by_channel(pipe: Connection, place: Contact, datagram: int) -> None:
    async with _open_channels(datagram) as (_, opened):
        channel = opened.to(place)
        until = time.perf_counter() + RACE_SECONDS
        while time.perf_counter() < until:
            for _turn in range(SENDS_A_TURN):
                await channel.send(PAYLOAD)
        await channel.send(END)
        await channel.drained()


LAYERS: dict[str, Callable[[], Iterator[Row]]] = {
    "sealing": sealing,
    "channels": channels,
    "virtual network": virtual_network,
    "filters": filters,
    "web services": web_services,
}


def _row(layer: str, metric: str, value: float, unit: str, note: str = "") -> Row:
    return Row({"layer": layer}, metric, value, unit, note=note)


def run(options: argparse.Namespace) -> Iterator[Row]:
    for layer in options.layers:
        yield from LAYERS[layer]()


WORKLOAD = Workload(
    "layers",
    "Speed of single layers",
    "Sealing, channels beside plain datagrams, the virtual network, filters and SOAP envelopes.",
    (Option("layers", list(LAYERS), "which of them", choices=tuple(LAYERS)),),
    run,
    (
        RowTable("layers", "Single layers", {"layer": "layer"}),
        RowTable(
            "channels",
            "Messages of 256 bytes from one process to another",
            {"way": "way"},
            {
                "messages/s": "{rate:,.0f}",
                "receiver's CPU us": "{cpu:.2f}",
                "against asyncio-dgram": "{against asyncio-dgram:.2f} x",
                "against blocking sockets": "{against blocking sockets:.2f} x",
            },
        ),
        RowTable(
            "envelopes",
            "SOAP envelopes",
            {"operation": "operation"},
            {
                "mean us": "{mean:.1f}",
                "deviation us": "{deviation:.1f}",
                "the paper's mean us": "{the paper:.1f}",
            },
        ),
    ),
    quick_seconds=55,
)
