"""Figures drawn as SVG.

The same drawing is a file of its own and a part of the page: colours are CSS classes with a style sheet
of their own inside the drawing, so that it stands alone; the page's script adds hover and toggles by the
`data-` attributes.
"""

from __future__ import annotations

import html
import math
from collections.abc import Callable
from dataclasses import dataclass

LEFT, RIGHT, TOP, BOTTOM = 62, 16, 26, 42
ROOM = 0.06
"""Free space above the highest value, as a share of the axis."""

FLOORS = (0.0, 0.5, 0.8, 0.9)
"""Where the axis of a share may begin: the highest that is below all intervals."""

SHOWN = 1e-5
"""The smallest value of a logarithmic axis, as a share of the largest: less is nothing."""

STYLE = """
.bg{fill:#fff}.frame{stroke:#98a2b3;fill:none}.grid{stroke:#e4e7ec}
text{fill:#344054;font:11px system-ui,sans-serif}
.title{font-weight:600;font-size:12px}.line{fill:none;stroke-width:1.8}.band{stroke:none;opacity:.14}.dot{stroke:none}
.uniform{--c:#667085}.unstructured{--c:#d1495b}.semi-structured{--c:#c77d0a}.structured{--c:#00798c}
.broadcast{--c:#7b5ea7}.multicast{--c:#4d7c0f}.hierarchical{--c:#8d5524}.hyparview{--c:#5b6abf}.pmcast{--c:#be185d}
.line{stroke:var(--c)}.band,.dot{fill:var(--c)}
.model{stroke-dasharray:2 3}.paper{stroke-dasharray:9 3 2 3}.simulate{stroke-dasharray:6 3}
.whisker{stroke:var(--c);stroke-width:1;opacity:.7}.replay{stroke-width:2.1}
.live{stroke-dasharray:1 4;stroke-width:2.4;stroke-linecap:round}
.hollow{fill:var(--p);stroke:var(--c);stroke-width:1.4}
.v1{opacity:.6}.v2,.v3,.v4{opacity:.4}:root,svg{--p:#fff}
@media(prefers-color-scheme:dark){:root,svg{--p:#14181f}.bg{fill:#14181f}.grid{stroke:#2a313c}.frame{stroke:#667085}text{fill:#d0d5dd}
.uniform{--c:#98a2b3}.unstructured{--c:#f07c8b}.semi-structured{--c:#f2bc57}.structured{--c:#2fb6c8}
.broadcast{--c:#b79ae0}.multicast{--c:#a3c957}.hierarchical{--c:#c99a6b}.hyparview{--c:#99a6ee}.pmcast{--c:#f472b6}}
"""


def draw(figure: Figure) -> str:
    """The figure as a self-contained SVG element, its panels side by side."""
    one, height = figure.panel_size
    width = one * len(figure.panels)
    x_range, y_range = _ranges(figure)
    panels = [
        _panel(figure, panel, index * one, x_range, y_range)
        for index, panel in enumerate(figure.panels)
    ]
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
        f'class="figure" data-figure="{figure.name}"><title>{html.escape(figure.title)}</title>'
        f'<style>{STYLE}</style><rect class="bg" width="{width}" height="{height}"/>'
        f"{''.join(panels)}</svg>"
    )


def _ranges(figure: Figure) -> tuple[tuple[float, float], tuple[float, float]]:
    """One scale for all panels, so that communities can be compared by eye."""
    points = [p for panel in figure.panels for s in panel.series for p in s.points]
    xs = [p.x for p in points] or [0.0, 1.0]
    highest = max((p.high for p in points), default=1.0)
    if figure.share:
        lowest = min((p.low for p in points), default=0.0)
        floor = max(floor for floor in FLOORS if floor <= max(lowest, 0.0))
        return (min(xs), max(xs)), (floor, 1.0 + (1 - floor) * ROOM / 2)
    if figure.log_y:
        positive = [p.y for p in points if p.y > 0] or [1.0]
        lowest = max(min(positive), max(positive) * SHOWN)
        return (min(xs), max(xs)), (lowest / 1.3, max(positive) * 1.3)
    return (min(xs), max(xs)), (0.0, (highest or 1.0) * (1 + ROOM))


def _panel(
    figure: Figure,
    panel: Panel,
    offset: float,
    x_range: tuple[float, float],
    y_range: tuple[float, float],
) -> str:
    width, height = figure.panel_size
    x = Axis(*x_range, LEFT, width - RIGHT, figure.log_x)
    y = Axis(*y_range, height - BOTTOM, TOP, figure.log_y)
    parts = [f'<g transform="translate({offset:g} 0)" class="panel">']
    parts.append(f'<text class="title" x="{LEFT}" y="16">{html.escape(panel.title)}</text>')
    parts.append(_grid(figure, x, y))
    for index, series in enumerate(panel.series):
        if series.points:
            parts.append(_series(figure, panel, series, x, y, _covering(panel, index, x, y)))
    parts.append("</g>")
    return "".join(parts)


def _covering(panel: Panel, index: int, x: Axis, y: Axis) -> int:
    """How many dots of what is shipped are drawn later at the place of this one, which has to be larger."""
    own, *later = panel.series[index:]
    at = [(x.place(p.x), y.place(p.y)) for p in own.points]
    return sum(
        math.dist(place, (x.place(p.x), y.place(p.y))) < NEAR
        for series in later
        if series.dash == own.dash == "shipped"
        for place in at
        for p in series.points
    )


def _grid(figure: Figure, x: Axis, y: Axis) -> str:
    write = formatter(figure.share)
    parts = []
    for value in y.ticks():
        if figure.share and value > 1:
            continue
        at = y.place(value)
        parts.append(
            f'<line class="grid" x1="{x.start}" x2="{x.end}" y1="{at:.1f}" y2="{at:.1f}"/>'
        )
        parts.append(
            f'<text x="{x.start - 6}" y="{at + 4:.1f}" text-anchor="end">{write(value)}</text>'
        )
    for value in x.ticks():
        at = x.place(value)
        parts.append(
            f'<line class="grid" x1="{at:.1f}" x2="{at:.1f}" y1="{y.start}" y2="{y.end}"/>'
        )
        parts.append(
            f'<text x="{at:.1f}" y="{y.start + 15}" text-anchor="middle">{short(value)}</text>'
        )
    middle = (x.start + x.end) / 2
    parts.append(
        f'<text x="{middle}" y="{y.start + BOTTOM - 8}" text-anchor="middle">'
        f"{html.escape(figure.x_label)}</text>"
    )
    parts.append(
        f'<text transform="translate(13 {(y.start + y.end) / 2}) rotate(-90)" text-anchor="middle">'
        f"{html.escape(figure.y_label)}</text>"
    )
    parts.append(
        f'<path class="frame" d="M{x.start} {y.end}V{y.start}H{x.end}"/>',
    )
    return "".join(parts)


NEAR = 5.0
"""Dots that are closer together than this cover each other."""


def marker(dash: str, x: float, y: float, data: str = "", covering: int = 0) -> str:
    """A point, told by its shape: round when emulated, square when live, hollow when simulated; a diamond
    tells what is shipped from the curves beside it, larger where others will be drawn on it."""
    if dash == "shipped":
        half = 5 + 4 * covering
        around = f"l{half} {half}l-{half} {half}l-{half} -{half}z"
        return f'<path class="dot" d="M{x:.1f} {y - half:.1f}{around}" {data}/>'
    if dash == "live":
        return f'<rect class="dot" x="{x - 3:.1f}" y="{y - 3:.1f}" width="6" height="6" {data}/>'
    radius = {"replay": 2.8, "emulate": 3.6, "simulate": 2.4}.get(dash, 1.3)
    hollow = " hollow" if dash == "simulate" else ""
    return f'<circle class="dot{hollow}" cx="{x:.1f}" cy="{y:.1f}" r="{radius}" {data}/>'


def _series(figure: Figure, panel: Panel, series: Series, x: Axis, y: Axis, covering: int) -> str:
    write = formatter(figure.share)
    places = [(x.place(p.x), y.place(p.low), y.place(p.y), y.place(p.high)) for p in series.points]
    label = html.escape(series.label, quote=True)
    line = "M" + "L".join(f"{at:.1f} {mid:.1f}" for at, _, mid, _ in places)
    spread = _spread(places, y)
    dots = "".join(
        marker(
            series.dash,
            at,
            mid,
            f'data-x="{short(point.x)}" data-y="{write(point.y)}" data-low="{write(point.low)}" '
            f'data-high="{write(point.high)}" data-count="{point.count}"',
            covering,
        )
        for point, (at, _, mid, _) in zip(series.points, places, strict=True)
    )
    kind = f"series {series.colour} v{min(series.shade, 4)}"
    return (
        f'<g class="{kind}" data-label="{label}" data-panel="{html.escape(panel.title)}">'
        f'{spread}<path class="line {series.dash}" d="{line}"/>{dots}</g>'
    )


NARROW = 0.25
"""The widest that a band may be, as a share of the frame; wider intervals are drawn as whiskers."""


def _spread(places: list[tuple[float, float, float, float]], y: Axis) -> str:
    """The intervals: a band where it is narrow and the line long enough, else a whisker at each point."""
    frame = abs(y.start - y.end)
    widest = max(abs(low - high) for _, low, _, high in places)
    if widest < 0.5:
        return ""
    if len(places) > 2 and widest < NARROW * frame:
        there = "L".join(f"{at:.1f} {top:.1f}" for at, _, _, top in places)
        back = "L".join(f"{at:.1f} {low:.1f}" for at, low, _, _ in reversed(places))
        return f'<path class="band" d="M{there}L{back}Z"/>'
    return "".join(
        f'<path class="whisker" d="M{at:.1f} {low:.1f}V{high:.1f}"/>' for at, low, _, high in places
    )


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
    shade: int = 0
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
    panel_size: tuple[int, int] = (300, 210)
    """Width and height of a panel, in the units of its text, which is 11 high."""
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
