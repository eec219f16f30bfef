"""Channel tables joined by a wire that loses, repeats, delays and cuts, in simulated time and by seed."""

from __future__ import annotations

import heapq
import math
import random
from collections.abc import Callable
from dataclasses import dataclass

from overlay.channel.buffer import OnAck, Until
from overlay.channel.config import ChannelConfig
from overlay.channel.core import ChannelCore
from overlay.channel.machine import ChannelEvent
from overlay.channel.packet import ChannelRefused, Parts
from overlay.channel.table import ChannelTable
from overlay.contact import Contact, PeerId

SMALL = ChannelConfig(
    max_message=8_000,
    send_buffer=80_000,
    receive_buffer=80_000,
    receive_memory=120_000,
    max_channels=8,
    max_half_open=4,
)


@dataclass(frozen=True)
class Faults:
    """What the wire does to packets: chances, and the range of delays in seconds."""

    loss: float = 0.0
    duplicate: float = 0.0
    delay: tuple[float, float] = (0.01, 0.01)
    tick: float = 0.0
    """Packets arrive at multiples of this only, so that many arrive before a node answers the first."""


class Node:
    """One host: a table that is lost in a crash, and what the incarnations were handed."""

    def __init__(self, wire: Wire, index: int) -> None:
        self.contact = Contact(PeerId(bytes([index]) * 20), f"127.0.0.{index}", 4000)
        self.wire = wire
        self.delivered: list[bytes] = []
        self.events: list[ChannelEvent] = []
        self.outcomes: dict[bytes, bool] = {}
        self.refused: dict[str, int] = {}
        self.incarnation = 0
        self.begin()

    def begin(self) -> None:
        self.table = ChannelTable(self.wire.config, self.wire.max_body, self.wire.random)
        self.incarnation += 1
        self.touched: dict[ChannelCore, None] = {}

    def write(self, to: Node, message: bytes) -> bool:
        def settle(arrived: bool) -> None:
            assert message not in self.outcomes, "the callback was called twice"
            self.outcomes[message] = arrived

        core = self.table.to(to.contact, self.wire.now)
        return self.hand_over(core, message, settle, None)

    def hand_over(
        self, core: ChannelCore, message: bytes, on_ack: OnAck, until: Until | None
    ) -> bool:
        """Have a message sent: every other one alone, as far as that is possible, or all or none."""
        alone = self.wire.sends_alone
        if sum(message) % 2 if alone is None else alone:
            packet = core.packet_alone(message, on_ack, until, self.wire.now)
            if packet is not None:
                self.send(core, packet)
                self.wire.wake(self, core)
                return True
        is_taken = core.write(message, on_ack, until)
        self.flush(core)
        return is_taken

    def pause(self) -> None:
        self.table.paused = True
        for core in list(self.table.cores.values()):
            core.pause()

    def resume(self) -> None:
        self.table.paused = False
        for core in list(self.table.cores.values()):
            self.delivered += core.resume()
            self.flush(core)

    def receive(self, sender: Contact, packet: bytes) -> None:
        try:
            self.delivered += self.table.receive(sender, packet, self.wire.now)
        except ChannelRefused as refusal:
            self.refused[refusal.reason] = self.refused.get(refusal.reason, 0) + 1
        for to, reply in self.table.replies:
            self.wire.carry(self, to, reply)
        self.table.replies.clear()
        for core in self.table.dropped:
            self.flush(core)
        self.table.dropped.clear()
        core = self.table.cores.get(sender.id)
        if core is not None:
            self.touch(core)

    def touch(self, core: ChannelCore) -> None:
        """Flush within this moment: at once if the channel is gone, else after all that arrives in it."""
        if core.gone:
            self.flush(core)
        elif core not in self.touched:
            self.touched[core] = None
            self.wire.at(self.wire.now, lambda: self._flush_touched(core))

    def _flush_touched(self, core: ChannelCore) -> None:
        if self.touched.pop(core, core) is None and not core.gone:
            self.flush(core)

    def flush(self, core: ChannelCore) -> None:
        now = self.wire.now
        for packet in core.packets(now):
            self.send(core, packet)
        self.events += core.events
        core.events.clear()
        outcomes = core.transmitter.buffer.outcomes
        for callback, arrived in outcomes:
            callback(arrived)
        outcomes.clear()
        self.check_memory(core)
        if core.gone:
            self.table.remove(core)
        else:
            self.wire.wake(self, core)

    def send(self, core: ChannelCore, parts: Parts) -> None:
        packet = b"".join(parts)
        assert len(packet) <= self.wire.max_body
        self.wire.carry(self, core.contact, packet)

    def check_memory(self, core: ChannelCore) -> None:
        config = self.wire.config
        assert 0 <= core.transmitter.buffer.used <= config.send_buffer
        assert 0 <= core.receiver.inbox.held <= config.receive_buffer
        assert 0 <= self.table.budget.used <= config.receive_memory
        assert len(self.table) <= config.max_channels


class Wire:
    """Runs nodes in simulated time; everything random comes from one seed."""

    def __init__(
        self,
        seed: int,
        faults: Faults | None = None,
        config: ChannelConfig = SMALL,
        nodes: int = 2,
        max_body: int = 300,
    ) -> None:
        self.random = random.Random(seed)
        self.faults = faults or Faults()
        self.config = config
        self.max_body = max_body
        self.now = 0.0
        self.cut: set[tuple[int, int]] = set()
        self.carried = 0
        self.sends_alone: bool | None = None
        """Whether nodes send each message alone if possible; None: every other one."""
        self._queue: list[tuple[float, int, Callable[[], None]]] = []
        self._order = 0
        self._wakes: dict[int, float] = {}
        self.nodes = [Node(self, index + 1) for index in range(nodes)]

    def at(self, when: float, action: Callable[[], None]) -> None:
        self._order += 1
        heapq.heappush(self._queue, (when, self._order, action))

    def carry(self, source: Node, to: Contact, packet: bytes) -> None:
        self.carried += 1
        target = next((node for node in self.nodes if node.contact.host == to.host), None)
        if target is None:
            return
        link = (self.nodes.index(source), self.nodes.index(target))
        copies = 2 if self.random.random() < self.faults.duplicate else 1
        for _ in range(copies):
            arrival = self.now + self.random.uniform(*self.faults.delay)
            if self.faults.tick:
                arrival = math.ceil(arrival / self.faults.tick) * self.faults.tick
            if link not in self.cut and self.random.random() >= self.faults.loss:
                self.at(arrival, lambda: target.receive(source.contact, packet))

    def wake(self, node: Node, core: ChannelCore) -> None:
        due = max(core.next_timer(), self.now)
        if due < self._wakes.get(id(core), float("inf")):
            self._wakes[id(core)] = due
            self.at(due, lambda: self._fire(node, core, due))

    def _fire(self, node: Node, core: ChannelCore, due: float) -> None:
        if self._wakes.get(id(core)) != due:
            return  # another time was set meanwhile: woken for each of them, it would set ever more
        del self._wakes[id(core)]
        if node.table.cores.get(core.contact.id) is core:
            if core.next_timer() <= self.now:
                core.handle_timer(self.now)
            node.flush(core)

    def partition(self, first: int, second: int, both: bool = True) -> None:
        self.cut.add((first, second))
        if both:
            self.cut.add((second, first))

    def run(self, until: float, check: Callable[[], bool] | None = None) -> bool:
        """Run to a time, or until `check` holds; whether it did (or there was none)."""
        while self._queue and self._queue[0][0] <= until:
            if check is not None and check():
                return True
            self.now, _, action = heapq.heappop(self._queue)
            action()
        if check is not None:
            return check()
        self.now = until
        return True
