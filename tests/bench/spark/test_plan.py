"""Rows are cut into jobs and tasks that suit the work."""

from __future__ import annotations

import io
import math
from collections.abc import Callable
from typing import Any
from unittest.mock import MagicMock

import pytest
from pyspark.errors import PySparkException

from bench import runs
from bench.aggregates import Aggregates
from bench.experiment import Experiment
from bench.intervals import FEWEST
from bench.progress import GOING, Progress, ProgressLine, Watch, estimated_seconds
from bench.spark import execute
from bench.spark.execute import (
    JOB_SECONDS_PER_CORE,
    LONG_ROW_SECONDS,
    TASK_SECONDS,
    _run_all,
    plan,
)
from bench.suites import find_suite
from tests.bench.report.synthetic import aggregates


def test_every_experiment_is_in_exactly_one_job() -> None:
    experiments = find_suite("paper").experiments
    planned = [
        experiment.id for job in plan(experiments, cores=2) for experiment in job.experiments
    ]
    assert sorted(planned) == sorted(experiment.id for experiment in experiments)


def test_a_run_that_is_interrupted_is_not_tried_again_in_halves() -> None:
    said = "[SPARK_JOB_CANCELLED] Job 7 cancelled as part of cancellation of all jobs"
    spark, store, job = MagicMock(), MagicMock(), MagicMock(rows=8)
    spark.range.return_value.count.return_value = 1  # the session goes on
    store.append.side_effect = PySparkException(said)
    with pytest.raises(PySparkException, match="SPARK_JOB_CANCELLED"):
        execute._run(spark, job, store, False)
    job.halves.assert_not_called()


def test_thousands_of_tiny_rows_become_a_few_tasks() -> None:
    tiny = [Experiment(suite="s", figure="f", tier="model", seed=seed) for seed in range(5000)]
    jobs = plan(tiny, cores=2)
    assert sum(job.tasks for job in jobs) <= 8


def test_a_long_row_is_dealt_a_task_of_its_own() -> None:
    long = [
        Experiment(
            suite="s", figure="f", tier="emulate", mode="structured", sizes=(2000,), seed=seed
        )
        for seed in range(3)
    ]
    tiny = [Experiment(suite="s", figure="f", tier="model", seed=seed) for seed in range(100)]
    assert all(estimated_seconds(experiment) > LONG_ROW_SECONDS for experiment in long)
    for job in plan([*tiny, *long], cores=2):
        dealt: dict[int, int] = {}
        for index, experiment in enumerate(job.experiments):
            if estimated_seconds(experiment) > LONG_ROW_SECONDS:
                task = index % job.tasks
                dealt[task] = dealt.get(task, 0) + 1
        assert all(count == 1 for count in dealt.values())


def test_a_kill_loses_little() -> None:
    rows = [
        Experiment(
            suite="s", figure="f", tier="emulate", mode="structured", sizes=(100,), seed=seed
        )
        for seed in range(50)
    ]
    each = estimated_seconds(rows[0])
    for job in plan(rows, cores=2):
        assert len(job.experiments) * each <= JOB_SECONDS_PER_CORE * 2 + each


def test_no_core_waits_long_for_the_last_task_of_a_job() -> None:
    rows = [
        Experiment(suite="s", figure="f", tier="emulate", mode="structured", sizes=(20,), seed=seed)
        for seed in range(400)
    ]
    each = estimated_seconds(rows[0])
    assert each < LONG_ROW_SECONDS
    for job in plan(rows, cores=2):
        a_task = math.ceil(len(job.experiments) / job.tasks) * each
        assert a_task <= TASK_SECONDS + each


def test_progress_moves_between_two_rows_that_end(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("bench.progress.time.monotonic", lambda: clock[0])
    watch = Watch(MagicMock(), total=10, done=0, report=lambda _: None)
    watch.expect(100.0)
    shares = []
    for clock[0], ended in ((5.0, 0.0), (9.0, 0.0), (10.0, 20.0), (14.0, 20.0), (99.0, 20.0)):
        shares.append(watch._progress(0, ended, under_way=40.0 - ended).share)
    assert shares == sorted(set(shares))  # it always moves, and never back
    assert shares[2:4] == pytest.approx([0.2, 0.28])  # twice as fast as was thought at first
    assert shares[-1] == pytest.approx(0.2 + GOING * 0.2)  # what runs is not taken for done


def test_the_last_line_tells_the_claims_of_the_last_look() -> None:
    stream = io.StringIO()
    line = ProgressLine(stream)
    line.decided(0, 28)
    line(Progress(done=4, failed=0, total=4, share=1.0, seconds_left=None))
    line.decided(26, 28)
    line.close()
    assert stream.getvalue().splitlines()[-1] == "100 %: 4 of 4 rows, 26 of 28 claims decided"


def test_a_terminal_gets_a_bar_that_fits_its_line(monkeypatch: pytest.MonkeyPatch) -> None:
    for columns, shown in (("80", "9 of 28 claims decided, 5 min left"), ("40", "98 of 255")):
        monkeypatch.setenv("COLUMNS", columns)
        stream = io.StringIO()
        monkeypatch.setattr(stream, "isatty", lambda: True)
        line = ProgressLine(stream)
        line.decided(9, 28)
        line(Progress(done=98, failed=0, total=255, share=0.34, seconds_left=290.0))
        written = stream.getvalue()
        assert written.startswith("\r[#####-----------] 34 %: ")
        assert shown in written
        assert len(written) <= int(columns)


def test_claims_are_decided_while_rows_are_running(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[int | str] = []

    def execute(*_: object, more: Callable[[set[str]], object], **__: object) -> list[object]:
        more({"a row that is running"})
        told.append("the rows have ended")
        return []

    made = aggregates()
    monkeypatch.setattr(runs, "LOOK_SECONDS", 0.0)
    monkeypatch.setattr(runs, "execute", execute)
    monkeypatch.setattr(runs.Aggregates, "of", lambda store, known=None: made)
    line = MagicMock()
    line.decided.side_effect = lambda claims, of: told.append(claims)
    failures, seen = runs.run_rounds(
        MagicMock(), find_suite("churn"), MagicMock(is_empty=False), line
    )
    assert (failures, seen) == ([], made)
    assert told[0] == 0
    assert isinstance(told[1], int)
    assert told[1] > 0
    assert told[2] == "the rows have ended"


def test_claims_of_simulations_are_told_as_soon_as_these_have_ended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    made, told = aggregates(), MagicMock()
    monkeypatch.setattr(runs.Aggregates, "of", lambda store, known=None: made)
    suite = find_suite("quick")
    rounds = runs._Rounds(suite, MagicMock(is_empty=False), told)
    left = {one.id for one in suite.experiments}
    assert rounds.meanwhile(left) == []
    assert told.decided.call_count == 1  # none yet
    left -= {one.id for one in suite.fixed}
    for _ in range(2):
        assert rounds.meanwhile(left) == []
    assert told.decided.call_count == 2  # once, though it is asked twice


def test_a_family_that_has_ended_grows_beside_others_and_by_its_own_rows(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    place = ("figures-19-28", "published", "structured")
    judged = []

    def evidence(seen: Aggregates) -> MagicMock:
        real = {row.figure for row in seen.select() if row.is_of_networks}
        judged.append(real)
        return MagicMock(wants={place: 20}, is_decided=False)

    made = aggregates()
    assert {row.figure for row in made.select() if row.is_of_networks} > {"figures-19-28"}
    monkeypatch.setattr(runs, "CLAIMS", [MagicMock(evidence=evidence)])
    monkeypatch.setattr(runs, "decide", lambda claims, seen: [])
    monkeypatch.setattr(runs.Aggregates, "of", lambda store, known=None: made)
    suite = find_suite("quick")
    rounds = runs._Rounds(suite, MagicMock(is_empty=False), MagicMock())
    left = {one.id for one in suite.experiments}
    own = {one.id for one in rounds.growing()}
    assert own == {one.id for one in suite.families[0].between(0, FEWEST)}
    assert rounds.meanwhile(left) == []  # nothing has ended
    left -= own
    assert rounds.meanwhile(left) == []  # what is simulated is still to come
    left -= {one.id for one in suite.fixed}
    assert judged == []
    asked = rounds.meanwhile(left)
    assert [(one.mode, one.network) for one in asked] == [
        ("structured", number) for number in range(FEWEST, 2 * FEWEST)
    ]
    assert judged == [{"figures-19-28"}]
    left |= {one.id for one in asked}
    assert rounds.meanwhile(left) == []
    assert len(rounds.meanwhile(left - {one.id for one in asked})) == 2 * FEWEST
    assert not rounds.at_the_end(False)  # the budget is spent
    assert judged[-1] > {"figures-19-28"}  # at the end, by all rows


def test_what_is_asked_for_comes_before_what_waits_and_a_job_that_raises_ends_the_run() -> None:
    ran: list[str] = []

    def job(name: str) -> MagicMock:
        made = MagicMock(ids=[name])
        made.name = name
        return made

    def run(one: Any) -> list[Any]:
        ran.append(one.name)
        if one.name == "raises":
            raise ZeroDivisionError
        return [one.name]

    added = [[], [job("asked")], [], [], []]
    jobs = [job("first"), job("second"), job("third")]
    found = _run_all(jobs, 1, run, lambda left: added.pop(0))
    assert found == ran == ["first", "second", "asked", "third"]
    with pytest.raises(ZeroDivisionError):
        _run_all([job("raises"), job("waits")], 1, run)
    assert ran[-1] == "raises"
