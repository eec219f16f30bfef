"""What a figure is before it is drawn: panels of series of points, and axes with their ticks."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

# What a figure is, before it is drawn: panels side by side, each with series of points.


@dataclass(frozen=True, slots=True)
class Point:
    """A value with its interval at one place of the x axis."""

    x: float
    low: float
    y: float
    high: float
    count: int
    """Repetitions behind it."""


@dataclass(frozen=True, slots=True)
class Series:
    """A line: its label in the legend, its colour and dash by name, its points from left to right."""

    label: str
    colour: str
    """One of the colours of `report.css`: mode and protocol names."""
    dash: str
    """The tier, `paper` or `shipped`, which settles how line and markers are drawn."""
    points: tuple[Point, ...]
    variant: int = 0
    """Counts lines of one colour and dash, which differ in a parameter: later ones are fainter."""


@dataclass(frozen=True, slots=True)
class Panel:
    """One community's part of a figure."""

    title: str
    series: tuple[Series, ...]


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of the report."""

    name: str
    title: str
    caption: str
    x_label: str
    y_label: str
    panels: tuple[Panel, ...]
    log_x: bool = False
    log_y: bool = False
    share: bool = False
    """The y axis is a probability, in per cent up to 100."""
    commands: tuple[str, ...] = ()
    """What remakes its points."""

    @property
    def places(self) -> int:
        """The number of places of the x axis at which there is anything."""
        return len({p.x for panel in self.panels for series in panel.series for p in series.points})

    def labels(self) -> list[Series]:
        """One series for each legend entry, over all panels."""
        return list({s.label: s for panel in self.panels for s in panel.series}.values())


# Axes: from values to positions, and where the ticks go.


@dataclass(frozen=True, slots=True)
class Axis:
    """A linear or logarithmic axis from `low` to `high`, drawn from `start` to `end`."""

    low: float
    high: float
    start: float
    end: float
    log: bool = False

    def place(self, value: float) -> float:
        """The position of a value, held inside the axis."""
        low, value, high = (self._bend(v) for v in (self.low, value, self.high))
        share = (value - low) / (high - low) if high > low else 0.5
        return self.start + min(1.0, max(0.0, share)) * (self.end - self.start)

    def ticks(self) -> list[float]:
        return log_ticks(self.low, self.high) if self.log else linear_ticks(self.low, self.high)

    def _bend(self, value: float) -> float:
        return math.log10(max(value, 1e-12)) if self.log else value


def linear_ticks(low: float, high: float, about: int = 5) -> list[float]:
    """About `about` round values from low to high."""
    if high <= low:
        return [low]
    raw = (high - low) / about
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(power * m for m in (1, 2, 2.5, 5, 10) if power * m >= raw * 0.999)
    first = math.ceil(low / step - 1e-9)
    count = math.floor(high / step + 1e-9) - first
    return [round((first + index) * step, 12) for index in range(count + 1)]


def log_ticks(low: float, high: float) -> list[float]:
    """The powers of ten within the axis, and 2 and 5 times them on a short one."""
    first, last = math.floor(math.log10(low)), math.ceil(math.log10(high))
    factors = (1, 2, 5) if last - first <= 2 else (1,)
    values = [f * 10.0**power for power in range(first, last + 1) for f in factors]
    return [value for value in values if low * 0.999 <= value <= high * 1.001]


def formatter(share: bool) -> Callable[[float], str]:
    """How a tick of the y axis is written: per cent for a probability."""
    if share:
        return lambda value: f"{100 * value:g} %"
    return short


def short(value: float) -> str:
    """A number in few characters: 1.5k, 20M, 0.07."""
    for limit, suffix in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if abs(value) >= limit:
            return f"{value / limit:.3g}{suffix}"
    return f"{value:.3g}"
