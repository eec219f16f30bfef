"""A suite is a name and its experiments; a grid is the product of the values of its axes."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from bench.experiment import Experiment, ExperimentError
from overlay.errors import UsageError


class SuiteError(UsageError):
    """A suite that does not exist, or whose file says something impossible."""


@dataclass(frozen=True, slots=True)
class Suite:
    """Experiments that answer a set of questions together."""

    name: str
    about: str
    experiments: tuple[Experiment, ...]


_FIELDS = {field.name for field in dataclasses.fields(Experiment)}


def expand(suite: str, figure: str, seed: int = 0, **axes: Any) -> list[Experiment]:
    """Every combination of the axes: a list is an axis, anything else one value of all experiments.

    `sizes` is a tuple, so a list of tuples is an axis of hierarchies. Each experiment's seed is derived
    from `seed` and its own fields, so adding a value to an axis leaves the other experiments as they were.
    """
    unknown = sorted(set(axes) - _FIELDS)
    if unknown:
        raise SuiteError(f"{figure}: no such field of an experiment: {', '.join(unknown)}")
    values = [axis if isinstance(axis, list) else [axis] for axis in axes.values()]
    experiments = []
    for combination in itertools.product(*values):
        fields = dict(zip(axes, combination, strict=True))
        try:
            experiment = Experiment(suite=suite, figure=figure, seed=seed, **fields)
        except ExperimentError as error:
            raise SuiteError(f"{figure}: {error}") from None
        experiments.append(dataclasses.replace(experiment, seed=_derived_seed(experiment)))
    return experiments


def distinct(experiments: Sequence[Experiment]) -> tuple[Experiment, ...]:
    """The experiments without repetitions, in order."""
    return tuple({experiment.id: experiment for experiment in experiments}.values())


def _derived_seed(experiment: Experiment) -> int:
    return int.from_bytes(hashlib.blake2b(experiment.as_json().encode(), digest_size=6).digest())
