"""A suite is a name, its experiments, and families of networks of which more come until claims are decided.

A suite of one's own is a small TOML file, named after the file:

    about = "what happens when a third is down"
    [[grid]]
    figure = "my-figure"
    tier = "simulate"
    sizes = [[1000, 100, 10]]      # a list of hierarchies
    failed = [0.0, 0.33]           # a list is an axis of the grid
    repetitions = 100
"""

from __future__ import annotations

import dataclasses
import hashlib
import math
import tomllib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from bench.experiment import SERIES, Experiment, ExperimentError
from bench.intervals import FEWEST, looks
from overlay.errors import UsageError

HOPELESS = 2.0
"""Networks that a claim seems to need, over the budget: beyond that, none are run for it. The estimate is
rough, so less than this is worth a try."""


class SuiteError(UsageError):
    """A suite that does not exist, or whose file says something impossible."""


@dataclass(frozen=True, slots=True)
class Family:
    """Networks of the same settings, numbered from 0: five of them, and more while claims need them."""

    figure: str
    variants: tuple[str, ...]
    """What their experiments are for: claims name the figures and variants that they need networks of."""
    network: Callable[[int], list[Experiment]]
    """The experiments of one network number, one for each mode."""
    most: int
    """The budget: how many networks at most."""

    def between(self, there: int, wanted: int, mode: str | None = None) -> list[Experiment]:
        """The experiments of the networks from number `there` up to `wanted`, of all modes or one."""
        return [
            one
            for number in range(there, wanted)
            for one in self.network(number)
            if mode in (None, one.mode)
        ]

    def wanted(self, asked: Iterable[tuple[tuple[str, str, str], int]]) -> list[str]:
        """The modes of which more networks are wanted; asked for by figure, variant and mode, with about how
        many would decide a claim.

        Who needs more than twice the budget is not listened to.
        """
        found = [
            mode
            for (figure, variant, mode), needed in asked
            if figure == self.figure and variant in self.variants and needed <= HOPELESS * self.most
        ]
        return list(dict.fromkeys(found))

    def next_look(self, there: int) -> int:
        """How many networks there are at the next look; `there` where the budget is spent."""
        return next((look for look in looks(self.most) if look > there), there)


LARGE = 20_000
"""With more experiments than this, those of a file are made by Spark, and not on the driver."""


@dataclass(frozen=True, slots=True)
class Grid:
    """Every combination of some axes, each made when it is asked for, by its place."""

    suite: str
    figure: str
    seed: int
    axes: tuple[tuple[str, tuple[Any, ...]], ...]
    """Names and values; the last axis varies fastest."""

    def __len__(self) -> int:
        return math.prod(len(values) for _, values in self.axes)

    def at(self, place: int) -> Experiment:
        """The experiment at a place; `SuiteError` where its values do not go together."""
        fields = {}
        for name, values in reversed(self.axes):
            place, index = divmod(place, len(values))
            fields[name] = values[index]
        try:
            one = Experiment(suite=self.suite, figure=self.figure, seed=self.seed, **fields)
        except ExperimentError as error:
            raise SuiteError(f"{self.figure}: {error}") from None
        return dataclasses.replace(one, seed=_derived_seed(one.seed, one.network))

    def check(self) -> None:
        """`SuiteError` for a value that cannot be: each is tried, with the first of the other axes."""
        step = len(self)
        for _, values in self.axes:
            step //= len(values)
            for index in range(len(values)):
                self.at(index * step)


@dataclass(frozen=True, slots=True)
class Suite:
    """Experiments that answer a set of questions together."""

    name: str
    about: str
    fixed: tuple[Experiment, ...]
    """What is run once."""
    families: tuple[Family, ...] = ()
    grids: tuple[Grid, ...] = ()
    """What is run once, too, and is too much to be listed."""

    def __len__(self) -> int:
        """How many experiments are run whatever they say."""
        return len(self.experiments) + sum(map(len, self.grids))

    @property
    def experiments(self) -> tuple[Experiment, ...]:
        """What is run whatever it says: the fixed part, and the first look's networks."""
        first = [one for family in self.families for one in family.between(0, FEWEST)]
        return distinct([*self.fixed, *first])

    def only(self, figure: str) -> Suite:
        """The part of it that is for one figure; `SuiteError` when there is none."""
        fixed = tuple(one for one in self.fixed if one.figure == figure)
        families = tuple(family for family in self.families if family.figure == figure)
        grids = tuple(grid for grid in self.grids if grid.figure == figure)
        if not fixed and not families and not grids:
            every: list[Experiment | Family | Grid] = [*self.fixed, *self.families, *self.grids]
            known = dict.fromkeys(one.figure for one in every)
            raise SuiteError(f"suite {self.name} has no figure {figure!r}: {', '.join(known)}")
        return dataclasses.replace(self, fixed=fixed, families=families, grids=grids)


_FIELDS = {field.name for field in dataclasses.fields(Experiment)}


def expand(suite: str, figure: str, seed: int = 0, **axes: Any) -> list[Experiment]:
    """Every combination of the axes: a list is an axis, anything else one value of all experiments.

    `sizes` is a tuple, so a list of tuples is an axis of hierarchies. The seed of an experiment follows from
    `seed` and the number of its network alone: modes and settings that are compared share their random
    numbers, and adding a value to an axis leaves the other experiments as they were.
    """
    made = grid(suite, figure, seed, axes)
    return [made.at(place) for place in range(len(made))]


def grid(suite: str, figure: str, seed: int, axes: dict[str, Any]) -> Grid:
    """The grid of some axes; `SuiteError` for a field that experiments have not."""
    unknown = sorted(set(axes) - _FIELDS)
    if unknown:
        raise SuiteError(f"{figure}: no such field of an experiment: {', '.join(unknown)}")
    listed = {name: axis if isinstance(axis, list) else [axis] for name, axis in axes.items()}
    return Grid(suite, figure, seed, tuple((name, tuple(axis)) for name, axis in listed.items()))


def distinct(experiments: Sequence[Experiment]) -> tuple[Experiment, ...]:
    """The experiments without repetitions, in order."""
    return tuple({experiment.id: experiment for experiment in experiments}.values())


def _derived_seed(seed: int, network: int) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed}/{network}".encode(), digest_size=6).digest())


def read_suite(path: Path) -> Suite:
    """The suite in a TOML file; `SuiteError` names the file and what is wrong in it."""
    try:
        content = tomllib.loads(path.read_text())
    except OSError as error:
        raise SuiteError(f"cannot read the suite {path}: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise SuiteError(f"{path} is not TOML: {error}") from None
    grids = content.get("grid")
    if not isinstance(grids, list) or not all(isinstance(grid, dict) for grid in grids):
        raise SuiteError(f"{path} has no [[grid]] table")
    unknown = sorted(set(content) - {"about", "grid"})
    if unknown:
        raise SuiteError(f"{path}: nothing is known of {', '.join(unknown)}")
    about = str(content.get("about", ""))
    try:
        made = [_grid_of(path.stem, table) for table in grids]
        if sum(map(len, made)) > LARGE:
            for one in made:
                one.check()
            return Suite(path.stem, about, (), (), tuple(made))
        experiments = [one.at(place) for one in made for place in range(len(one))]
    except (SuiteError, TypeError) as error:
        raise SuiteError(f"{path}: {error}") from None
    return Suite(path.stem, about, distinct(experiments))


def _grid_of(suite: str, table: dict[str, Any]) -> Grid:
    axes = dict(table)
    figure = str(axes.pop("figure", suite))
    seed = axes.pop("seed", 0)
    if "tier" not in axes:
        raise SuiteError(f"{figure}: a grid needs a tier")
    if "suite" in axes:
        raise SuiteError(f"{figure}: a suite is named after its file")
    sizes = axes.get("sizes")
    if sizes is not None:
        if not isinstance(sizes, list) or not all(isinstance(item, list) for item in sizes):
            raise SuiteError(f"{figure}: sizes is a list of hierarchies, as in [[1000, 100, 10]]")
        axes["sizes"] = [tuple(item) for item in sizes]
    for name in SERIES:
        if name in axes:
            axes[name] = _series(figure, name, axes[name])
    return grid(suite, figure, seed, axes)


def _series(figure: str, name: str, value: Any) -> tuple[float, ...]:
    if not isinstance(value, list) or not all(isinstance(item, int | float) for item in value):
        raise SuiteError(f"{figure}: {name} is a list of numbers, not {value!r}")
    return tuple(value)
