"""What the report says, before it is laid out: what was read from a store, as plain values.

And how the results were made: the runs, machines and commands behind them, and their experiments' seeds."""

from __future__ import annotations

import shlex
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from bench.aggregates import SETTING, Aggregates, reported
from bench.claims import CLAIMS, Decided, decide
from bench.experiment import variant_of
from bench.report.figures import figures, loss_words
from bench.report.headline import Headline, headline
from bench.report.real_nodes import cross_check, pareto, real_node_tables, variants_table
from bench.report.spread import TABLE as SPREAD
from bench.report.spread import spread
from bench.report.svg import Figure
from bench.report.table import Table, digits, in_a_sentence, sizes_words
from bench.report.tables import speed_figures, speed_tables, tables
from bench.runs import Run, here, read_runs
from bench.store import is_uri
from bench.suites import BUILT_IN

if TYPE_CHECKING:
    from bench.store import ResultStore

ASKED = (*SETTING, "repetitions", "replays", "network", "seed", "experiment_id")
"""The columns of what was asked for."""
MOST_ASKED = 100_000
"""The most settings of experiments that the report has: their parameters and seeds are listed."""


@dataclass(frozen=True, slots=True)
class Material:
    """What is known of the results at a place."""

    aggregates: Aggregates
    place: str = "bench-results"
    """As the user has named it."""
    runs: list[Run] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)
    """The distinct settings of the experiments that have ended without an error, by the names of `ASKED`, and
    under `wall_seconds` how long an experiment took, with the first of its settings."""
    spread: list[dict[str, Any]] = field(default_factory=list)
    """One traced event for each mode."""
    written: str = ""
    """From when to when results were committed."""
    took: float | None = None
    """Seconds from the start of the command that ran the suite to its report."""

    @property
    def directory(self) -> Path | None:
        """The place, where it is on this machine: the other benchmarks leave their rows there."""
        return None if is_uri(self.place) else Path(self.place)


def gather(
    store: ResultStore, aggregates: Aggregates | None = None, took: float | None = None
) -> Material:
    """Read a store; `aggregates`, where somebody has looked at all of it already."""
    # Each waits for Spark more than it works.
    with ThreadPoolExecutor() as beside:
        runs = beside.submit(read_runs, store)
        asked = beside.submit(_asked, store)
        spread = beside.submit(store.kept, SPREAD)
        commits = beside.submit(store.commits)
        found = aggregates or Aggregates.of(store)
    written = _written(commits.result())
    return Material(
        found, store.place, runs.result(), asked.result(), spread.result(), written, took
    )


def _asked(store: ResultStore) -> list[dict[str, Any]]:
    rows = reported(store).where("error IS NULL").groupBy(*ASKED).agg({"wall_seconds": "sum"})
    rows = rows.withColumnRenamed("sum(wall_seconds)", "wall_seconds").limit(MOST_ASKED)
    with store.telling():
        return [row.asDict() for row in rows.orderBy(*ASKED).collect()]


def _written(commits: list[str]) -> str:
    if not commits:
        return ""
    first, last = (_moment(commit) for commit in (min(commits), max(commits)))
    return first if first == last else f"from {first} to {last}"


def _moment(commit: str) -> str:
    """When a commit was made, by its name."""
    moment = datetime.strptime(commit.partition("-")[0], "%Y%m%dT%H%M%S%f").replace(tzinfo=UTC)
    return moment.strftime("%Y-%m-%d %H:%M UTC")


# How a report was made: the runs behind it, their machines and versions, and the command that remakes it.


def provenance(material: Material) -> tuple[tuple[str, str], ...]:
    """What a reader needs to make the report again: names and values; places as they were given."""
    suites = material.aggregates.suites()
    runs = [run for run in material.runs if run.name in suites]
    items = [("suites", ", ".join(suites)), ("command", _command(suites, runs, material.place))]
    items += [(f"run of {run.name}", _run(run)) for run in _last(runs)]
    if material.took is not None:
        minutes, seconds = divmod(round(material.took), 60)
        items.append(("took", f"{minutes} min {seconds} s from the command to the report"))
    untold = [suite for suite in suites if suite not in {run.name for run in runs}]
    if untold and material.written:
        items.append((f"results of {', '.join(untold)}", f"written {material.written}"))
    if not runs:
        made = here()
        items += [("this report", f"{made['machine']}; Python {made['python']}")]
        items += [("versions", _versions(made["versions"]))]
    return tuple(items)


def comparison(material: Material) -> str:
    """The command that compares these results with others."""
    return f"camcast bench compare OTHER {shlex.quote(_place(material.place))}"


def _command(suites: list[str], runs: list[Run], place: str) -> str:
    """Every suite again, by the path that it was given with where that is known."""
    given = {run.name: run.suite for run in runs}
    out = shlex.quote(_place(place))
    calls = [
        f"camcast bench run {shlex.quote(given.get(name) or _path(name))} --out {out}"
        for name in suites
    ]
    return " && ".join([*calls, f"camcast bench report --out {out}"])


def _path(suite: str) -> str:
    """A suite of one's own is a file, of which only the name is known."""
    return suite if suite in BUILT_IN else f"PATH/TO/{suite}.toml"


def _place(place: str) -> str:
    if is_uri(place):
        return place
    directory, here = Path(place), Path.cwd()
    return str(directory.relative_to(here) if directory.is_relative_to(here) else directory)


def _last(runs: list[Run]) -> list[Run]:
    """The last run of each suite: the earlier ones that it went on with are told by their number."""
    return list({run.name: run for run in runs}.values())


def _run(run: Run) -> str:
    commit = f", commit {run.commit}" if run.commit else ""
    return (
        f"{run.started} on {run.master}{commit}; {run.machine}; Python {run.python}; "
        f"{_versions(run.versions)}"
    )


def _versions(versions: dict[str, str]) -> str:
    return ", ".join(f"{name} {version}" for name, version in versions.items())


# What was asked for: the parameters and seeds of every experiment behind the report.


HEADS = ("suite: figure", "tier", "what", "processes", "parameters", "varied", "events", "seeds")


def experiments_table(asked: list[dict[str, Any]]) -> Table:
    """A row for each kind of experiment in the results, with what varied in it, and all of its seeds."""
    kinds: dict[tuple[str, ...], list[dict[str, Any]]] = {}
    for row in asked:
        variant = variant_of(row["balance"], row["dissemination"], row["sure_links"])
        kind = (row["suite"], row["figure"], row["tier"], row["protocol"], row["mode"], variant)
        kinds.setdefault((*kind, sizes_words(tuple(row["sizes"]))), []).append(row)
    rows = tuple(_kind(kind, rows) for kind, rows in sorted(kinds.items()))
    return Table("Parameters and seeds", HEADS, rows)


COSTS = "Where the time went"
WORTH_TELLING = 0.1
"""Seconds; formulas take less."""


def cost_table(asked: list[dict[str, Any]]) -> Table:
    """By figure and tier, what the experiments took: seconds of one core, as each saw it."""
    spent: dict[tuple[str, str], list[float]] = {}
    for row in asked:
        if row["wall_seconds"]:
            place = (f"{row['suite']}: {row['figure']}", row["tier"])
            spent.setdefault(place, []).append(row["wall_seconds"])
    dearest = sorted(spent.items(), key=lambda one: -sum(one[1]))
    lines = [
        (figure, tier, f"{len(own):,}", digits(sum(own)), digits(max(own)))
        for (figure, tier), own in dearest
        if sum(own) >= WORTH_TELLING
    ]
    if lines:
        every = [one for own in spent.values() for one in own]
        lines.append(("all", "", f"{len(every):,}", digits(sum(every)), digits(max(every))))
    heads = ("suite: figure", "tier", "experiments", "seconds", "the longest")
    note = (
        "Seconds of each experiment by its own clock, added up; on n cores n of them run at a time."
    )
    return Table(COSTS, heads, tuple(lines), note)


def seeds_by_setting(asked: list[dict[str, Any]]) -> dict[tuple[object, ...], tuple[int, ...]]:
    """By suite, figure, tier, protocol, mode and balance, the seeds of the experiments, in order of
    networks."""
    found: dict[tuple[object, ...], dict[int, int]] = {}
    for row in asked:
        key = tuple(row[name] for name in ASKED[:6])
        found.setdefault(key, {})[row["network"]] = row["seed"]
    return {key: tuple(own[number] for number in sorted(own)) for key, own in found.items()}


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


# What the report says.

TIER_WORDS = {
    "model": "by formula",
    "simulate": "by simulation",
    "replay": "by replaying events over the tables of real nodes",
    "emulate": "with the real code on an emulated network",
    "live": "with real processes over UDP",
}

GLOSSARY: tuple[tuple[str, str], ...] = (
    (
        "community",
        "The processes interested in one topic; g is the bottom one, d its super-community, a the root.",
    ),
    ("c", "An event is gossiped to ln N + c others of a community of N."),
    ("g", "How many processes of a community are expected to send an event upward: links."),
    (
        "p_sel",
        "The probability that a process is a link for an event: g / N, where it is not given itself.",
    ),
    ("z", "Entries of the super-topic table, the contacts in the super-community."),
    ("a", "To how many of these z a link is expected to send."),
    ("reception", "The share of a community's live processes that an event reached."),
    ("reliability", "The share of events that reached every live process."),
    ("parasite", "An event received by a process that is not interested in it."),
    ("efficiency", "First receptions by all receptions."),
    (
        "round",
        "A hop: the publisher has the event in round 0, and who gets it in round r sends it in round r + 1.",
    ),
    (
        "network",
        "Real nodes that were started together: events on one share its tables, so intervals go by networks.",
    ),
    (
        "replayed",
        "The real tables of a booted network, with who is down, and thousands of events over them by the "
        "paper's rule.",
    ),
    (
        "not refuted",
        "What cannot be shown to hold, as that something never happens, and did not fail here; counted with "
        "what holds.",
    ),
    (
        "no difference",
        "A claim that one is ahead of another does not hold: they differ by less than 5 points, or 10 %.",
    ),
    ("in part", "A claim that holds in some communities and not in others, which are named."),
    ("explained", "A value that differs from the paper's by what is told beside it."),
    (
        "fitted, not comparable",
        "A value from parameters that had to be assumed: neither agreement nor a difference proves anything.",
    ),
    ("as published", "Membership and dissemination of the papers."),
    ("as improved", "Members see to it that enough others hold them, and count each other."),
    ("as shipped", "What a node does that is told nothing else: improved, lazy, sure links."),
)
"""The words of the report, each in a sentence."""


@dataclass(frozen=True, slots=True)
class Content:
    """Everything in the report, in the order of the page."""

    lead: str
    headline: Headline
    pareto: Figure | None
    spread: str
    variants: Table
    claims: list[Decided]
    seeds: dict[tuple[object, ...], tuple[int, ...]]
    """By what a row of results was asked for, the seeds of its experiments."""
    tables: list[Table]
    figures: list[Figure]
    real_nodes: list[Table]
    speed: list[Table]
    """The other benchmarks, and what was not run."""
    speed_figures: list[Figure]
    provenance: tuple[tuple[str, str], ...]
    """How it was made: names and values."""
    comparison: str
    """The command that compares it with another run."""
    costs: Table
    experiments: Table
    """Parameters and seeds."""


def content(material: Material) -> Content:
    """The report of what was gathered."""
    aggregates = material.aggregates
    decided = decide(CLAIMS, aggregates)
    return Content(
        _lead(aggregates, decided),
        headline(aggregates),
        pareto(aggregates),
        spread(material.spread),
        variants_table(aggregates),
        decided,
        seeds_by_setting(material.asked),
        tables(aggregates),
        figures(aggregates),
        [*real_node_tables(aggregates), cross_check(aggregates)],
        speed_tables(material.directory),
        speed_figures(material.directory),
        provenance(material),
        comparison(material),
        cost_table(material.asked),
        experiments_table(material.asked),
    )


def counts(decided: list[Decided]) -> dict[str, int]:
    """How many claims there are of each outcome."""
    found = dict.fromkeys(("holds", "does not hold", "in part", "undecided"), 0)
    for one in decided:
        found[outcome(one)] += 1
    return found


def outcome(one: Decided) -> str:
    """The kind of a verdict: what it is filtered by."""
    if one.verdict.holds is not None:
        return "holds" if one.verdict.holds else "does not hold"
    return "in part" if one.verdict.word else "undecided"


def _lead(aggregates: Aggregates, decided: list[Decided]) -> str:
    found = counts(decided)
    tiers = dict.fromkeys(row.tier for row in aggregates.select())
    how = [words for tier, words in TIER_WORDS.items() if tier in tiers]
    between = Counter(one.verdict.word for one in decided if outcome(one) == "in part")
    words = in_a_sentence([f"{count} {word}" for word, count in between.items()])
    return (
        f"Membership services for CAMCAST side by side, {in_a_sentence(how)}. Of {len(decided)} claims of "
        f"the paper {found['holds']} hold here, {found['does not hold']} do not and {found['undecided']} "
        f"stay undecided{f'; in between: {words}' if words else ''}."
    )
