"""The first screen: which mode when. The modes with default settings side by side, and an answer in words.

The winner of a row is marked only where it is decided against all others, by the rules of claims: five
networks or more, and a difference whose interval leaves out zero.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass

from bench.aggregates import Aggregate, Aggregates
from bench.claims.claim import Part, exceeds
from bench.intervals import FEWEST
from bench.report.plot import Figure, Panel, Point, Series
from bench.report.table import Table, digits, per_cent, sizes_words
from bench.results import SHARES, WHOLE
from bench.suites.settings import COMPARED, DEFAULT, DEFAULTS, LINKS, MODES, variant

SHIPPED = variant("shipped")
NEEDS = (
    "Unstructured needs gateways of each topic that everyone knows; in the other modes one address of "
    "any node is enough, and the DHT finds the rest."
)


@dataclass(frozen=True, slots=True)
class Question:
    """A row of the first table."""

    words: str
    metric: str
    write: Callable[[Aggregate], str]
    more_is_better: bool | None
    """None where neither is."""
    crashed: bool = False
    """Asked after a share of the processes has crashed."""


def _share(row: Aggregate) -> str:
    return f"{per_cent(row.value)} %"


def _plain(row: Aggregate) -> str:
    return digits(row.value)


def _times(row: Aggregate) -> str:
    if row.p50 is None or row.p99 is None:
        return f"{digits(row.value)} s"
    return f"{digits(row.p50)} / {digits(row.p99)} s"


QUESTIONS = (
    Question("events that reach everyone", "reliability", _share, True),
    Question("the same after {} % crashed", "reliability", _share, True, crashed=True),
    Question("time to the last delivery, p50 / p99", "seconds", _times, False),
    Question("messages an event", "messages_inside", _plain, False),
    Question("bytes an event", "event_bytes", _plain, False),
    Question("datagrams to join, a node", "join_datagrams", _plain, False),
    Question("datagrams at rest, a node-second", "rest_datagrams", _plain, False),
    Question("bytes at rest, a node-second", "rest_bytes", _plain, False),
    Question("seconds to repair after {} % crashed", "repair_seconds", _plain, False, crashed=True),
    Question("contacts a process keeps, mean", "table_entries", _plain, False),
    Question("contacts a process keeps, most", "largest_table", _plain, False),
    Question("unevenness of the tables (1: uniform draws)", "uniformity", _plain, False),
)


@dataclass(frozen=True, slots=True)
class Cell:
    """One mode's value in a row of the first table."""

    text: str
    interval: str
    is_best: bool


@dataclass(frozen=True, slots=True)
class Row:
    words: str
    cells: tuple[Cell, ...]
    verdict: str
    """Who is ahead, or that nobody is, or that it is not decided."""


@dataclass(frozen=True, slots=True)
class Headline:
    """What the first screen says."""

    answer: list[str]
    modes: tuple[str, ...]
    rows: tuple[Row, ...]
    note: str


def headline(aggregates: Aggregates) -> Headline:
    """From emulated nodes as shipped, with default parameters; empty where there are none."""
    asked = [(question, _found(aggregates, question)) for question in QUESTIONS]
    rows = tuple(_row(question, found) for question, found in asked if found)
    if not rows:
        return Headline(_nothing(), (), (), "")
    some = next(row for _, found in asked for row in found.values())
    networks = min(len(row.networks) for _, found in asked for row in found.values())
    note = (
        f"Emulated nodes as shipped: {sizes_words(some.sizes)} processes in three communities, "
        f"c = {some.c:g}, g = {some.g:g}, a = {some.a:g}, z = {some.z}, nothing lost, 5 to 50 ms between two "
        f"hosts; {networks} networks a mode. At rest: 15 to 25 s after the last join. Bold: better than all "
        "others, decided. Below each value its interval, which holds over all looks together (95 %)."
    )
    modes = tuple(next(found for _, found in asked if found))
    return Headline(_answer(aggregates), modes, rows, note)


def _nothing() -> list[str]:
    return ["No network of real nodes with default settings has been run: camcast bench run quick."]


def _found(aggregates: Aggregates, question: Question) -> dict[str, Aggregate]:
    """By mode, in the setting with the most networks; after crashes, with the largest share."""
    rows = [
        row
        for row in aggregates.select(
            figure=DEFAULT, tier="emulate", metric=question.metric, community=WHOLE, **SHIPPED
        )
        if (row.failed > 0) == question.crashed and row.c == DEFAULTS["c"]
    ]
    settings: dict[tuple[object, ...], dict[str, Aggregate]] = {}
    for row in rows:
        settings.setdefault((row.failed, row.sizes), {})[row.mode] = row
    complete = [found for found in settings.values() if set(found) >= set(MODES)]
    if not complete:
        return {}
    wanted = [found for found in complete if not question.crashed or _is_near(found, 0.3)]
    best = max(wanted or complete, key=lambda found: min(len(r.networks) for r in found.values()))
    return {mode: best[mode] for mode in COMPARED if mode in best}


def _is_near(found: dict[str, Aggregate], failed: float) -> bool:
    return all(abs(row.failed - failed) < 1e-9 for row in found.values())


def _row(question: Question, found: dict[str, Aggregate]) -> Row:
    words = question.words.format(f"{100 * found[MODES[0]].failed:g}")
    winner, verdict = _winner(question, found)
    cells = tuple(
        Cell(question.write(row), _interval(row), mode == winner) for mode, row in found.items()
    )
    return Row(words, cells, verdict)


def _interval(row: Aggregate) -> str:
    interval = row.interval
    if not interval.is_bounded or interval.low == interval.high:
        return ""
    if row.metric in SHARES:
        return f"{per_cent(interval.low)} to {per_cent(interval.high)}"
    return f"{digits(interval.low)} to {digits(interval.high)}"


def _winner(question: Question, found: dict[str, Aggregate]) -> tuple[str | None, str]:
    """The mode that is ahead of all others, and what is to be said of the row."""
    if min(len(row.networks) for row in found.values()) < FEWEST:
        return None, f"not decided: fewer than {FEWEST} networks"
    if question.more_is_better is None:
        return None, ""
    ahead = {
        mode: [_ahead(question, found[mode], found[other]) for other in found if other != mode]
        for mode in found
    }
    for mode, parts in ahead.items():
        if all(part.outcome for part in parts):
            return mode, f"{mode} ahead"
    if all(part.is_alike for parts in ahead.values() for part in parts):
        within = "5 points" if found[MODES[0]].metric in SHARES else "10 %"
        return None, f"no difference within {within}"
    last = [
        mode
        for mode in found
        if all(
            _ahead(question, found[other], found[mode]).outcome for other in found if other != mode
        )
    ]
    return None, f"{last[0]} behind" if last else "not decided"


def _ahead(question: Question, one: Aggregate, other: Aggregate) -> Part:
    pair = (one, other) if question.more_is_better else (other, one)
    return exceeds(f"{one.mode} ahead of {other.mode}", *pair)


# The answer in words.


def _answer(aggregates: Aggregates) -> list[str]:
    """A few sentences, each from what is decided."""
    asked = {
        (q.metric, q.crashed): (q, found) for q in QUESTIONS if (found := _found(aggregates, q))
    }
    sentences = (
        [_reliability(*asked["reliability", False])] if ("reliability", False) in asked else []
    )
    cost = [
        asked[key] for key in (("rest_bytes", False), ("join_datagrams", False)) if key in asked
    ]
    cheapest = {_winner(question, found)[0] for question, found in cost}
    if cost and len(cheapest) == 1 and None not in cheapest:
        sentences.append(_cheapest(cheapest.pop() or "", cost))
    if ("seconds", False) in asked:
        sentences += _ahead_in(*asked["seconds", False], "Events arrive everywhere soonest in")
    if ("repair_seconds", True) in asked:
        sentences += _ahead_in(*asked["repair_seconds", True], "Tables are repaired soonest in")
    return [*sentences, NEEDS]


def _reliability(question: Question, found: dict[str, Aggregate]) -> str:
    winner, verdict = _winner(question, found)
    least = min(found.values(), key=lambda row: row.value)
    if winner:
        return (
            f"With default settings {winner} reaches everyone most often: {_share(found[winner])} of the "
            f"events, against {_share(least)} in {least.mode} mode."
        )
    if verdict.startswith("no difference"):
        return (
            f"With default settings every mode reached everyone in at least {_share(least)} of the events, "
            "with no difference within 5 points: choose by what they cost and need."
        )
    return (
        f"With default settings the modes reach everyone in at least {_share(least)} of the events; "
        f"which one most often is {verdict}."
    )


def _cheapest(mode: str, cost: list[tuple[Question, dict[str, Aggregate]]]) -> str:
    told = []
    for question, found in cost:
        others = ", ".join(f"{o} {digits(found[o].value)}" for o in found if o != mode)
        told.append(f"{digits(found[mode].value)} {question.words} ({others})")
    return f"{mode.capitalize()} costs least: {' and '.join(told)}."


def _ahead_in(question: Question, found: dict[str, Aggregate], words: str) -> list[str]:
    """A sentence where one mode is ahead, and none where none is."""
    winner, _ = _winner(question, found)
    if winner is None:
        return []
    others = ", ".join(f"{o} {question.write(found[o])}" for o in found if o != winner)
    return [f"{words} {winner}: {question.write(found[winner])} ({others})."]


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
    return Table(title, VARIANT_HEADS, tuple(rows), VARIANT_NOTE)


def _one(aggregates: Aggregates, mode: str, **where: object) -> Aggregate | None:
    rows = aggregates.select(mode=mode, **where)
    return max(rows, key=lambda row: len(row.networks), default=None)


def _reaching(row: Aggregate | None) -> str:
    if row is None:
        return "-"
    interval = _interval(row)
    return f"{_share(row)}" + (f" [{interval}]" if interval else "")


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
                    rows.append(_checked(figure, emulated, replayed))
    note = (
        "Published tables. Replayed: 10,000 events a network over its tables; emulated: a few events of "
        "the same networks, so the difference varies by chance. Hops are left out: real messages "
        "overtake each other."
    )
    heads = ("", "emulated", "replayed", "difference", "")
    return Table("Replayed events against emulated ones", heads, tuple(rows), note)


def _checked(figure: str, emulated: Aggregate, replayed: Aggregate) -> tuple[str, ...]:
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
            series.append(Series(f"{mode}, as shipped", mode, "emulate", (dot,)))
    if not series:
        return None
    caption = (
        "Up and to the left is better. Curves: the paper's eager rule over the tables of the defaults, "
        "with a process sending to floor(ln N + c) others, c from 0 to 5 (replayed). Dots: as shipped, "
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
    )


def _default(aggregates: Aggregates, mode: str, metric: str, **where: object) -> Aggregate | None:
    shared = {"figure": DEFAULT, "community": WHOLE, "failed": 0.0, "loss": 0.0, "metric": metric}
    return _one(aggregates, mode, **shared, **where)


def _curve(aggregates: Aggregates, mode: str) -> list[Point]:
    rest = _default(aggregates, mode, "rest_bytes", tier="emulate", **SHIPPED)
    size = _message_bytes(aggregates, mode)
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
