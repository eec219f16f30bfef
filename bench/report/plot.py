"""What a figure is, before it is drawn: panels side by side, each with series of points."""

from __future__ import annotations

from dataclasses import dataclass


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
    """The tier, or `paper`, which settles how line and markers are drawn."""
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
    """The y axis is a probability: drawn from 0 to 1, in per cent."""

    @property
    def places(self) -> int:
        """At how many places of the x axis there is anything."""
        return len({p.x for panel in self.panels for series in panel.series for p in series.points})

    def labels(self) -> list[Series]:
        """One series for each legend entry, over all panels."""
        return list({s.label: s for panel in self.panels for s in panel.series}.values())
