"""The medium between the sockets: what becomes of each datagram, and one hash of it all.

A datagram meets, in this order: the rules, the partitions, loss, corruption, the bandwidth of its sender,
latency, duplication; and on arrival: the partitions of that moment, the state of the host, the receive
buffer, and the bandwidth and speed of the receiver. All of that is folded into the hash of the run.
"""

from __future__ import annotations

import errno
import hashlib
import random
from array import array
from collections.abc import Callable
from typing import Literal, TypeAlias

from overlay.virtual.hosts import HostPlace, Loss, SocketTable, Stats, resolve, total
from overlay.virtual.links import Packet, PacketVerdict, Rule, VirtualLinks, judge
from overlay.virtual.loop import VirtualLoop
from overlay.virtual.transport import VirtualSocket, VirtualTransport

_FLUSH = 8192


class PacketTrace:
    """Folds records of numbers into a hash; two runs are the same when their hashes are.

    Numbers are kept as doubles: an IPv4 address and port (48 bits) and a size fit exactly.
    """

    def __init__(self) -> None:
        self._pending: list[float] = []
        self._digest = hashlib.blake2b(digest_size=16)

    def record(self, *numbers: float) -> None:
        pending = self._pending
        pending.extend(numbers)
        if len(pending) > _FLUSH:
            self._fold()

    def _fold(self) -> None:
        self._digest.update(array("d", self._pending).tobytes())
        self._pending.clear()

    @property
    def hash(self) -> str:
        """The hash of all records up to now, as 32 hexadecimal digits."""
        self._fold()
        return self._digest.hexdigest()


Draw: TypeAlias = Callable[[], float]

_CORRUPTED = -100.0
"""Where the trace has the time of arrival or the reason of a loss: a note that bits were flipped."""


class Medium:
    """All datagrams of one virtual network."""

    def __init__(
        self,
        loop: VirtualLoop,
        source: random.Random,
        links: VirtualLinks,
        sockets: SocketTable,
        *,
        duplicate: float,
        corrupt: float,
        receive_buffer: int,
    ) -> None:
        self.rules: list[Rule] = []
        self.trace = PacketTrace()
        self.places = sockets.places
        self.place = sockets.place
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

    def open(
        self, local: tuple[str, int] | None, remote: tuple[str, int] | None
    ) -> VirtualTransport:
        """Bind a socket on the host that the address, or else the running code, names."""
        incarnation, place = self._sockets.choose(local)
        host, port = place.address
        name = (host if local is None else resolve(local[0]), port)
        peer = None if remote is None else self.place(remote)
        peer_name = None if peer is None else peer.name
        socket = VirtualSocket(name, peer_name, self._receive_buffer)
        transport = VirtualTransport(self._loop, self, incarnation, place, socket, peer)
        place.socket = transport
        return transport

    # -- the way of a datagram --

    def send(self, source: VirtualTransport, place: HostPlace, data: bytes) -> None:
        """A datagram leaves a program: decide whether it goes on its way."""
        sender = source.host
        size = len(data)
        sender.sent += 1
        sender.sent_bytes += size
        held = 0.0
        if self.rules:
            verdict = self._judge(source, place, data)
            if verdict is PacketVerdict.DROP:
                return self._lose(source, place, size, Loss.RULE)
            held = verdict
        loss, draw = self._links.default
        host = place.host
        if host is None:
            return self._lose(source, place, size, Loss.UNREACHABLE)
        if self._links.differ:
            if self._links.is_cut(sender.address, host.address):
                return self._lose(source, place, size, Loss.PARTITION)
            loss, draw = self._links.way(sender.address, host.address)
        if loss and self._random() < loss:
            return self._lose(source, place, size, Loss.CHANCE)
        if self._corrupt and data and self._random() < self._corrupt:
            data = self._spoil(source, place, data)
        if sender.bandwidth is not None:
            source.queue_to_send(size)
            left = sender.uplink(self._loop.now, size)
            self._loop.post(left, self._leave, source, place, data, held, draw)
        else:
            self._launch(source, place, data, held, draw)
        return None

    def _judge(
        self, source: VirtualTransport, place: HostPlace, data: bytes
    ) -> float | Literal[PacketVerdict.DROP]:
        packet = Packet(self._loop.now, source.place.address, place.address, data)
        try:
            return judge(self.rules, packet)
        except BaseException as failure:
            self._loop.fail(failure)
            return PacketVerdict.DROP

    def _spoil(self, source: VirtualTransport, place: HostPlace, data: bytes) -> bytes:
        """Flip one to eight bits of one byte."""
        self._corrupted += 1
        self._record(source, place, len(data), _CORRUPTED)
        spoiled = bytearray(data)
        spoiled[self._source.randrange(len(data))] ^= self._source.randrange(1, 256)
        return bytes(spoiled)

    def _leave(
        self, source: VirtualTransport, place: HostPlace, data: bytes, held: float, draw: Draw
    ) -> None:
        """A datagram has passed its host's uplink, unless the host has crashed meanwhile."""
        if source.incarnation.alive:
            source.has_sent(len(data))
            self._launch(source, place, data, held, draw)
        else:
            self._lose(source, place, len(data), Loss.CRASH)

    def _launch(
        self, source: VirtualTransport, place: HostPlace, data: bytes, held: float, draw: Draw
    ) -> None:
        loop = self._loop
        arrival = loop.now + held + draw()
        loop.post(arrival, self._arrive, source, place, data)
        self.trace.record(loop.now, source.place.key, place.key, len(data), arrival)
        if self._duplicate and self._random() < self._duplicate:
            self._duplicated += 1
            arrival = loop.now + held + draw()
            loop.post(arrival, self._arrive, source, place, data)
            self._record(source, place, len(data), arrival)

    def _arrive(self, source: VirtualTransport, place: HostPlace, data: bytes) -> None:
        """A datagram comes to the host of its destination."""
        target = place.socket
        if target is None or (target.peer is not None and target.peer is not source.place):
            return self._refuse(source, place, data)
        host = target.host
        if self._links.differ and self._links.is_cut(source.host.address, host.address):
            return self._lose(source, place, len(data), Loss.PARTITION)
        if host.queues:
            if not target.queue_received(len(data)):
                return self._lose(source, place, len(data), Loss.OVERFLOW)
            done = host.downlink(self._loop.now, len(data))
            return self._loop.post(done, self._hand_over, source, target, data)
        host.delivered += 1
        host.delivered_bytes += len(data)
        try:  # as `_deliver` does, without a call
            target.context.run(target.protocol.datagram_received, data, source.place.name)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as failure:
            self._loop.report(failure, f"Exception in datagram_received at {target}")
        return None

    def _hand_over(self, source: VirtualTransport, target: VirtualTransport, data: bytes) -> None:
        """A datagram has waited for its turn in the receive buffer."""
        target.take_received(len(data))
        if target.open:
            self._deliver(source, target, data)
        else:
            alive = target.incarnation.alive
            reason = Loss.NO_SOCKET if alive else Loss.CRASH
            self._lose(source, target.place, len(data), reason)

    def _deliver(self, source: VirtualTransport, target: VirtualTransport, data: bytes) -> None:
        host = target.host
        host.delivered += 1
        host.delivered_bytes += len(data)
        try:
            target.context.run(target.protocol.datagram_received, data, source.place.name)
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as failure:
            self._loop.report(failure, f"Exception in datagram_received at {target}")

    def _refuse(self, source: VirtualTransport, place: HostPlace, data: bytes) -> None:
        """Nobody listens: a connected sender is told, as a kernel does when an ICMP message comes back."""
        if place.host is not None and not place.host.is_up:
            return self._lose(source, place, len(data), Loss.CRASH)
        self._lose(source, place, len(data), Loss.NO_SOCKET)
        if source.peer is not None:
            _, draw = self._links.way(place.address.host, source.place.address.host)
            self._loop.post(self._loop.now + draw(), source.error, errno.ECONNREFUSED)
        return None

    def _lose(self, source: VirtualTransport, place: HostPlace, size: int, reason: Loss) -> None:
        sender = source.host
        sender.lost += 1
        sender.lost_bytes += size
        self._lost_by[reason] += 1
        self._record(source, place, size, -reason)

    def _record(self, source: VirtualTransport, place: HostPlace, size: int, fate: float) -> None:
        """Note a datagram in the trace; its fate is its arrival, or a negative number."""
        self.trace.record(self._loop.now, source.place.key, place.key, size, fate)

    def stats(self) -> Stats:
        hosts = {host.address: host.stats() for host in self._sockets.hosts.values()}
        return total(hosts, self._duplicated, self._corrupted, self._lost_by)
