"""Tables of real nodes: reliability and reception beside the formulas, memory, upward load."""

from __future__ import annotations

import math

from bench.aggregates import Aggregate, Aggregates, community_name
from bench.claims.claim import exceeds
from bench.intervals import FEWEST, Interval
from bench.report.figures import PRINTED, lines
from bench.report.headline import SHIPPED, interval_text, value_text
from bench.report.svg import Figure, Panel, Point, Series, short
from bench.report.table import (
    Table,
    digits,
    interval_words,
    per_cent,
    remade_by,
    sizes_words,
)
from bench.results import SHARES, WHOLE
from bench.suites.built_in import COMPARED, DEFAULT, DEFAULTS, LINKS, MODES, variant


def real_node_tables(aggregates: Aggregates) -> list[Table]:
    """Every table for which there are results."""
    found = []
    for metric in ("reliability", "reception"):
        title = f"{metric.capitalize()} after crashes, tables repaired"
        found.append(_by_community(aggregates, DEFAULT, metric, "failed", title))
    title = "Reliability by the share of links"
    found.append(_by_community(aggregates, LINKS, "reliability", "p_sel", title))
    found += [_memory(aggregates, figure) for figure in (LINKS, DEFAULT)]
    found.append(_live(aggregates))
    return [table for table in found if table.rows]


def _by_community(
    aggregates: Aggregates, figure: str, metric: str, varies: str, title: str
) -> Table:
    """A row for each community and line of the figure; a column for each place on its x axis."""
    rows = [
        row
        for row in aggregates.select(figure=figure, metric=metric, protocol="camcast")
        if row.community != WHOLE and getattr(row, varies) is not None
    ]
    if figure == DEFAULT:
        rows = [row for row in rows if row.c == DEFAULTS["c"] and row.loss == DEFAULTS["loss"]]
    if not any(row.is_of_networks for row in rows):
        return Table(title, (), ())
    found: list[tuple[str, Series]] = []
    for level in sorted({row.community for row in rows}):
        own = [row for row in rows if row.community == level]
        name = community_name(level, len(own[0].sizes))
        found += [(name, line) for line in lines(varies, own)]
    places = sorted({point.x for _, line in found for point in line.points})
    unit = "{} % crashed" if varies == "failed" else f"{varies} {{}}"
    heads = ("", *(unit.format(short(place)) for place in places))
    sizes = " or ".join(sorted({sizes_words(row.sizes) for row in rows}))
    cells = tuple(
        (f"{name}: {line.label}", *_cells(line, places))
        for name, line in found
        if metric == "reliability" or not line.label.startswith(PRINTED)
    )
    return Table(f"{title}: {sizes} processes", heads, cells, "", remade_by(rows))


def _cells(line: Series, places: list[float]) -> tuple[str, ...]:
    points = {point.x: point for point in line.points}
    return tuple(_share(points.get(place)) for place in places)


def _share(point: Point | None) -> str:
    if point is None:
        return "-"
    return interval_words(Interval(point.low, point.y, point.high), per_cent, " %")


MEMORY_HEADS = (
    "emulated",
    "processes",
    "contacts, mean",
    "deviation",
    "largest",
    "ln N + c + z",
    "busiest link, by the mean",
)


def _memory(aggregates: Aggregates, figure: str) -> Table:
    """Contacts that a process keeps, against the bound, and how evenly upward messages are spread."""
    rows = aggregates.select(figure=figure, tier="emulate", protocol="camcast", failed=0.0)
    if not rows:
        return Table("", MEMORY_HEADS, ())
    most_links = max(row.p_sel or 0.0 for row in rows)
    rows = [row for row in rows if (row.p_sel or 0.0) == most_links]
    rows.sort(key=lambda row: (COMPARED.index(row.mode), row.variant, row.sizes, row.community))
    kept: dict[tuple[object, ...], dict[str, Aggregate]] = {}
    for row in rows:
        if row.community != WHOLE:
            key = (row.mode, row.variant, row.sizes, row.c, row.z, row.loss, row.community)
            kept.setdefault(key, {})[row.metric] = row
    lines = [_kept(own) for own in kept.values() if "table_entries" in own]
    links = f" with p_sel = {most_links:g}" if most_links else ""
    sizes = " or ".join(sorted({sizes_words(row.sizes) for row in rows}))
    title = f"Memory and upward load{links}: {sizes} processes"
    return Table(title, MEMORY_HEADS, tuple(lines), "", remade_by(rows))


def _kept(own: dict[str, Aggregate]) -> tuple[str, ...]:
    """The cells of one community of one mode."""
    entries = own["table_entries"]
    bound = math.log(entries.size) + entries.c + (0 if entries.is_root else entries.z)
    deviation, peak = own.get("table_deviation"), own.get("upward_peak")
    largest = own.get("largest_table")
    return (
        f"{entries.mode} as {entries.variant}, {entries.place}",
        f"{entries.size}",
        f"{entries.value:.1f}",
        f"{deviation.value:.1f}" if deviation else "-",
        f"{largest.value:.1f}" if largest else "-",
        f"{bound:.1f}",
        f"{peak.value:.2f}" if peak else "-",
    )


LIVE_HEADS = ("live", "processes", "events", "time to the last delivery, p50", "p99", "reached")


def _live(aggregates: Aggregates) -> Table:
    """What only real processes can say: time. One network a mode, so it decides nothing between modes."""
    rows = []
    found = aggregates.select(tier="live", metric="seconds", community=WHOLE)
    for row in found:
        reached = aggregates.select(
            tier="live", metric="reception", community=WHOLE, mode=row.mode, figure=row.figure
        )
        rows.append(
            (
                f"{row.mode} as {row.variant}",
                sizes_words(row.sizes),
                f"{row.count}",
                f"{digits(row.p50 or row.value)} s",
                f"{digits(row.p99 or row.value)} s",
                f"{per_cent(reached[0].value)} %" if reached else "-",
            )
        )
    title = "Real processes over UDP on one machine"
    return Table(title, LIVE_HEADS, tuple(rows), "", remade_by(found))


# Published, improved and shipped beside the formula; replayed beside emulated; what reliability costs.

# As published, as improved, as shipped.

VARIANT_HEADS = (
    "mode",
    "the formula",
    "as published",
    "as improved",
    "as shipped",
    "published against the formula",
    "improved against published",
    "shipped against improved",
)
VARIANT_NOTE = (
    "Events that reach everyone, with default parameters. As published: SCAMP or tables drawn from the "
    "overlay, and the paper's eager rule, replayed over the real tables. As improved: the same rule over "
    "tables whose members see to it that enough others hold them. As shipped: lazy dissemination, which "
    "fetches what it hears of and does not have, and sure links, so that no event stops at a level by "
    "chance. The formula draws tables uniformly and leaves out nobody; real nodes leave out of the draw "
    "whom an event came from. "
    "Differences are in points; no difference means within 5 points, decided."
)


def variants_table(aggregates: Aggregates) -> Table:
    """Each mode three times, beside the formula, and which differences are decided."""
    rows = []
    for loss, failed in ((0.0, 0.0), (0.15, 0.0), (0.0, 0.3)):
        where = {"figure": DEFAULT, "metric": "reliability", "community": WHOLE, "loss": loss}
        where |= {"failed": failed, "c": DEFAULTS["c"]}
        model = next(iter(aggregates.select(tier="model", **where)), None)
        for mode in COMPARED:
            published = _one(aggregates, mode, tier="replay", **where, **variant("published"))
            improved = _one(aggregates, mode, tier="replay", **where, **variant("improved"))
            shipped = _one(aggregates, mode, tier="emulate", **where, **SHIPPED)
            if published is None and improved is None:
                continue
            lost = f", {100 * loss:g} % lost" if loss else ""
            crashed = f", {100 * failed:g} % crashed" if failed else ""
            rows.append(
                (
                    f"{mode}{lost}{crashed}",
                    *(_reaching(row) for row in (model, published, improved, shipped)),
                    _difference(published, model),
                    _difference(improved, published),
                    _difference(shipped, improved),
                )
            )
    title = "Each mode as published, as improved, and as shipped"
    again = remade_by(aggregates.select(figure=DEFAULT))
    return Table(title, VARIANT_HEADS, tuple(rows), VARIANT_NOTE, again)


def _one(aggregates: Aggregates, mode: str, **where: object) -> Aggregate | None:
    rows = aggregates.select(mode=mode, **where)
    return max(rows, key=lambda row: len(row.networks), default=None)


def _reaching(row: Aggregate | None) -> str:
    if row is None:
        return "-"
    interval = interval_text(row)
    return f"{value_text(row)}" + (f" [{interval}]" if interval else "")


def _difference(one: Aggregate | None, other: Aggregate | None) -> str:
    if one is None or other is None:
        return "-"
    part = exceeds("", one, other)
    reverse = exceeds("", other, one)
    points = f"{100 * part.interval.value:+.1f}"
    if not part.has_enough:
        return f"{points}, fewer than {FEWEST} networks"
    if part.is_alike:
        return f"{points}, no difference"
    if part.outcome or reverse.outcome:
        return f"{points}, {'more' if part.outcome else 'less'}"
    return f"{points}, not decided"


# Replayed events beside emulated ones of the same networks.


def cross_check(aggregates: Aggregates) -> Table:
    """Reception and messages of replayed events against emulated ones, network by network."""
    rows = []
    for figure in (LINKS, DEFAULT):
        for metric in ("reception", "messages_inside", "messages_upward"):
            shared = {"figure": figure, "metric": metric, "community": WHOLE, "failed": 0.0}
            shared |= variant("published")
            for emulated in aggregates.select(tier="emulate", **shared):
                names = ("mode", "sizes", "c", "g", "p_sel", "a", "z", "loss")
                same = {name: getattr(emulated, name) for name in names}
                for replayed in aggregates.select(tier="replay", **shared, **same):
                    rows.append(_checked(emulated, replayed))
    note = (
        "Published tables. Replayed: thousands of events a network over its tables; emulated: a few events "
        "of the same networks, so the difference varies by chance. Hops are left out: real messages "
        "overtake each other."
    )
    heads = ("", "emulated", "replayed", "difference", "")
    again = remade_by(aggregates.select(tier="replay"))
    return Table("Replayed events against emulated ones", heads, tuple(rows), note, again)


def _checked(emulated: Aggregate, replayed: Aggregate) -> tuple[str, ...]:
    apart = emulated.minus(replayed)
    share = emulated.metric in SHARES
    write = per_cent if share else digits
    agrees = apart.contains(0.0) or not apart.is_bounded
    setting = f"p_sel {emulated.p_sel:g}" if emulated.p_sel is not None else "defaults"
    bounds = f" [{write(apart.low)}, {write(apart.high)}]" if apart.is_bounded else ""
    return (
        f"{emulated.metric.replace('_', ' ')}, {emulated.mode}, {setting}",
        write(emulated.value) + (" %" if share else ""),
        write(replayed.value) + (" %" if share else ""),
        f"{write(apart.value)}{bounds}",
        "agrees" if agrees else "differs",
    )


# What reliability costs.


def pareto(aggregates: Aggregates) -> Figure | None:
    """Reliability against bytes a node-second with one event a second; a curve a mode, and a dot as
    shipped."""
    series = []
    for mode in COMPARED:
        curve = _curve(aggregates, mode)
        if len(curve) > 1:
            series.append(Series(f"{mode}, eager, c = 0 to 5", mode, "replay", tuple(curve)))
        dot = _as_shipped(aggregates, mode)
        if dot is not None:
            series.append(Series(f"{mode}, as shipped", mode, "shipped", (dot,)))
    if not series:
        return None
    caption = (
        "Up and to the left is better. Curves: the paper's eager rule over the tables of the defaults, "
        "with a process sending to floor(ln N + c) others, c from 0 to 5 (replayed). Diamonds: as shipped, "
        "lazy with sure links (emulated). Bytes: what nodes send at rest, and one event a second."
    )
    return Figure(
        "pareto",
        "What reliability costs",
        caption,
        "bytes a node-second, one event a second",
        "events that reach everyone",
        (Panel("all communities", tuple(series)),),
        share=True,
        panel_size=(560, 300),
        commands=remade_by(aggregates.select(figure=DEFAULT)),
    )


def _default(aggregates: Aggregates, mode: str, metric: str, **where: object) -> Aggregate | None:
    shared = {"figure": DEFAULT, "community": WHOLE, "failed": 0.0, "loss": 0.0, "metric": metric}
    return _one(aggregates, mode, **shared, **where)


def _curve(aggregates: Aggregates, mode: str) -> list[Point]:
    rest = _default(aggregates, mode, "rest_bytes", tier="emulate", **SHIPPED)
    # What is not run as published sends the same messages: they cost what they cost the others.
    sizes = [_message_bytes(aggregates, own) for own in (mode, *MODES)]
    size = next((size for size in sizes if size is not None), None)
    if rest is None or size is None:
        return []
    shared = {"figure": DEFAULT, "community": WHOLE, "failed": 0.0, "loss": 0.0, "mode": mode}
    shared |= {"tier": "replay", "sizes": rest.sizes, **variant("improved")}
    points = []
    for row in aggregates.select(metric="reliability", **shared):
        same = {"c": row.c, **shared}
        sent = [
            found.value
            for metric in ("messages_inside", "messages_upward")
            for found in aggregates.select(metric=metric, **same)
        ]
        x = rest.value + size * sum(sent) / row.size
        points.append(Point(x, row.low, row.value, row.high, row.count))
    return sorted(points, key=lambda point: point.x)


def _message_bytes(aggregates: Aggregates, mode: str) -> float | None:
    """What one event message costs with all that is below it, from emulated eager events."""
    where = {"tier": "emulate", "c": DEFAULTS["c"], **variant("published")}
    size = _default(aggregates, mode, "event_bytes", **where)
    inside = _default(aggregates, mode, "messages_inside", **where)
    upward = _default(aggregates, mode, "messages_upward", **where)
    if size is None or inside is None or upward is None or not inside.value:
        return None
    return size.value / (inside.value + upward.value)


def _as_shipped(aggregates: Aggregates, mode: str) -> Point | None:
    where = {"tier": "emulate", **SHIPPED}
    rest = _default(aggregates, mode, "rest_bytes", **where)
    size = _default(aggregates, mode, "event_bytes", **where)
    reached = _default(aggregates, mode, "reliability", **where)
    if rest is None or size is None or reached is None:
        return None
    x = rest.value + size.value / rest.size
    low = reached.low if math.isfinite(reached.low) else reached.value
    return Point(x, low, reached.value, reached.high, reached.count)
