"""Members that crash and come back deliver what any member delivered, from what their logs kept."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pubsub.broadcast.events import Finished, LayerMessage
from pubsub.broadcast.kernel import LayerEvent, Stack
from pubsub.broadcast.links import BestEffort, PerfectLinks
from pubsub.broadcast.log import RestoredMember, SqliteGroupLog, StoredMessage
from pubsub.broadcast.majority import IndulgentUniform
from pubsub.broadcast.stacks import stack
from tests.pubsub.broadcast.adversary import Schedule, World
from tests.pubsub.broadcast.memory_log import MemoryStableLog
from tests.pubsub.broadcast.properties import Payload, no_creation, uniform_agreement

ROOT = Path(__file__).parents[3]


class FragileLog:
    """A log whose process may crash before or after anything it writes; a dead process writes nothing."""

    def __init__(self, log: MemoryStableLog, world: RecoveringWorld, rank: int) -> None:
        self.is_durable = log.is_durable
        self._log, self._world, self._rank = log, world, rank
        self._life = world.lives[rank]

    def __getattr__(self, name: str) -> Any:
        def write(*arguments: Any) -> Any:
            self._world.may_crash(self._rank, self._life)
            if name != "restore" and not self._world.is_alive(self._rank, self._life):
                return None
            if arguments and callable(arguments[-1]):
                *arguments, then = arguments  # type: ignore[assignment]
                arguments = [*arguments, lambda: self._then(then)]  # type: ignore[assignment]
            result = getattr(self._log, name)(*arguments)
            self._world.may_crash(self._rank, self._life)
            return result

        return write

    def _then(self, then: Callable[[], None]) -> None:
        """What follows a write; not if the process crashes in between."""
        self._world.may_crash(self._rank, self._life)
        if self._world.is_alive(self._rank, self._life):
            then()


class RecoveringWorld(World):
    """Members crash at any time, all at once if it comes so, and come back; in the end all are up."""

    crash_chance = 0.03

    def __post_init__(self) -> None:
        self.lives = [0] * self.schedule.members
        self.logs = [MemoryStableLog() for _ in self.lives]
        self.completed: list[Payload] = []
        """Broadcasts whose sender did not crash before the call was over."""
        self.twice_in_one_life = 0
        self._this_life: list[list[Any]] = [[] for _ in self.lives]
        self._steady = True
        super().__post_init__()
        self._steady = False

    def qos_of(self, rank: int) -> Stack:
        layer = IndulgentUniform(log=FragileLog(self.logs[rank], self, rank))  # type: ignore[arg-type]
        return Stack([layer, BestEffort(), PerfectLinks()], "test")

    def is_alive(self, rank: int, life: int) -> bool:
        return self.up[rank] and self.lives[rank] == life

    def may_crash(self, rank: int, life: int) -> None:
        chance = 0.0 if self._steady else self.crash_chance
        if self.is_alive(rank, life) and self.random.random() < chance:
            self.crash(rank)

    def crash(self, rank: int) -> None:
        super().crash(rank)
        self.lives[rank] += 1
        self._crash_after.pop(rank, None)
        self._this_life[rank].clear()

    def broadcast(self, rank: int) -> None:
        life = self.lives[rank]
        super().broadcast(rank)
        if self.is_alive(rank, life):
            self.completed.append(self.history.broadcasts[rank][-1])

    def _delivered(self, rank: int, event: LayerEvent) -> None:
        if self.up[rank]:
            payload = event.message.data  # type: ignore[attr-defined]
            self.twice_in_one_life += payload in self._this_life[rank]
            self._this_life[rank].append(payload)
            super()._delivered(rank, event)
            if rank in self.channels:
                source, number = event.source, event.number  # type: ignore[attr-defined]
                self.channels[rank].push(Finished(source, number))

    def _something(self) -> bool:
        down = [rank for rank, up in enumerate(self.up) if not up]
        if down and self.random.random() < 0.1:
            self.come_back(self.random.choice(down))
        return super()._something()

    def come_back(self, rank: int) -> None:
        self.up[rank] = True
        self.channels.pop(rank)
        self._open(rank)

    def run_to_the_end(self) -> None:
        self.run()
        self._steady = True
        for rank, up in enumerate(self.up):
            if not up:
                self.come_back(rank)
        self.run_on()

    def run_on(self) -> None:
        self.timers = [timer for timer in self.timers if timer.live]
        for timer in self.timers:
            timer.due = min(timer.due, self.now)
        self.now = 0.0
        for _ in range(100_000):
            if not self._something() and not self._fire():
                break
        self.history.correct = self.correct()


def check(schedule: Schedule) -> RecoveringWorld:
    world = RecoveringWorld(stack("iurb"), schedule)
    world.run_to_the_end()
    assert not uniform_agreement(world.history), schedule
    assert not no_creation(world.history), schedule
    assert world.twice_in_one_life == 0, schedule
    for payload in world.completed:
        for rank in range(schedule.members):
            assert payload in world.history.payloads(rank), f"{rank} misses {payload}: {schedule}"
    return world


@settings(max_examples=60, database=None)
@given(
    seed=st.integers(0, 1 << 32),
    members=st.integers(2, 5),
    partitions=st.integers(0, 2),
    after=st.integers(1, 20),
)
def test_everyone_who_comes_back_delivers_what_anyone_delivered(
    seed: int, members: int, partitions: int, after: int
) -> None:
    check(Schedule(seed, members, crashes=((0, after), (1, after)), partitions=partitions))


def test_members_do_crash_and_come_back_in_these_runs() -> None:
    worlds = [check(Schedule(seed, members=4)) for seed in range(10)]
    assert sum(map(sum, (world.lives for world in worlds))) > 20
    assert all(len(world.completed) > 0 for world in worlds)


def test_a_member_that_does_not_write_before_it_acknowledges_is_caught(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(MemoryStableLog, "held", lambda self, stored, then: then())

    def caught(seed: int) -> bool:
        try:
            check(Schedule(seed, members=3))
        except AssertionError:
            return True
        return False

    assert any(caught(seed) for seed in range(20))


def test_a_log_forgets_what_everybody_has_and_nobody_waits_for() -> None:
    world = RecoveringWorld(stack("iurb"), Schedule(1, members=3))
    world._steady = True
    for _ in range(30):
        world.broadcast(0)
    world.run_on()
    for log in world.logs:
        restored = log.restore()
        assert (restored.copies, restored.untaken, restored.above) == ((), (), ())
        assert restored.marks == {0: 30}


def test_what_was_written_is_there_after_the_process_died(tmp_path: Path) -> None:
    path = tmp_path / "log.sqlite"
    code = (
        "import os, sys\n"
        "from pubsub.broadcast.log import SqliteGroupLog, StoredMessage\n"
        "from pubsub.broadcast.events import LayerMessage\n"
        "import asyncio\n"
        "async def main():\n"
        "    log = SqliteGroupLog(sys.argv[1], 'one')\n"
        "    nothing = lambda: None\n"
        "    for n in (1, 2, 3):\n"
        "        message = LayerMessage({'n': n}).push(0, 0, n)\n"
        "        log.held(StoredMessage(0, n, message), nothing)\n"
        "    log.delivered(0, 1, 1, nothing); log.taken(0, 1); log.delivered(0, 3, 1, nothing)\n"
        "    await log.journal.written()\n"
        "    os._exit(9)\n"
        "asyncio.run(main())\n"
    )
    assert subprocess.run([sys.executable, "-c", code, str(path)], cwd=ROOT).returncode == 9

    async def restore() -> RestoredMember:
        log = SqliteGroupLog(path, "one")
        restored = log.restore()
        await log.close()
        return restored

    restored = asyncio.run(restore())
    third = StoredMessage(0, 3, LayerMessage({"n": 3}, ((0, 0, 3),)))
    assert [copy.number for copy in restored.copies] == [1, 2, 3]
    assert restored.untaken == (third,)
    assert (restored.marks, restored.above) == ({0: 1}, ((0, 3),))
