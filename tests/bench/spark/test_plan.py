"""Rows are cut into jobs and tasks that suit the work."""

from __future__ import annotations

from bench.cost import estimated_seconds
from bench.experiment import Experiment
from bench.spark.execute import JOB_SECONDS_PER_CORE, LONG_ROW_SECONDS, plan
from bench.suites import find_suite


def test_every_experiment_is_in_exactly_one_job() -> None:
    experiments = find_suite("paper").experiments
    planned = [
        experiment.id for job in plan(experiments, cores=2) for experiment in job.experiments
    ]
    assert sorted(planned) == sorted(experiment.id for experiment in experiments)


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
