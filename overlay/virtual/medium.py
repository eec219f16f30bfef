"""The medium between the sockets: what becomes of each datagram.

A datagram meets, in this order: the rules, the partitions, loss, corruption, latency, duplication; and on
arrival: partitions again, the state of the host, the socket's receive buffer.
"""

from __future__ import annotations

import errno
import os
import random
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from overlay.contact import Address
from overlay.errors import UsageError
from overlay.virtual.host import LAST_PORT, RUNNING_ON, Host, Incarnation
from overlay.virtual.latency import Latency
from overlay.virtual.loop import VirtualLoop
from overlay.virtual.rules import Packet, Rule, Verdict, judge
from overlay.virtual.stats import Loss, Stats
from overlay.virtual.trace import Trace
from overlay.virtual.transport import VirtualTransport


@dataclass(frozen=True)
class Quality:
    """How well one direction of a link works."""

    latency: Latency
    loss: float


class Route:
    """The way from one socket to one address, with everything that is decided once for many datagrams."""

    __slots__ = ("cut", "destination", "draw", "host", "key", "loss", "sender", "source", "target")

    def __init__(self, source: VirtualTransport, destination: Address) -> None:
        self.source = source
        self.sender = source.host
        self.destination = destination
        self.host: Host | None = None
        self.key = 0
        self.target: VirtualTransport | None = None
        self.cut = False
        self.loss = 0.0
        self.draw: Callable[[], float]


class Medium:
    """All hosts, sockets and datagrams of one virtual network."""

    def __init__(
        self,
        loop: VirtualLoop,
        source: random.Random,
        quality: Quality,
        duplicate: float,
        corrupt: float,
    ) -> None:
        self.trace = Trace()
        self.rules: list[Rule] = []
        self._loop = loop
        self._random = source.random
        self._source = source
        self._quality = quality
        self._duplicate = duplicate
        self._corrupt = corrupt
        self._hosts: dict[str, Host] = {}
        self._sockets: dict[tuple[str, int], VirtualTransport] = {}
        self._links: dict[tuple[str, str], Quality] = {}
        self._cuts: list[tuple[frozenset[str], frozenset[str]]] = []
        self._lost_by: dict[Loss, int] = dict.fromkeys(Loss, 0)
        self._duplicated = 0
        self._corrupted = 0

    # -- hosts and sockets --

    def host(self, address: str) -> Host:
        host = self._hosts.get(address)
        if host is None:
            host = self._hosts[address] = Host(address)
        return host

    def open(
        self, local: tuple[str, int] | None, remote: tuple[str, int] | None
    ) -> VirtualTransport:
        """Bind a socket on the host that the address or else the running code names."""
        incarnation = self._incarnation_of(local)
        host = incarnation.host
        port = self._free_port(host, 0 if local is None else local[1])
        bound = (host.address, port)
        name = bound if local is None else (_resolve(local[0]), port)
        peer = None if remote is None else (_resolve(remote[0]), remote[1])
        transport = VirtualTransport(self._loop, self, incarnation, name, bound, peer)
        self._sockets[bound] = transport
        return transport

    def _incarnation_of(self, local: tuple[str, int] | None) -> Incarnation:
        here = RUNNING_ON.get()
        wanted = "0.0.0.0" if local is None else _resolve(local[0])
        if wanted == "0.0.0.0":
            incarnation = self.host("127.0.0.1").incarnation if here is None else here
        else:
            try:
                incarnation = self.host(wanted).incarnation
            except UsageError:
                raise OSError(
                    errno.EADDRNOTAVAIL, f"{wanted} is no host of the virtual network"
                ) from None
            if here is not None and here.host is not incarnation.host:
                raise OSError(
                    errno.EADDRNOTAVAIL,
                    f"{wanted} is not the address of this host, {here.host.address}",
                )
        if not incarnation.alive:
            raise OSError(errno.ENETDOWN, f"the host {incarnation.host.address} is down")
        return incarnation

    def _free_port(self, host: Host, wanted: int) -> int:
        if wanted:
            if (host.address, wanted) in self._sockets:
                raise OSError(errno.EADDRINUSE, f"{host.address}:{wanted} is in use")
            return wanted
        for port in range(host.next_port, LAST_PORT + 1):
            if (host.address, port) not in self._sockets:
                host.next_port = port + 1
                return port
        raise OSError(errno.EADDRINUSE, f"{host.address} has no port left")

    def unbind(self, transport: VirtualTransport) -> None:
        self._sockets.pop(transport.bound, None)

    def crash(self, host: Host) -> None:
        """End the host's present life, with its sockets, tasks, timers and queued datagrams."""
        for transport in list(self._sockets.values()):
            if transport.host is host:
                transport.vanish()
        self._loop.kill(host.incarnation)

    def cut(self, side: frozenset[str], other: frozenset[str]) -> None:
        """Let nothing through from one side to the other."""
        self._cuts.append((side, other))
        self._forget_routes()

    def heal(self) -> None:
        self._cuts.clear()
        self._forget_routes()

    def _forget_routes(self) -> None:
        for transport in self._sockets.values():
            transport.routes.clear()

    def vanish(self) -> None:
        """Close all sockets without a word to anybody, as the end of the world would."""
        for transport in list(self._sockets.values()):
            transport.vanish()

    def route(self, source: VirtualTransport, destination: tuple[str, int]) -> Route:
        """The way to an address; asked once for a destination, until the network's shape changes."""
        route = Route(source, Address(_resolve(destination[0]), destination[1]))
        try:
            route.host = self.host(route.destination.host)
        except UsageError:
            route.loss = 1.0
            return route
        pair = (source.host.address, route.host.address)
        quality = self._links.get(pair, self._quality)
        route.key = route.host.number << 16 | destination[1]
        route.cut = self.is_cut(*pair)
        route.loss = quality.loss
        route.draw = quality.latency.sampler(self._source)
        return route

    def is_cut(self, source: str, destination: str) -> bool:
        return any(source in side and destination in other for side, other in self._cuts)

    # -- the way of a datagram --

    def send(self, route: Route, data: bytes) -> None:
        """Decide what becomes of a datagram on its way."""
        loop = self._loop
        sender = route.sender
        size = len(data)
        sender.sent += 1
        sender.sent_bytes += size
        held = 0.0
        if self.rules:
            verdict = self._judge(route, data)
            if verdict is Verdict.DROP:
                return self._lose(route, size, Loss.RULE)
            held = verdict
        if route.cut:
            return self._lose(route, size, Loss.PARTITION)
        if route.loss and self._random() < route.loss:
            return self._lose(route, size, Loss.CHANCE if route.host else Loss.UNREACHABLE)
        if self._corrupt and self._random() < self._corrupt:
            data = self._spoil(data)
        arrival = loop.now + held + route.draw()
        loop.post(arrival, self._arrive, route, data)
        self.trace.record(loop.now, route.source.key, route.key, size, arrival)
        if self._duplicate and self._random() < self._duplicate:
            self._duplicated += 1
            arrival = loop.now + held + route.draw()
            loop.post(arrival, self._arrive, route, data)
            self.trace.record(loop.now, route.source.key, route.key, size, arrival)
        return None

    def _judge(self, route: Route, data: bytes) -> Any:
        source = Address(*route.source.bound)
        try:
            return judge(self.rules, Packet(self._loop.now, source, route.destination, data))
        except BaseException as failure:
            self._loop.fail(failure)
            return Verdict.DROP

    def _spoil(self, data: bytes) -> bytes:
        """Flip one to eight bits of one byte."""
        self._corrupted += 1
        spoiled = bytearray(data)
        spoiled[self._source.randrange(len(data))] ^= self._source.randrange(1, 256)
        return bytes(spoiled)

    def _arrive(self, route: Route, data: bytes) -> None:
        """Hand a datagram to the socket that listens at its destination."""
        target = route.target
        if target is None or not target.open:
            target = route.target = self._sockets.get(route.destination)
            if target is None or target.peer not in (None, route.source.bound):
                return self._refuse(route, data)
        if self._cuts and self.is_cut(route.sender.address, target.host.address):
            return self._lose(route, len(data), Loss.PARTITION)
        host = target.host
        host.delivered += 1
        host.delivered_bytes += len(data)
        try:
            target.context.run(target.protocol.datagram_received, data, route.source.bound)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as failure:
            self._loop.report(failure, f"Exception in datagram_received at {target}")
        return None

    def _refuse(self, route: Route, data: bytes) -> None:
        """Nobody listens: a connected sender is told, as the kernel does with an ICMP message."""
        route.target = None
        if route.host is not None and not route.host.is_up:
            return self._lose(route, len(data), Loss.CRASH)
        self._lose(route, len(data), Loss.NO_SOCKET)
        if route.source.peer is not None:
            self._loop.post(self._loop.now + route.draw(), self._tell_refused, route, None)
        return None

    def _tell_refused(self, route: Route, _: None) -> None:
        if route.source.open:
            route.source.error(
                ConnectionRefusedError(errno.ECONNREFUSED, os.strerror(errno.ECONNREFUSED))
            )

    def _lose(self, route: Route, size: int, reason: Loss) -> None:
        sender = route.sender
        sender.lost += 1
        sender.lost_bytes += size
        self._lost_by[reason] += 1
        self.trace.record(self._loop.now, route.source.key, route.key, size, -reason)

    def stats(self) -> Stats:
        return Stats.total(
            {host.address: host.stats() for host in self._hosts.values()},
            self._duplicated,
            self._corrupted,
            {reason.name.lower(): count for reason, count in self._lost_by.items()},
        )


def _resolve(host: str) -> str:
    return "127.0.0.1" if host == "localhost" else host
