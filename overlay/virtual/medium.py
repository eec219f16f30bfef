"""The medium between the sockets: what becomes of each datagram.

A datagram meets, in this order: the rules, the partitions, loss, corruption, the bandwidth of its sender,
latency, duplication; and on arrival: the partitions of that moment, the state of the host, the receive
buffer, and the bandwidth and speed of the receiver.
"""

from __future__ import annotations

import errno
import random
from collections.abc import Callable
from typing import Literal

from overlay.contact import Address
from overlay.errors import UsageError
from overlay.virtual.fake_socket import VirtualSocket
from overlay.virtual.host import Host
from overlay.virtual.links import Links
from overlay.virtual.loop import VirtualLoop
from overlay.virtual.rules import Packet, Rule, Verdict, judge
from overlay.virtual.sockets import SocketTable, resolve
from overlay.virtual.stats import Loss, Stats, total
from overlay.virtual.trace import Trace
from overlay.virtual.transport import VirtualTransport

_CORRUPTED = -100.0
"""Where the trace has the time of arrival or the reason of a loss: a note that bits were flipped."""


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
        self.loss = 1.0
        self.draw: Callable[[], float]


class Medium:
    """All datagrams of one virtual network."""

    def __init__(
        self,
        loop: VirtualLoop,
        source: random.Random,
        links: Links,
        sockets: SocketTable,
        *,
        duplicate: float,
        corrupt: float,
        receive_buffer: int,
    ) -> None:
        self.rules: list[Rule] = []
        self.trace = Trace()
        self._loop = loop
        self._source = source
        self._random = source.random
        self._links = links
        self._sockets = sockets
        self._duplicate = duplicate
        self._corrupt = corrupt
        self._receive_buffer = receive_buffer
        self._lost_by: dict[Loss, int] = dict.fromkeys(Loss, 0)
        self._duplicated = 0
        self._corrupted = 0

    # -- sockets and routes --

    def open(
        self, local: tuple[str, int] | None, remote: tuple[str, int] | None
    ) -> VirtualTransport:
        """Bind a socket on the host that the address, or else the running code, names."""
        incarnation, port = self._sockets.choose(local)
        bound = Address(incarnation.host.address, port)
        name = (bound.host, port) if local is None else (resolve(local[0]), port)
        peer = None if remote is None else (resolve(remote[0]), remote[1])
        socket = VirtualSocket(name, peer, self._receive_buffer)
        transport = VirtualTransport(self._loop, self, incarnation, bound, socket, peer)
        self._sockets.bound[bound] = transport
        return transport

    def unbind(self, transport: VirtualTransport) -> None:
        del self._sockets.bound[transport.address]

    def route(self, source: VirtualTransport, destination: tuple[str, int]) -> Route:
        """The way to an address, as the links are now; a socket keeps it until `forget_routes`."""
        route = Route(source, Address(resolve(destination[0]), destination[1]))
        try:
            host = self._sockets.host(route.destination.host)
        except UsageError:
            return route
        quality = self._links.quality(source.host.address, host.address)
        route.host = host
        route.key = host.number << 16 | destination[1]
        route.cut = self._links.is_cut(source.host.address, host.address)
        route.loss = quality.loss
        route.draw = quality.latency.sampler(self._source)
        return route

    def forget_routes(self) -> None:
        for transport in self._sockets.transports():
            transport.routes.clear()

    # -- the way of a datagram --

    def send(self, route: Route, data: bytes) -> None:
        """A datagram leaves a program: decide whether it goes on its way."""
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
            data = self._spoil(route, data)
        if sender.bandwidth is not None:
            route.source.queue_to_send(size)
            self._loop.post(sender.uplink(self._loop.now, size) + held, self._leave, route, data)
        else:
            self._launch(route, data, held)
        return None

    def _judge(self, route: Route, data: bytes) -> float | Literal[Verdict.DROP]:
        packet = Packet(self._loop.now, route.source.address, route.destination, data)
        try:
            return judge(self.rules, packet)
        except BaseException as failure:
            self._loop.fail(failure)
            return Verdict.DROP

    def _spoil(self, route: Route, data: bytes) -> bytes:
        """Flip one to eight bits of one byte."""
        self._corrupted += 1
        self.trace.record(self._loop.now, route.source.key, route.key, len(data), _CORRUPTED)
        spoiled = bytearray(data)
        spoiled[self._source.randrange(len(data))] ^= self._source.randrange(1, 256)
        return bytes(spoiled)

    def _leave(self, route: Route, data: bytes) -> None:
        """A datagram has passed its host's uplink, unless the host has crashed meanwhile."""
        if route.source.incarnation.alive:
            route.source.has_sent(len(data))
            self._launch(route, data, 0.0)
        else:
            self._lose(route, len(data), Loss.CRASH)

    def _launch(self, route: Route, data: bytes, held: float) -> None:
        loop = self._loop
        now = loop.now
        arrival = now + held + route.draw()
        loop.post(arrival, self._arrive, route, data)
        self.trace.record(now, route.source.key, route.key, len(data), arrival)
        if self._duplicate and self._random() < self._duplicate:
            self._duplicated += 1
            arrival = now + held + route.draw()
            loop.post(arrival, self._arrive, route, data)
            self.trace.record(now, route.source.key, route.key, len(data), arrival)

    def _arrive(self, route: Route, data: bytes) -> None:
        """A datagram comes to the host of its destination."""
        target = route.target
        if target is None or not target.open:
            target = route.target = self._sockets.bound.get(route.destination)
            if target is None or target.peer not in (None, route.source.address):
                return self._refuse(route, data)
        host = target.host
        if self._links.cuts and self._links.is_cut(route.sender.address, host.address):
            return self._lose(route, len(data), Loss.PARTITION)
        if host.queues:
            if not target.queue_received(len(data)):
                return self._lose(route, len(data), Loss.OVERFLOW)
            done = host.downlink(self._loop.now, len(data))
            return self._loop.post(done, self._hand_over, (route, target), data)
        return self._deliver(route, target, data)

    def _hand_over(self, way: tuple[Route, VirtualTransport], data: bytes) -> None:
        """A datagram has waited for its turn in the receive buffer."""
        route, target = way
        target.take_received(len(data))
        if target.open:
            self._deliver(route, target, data)
        else:
            alive = target.incarnation.alive
            self._lose(route, len(data), Loss.NO_SOCKET if alive else Loss.CRASH)

    def _deliver(self, route: Route, target: VirtualTransport, data: bytes) -> None:
        host = target.host
        host.delivered += 1
        host.delivered_bytes += len(data)
        try:
            target.context.run(target.protocol.datagram_received, data, route.source.name)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as failure:
            self._loop.report(failure, f"Exception in datagram_received at {target}")

    def _refuse(self, route: Route, data: bytes) -> None:
        """Nobody listens: a connected sender is told, as a kernel does when an ICMP message comes back."""
        route.target = None
        if route.host is not None and not route.host.is_up:
            return self._lose(route, len(data), Loss.CRASH)
        self._lose(route, len(data), Loss.NO_SOCKET)
        if route.source.peer is not None:
            self._loop.post(self._loop.now + route.draw(), self._tell_refused, route, None)
        return None

    def _tell_refused(self, route: Route, _: None) -> None:
        route.source.error(errno.ECONNREFUSED)

    def _lose(self, route: Route, size: int, reason: Loss) -> None:
        sender = route.sender
        sender.lost += 1
        sender.lost_bytes += size
        self._lost_by[reason] += 1
        self.trace.record(self._loop.now, route.source.key, route.key, size, -reason)

    def stats(self) -> Stats:
        hosts = {host.address: host.stats() for host in self._sockets.hosts.values()}
        return total(hosts, self._duplicated, self._corrupted, self._lost_by)
