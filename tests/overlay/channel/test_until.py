"""Messages that have a time: after it they are neither sent nor sent again, and nothing else is held up."""

from __future__ import annotations

import random
from collections import Counter
from functools import partial

import pytest

from overlay.channel.buffer import SendBuffer, Until
from overlay.channel.packet import REST, PacketType
from tests.overlay.channel.faulty_wire import Faults, Node, Wire

LONGEST_DELAY = 0.2


class Letters:
    """Messages between two nodes, most of them with a time, over a wire that loses and reorders."""

    def __init__(self, seed: int) -> None:
        rng = random.Random(seed)
        delays = (0.01, rng.choice((0.02, LONGEST_DELAY)))
        self.wire = Wire(seed, Faults(rng.uniform(0.0, 0.4), rng.uniform(0, 0.3), delays))
        self.until: dict[bytes, float | None] = {}
        self.came: dict[bytes, float] = {}
        self.counts: Counter[bytes] = Counter()
        for number in range(rng.randrange(5, 60)):
            head = b"%d " % number
            message = head + rng.randbytes(rng.choice((40, 200, 1_000, 7_000)))
            lifetime = rng.choice((None, 0.1, 1.0, 5.0))
            self.wire.at(rng.uniform(0, 10), partial(self.write, message, lifetime))
        if rng.random() < 0.7:
            at = rng.uniform(0, 10)
            self.wire.at(at, partial(self.wire.partition, 0, 1))
            self.wire.at(at + rng.uniform(0.5, 12), self.wire.cut.clear)
        self.wire.run(25)
        self.settled = self.wire.run(200, lambda: len(self.outcomes) == len(self.until))

    @property
    def sender(self) -> Node:
        return self.wire.nodes[0]

    @property
    def receiver(self) -> Node:
        return self.wire.nodes[1]

    @property
    def outcomes(self) -> dict[bytes, bool]:
        return self.sender.outcomes

    def write(self, message: bytes, lifetime: float | None) -> None:
        now, sender = self.wire.now, self.sender
        until = None if lifetime is None else now + lifetime
        core = sender.table.to(self.receiver.contact, now)
        ask = None if until is None else Until(until)

        def settle(arrived: bool) -> None:
            assert message not in sender.outcomes, "the callback was called twice"
            sender.outcomes[message] = arrived

        if sender.hand_over(core, message, settle, ask):
            self.until[message] = until

    def look(self) -> None:
        """Note when what was handed up came; called after every packet."""
        for message in self.receiver.delivered:
            self.came.setdefault(bytes(message), self.wire.now)
            self.counts[bytes(message)] += 1
        self.receiver.delivered.clear()


def played(seed: int, monkeypatch: pytest.MonkeyPatch) -> Letters:
    letters = Letters.__new__(Letters)
    receive = Node.receive

    def receive_and_look(node: Node, *args: object) -> None:
        receive(node, *args)  # type: ignore[arg-type]
        if node is letters.receiver:
            letters.look()

    monkeypatch.setattr(Node, "receive", receive_and_look)
    letters.__init__(seed)  # type: ignore[misc]
    return letters


def broken_promises(seed: int, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    letters = played(seed, monkeypatch)
    wrong: list[str] = []
    if not letters.settled:
        wrong.append("a message was neither acknowledged nor lost in the end")
    if any(count > 1 for count in letters.counts.values()):
        wrong.append("a message was handed up twice")
    for message, until in letters.until.items():
        came = letters.came.get(message)
        if until is None and (came is None or not letters.outcomes.get(message)):
            wrong.append("a message without a time was lost")
        if until is not None and came is not None and came > until + LONGEST_DELAY:
            wrong.append("a message was sent after its time")
        if letters.outcomes.get(message) and came is None:
            wrong.append("a message was acknowledged and never handed up")
    letters.wire.run(letters.wire.now + 2_000)
    for node in letters.wire.nodes:
        if len(node.table) or node.table.budget.used:
            wrong.append("memory is kept")
    return wrong


@pytest.mark.parametrize("seed", range(60))
def test_what_has_had_its_time_is_not_sent_again_and_holds_nothing_up(
    seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert broken_promises(seed, monkeypatch) == []


def test_a_channel_that_sends_again_whatever_the_time_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(SendBuffer, "withdraw_expired", lambda *_: None)
    found: set[str] = set()
    for seed in range(20):
        found |= set(broken_promises(seed, monkeypatch))
    assert found == {"a message was sent after its time"}


def test_the_rest_of_a_segment_goes_on_without_the_message_that_had_its_time() -> None:
    wire = Wire(1)
    a, b = wire.nodes
    a.write(b, b"opens the channel")
    wire.run(1)
    wire.partition(0, 1)
    core = a.table.to(b.contact, wire.now)
    core.write(b"short of time" * 4, None, Until(1.05))
    core.write(b"in no hurry", None, None)
    a.flush(core)
    wire.run(1.2)
    wire.cut.clear()
    wire.run(5)
    assert b.delivered == [b"opens the channel", b"in no hurry"]
    assert core.transmitter.buffer.expired == 1


@pytest.mark.parametrize("size", [0, 2**32 - 1])
def test_a_rest_that_lies_about_its_size_is_refused(size: int) -> None:
    wire = Wire(1)
    a, b = wire.nodes
    a.write(b, b"opens the channel")
    wire.run(1)
    core, other = a.table.to(b.contact, wire.now), b.table.to(a.contact, wire.now)
    number = core.transmitter.flight.next_number
    packet = REST.pack(PacketType.REST, core.session, other.session, 0, number, size, 7)
    b.receive(a.contact, packet + b"\0\0")
    assert b.refused == {"malformed": 1}


def test_of_what_waits_only_what_is_wanted_leaves() -> None:
    wire = Wire(1)
    a, b = wire.nodes
    core = a.table.to(b.contact, wire.now)
    outcomes: dict[bytes, bool] = {}
    messages = [b"wanted", b"not wanted", b"wanted " * 500, b"not wanted " * 500, b"wanted too"]
    for message in messages:
        core.write(message, partial(outcomes.__setitem__, message), None)
    core.transmitter.buffer.withdraw(lambda message: message.startswith(b"not"))
    a.flush(core)
    wire.run(5)
    wanted = {message: not message.startswith(b"not") for message in messages}
    assert outcomes == wanted
    assert {bytes(message) for message in b.delivered} == {m for m in messages if wanted[m]}
    assert core.transmitter.buffer.used == 0
