"""One event spreading through the communities, hop by hop, drawn for each mode.

A column is a hop, a band a community with the root on top, a dot a process at the hop at which it first had
the event, a line the copy that brought it. Hollow dots at the end are processes that never had it.
"""

from __future__ import annotations

import html
import traceback
from dataclasses import dataclass
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

from bench.aggregates import community_name
from bench.experiment import Experiment
from bench.report.svg import STYLE
from bench.suites.built_in import COMPARED, DEFAULTS, variant
from overlay.errors import CamcastError

if TYPE_CHECKING:
    from bench.store import ResultStore

WIDTH = 900
LEFT, RIGHT, TOP, BOTTOM = 112, 92, 8, 30
ROW = 11
"""Height of a process in its band."""
BAND_ROOM = 16
"""Between two bands."""

SPREAD_STYLE = """
.copy{fill:none;stroke:var(--c);opacity:.45}.copy.up{stroke-width:2;opacity:1}.band-line{stroke:#e4e7ec}
.missed{fill:none;stroke:#98a2b3;stroke-width:1.2}.publisher{stroke:var(--c);stroke-width:5;stroke-opacity:.3}
.soft{fill:#667085}
@media(prefers-color-scheme:dark){.band-line{stroke:#2a313c}.soft{fill:#a9b1bd}}
"""


def spread(traced: list[dict[str, Any]]) -> str:
    """An HTML fragment; empty when no emulated suite was run."""
    if not traced:
        return ""
    last = max(hops for event in traced for _, _, hops, _ in event["had"])
    first = traced[0]["mode"]
    choices = "".join(
        f'<label><input type="radio" name="mode" value="{html.escape(event["mode"])}"'
        f"{' checked' if event['mode'] == first else ''}> {html.escape(event['mode'])}</label>"
        for event in traced
    )
    control = (
        f'<div class="hops">{choices}<button type="button">play</button>'
        f'<label>hop <input type="range" min="0" max="{last}" value="{last}"></label> '
        f"<output>{last}</output></div>"
    )
    return (
        '<p class="hint">Each mode as shipped, with default parameters. Each column is a hop, each dot a '
        "process when it first had the event, each line the "
        "copy that brought it; thick lines go up to the super-community. Hollow dots never had it.</p>"
        + control
        + "".join(_event(event, last, event["mode"] == first) for event in traced)
    )


def _event(event: dict[str, Any], last: int, is_shown: bool) -> str:
    mode = html.escape(event["mode"])
    hidden = "" if is_shown else " hidden"
    return (
        f'<figure class="event" id="spread-{mode}" data-mode="{mode}"{hidden}>'
        f'<div class="scroll">{draw_spread(event, last)}</div>'
        f"<figcaption>{mode}: {html.escape(in_words(event))}</figcaption></figure>"
    )


def in_words(event: dict[str, Any]) -> str:
    """How many had the event, and how it went up."""
    shares = [
        f"{size - missed} of {size}"
        for size, missed in zip(event["sizes"], event["missed"], strict=True)
    ]
    levels = {process: level for level, process, _, _ in event["had"]}
    upward = sum(
        sender is not None and levels[sender] != level for level, _, _, sender in event["had"]
    )
    hops = max(hops for _, _, hops, _ in event["had"])
    return (
        f"reached, from the bottom community up, {', '.join(shares)}, in {hops} hops; "
        f"{upward} processes first had it from the community below (seed {event['seed']})."
    )


@dataclass(frozen=True, slots=True)
class _Dot:
    x: float
    y: float
    hops: int
    level: int


def draw_spread(event: dict[str, Any], last: int) -> str:
    """The event as an SVG element; `last` is the highest hop of all modes, so that columns line up."""
    tops, height = _bands(event)
    dots = _dots(event, last, tops)
    parts = [_frame(event, last, tops, height)]
    lines, marks = [], []
    for _, process, hops, sender in event["had"]:
        dot = dots[process]
        if sender is not None:
            lines.append(_copy(dots[sender], dot))
        kind = "dot" if hops else "dot publisher"
        marks.append(
            f'<circle class="{kind}" data-hop="{hops}" cx="{dot.x:.1f}" cy="{dot.y:.1f}" r="3.4"/>'
        )
    parts += [*lines, *marks, *_missed(event, last, tops)]
    mode = html.escape(event["mode"], quote=True)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" role="img" '
        f'class="spread" data-spread="{mode}"><title>One event, {mode}</title>'
        f'<style>{STYLE}{SPREAD_STYLE}</style><rect class="bg" width="{WIDTH}" height="{height}"/>'
        f'<g class="{mode}">{"".join(parts)}</g></svg>'
    )


def _bands(event: dict[str, Any]) -> tuple[list[float], float]:
    """The top of each community's band, the root first from above, and the height of the drawing."""
    tallest = [1] * len(event["sizes"])
    cells: dict[tuple[int, int], int] = {}
    for level, _, hops, _ in event["had"]:
        cells[level, hops] = cells.get((level, hops), 0) + 1
        tallest[level] = max(tallest[level], cells[level, hops])
    for level, missed in enumerate(event["missed"]):
        # Those it missed stand in three columns.
        tallest[level] = max(tallest[level], -(-missed // 3), 3)
    tops = [0.0] * len(tallest)
    y = float(TOP)
    for level in reversed(range(len(tallest))):
        tops[level] = y
        y += tallest[level] * ROW + BAND_ROOM
    return tops, y + BOTTOM


def _dots(event: dict[str, Any], last: int, tops: list[float]) -> dict[int, _Dot]:
    """Where each process stands: in its cell, next to those who had it from the same sender."""
    dots: dict[int, _Dot] = {}
    cells: dict[tuple[int, int], list[tuple[float, int]]] = {}
    for hop in range(last + 1):
        for level, process, hops, sender in event["had"]:
            if hops == hop:
                near = dots[sender].y if sender is not None else 0.0
                cells.setdefault((level, hop), []).append((near, process))
        for (level, hops), waiting in cells.items():
            if hops == hop:
                for row, (_, process) in enumerate(sorted(waiting)):
                    y = tops[level] + BAND_ROOM / 2 + (row + 0.5) * ROW
                    dots[process] = _Dot(_column(hop, last), y, hop, level)
    return dots


def _column(hop: int, last: int) -> float:
    return LEFT + 14 + hop * (WIDTH - LEFT - RIGHT - 28) / max(last, 1)


def _copy(sender: _Dot, receiver: _Dot) -> str:
    middle = (sender.x + receiver.x) / 2
    kind = "copy up" if sender.level != receiver.level else "copy"
    return (
        f'<path class="{kind}" data-hop="{receiver.hops}" d="M{sender.x:.1f} {sender.y:.1f}C{middle:.1f} '
        f'{sender.y:.1f} {middle:.1f} {receiver.y:.1f} {receiver.x:.1f} {receiver.y:.1f}"/>'
    )


def _frame(event: dict[str, Any], last: int, tops: list[float], height: float) -> str:
    parts = []
    names = [community_name(level, len(tops)) for level in range(len(tops))]
    for level, top in enumerate(tops):
        size = event["sizes"][level]
        parts.append(
            f'<text class="title" x="10" y="{top + 19:.1f}">{names[level]}</text>'
            f'<text class="soft" x="10" y="{top + 33:.1f}">{size} processes</text>'
        )
        if top > TOP:
            parts.append(
                f'<line class="band-line" x1="0" x2="{WIDTH}" y1="{top:.1f}" y2="{top:.1f}"/>'
            )
    floor = height - BOTTOM
    parts.append(f'<path class="frame" d="M{LEFT} {floor:.1f}H{WIDTH - RIGHT}"/>')
    for hop in range(last + 1):
        text = f"hop {hop}" if hop in (0, last) else str(hop)
        parts.append(
            f'<text x="{_column(hop, last):.1f}" y="{floor + 17:.1f}" text-anchor="middle">{text}</text>'
        )
    if any(event["missed"]):
        parts.append(
            f'<text x="{WIDTH - RIGHT / 2:.1f}" y="{floor + 17:.1f}" text-anchor="middle">missed</text>'
        )
    return "".join(parts)


def _missed(event: dict[str, Any], last: int, tops: list[float]) -> list[str]:
    found = []
    for level, missed in enumerate(event["missed"]):
        for index in range(missed):
            x = WIDTH - RIGHT / 2 + (index % 3 - 1) * ROW
            y = tops[level] + BAND_ROOM / 2 + (index // 3 + 0.5) * ROW
            found.append(
                f'<circle class="missed" data-hop="{last}" cx="{x:.1f}" cy="{y:.1f}" r="3.2"/>'
            )
    return found


# One event's way through the communities in each mode as shipped, traced once for the report.

TABLE = "spread"
SIZES = (26, 10, 6)
SEED = 7


class SpreadError(CamcastError):
    """An event could not be traced."""


def experiment(mode: str) -> Experiment:
    """What is traced: the default parameters, and small enough to see every process."""
    return Experiment(
        suite="spread",
        figure="spread",
        tier="emulate",
        mode=mode,
        sizes=SIZES,
        seed=SEED,
        **DEFAULTS,
        **variant("shipped"),
    )


def trace_all(pipe: Connection) -> None:
    """The role of a process (bench.players) that traces an event of each mode while Spark starts."""
    pipe.send([_trace_or_error(mode) for mode in COMPARED])


def keep_traced(store: ResultStore, found: list[dict[str, Any]]) -> None:
    """Keep what was traced; nothing is done where that is kept.

    `SpreadError` tells of the first mode that failed, with the experiment that replays it.
    """
    for one in found:
        if "error" in one:
            raise SpreadError(f"{one['error']}\n  replay: {experiment(one['mode']).as_json()}")
    if not store.kept(TABLE):
        store.keep(TABLE, found)


def _trace_or_error(mode: str) -> dict[str, Any]:
    try:
        return trace(mode)
    except Exception as error:
        return {"mode": mode, "error": "".join(traceback.format_exception_only(error)).strip()}


def trace(mode: str) -> dict[str, Any]:
    """The event of one mode: `had` is a list of [community, process, hops, from whom or null].

    Processes are numbered within the whole; `sizes` are the communities, bottom first, and `missed` how
    many of each the event did not reach.
    """
    from bench.tiers.emulate import run_observed

    asked = experiment(mode)
    _, [[(history, members)]] = run_observed(asked)
    levels = {own.topic: level for level, own in enumerate(members)}
    numbers: dict[str, int] = {}
    had: list[list[int | None]] = [[levels[history.topic], 0, 0, None]]
    numbers[history.publisher] = 0
    for hops, sender, receiver, topic in sorted(history.hops):
        number = numbers.setdefault(receiver, len(numbers))
        had.append([levels[topic], number, hops, numbers.get(sender)])
    missed = [
        len(own.alive - set(history.communities[own.topic].had))
        if own.topic in history.communities
        else len(own.alive)
        for own in members
    ]
    return {
        "mode": mode,
        "sizes": list(asked.sizes),
        "seed": asked.seed,
        "missed": missed,
        "had": had,
    }
