"""What was asked for: the parameters and seeds of every experiment behind the report."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.experiment import variant_of
from bench.report.figures import loss_words
from bench.report.table import Table, sizes_words

ASKED = (
    *("suite", "figure", "tier", "protocol", "mode", "balance", "dissemination", "sure_links"),
    *("sizes", "c", "g", "p_sel", "a", "z", "loss", "failure", "failed", "publish_level"),
    *("repetitions", "replays", "network", "seed", "experiment_id"),
)
SETTING = ASKED[:6]
HEADS = ("suite: figure", "tier", "what", "processes", "parameters", "varied", "events", "seeds")


def experiments_table(directory: Path) -> Table:
    """A row for each kind of experiment in the results, with what varied in it, and all of its seeds."""
    kinds: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in _asked(directory):
        variant = variant_of(row["balance"], row["dissemination"], row["sure_links"])
        kind = (row["suite"], row["figure"], row["tier"], row["protocol"], row["mode"], variant)
        kinds.setdefault((*kind, sizes_words(tuple(row["sizes"]))), []).append(row)
    rows = tuple(_kind(kind, rows) for kind, rows in sorted(kinds.items()))
    return Table("Parameters and seeds", HEADS, rows)


def seeds_by_setting(directory: Path) -> dict[tuple[object, ...], tuple[int, ...]]:
    """By suite, figure, tier, protocol, mode and balance, the seeds of the experiments, in order of
    networks."""
    found: dict[tuple[object, ...], dict[int, int]] = {}
    for row in _asked(directory):
        key = tuple(row[name] for name in SETTING)
        found.setdefault(key, {})[row["network"]] = row["seed"]
    return {key: tuple(own[number] for number in sorted(own)) for key, own in found.items()}


def _asked(directory: Path) -> list[dict[str, Any]]:
    """The distinct settings of the experiments that have ended without an error."""
    import pyarrow.dataset as datasets

    place = directory / "results"
    if not any(place.rglob("*.parquet")):
        return []
    found = datasets.dataset(place, partitioning="hive", exclude_invalid_files=False)
    table = found.to_table(columns=list(ASKED), filter=datasets.field("error").is_null())
    distinct = {tuple(map(str, row.values())): row for row in table.to_pylist()}
    return list(distinct.values())


def _kind(kind: tuple[str, ...], rows: list[dict[str, Any]]) -> tuple[str, ...]:
    suite, figure, tier, protocol, mode, variant, sizes = kind
    seeds = {row["experiment_id"]: row["seed"] for row in rows}
    replayed = tier == "replay"
    events = {
        (row["experiment_id"], row["p_sel"], row["failed"], row["c"], row["loss"]): row[
            "replays" if replayed else "repetitions"
        ]
        for row in rows
    }
    real = f"{mode} as {variant}" if tier in ("replay", "emulate", "live") else mode
    return (
        f"{suite}: {figure}",
        tier,
        real if protocol == "camcast" else protocol,
        sizes,
        _parameters(rows),
        _varied(rows),
        f"{sum(events.values()):,}" if tier != "model" else "-",
        ", ".join(map(str, sorted(set(seeds.values())))) if tier != "model" else "-",
    )


def _parameters(rows: list[dict[str, Any]]) -> str:
    linked = any(row["p_sel"] is not None for row in rows)
    parts = []
    for name in ("c", "a", "z") if linked else ("c", "g", "a", "z"):
        values = sorted({row[name] for row in rows})
        parts.append(f"{name} = {', '.join(f'{value:g}' for value in values)}")
    parts += [loss_words(loss) for loss in sorted({row["loss"] for row in rows})]
    return ", ".join(parts)


def _varied(rows: list[dict[str, Any]]) -> str:
    parts = []
    shares = sorted({row["p_sel"] for row in rows if row["p_sel"] is not None})
    if shares:
        parts.append(f"p_sel {', '.join(f'{share:g}' for share in shares)}")
    failed = sorted({row["failed"] for row in rows})
    if failed != [0.0]:
        ways = "/".join(sorted({row["failure"] for row in rows}))
        parts.append(f"{ways} {', '.join(f'{100 * share:g}' for share in failed)} %")
    levels = sorted({row["publish_level"] for row in rows})
    if levels != [0]:
        parts.append(f"published at level {', '.join(map(str, levels))}")
    return "; ".join(parts) or "-"
