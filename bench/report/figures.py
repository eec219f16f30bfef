"""The figures of the report, each built from the aggregates by one rule.

Panels are communities; lines are tiers and modes (or protocols); the x axis is what the experiment varied.
"""

from __future__ import annotations

from dataclasses import dataclass

from bench.aggregate import WHOLE
from bench.aggregates import Aggregate, Aggregates, community_name
from bench.report.lines import lines, loss_words
from bench.report.plot import Figure, Panel


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
    varies: str
    """What the x axis shows: `failed`, `p_sel`, or `sizes` by the bottom community."""
    x_label: str
    communities: tuple[int, ...]
    log_x: bool = False
    log_y: bool = False
    share: bool = False


_CRASH_FIGURES = (
    (
        "figure-13",
        "figures-13-16",
        "messages_inside",
        "Figure 13: events sent inside each community",
    ),
    ("figure-14", "figures-13-16", "messages_upward", "Figure 14: events sent upward"),
    ("figure-15", "figures-13-16", "reception", "Figure 15: reception, stillborn processes"),
    ("figure-16", "figures-13-16", "reliability", "Figure 16: reliability, stillborn processes"),
    ("figure-17", "figures-17-18", "reception", "Figure 17: reception, weakly consistent views"),
    (
        "figure-18",
        "figures-17-18",
        "reliability",
        "Figure 18: reliability, weakly consistent views",
    ),
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


PAPERS_PRODUCT = (
    "The paper's formula is the product of section 4.5.1 up to the community, its own passing on included, "
    "with p_succ = (1 - loss)(1 - failed)."
)


def _crash_figures() -> list[Recipe]:
    static = "Static tables that nobody repairs, as in the paper: the pessimistic case."
    repaired = (
        "Tables are repaired after the crash; formulas and simulator are of the living alone."
    )
    return [
        Recipe(
            name,
            source,
            title,
            (repaired if source.startswith("crashes") else static)
            + (f" {PAPERS_PRODUCT}" if metric == "reliability" else ""),
            metric,
            "probability" if metric in ("reception", "reliability") else "events",
            "failed",
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
        (19, "reception", "reception", "probability"),
        (21, "reliability", "reliability", "probability"),
        (23, "efficiency", "efficiency", "useful receptions"),
        (25, "rounds", "latency", "rounds"),
        (27, "messages_upward", "upward messages", "events"),
    ):
        recipes.append(
            Recipe(
                f"figures-{number}-{number + 1}",
                "figures-19-28",
                f"Figures {number} and {number + 1}: {title} by the share of processes that act as links",
                "Real nodes and the simulator with the same parameters."
                + (f" {PAPERS_PRODUCT}" if metric == "reliability" else ""),
                metric,
                y_label,
                "p_sel",
                "p_sel",
                (0, 1) if metric == "messages_upward" else (1, 2),
                log_x=True,
                share=metric in ("reception", "reliability", "efficiency"),
            )
        )
    return recipes


def _large_link_figures() -> list[Recipe]:
    return [
        Recipe(
            f"p-sel-large-{metric}",
            "p-sel-large",
            f"{metric.capitalize()} of a thousand real nodes by the share that act as links",
            "The paper's parameters for its implementation, in the sizes of its simulation."
            + (f" {PAPERS_PRODUCT}" if metric == "reliability" else ""),
            metric,
            "probability",
            "p_sel",
            "p_sel",
            (1, 2),
            log_x=True,
            share=True,
        )
        for metric in ("reception", "reliability")
    ]


def _scale_figures() -> list[Recipe]:
    return [
        Recipe(
            f"scale-{metric}",
            "scale",
            title,
            "Three levels, each a tenth of the one below.",
            metric,
            y_label,
            "sizes",
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
            "failed",
            "processes that change, % a second",
            (0, 1, 2),
            share=True,
        )
        for metric, title in (("reception", "Reception"), ("reliability", "Reliability"))
    ]


RECIPES: tuple[Recipe, ...] = (
    *_crash_figures(),
    *_link_figures(),
    *_large_link_figures(),
    *_scale_figures(),
    *_churn_figures(),
)


def figures(aggregates: Aggregates) -> list[Figure]:
    """Every figure for which there are results."""
    found = [build(recipe, aggregates) for recipe in RECIPES]
    return [figure for figure in found if not figure.is_empty]


def build(recipe: Recipe, aggregates: Aggregates) -> Figure:
    """One figure; without points where nothing was measured."""
    rows = [
        row
        for row in aggregates.select(figure=recipe.source, metric=recipe.metric)
        if getattr(row, recipe.varies) is not None
    ]
    panels = []
    for community in recipe.communities:
        own = [row for row in rows if row.community == community]
        panels.append(Panel(_panel_title(own, community), lines(recipe.varies, own)))
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
        parts.append(loss_words(losses.pop()))
    return f"{', '.join(parts)}." if parts else ""


def _panel_title(rows: list[Aggregate], community: int) -> str:
    if not rows or community == WHOLE:
        return community_name(community, 3)
    sizes = sorted({row.sizes[community] for row in rows})
    name = community_name(community, len(rows[0].sizes))
    return f"{name}: {' or '.join(map(str, sizes[:3]))} processes"
