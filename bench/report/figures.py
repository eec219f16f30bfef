"""The figures of the report, each built from the aggregates by one rule.

Panels are communities; lines are tiers and modes (or protocols); the x axis is what the experiment varied.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from bench.aggregate import WHOLE
from bench.aggregates import Aggregate, Aggregates
from bench.report.plot import Figure, Panel, Point, Series

TIER_ORDER = ("model", "simulate", "emulate", "live")


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a figure is made: which rows, what varies, what is measured."""

    name: str
    source: str
    """The `figure` of the experiments."""
    title: str
    caption: str
    metric: str
    y_label: str
    x: Callable[[Aggregate], float | None]
    x_label: str
    communities: tuple[int, ...]
    log_x: bool = False
    log_y: bool = False
    share: bool = False


def _failed(row: Aggregate) -> float:
    return 100 * row.failed


def _p_sel(row: Aggregate) -> float | None:
    return row.p_sel


def _bottom_size(row: Aggregate) -> float:
    return float(row.sizes[0])


_CRASH_FIGURES = (
    ("figure-13", "figures-13-16", "messages_inside", "Events sent inside each community"),
    ("figure-14", "figures-13-16", "messages_upward", "Events sent upward"),
    ("figure-15", "figures-13-16", "reception", "Reception, stillborn processes"),
    ("figure-16", "figures-13-16", "reliability", "Reliability, stillborn processes"),
    ("figure-17", "figures-17-18", "reception", "Reception, weakly consistent views"),
    ("figure-18", "figures-17-18", "reliability", "Reliability, weakly consistent views"),
    ("crashes-reception", "crashes", "reception", "Reception of real nodes after crashes"),
    ("crashes-reliability", "crashes", "reliability", "Reliability of real nodes after crashes"),
    (
        "crashes-large-reliability",
        "crashes-large",
        "reliability",
        "Reliability of a thousand real nodes after crashes",
    ),
)
"""Name, the experiments that it is drawn from, metric, title."""


def _crash_figures() -> list[Recipe]:
    static = "Static tables that nobody repairs, as in the paper: the pessimistic case."
    repaired = "Tables are repaired after the crash; formula and simulator are of the living alone."
    return [
        Recipe(
            name,
            source,
            title,
            repaired if source.startswith("crashes") else static,
            metric,
            "probability" if metric in ("reception", "reliability") else "events",
            _failed,
            "processes failed, %",
            (0, 1) if metric == "messages_upward" else (0, 1, 2),
            log_y=metric == "messages_inside",
            share=metric in ("reception", "reliability"),
        )
        for name, source, metric, title in _CRASH_FIGURES
    ]


def _link_figures() -> list[Recipe]:
    recipes = []
    for number, metric, title, y_label in (
        (19, "reception", "Reception", "probability"),
        (21, "reliability", "Reliability", "probability"),
        (23, "efficiency", "Efficiency", "useful receptions"),
        (25, "rounds", "Latency", "rounds"),
        (27, "messages_upward", "Upward messages", "events"),
    ):
        recipes.append(
            Recipe(
                f"figures-{number}-{number + 1}",
                "figures-19-28",
                f"{title} against the share of processes that act as links",
                "Real nodes and the simulator with the same parameters.",
                metric,
                y_label,
                _p_sel,
                "p_sel",
                (0, 1) if metric == "messages_upward" else (1, 2),
                log_x=True,
                share=metric in ("reception", "reliability", "efficiency"),
            )
        )
    return recipes


def _scale_figures() -> list[Recipe]:
    return [
        Recipe(
            f"scale-{metric}",
            "scale",
            title,
            "Three levels, each a tenth of the one below.",
            metric,
            y_label,
            _bottom_size,
            "processes in the bottom community",
            (WHOLE,),
            log_x=True,
            log_y=metric == "messages_inside",
            share=metric == "reliability",
        )
        for metric, title, y_label in (
            ("messages_inside", "Messages against the number of processes", "events"),
            ("rounds", "Rounds against the number of processes", "rounds"),
            ("table_entries", "Contacts kept by a process", "contacts"),
            ("reliability", "Reliability against the number of processes", "probability"),
        )
    ]


def _churn_figures() -> list[Recipe]:
    return [
        Recipe(
            f"churn-{metric}",
            "churn",
            f"{title} under continuous joins and leaves",
            "The implementation on the virtual network.",
            metric,
            "probability",
            _failed,
            "processes that change, % a second",
            (0, 1, 2),
            share=True,
        )
        for metric, title in (("reception", "Reception"), ("reliability", "Reliability"))
    ]


RECIPES: tuple[Recipe, ...] = (
    *_crash_figures(),
    *_link_figures(),
    *_scale_figures(),
    *_churn_figures(),
)


def figures(aggregates: Aggregates) -> list[Figure]:
    """Every figure for which there are results."""
    found = [build(recipe, aggregates) for recipe in RECIPES]
    return [figure for figure in found if not figure.is_empty]


def build(recipe: Recipe, aggregates: Aggregates) -> Figure:
    """One figure; without points where nothing was measured."""
    rows = aggregates.select(figure=recipe.source, metric=recipe.metric)
    panels = []
    for community in recipe.communities:
        own = [row for row in rows if row.community == community and recipe.x(row) is not None]
        panels.append(Panel(_community_title(own, community), _lines(recipe, own)))
    return Figure(
        recipe.name,
        recipe.title,
        f"{recipe.caption} {_parameters(rows)}".strip(),
        recipe.x_label,
        recipe.y_label,
        tuple(panels),
        recipe.log_x,
        recipe.log_y,
        recipe.share,
    )


def _parameters(rows: list[Aggregate]) -> str:
    """The parameters that all rows share, so that a caption never tells of others than those drawn."""
    parts = []
    for name in ("c", "g", "a", "z"):
        values = {getattr(row, name) for row in rows}
        # g does not count where p_sel is given.
        if len(values) == 1 and not (name == "g" and any(row.p_sel is not None for row in rows)):
            parts.append(f"{name} = {values.pop():g}")
    losses = {row.loss for row in rows}
    if len(losses) == 1:
        loss = losses.pop()
        parts.append(f"{100 * loss:g} % loss" if loss else "no loss")
    return f"{', '.join(parts)}." if parts else ""


def _lines(recipe: Recipe, rows: list[Aggregate]) -> tuple[Series, ...]:
    """A series for each tier, protocol and mode; of several suites the one with most repetitions."""
    grouped: dict[tuple[str, str, str], dict[float, Aggregate]] = {}
    for row in rows:
        x = recipe.x(row)
        assert x is not None
        points = grouped.setdefault((row.tier, row.protocol, row.mode), {})
        if x not in points or points[x].count < row.count:
            points[x] = row
    order = sorted(grouped, key=lambda key: (TIER_ORDER.index(key[0]), key[1], key[2]))
    return tuple(_line(key, grouped[key]) for key in order)


def _line(key: tuple[str, str, str], rows: dict[float, Aggregate]) -> Series:
    tier, protocol, mode = key
    name = mode if protocol == "camcast" else f"gossip {protocol}"
    if tier == "model":
        name = "the paper's formula" if protocol == "camcast" else f"formula of gossip {protocol}"
    points = tuple(
        Point(x, row.low, row.value, row.high, row.count) for x, row in sorted(rows.items())
    )
    label = name if tier == "model" else f"{name}, {_TIER_WORDS[tier]}"
    return Series(label, mode if protocol == "camcast" else protocol, tier, points)


_TIER_WORDS = {"simulate": "simulated", "emulate": "emulated", "live": "live"}


def _community_title(rows: list[Aggregate], community: int) -> str:
    if community == WHOLE:
        return "all communities"
    sizes = list(dict.fromkeys(row.sizes[community] for row in rows))
    name = "gda"[community] if rows and len(rows[0].sizes) == 3 else f"level {community}"
    return f"community {name}" + (f": {sizes[0]} processes" if len(sizes) == 1 else "")
