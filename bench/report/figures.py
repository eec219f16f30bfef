"""The figures of the report, each built from the aggregates by one rule.

Panels are communities; lines are tiers, modes and variants (or protocols), and the paper's formula beside
them; the x axis is what the experiment varied. Where lines of the same kind differ in a parameter, labels
tell it.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass

from bench.aggregates import Aggregate, Aggregates, community_name
from bench.experiment import CLUSTERS, MODES, TIERS, left_of
from bench.model.printed import PrintedSetting
from bench.report.svg import Figure, Panel, Point, Series
from bench.report.table import remade_by
from bench.results import SHARES, WHOLE
from bench.suites.built_in import (
    CHURN,
    DEFAULT,
    DEFAULTS,
    IMPLEMENTED,
    IMPLEMENTED_SIZES,
    LINKS,
)

TIER_WORDS = {
    "simulate": "simulated",
    "replay": "replayed",
    "emulate": "emulated",
    "live": "live",
}
DRAWN = "formula with every draw made"
PRINTED = "the paper's formula"
PRINTED_AS_IT_IS = ("rounds", "table_entries")
"""Metrics for which the model tier gives the paper's value."""
PARAMETERS = ("sizes", "c", "g", "p_sel", "a", "z", "loss", "failure", "failed", "publish_level")
SMALLEST = 3
"""The equation of rounds knows no smaller community."""


Y_LABELS = {
    "reception": "probability",
    "reliability": "probability",
    "efficiency": "useful receptions",
    "messages_inside": "events",
    "messages_upward": "events",
    "rounds": "rounds",
    "table_entries": "contacts",
}
"""What the y axis shows, by metric."""
PAPERS_PRODUCT = (
    " The paper's formula is the product of section 4.5.1 up to the community, its own passing on included, "
    "with p_succ = (1 - loss)(1 - failed)."
)


@dataclass(frozen=True, slots=True)
class Recipe:
    """How a figure is made: which rows, what varies, what is measured."""

    name: str
    source: str
    """The `figure` of the experiments."""
    metric: str
    title: str
    caption: str
    varies: str
    """What the x axis shows: `failed`, `p_sel`, or `sizes` by the bottom community."""
    x_label: str
    communities: tuple[int, ...]


STATIC = "Static tables that nobody repairs, as in the paper: the pessimistic case."
OF_LINKS = "Real nodes as published, replayed over their tables, and the simulator with the same parameters."
REPAIRED = "Tables are repaired after the crash; formulas and simulator are of the living alone."


def _recipe(source: str, metric: str, title: str) -> Recipe:
    """Of a figure of crashes or of links, which its title begins with."""
    name = title.partition(":")[0].lower().replace(" and ", "-").replace(" ", "-")
    product = PAPERS_PRODUCT if metric == "reliability" else ""
    communities: tuple[int, ...] = (0, 1) if metric == "messages_upward" else (0, 1, 2)
    if source == LINKS:
        title += " by the share of processes that act as links"
        communities = (0, 1) if metric == "messages_upward" else (1, 2)
        return Recipe(
            name, source, metric, title, OF_LINKS + product, "p_sel", "p_sel", communities
        )
    name = "crashes-reliability" if source == DEFAULT else name
    caption = (REPAIRED if source == DEFAULT else STATIC) + product
    label = "processes failed, %"
    return Recipe(name, source, metric, title, caption, "failed", label, communities)


def _scale(metric: str, title: str) -> Recipe:
    caption = "Three levels, each a tenth of the one below."
    label = "processes in the bottom community"
    return Recipe(f"scale-{metric}", "scale", metric, title, caption, "sizes", label, (WHOLE,))


def _churn(metric: str) -> Recipe:
    title = f"{metric.capitalize()} under continuous joins and leaves"
    caption = "The implementation as shipped, on the virtual network; some processes change topics."
    label = "processes that change, % a second"
    return Recipe(f"churn-{metric}", CHURN, metric, title, caption, "failed", label, (0, 1, 2))


RECIPES: tuple[Recipe, ...] = (
    _recipe("figures-13-16", "messages_inside", "Figure 13: events sent inside each community"),
    _recipe("figures-13-16", "messages_upward", "Figure 14: events sent upward"),
    _recipe("figures-13-16", "reception", "Figure 15: reception, stillborn processes"),
    _recipe("figures-13-16", "reliability", "Figure 16: reliability, stillborn processes"),
    _recipe("figures-17-18", "reception", "Figure 17: reception, weakly consistent views"),
    _recipe("figures-17-18", "reliability", "Figure 18: reliability, weakly consistent views"),
    _recipe(DEFAULT, "reliability", "Reliability of real nodes after crashes"),
    _recipe(LINKS, "reception", "Figures 19 and 20: reception"),
    _recipe(LINKS, "reliability", "Figures 21 and 22: reliability"),
    _recipe(LINKS, "efficiency", "Figures 23 and 24: efficiency"),
    _recipe(LINKS, "rounds", "Figures 25 and 26: latency"),
    _recipe(LINKS, "messages_upward", "Figures 27 and 28: upward messages"),
    _scale("messages_inside", "Messages against the number of processes"),
    _scale("rounds", "Rounds against the number of processes"),
    _scale("table_entries", "Contacts kept by a process"),
    _scale("reliability", "Reliability against the number of processes"),
    _churn("reception"),
    _churn("reliability"),
)


def figures(aggregates: Aggregates) -> list[Figure]:
    """Every figure for which there are results at two places of its x axis or more."""
    found = [build(recipe, aggregates) for recipe in RECIPES]
    return [figure for figure in found if figure.places > 1]


def build(recipe: Recipe, aggregates: Aggregates) -> Figure:
    """One figure; without points where nothing was measured."""
    rows = _without_checks(
        [
            row
            for row in aggregates.select(figure=recipe.source, metric=recipe.metric)
            if getattr(row, recipe.varies) is not None and _is_drawn(recipe, row)
        ]
    )
    panels = []
    for community in recipe.communities:
        own = [row for row in rows if row.community == community]
        panels.append(Panel(_panel_title(own, community), lines(recipe.varies, own)))
    return Figure(
        recipe.name,
        recipe.title,
        f"{recipe.caption} {_parameters(rows)}".strip(),
        recipe.x_label,
        Y_LABELS[recipe.metric],
        tuple(panels),
        log_x=recipe.varies in ("p_sel", "sizes"),
        log_y=recipe.metric == "messages_inside",
        share=recipe.metric in SHARES,
        commands=remade_by(rows),
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


def _is_drawn(recipe: Recipe, row: Aggregate) -> bool:
    """Whether a row is a point of a figure.

    Of the defaults, those with their own c and no loss: the others are of the pareto figure, and live nodes
    have a table of their own. Formulas and uniform tables of figures 19 to 28 are drawn for one of the
    paper's two sizes, which differ by a few processes.
    """
    if recipe.source == LINKS and row.mode == "uniform":
        return row.sizes == IMPLEMENTED["sizes"] or row.sizes not in IMPLEMENTED_SIZES.values()
    if recipe.source != DEFAULT:
        return True
    return row.c == DEFAULTS["c"] and row.loss == 0.0 and row.tier != "live"


def _without_checks(rows: list[Aggregate]) -> list[Aggregate]:
    """Without emulated events that were also replayed, a thousand times as many, over the same tables."""
    replayed = {_sort(row) for row in rows if row.tier == "replay"}
    return [row for row in rows if row.tier != "emulate" or _sort(row) not in replayed]


def _sort(row: Aggregate) -> tuple[object, ...]:
    return row.mode, row.variant, row.sizes, row.p_sel, row.failed, row.loss


# Lines.

Kind = tuple[str, str, str, str]
"""Tier, protocol, mode and variant."""
Setting = tuple[object, ...]
"""The values of `PARAMETERS`, None for what the x axis shows."""


def lines(varies: str, rows: list[Aggregate]) -> tuple[Series, ...]:
    """The lines of one panel; `varies` is the parameter on the x axis."""
    grouped: dict[Kind, dict[Setting, list[Aggregate]]] = {}
    for row in rows:
        kind = (row.tier, row.protocol, row.mode, row.variant)
        grouped.setdefault(kind, {}).setdefault(_setting(row, varies), []).append(row)
    # Where one kind has several settings, every line has to say which is its own.
    crowded = any(len(settings) > 1 for settings in grouped.values())
    told = [setting for settings in grouped.values() for setting in settings] if crowded else []
    found = []
    alike: Counter[tuple[str, ...]] = Counter()
    for kind in sorted(grouped, key=_order):
        for setting, own in sorted(grouped[kind].items(), key=lambda pair: -len(pair[1])):
            own.sort(key=lambda row: place(row, varies))
            # Lines of one tier and mode have one colour and dash: a shade tells them apart.
            shade = alike[kind[:3]]
            alike[kind[:3]] += 1
            found += _lines(kind, own, _difference(setting, told), shade, varies)
    return tuple(found)


def _order(kind: Kind) -> tuple[int, str, int, str]:
    tier, protocol, mode, variant = kind
    return TIERS.index(tier), protocol, MODES.index(mode), variant


def place(row: Aggregate, varies: str) -> float:
    """Where a row stands on the x axis."""
    if varies == "sizes":
        return float(row.sizes[0])
    value = getattr(row, varies)
    return 100 * value if varies == "failed" else float(value)


def _setting(row: Aggregate, varies: str) -> Setting:
    unused = {varies, "g"} if row.p_sel is not None else {varies}
    return tuple(None if name in unused else getattr(row, name) for name in PARAMETERS)


def _lines(kind: Kind, rows: list[Aggregate], suffix: str, shade: int, varies: str) -> list[Series]:
    tier, protocol, mode, _ = kind
    colour = mode if protocol == "camcast" else protocol
    points = tuple(_point(row, varies) for row in rows)
    found = [Series(kind_words(kind, rows[0].metric) + suffix, colour, tier, points, shade)]
    if tier == "model" and protocol == "camcast" and rows[0].metric not in PRINTED_AS_IT_IS:
        values = [(place(row, varies), printed_value(row)) for row in rows]
        paper = tuple(Point(x, y, y, y, 1) for x, y in values if y is not None)
        if paper:
            found.append(Series(PRINTED + suffix, colour, "paper", paper, shade))
    return found


def _point(row: Aggregate, varies: str) -> Point:
    interval = row.interval
    if not interval.is_bounded:  # one network says nothing of others
        return Point(place(row, varies), row.value, row.value, row.value, row.count)
    return Point(place(row, varies), interval.low, interval.value, interval.high, row.count)


def kind_words(kind: Kind, metric: str) -> str:
    """What a tier, protocol and mode are called in legends and tables."""
    tier, protocol, mode, variant = kind
    name = mode if protocol == "camcast" else f"gossip {protocol}"
    if tier in ("replay", "emulate", "live"):
        return f"{name} as {variant}, {TIER_WORDS[tier]}"
    if tier != "model":
        return f"{name}, {TIER_WORDS[tier]}"
    if protocol != "camcast":
        return f"{name}, formula"
    return PRINTED if metric in PRINTED_AS_IT_IS else DRAWN


def _difference(setting: Setting, settings: list[Setting]) -> str:
    """What tells a setting from others, for a label; nothing where there are none."""
    differing = [
        index for index in range(len(setting)) if len({other[index] for other in settings}) > 1
    ]
    words = [parameter_words(PARAMETERS[index], setting[index]) for index in differing]
    return f" ({', '.join(words)})" if words else ""


def parameter_words(name: str, value: object) -> str:
    """A parameter with its value, as a reader is told it."""
    if isinstance(value, tuple):
        return f"{', '.join(map(str, value))} processes"
    if isinstance(value, float) and name == "loss":
        return loss_words(value)
    if isinstance(value, float) and name == "failed":
        return f"{100 * value:g} % failed"
    if name == "failure":
        return str(value)
    if name == "publish_level":
        return f"published at level {value}"
    return f"{name} = {value:g}" if isinstance(value, int | float) else f"no {name}"


def loss_words(loss: float) -> str:
    return f"{100 * loss:g} % loss" if loss else "no loss"


# The paper's own equations.


def printed_setting(row: Aggregate) -> PrintedSetting:
    """The row's setting in the paper's symbols, from the community of the event's topic up."""
    sizes, failed, pi = row.sizes, row.failed, 1.0
    if row.failure == "repaired":
        # Where tables hold the living alone, these are the whole system.
        sizes, failed = tuple(left_of(n, failed) for n in sizes), 0.0
    elif row.failure == "stillborn":
        pi = 1 - failed
    return PrintedSetting(
        sizes=sizes[row.publish_level :],
        c=row.c,
        g=row.g,
        p_sel=row.p_sel,
        a=row.a,
        z=row.z,
        loss=row.loss,
        failed=failed,
        pi=pi,
    )


def printed_value(row: Aggregate) -> float | None:
    """The paper's value of the row's metric in its community; None where it has no equation."""
    setting = printed_setting(row)
    if row.community == WHOLE:
        return printed_whole(row).get(row.metric)
    level = row.community - row.publish_level
    return None if level < 0 else setting.in_community(row.metric, level)


def printed_whole(row: Aggregate) -> dict[str, float]:
    """The paper's values for all communities together, by metric; none for small communities or PMcast."""
    setting, system = printed_setting(row), sum(row.sizes)
    if min(setting.sizes) < SMALLEST or system // CLUSTERS < SMALLEST or row.protocol == "pmcast":
        return {}
    return setting.all_together(row.protocol, system, min(CLUSTERS, system))
