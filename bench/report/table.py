"""What a table of the report is, and how its cells write a value with its interval."""

from __future__ import annotations

from dataclasses import dataclass

from bench.aggregates import Aggregate
from bench.report.scale import short


@dataclass(frozen=True, slots=True)
class Table:
    """A title, the heads of the columns, and rows of text."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    note: str = ""
    """What a reader has to know of it, below it."""


def sizes_words(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes))


def in_words(row: Aggregate | None, *, share: bool = False) -> str:
    """A value with its interval, which a formula has not; shares in per cent."""
    if row is None:
        return "-"
    write = per_cent if share else short_number
    unit = " %" if share else ""
    if row.low == row.high:
        return f"{write(row.value)}{unit}"
    return f"{write(row.value)}{unit} [{write(row.low)}, {write(row.high)}]"


def per_cent(value: float) -> str:
    return f"{100 * value:.1f}"


def short_number(value: float) -> str:
    """Four digits, and numbers from a thousand to ten million in full."""
    if abs(value) >= 1e7:
        return short(value)
    if value == int(value) or abs(value) >= 1000:
        return f"{value:,.0f}"
    return f"{value:.4g}"
