"""What a table of the report is, and how its cells write a value with its interval."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from bench.aggregates import Aggregate
from bench.intervals import Interval
from bench.report.svg import short


@dataclass(frozen=True, slots=True)
class Table:
    """A title, the heads of the columns, and rows of text."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    """What a reader has to know of it, below it."""
    commands: tuple[str, ...] = ()
    """What remakes its rows."""


def remade_by(rows: Iterable[Aggregate]) -> tuple[str, ...]:
    """The commands that run again what rows come from."""
    return tuple(
        dict.fromkeys(
            f"camcast bench run {row.suite} --only {row.figure} --report --out again"
            for row in rows
        )
    )


def sizes_words(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes))


def row_words(row: Aggregate) -> str:
    """What was run and where it was measured, as a reader is told it."""
    kind = f"{row.mode} as {row.variant}" if row.is_of_networks else f"{row.protocol}, {row.mode}"
    links = f", p_sel {row.p_sel:g}" if row.p_sel is not None else ""
    failed = f", {100 * row.failed:g} % failed" if row.failed else ""
    lost = f", {100 * row.loss:g} % lost" if row.loss else ""
    where = f"{sizes_words(row.sizes)}, {row.place}"
    return f"{row.tier}, {kind}, {where}{links}{failed}{lost}, c = {row.c:g}"


def in_a_sentence(parts: Sequence[str]) -> str:
    """`a, b and c`; nothing where there is none."""
    return " and ".join(part for part in (", ".join(parts[:-1]), *parts[-1:]) if part)


def in_words(row: Aggregate | None) -> str:
    """A value with its interval; a dash where there is none."""
    return "-" if row is None else interval_words(row.interval, digits)


def interval_words(interval: Interval, write: Callable[[float], str], unit: str = "") -> str:
    """A value, and its bounds where they tell more: a formula has none, one network knows none."""
    low, value, high = map(write, (interval.low, interval.value, interval.high))
    return f"{value}{unit}" + (f" [{low}, {high}]" if low != high and interval.is_bounded else "")


def per_cent(value: float) -> str:
    """Per cent with as many digits as tell something: 99.95, 97.2, 50."""
    percent = 100 * value
    rest = min(abs(percent), abs(100 - percent))
    if rest == 0:
        return f"{percent:.0f}"
    text = f"{percent:.2f}" if rest < 0.1 else f"{percent:.1f}"
    return "99.99" if text == "100.00" else text  # 100 means all


def digits(value: float) -> str:
    """Three digits, with a comma between thousands."""
    if abs(value) >= 1e7:
        return short(value)
    if value == int(value) or abs(value) >= 1000:
        return f"{_rounded(value):,.0f}"
    return f"{value:.3g}" if abs(value) < 100 else f"{value:.0f}"


def _rounded(value: float) -> float:
    """Counts of ten thousand and more, to three digits; smaller ones as they are."""
    return value if abs(value) < 10_000 else float(f"{value:.3g}")
