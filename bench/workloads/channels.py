"""Messages of 256 bytes between two processes on loopback: reliable channels against plain datagrams.

Three programs in one run, each a sender at full speed and a receiver that counts what reaches it, for the
same time: blocking sockets (what the system calls allow) and asyncio-dgram on the fastest loop, both with one
message a datagram and no acknowledgement; and channels, where everything arrives.
"""

from __future__ import annotations

import argparse
import asyncio
import socket
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection

import asyncio_dgram

from bench.players import Players, Role
from bench.workloads.workload import Option, Row, RowTable, Workload, rows_of
from overlay.channel import ChannelConfig, Channels
from overlay.contact import Contact
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.transport.config import EndpointConfig
from overlay.transport.endpoint import Endpoint
from overlay.transport.frame import Buffer

MESSAGE = bytes(256)
END = b"end"
PATH_DATAGRAM = 1400
LOOPBACK_DATAGRAM = 32_768
"""Bytes of a datagram: the default, and what suits loopback, whose packets are that large."""

HOST = "127.0.0.1"
SENDS_A_TURN = 32


@dataclass(frozen=True)
class ChannelOutcome:
    """What a receiver saw: messages, and seconds from the first to the last; seconds of its processor."""

    messages: int
    seconds: float
    processor: float

    @property
    def rate(self) -> float:
        return self.messages / self.seconds


class Count:
    """Counts messages until the end is announced."""

    def __init__(self) -> None:
        self.messages = 0
        self._began = self._processor = 0.0

    def take(self, message: bytes) -> bool:
        """Whether this was the end."""
        if len(message) == len(END):
            return True
        if not self.messages:
            self._began = time.perf_counter()
            self._processor = time.process_time()
        self.messages += 1
        return False

    def outcome(self) -> ChannelOutcome:
        seconds = time.perf_counter() - self._began
        return ChannelOutcome(self.messages, seconds, time.process_time() - self._processor)


def run(options: argparse.Namespace) -> Iterator[Row]:
    """Takes about half a minute."""
    seconds, rounds = options.seconds, options.rounds
    blocking = _best(_receive_blocking, _send_blocking, 0, seconds, rounds)
    plain = _best(_receive_plain, _send_plain, 0, seconds, rounds)
    small = _best(_receive_by_channel, _send_by_channel, PATH_DATAGRAM, seconds, rounds)
    large = _best(_receive_by_channel, _send_by_channel, LOOPBACK_DATAGRAM, seconds, rounds)
    for way, outcome in (
        ("blocking sockets, one a datagram", blocking),
        ("asyncio-dgram, one a datagram", plain),
        (f"channel, datagrams of {PATH_DATAGRAM:,}", small),
        (f"channel, datagrams of {LOOPBACK_DATAGRAM:,}", large),
    ):
        cost = outcome.processor / outcome.messages * 1e6
        metrics = {
            "rate": (outcome.rate, "messages/s"),
            "cpu": (cost, "us/message"),
            "against asyncio-dgram": (outcome.rate / plain.rate, "x"),
            "against blocking sockets": (outcome.rate / blocking.rate, "x"),
        }
        yield from rows_of({"way": way}, metrics)


def _best(receive: Role, send: Role, datagram: int, seconds: float, rounds: int) -> ChannelOutcome:
    """The fastest round: the others were disturbed."""
    races = [_race(receive, send, datagram, seconds) for _ in range(rounds)]
    return max(races, key=lambda outcome: outcome.rate)


def _race(receive: Role, send: Role, datagram: int, seconds: float) -> ChannelOutcome:
    with Players() as players:
        receiver = players.start(receive, datagram)
        players.start(send, receiver.answer(), datagram, seconds)
        outcome: ChannelOutcome = receiver.answer()
        return outcome


# Blocking sockets.


def _receive_blocking(parent: Connection, _: int) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        sock.bind((HOST, 0))
        parent.send(sock.getsockname())
        count = Count()
        while not count.take(sock.recv(2048)):
            pass
        parent.send(count.outcome())


def _send_blocking(pipe: Connection, place: tuple[str, int], _: int, seconds: float) -> None:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        until = time.perf_counter() + seconds
        while time.perf_counter() < until:
            for _turn in range(SENDS_A_TURN):
                sock.sendto(MESSAGE, place)
        _announce_end(place)


def _announce_end(place: tuple[str, int]) -> None:
    """Datagrams are lost while the receiver is busy: say it until it must have been heard."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        for _ in range(50):
            sock.sendto(END, place)
            time.sleep(0.01)


# asyncio-dgram.


async def _receive_plain(parent: Connection, _: int) -> None:
    stream = await asyncio_dgram.bind((HOST, 0))
    parent.send(stream.sockname)
    count = Count()
    while not count.take((await stream.recv())[0]):
        pass
    parent.send(count.outcome())
    stream.close()


async def _send_plain(pipe: Connection, place: tuple[str, int], _: int, seconds: float) -> None:
    stream = await asyncio_dgram.connect(place)
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for _turn in range(SENDS_A_TURN):
            await stream.send(MESSAGE)
        await asyncio.sleep(0)
    stream.close()
    _announce_end(place)


# Channels.


async def _open_channels(datagram: int) -> tuple[Endpoint, Channels]:
    config = EndpointConfig(f"{HOST}:0", datagram_size=datagram)
    endpoint = await Endpoint.open(config, Identity.create(), Metrics())
    return endpoint, Channels(endpoint, ChannelConfig())


async def _receive_by_channel(parent: Connection, datagram: int) -> None:
    endpoint, channels = await _open_channels(datagram)
    count = Count()
    end = asyncio.Event()

    def receive(sender: Contact, message: Buffer) -> None:
        if count.take(bytes(message)):
            end.set()

    channels.on_message(receive)
    parent.send(endpoint.contact)
    await end.wait()
    parent.send(count.outcome())
    await asyncio.sleep(0.1)  # for the last acknowledgement
    await channels.close()
    await endpoint.close()


async def _send_by_channel(pipe: Connection, place: Contact, datagram: int, seconds: float) -> None:
    endpoint, channels = await _open_channels(datagram)
    channel = channels.to(place)
    until = time.perf_counter() + seconds
    while time.perf_counter() < until:
        for _turn in range(SENDS_A_TURN):
            await channel.send(MESSAGE)
    await channel.drained()
    await channel.send(END)
    await channel.drained()
    await channels.close()
    await endpoint.close()


WORKLOAD = Workload(
    "channels",
    "Channels",
    "Messages of 256 bytes between two processes on loopback: reliable channels against plain datagrams.",
    (
        Option("seconds", 1.5, "how long each sender sends", quick=0.7),
        Option("rounds", 3, "rounds, of which the fastest counts", quick=1),
    ),
    run,
    (
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
    ),
    quick_seconds=10,
)
