"""The lines of a figure: one for each tier, protocol, mode and setting, and the paper's formula beside them.

Where lines of the same tier, protocol and mode differ in a parameter, labels tell it.
"""

from __future__ import annotations

from bench.aggregates import Aggregate
from bench.experiment import MODES
from bench.report.paper_formula import printed_value
from bench.report.plot import Point, Series

TIER_ORDER = ("model", "simulate", "emulate", "live")
TIER_WORDS = {"simulate": "simulated", "emulate": "emulated", "live": "live"}
DRAWN = "formula with every draw made"
PRINTED = "the paper's formula"
PRINTED_AS_IT_IS = ("rounds", "table_entries")
"""Metrics for which the model tier gives the paper's value."""
PARAMETERS = ("sizes", "c", "g", "p_sel", "a", "z", "loss", "failure", "failed", "publish_level")

Kind = tuple[str, str, str]
"""Tier, protocol and mode."""
Setting = tuple[object, ...]
"""The values of `PARAMETERS`, None for what the x axis shows."""


def lines(varies: str, rows: list[Aggregate]) -> tuple[Series, ...]:
    """The lines of one panel; `varies` is the parameter on the x axis."""
    grouped: dict[Kind, dict[Setting, list[Aggregate]]] = {}
    for row in rows:
        kind = (row.tier, row.protocol, row.mode)
        grouped.setdefault(kind, {}).setdefault(_setting(row, varies), []).append(row)
    # Where one kind has several settings, every line has to say which is its own.
    crowded = any(len(settings) > 1 for settings in grouped.values())
    told = [setting for settings in grouped.values() for setting in settings] if crowded else []
    found = []
    for kind in sorted(grouped, key=_order):
        settings = sorted(grouped[kind].items(), key=lambda pair: -len(pair[1]))
        for variant, (setting, own) in enumerate(settings):
            own.sort(key=lambda row: place(row, varies))
            found += _lines(kind, own, _difference(setting, told), variant, varies)
    return tuple(found)


def _order(kind: Kind) -> tuple[int, str, int]:
    tier, protocol, mode = kind
    return TIER_ORDER.index(tier), protocol, MODES.index(mode)


def place(row: Aggregate, varies: str) -> float:
    """Where a row stands on the x axis."""
    if varies == "sizes":
        return float(row.sizes[0])
    value = getattr(row, varies)
    return 100 * value if varies == "failed" else float(value)


def _setting(row: Aggregate, varies: str) -> Setting:
    unused = {varies, "g"} if row.p_sel is not None else {varies}
    return tuple(None if name in unused else getattr(row, name) for name in PARAMETERS)


def _lines(
    kind: Kind, rows: list[Aggregate], suffix: str, variant: int, varies: str
) -> list[Series]:
    tier, protocol, mode = kind
    colour = mode if protocol == "camcast" else protocol
    points = tuple(Point(place(r, varies), r.low, r.value, r.high, r.count) for r in rows)
    found = [Series(kind_words(kind, rows[0].metric) + suffix, colour, tier, points, variant)]
    if tier == "model" and protocol == "camcast" and rows[0].metric not in PRINTED_AS_IT_IS:
        values = [(place(row, varies), printed_value(row)) for row in rows]
        paper = tuple(Point(x, y, y, y, 1) for x, y in values if y is not None)
        if paper:
            found.append(Series(PRINTED + suffix, colour, "paper", paper, variant))
    return found


def kind_words(kind: Kind, metric: str) -> str:
    """What a tier, protocol and mode are called in legends and tables."""
    tier, protocol, mode = kind
    name = mode if protocol == "camcast" else f"gossip {protocol}"
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
