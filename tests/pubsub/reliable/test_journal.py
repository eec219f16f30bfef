"""A journal writes off the loop, together, in order, and loses nothing while its disk fails."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import sqlite3
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from overlay.errors import ClosedError, UsageError
from overlay.loops import run as run_on_real_loop
from overlay.runtime import Runtime, RuntimeConfig
from overlay.transport.config import EndpointConfig
from overlay.virtual import Network, nth_host
from pubsub.broadcast import Group
from pubsub.reliable.journal import Change, Journal, opened
from pubsub.topics import StrongTopics
from tests.pubsub.reliable.mutants import assert_noticed

TABLES = "CREATE TABLE IF NOT EXISTS things (number INTEGER PRIMARY KEY);"
ROOT = Path(__file__).parents[3]


def put(number: int) -> list[Any]:
    return [("INSERT INTO things VALUES (?)", (number,))]


def things(journal: Journal) -> list[int]:
    return [number for (number,) in journal.read("SELECT number FROM things ORDER BY number")]


def open_journal(path: Path, owner: str = "test", **more: Any) -> Journal:
    return Journal(path / "journal.db", TABLES, owner, **more)


def test_writes_share_commits_and_are_answered_in_order(tmp_path: Path) -> None:
    async def main() -> None:
        journal = open_journal(tmp_path)
        done: list[int] = []
        for number in range(500):
            journal.write(put(number), lambda number=number: done.append(number))
        assert not done, "nothing blocks the loop"
        await journal.written()
        assert done == list(range(500))
        assert journal.commits < 10
        await journal.close()
        again = open_journal(tmp_path)
        assert things(again) == list(range(500))
        await again.close()

    asyncio.run(main())


def test_commits_run_in_another_thread(tmp_path: Path) -> None:
    async def main() -> None:
        journal = open_journal(tmp_path)
        threads: list[int] = []
        commit = journal._commit

        def note(changes: Any) -> None:
            threads.append(threading.get_ident())
            commit(changes)

        journal._commit = note  # type: ignore[method-assign]
        journal.write(put(1))
        await journal.close()
        assert threads
        assert threading.get_ident() not in threads

    asyncio.run(main())


def test_the_logs_of_topics_and_groups_are_opened_read_and_closed_in_other_threads(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[str] = []

    class File(sqlite3.Connection):
        def execute(self, *arguments: Any) -> sqlite3.Cursor:
            used.append(threading.current_thread().name)
            return super().execute(*arguments)

        def close(self) -> None:
            used.append(threading.current_thread().name)
            super().close()

    async def main() -> None:
        runtime = await Runtime.open(RuntimeConfig(EndpointConfig("127.0.0.1:0")))
        strong = StrongTopics(runtime)
        await strong.join("/t", lambda delivery: None, log=tmp_path / "topic.db")
        await strong.close()
        async with Group(
            [str(runtime.contact.address)], 0, "iurb", log=tmp_path / "group.db", runtime=runtime
        ):
            pass
        await runtime.close()

    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *a, **how: connect(*a, factory=File, **how))
    run_on_real_loop(main())
    assert used
    assert threading.main_thread().name not in used


def test_a_journal_that_nobody_waits_for_any_more_is_closed_again(tmp_path: Path) -> None:
    async def main() -> None:
        may_go_on = threading.Event()
        made: list[Journal] = []

        def slowly() -> Journal:
            may_go_on.wait(10)
            made.append(open_journal(tmp_path))
            return made[0]

        opening = asyncio.create_task(opened(slowly))
        await asyncio.sleep(0)
        opening.cancel()
        await asyncio.sleep(0)
        may_go_on.set()
        with pytest.raises(asyncio.CancelledError):
            await opening
        with pytest.raises(ClosedError):
            made[0].write(put(1))

    asyncio.run(main())


def test_a_disk_that_fails_is_told_and_loses_nothing(tmp_path: Path) -> None:
    failures: list[Exception] = []

    async def main() -> None:
        journal = open_journal(tmp_path, on_failure=failures.append)
        ((pages,),) = journal.read("PRAGMA page_count")
        journal.read(f"PRAGMA max_page_count = {pages}")
        done: list[int] = []
        for number in range(10_000, 13_000):
            journal.write(put(number), lambda number=number: done.append(number))
        await asyncio.sleep(3.5)
        assert not done
        assert journal.failure is not None
        assert len(failures) == journal.failures >= 3
        assert things(journal) == [], "all or nothing"
        journal.read("PRAGMA max_page_count = 100000")
        await journal.written()
        assert done == list(range(10_000, 13_000))
        assert journal.failure is None
        await journal.close()

    Network(1).run(main())


def test_closing_while_the_disk_fails_ends_and_says_so(tmp_path: Path) -> None:
    async def main() -> None:
        journal = open_journal(tmp_path)
        journal.write([("INSERT INTO nothing VALUES (1)", ())])
        waiting = asyncio.ensure_future(journal.written())
        await asyncio.sleep(2)
        await journal.close()
        await journal.close()
        with pytest.raises(ClosedError):
            await waiting
        with pytest.raises(ClosedError):
            journal.write(put(1))

    Network(1).run(main())


def test_a_crash_loses_what_was_not_answered_and_nothing_else(tmp_path: Path) -> None:
    done: list[int] = []

    async def program() -> None:
        journal = open_journal(tmp_path)
        for number in range(1000):
            journal.write(put(number), lambda number=number: done.append(number))
            await asyncio.sleep(0.001)

    async def main(network: Network) -> list[int]:
        network.spawn(nth_host(1), program())
        await asyncio.sleep(0.5)
        network.crash(nth_host(1))
        again = open_journal(tmp_path)
        found = things(again)
        await again.close()
        return found

    network = Network(1)
    found = network.run(main(network))
    assert 100 < len(done) < 1000
    assert found[: len(done)] == done


def test_a_journal_has_one_owner(tmp_path: Path) -> None:
    async def main() -> None:
        await open_journal(tmp_path, "one").close()
        journal = open_journal(tmp_path, "one")
        with pytest.raises(UsageError, match="the log of the one, not of the other"):
            open_journal(tmp_path, "other")
        assert "another process" in errors_of_another(tmp_path), "the lock is still there"
        await journal.close()

    asyncio.run(main())


def errors_of_another(path: Path) -> str:
    """What a process says that opens the journal, too."""
    code = (
        "import sys, asyncio\nfrom pathlib import Path\n"
        "from tests.pubsub.reliable.test_journal import open_journal\n"
        "async def main():\n    open_journal(Path(sys.argv[1]))\nasyncio.run(main())\n"
    )
    command = [sys.executable, "-c", code, str(path)]
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True).stderr


def test_another_process_is_kept_out(tmp_path: Path) -> None:
    async def main() -> None:
        journal = open_journal(tmp_path)
        assert "another process has this log open" in errors_of_another(tmp_path)
        await journal.close()
        assert errors_of_another(tmp_path) == ""

    asyncio.run(main())


def test_a_file_that_is_no_journal_is_refused(tmp_path: Path) -> None:
    (tmp_path / "journal.db").write_text(
        "not a database, and long enough not to be taken for one" * 20
    )

    async def main() -> None:
        with pytest.raises(UsageError, match="cannot be used as a log"):
            open_journal(tmp_path)

    asyncio.run(main())


def test_what_fails_after_a_write_does_not_stop_the_others(tmp_path: Path) -> None:
    async def main() -> None:
        journal = open_journal(tmp_path)
        journal.write(put(1), lambda: 1 / 0)  # type: ignore[arg-type, return-value]
        journal.write(put(2))
        await journal.written()
        assert things(journal) == [1, 2]
        await journal.close()

    asyncio.run(main())


TABLE = "CREATE TABLE IF NOT EXISTS halves (number INTEGER, half INTEGER);"


def storm(path: Path, chance: random.Random) -> None:
    """Writes of two rows each, with a disk that fails at times and processes that crash, in virtual time."""
    written: list[int] = []
    answered: list[int] = []
    is_failing = False
    commit = Journal._commit

    def commit_or_fail(journal: Journal, changes: Sequence[Change]) -> None:
        if is_failing:  # after all but the last of what belongs to it
            changes = [*changes, ("INSERT INTO nowhere VALUES (1)", ())]
        commit(journal, changes)

    async def life(steps: int) -> None:
        nonlocal is_failing
        journal = Journal(path, TABLE, "somebody")
        rows = journal.read("SELECT number, count(*) FROM halves GROUP BY number ORDER BY number")
        found = [number for number, _ in rows]
        assert all(count == 2 for _, count in rows), "all of a write, or nothing"
        assert found == written[: len(found)]
        assert set(answered) <= set(found), "what was answered outlives a crash"
        assert answered == found[: len(answered)], "in the order of the writes"
        del written[len(found) :]
        answered[:] = found
        for _ in range(steps):
            step = chance.random()
            if step < 0.6:
                number = len(written) + 1
                written.append(number)
                insert = "INSERT INTO halves VALUES (?, ?)"
                changes = [(insert, (number, 1)), (insert, (number, 2))]
                journal.write(changes, lambda number=number: answered.append(number))  # type: ignore[misc]
            elif step < 0.8:
                is_failing = not is_failing
            else:
                await asyncio.sleep(chance.choice([0.0, 0.5, 1.5]))
        if chance.random() < 0.5:
            is_failing = False
            await journal.written()
            assert answered == written
            assert journal.failure is None
        # A crash: the file is let go as the system does it, and nothing else happens.
        journal._closed = True
        journal._retry.set()
        journal._waiting.clear()
        journal._file.rollback()
        journal._file.close()
        journal._lock.release()

    async def lives() -> None:
        for _ in range(4):
            await life(chance.randint(1, 12))
            await asyncio.sleep(5)
        nonlocal is_failing
        is_failing = False
        await life(0)

    with patch.object(Journal, "_commit", commit_or_fail):
        Network(chance.getrandbits(30)).run(lives())


@pytest.mark.parametrize("seed", range(15))
def test_what_is_answered_outlives_failing_disks_and_crashes(seed: int, tmp_path: Path) -> None:
    storm(tmp_path / "a.db", random.Random(seed))


def _answers_at_once(self: Journal, changes: Any, then: Any = None) -> None:
    write(self, changes)
    if then is not None:
        then()


async def _forgets_what_failed(self: Journal) -> None:
    while self._waiting:
        batch, self._waiting = self._waiting, []
        with contextlib.suppress(Exception):
            self._commit([change for changes, _ in batch for change in changes])
            for _, then in batch:
                if then is not None:
                    then()
    self._writer = None


def _keeps_a_part(self: Journal, changes: Sequence[Change]) -> None:
    for statement, values in changes:
        self._file.execute(statement, values)
    self._file.commit()


write = Journal.write


@pytest.mark.parametrize(
    ("name", "broken"),
    [
        ("write", _answers_at_once),
        ("_write_all", _forgets_what_failed),
        ("_commit", _keeps_a_part),
    ],
)
def test_mutants_of_journals_are_noticed(name: str, broken: Any, tmp_path: Path) -> None:
    count = itertools.count()
    with patch.object(Journal, name, broken):
        assert_noticed(lambda chance: storm(tmp_path / f"{next(count)}.db", chance), 40)
