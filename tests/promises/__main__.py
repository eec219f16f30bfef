"""`make ledger`: run schedules by the hundred, and print what was tried and what was found.

python -m tests.promises --seeds 50 --minutes 4 --services durable strong --write docs/ledger.md

Each schedule leaves a row in a file, so a run that was stopped goes on where it was: what has a row of this
commit without a violation is not run again. The ledger counts the rows of all commits, and says how many each
commit has. Rows stay on the machine that made them; `--write docs/ledger.md` adds them to the sums in
docs/ledger.json, each once, so that the ledger goes on where another machine has left it.
`--mutants` also breaks the product on purpose, one way after another, and says whether the schedules notice;
`--seeds 0 --mutants` does that alone.
"""

from __future__ import annotations

import argparse
import json
import logging
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from pathlib import Path
from typing import Any

from pubsub.reliable.numbers import Numbers
from tests.memory import keep_files_in_memory
from tests.promises import (
    best_effort,
    durable,
    groups,
    mqtt_doors,
    mutants,
    no_gap,
    one_of_n,
    sorted_sets,
    strong,
)
from tests.promises.storm import Outcome

SERVICES = {
    module.NAME: module
    for module in (
        best_effort,
        durable,
        strong,
        sorted_sets,
        one_of_n,
        no_gap,
        groups,
        mqtt_doors,
    )
}


def run_one(service: str, seed: int, minutes: float) -> Outcome:
    logging.lastResort = None  # a storm notices what matters
    try:
        outcome = SERVICES[service].run(seed, minutes)
    except Exception as error:  # a schedule that ends in an exception has found something
        outcome = Outcome(service, seed, [f"{type(error).__name__}: {error}"])
    outcome.minutes = minutes
    return outcome


def commit_here() -> str:
    """The commit of this clone, with a `+` where files differ from it; empty outside a clone."""

    def git(*arguments: str) -> str:
        done = subprocess.run(["git", *arguments], capture_output=True, text=True, check=False)
        return done.stdout.strip()

    return git("rev-parse", "--short", "HEAD") + ("+" if git("diff", "HEAD", "--shortstat") else "")


class Rows:
    """What was run, kept in a file of JSON lines; the last row of a seed at a commit, or of a mutant,
    counts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._rows: dict[tuple[str, int, float, str], Outcome] = {}
        self.noticed: dict[str, tuple[int, str]] = {}
        """By mutant: after how many seeds it was noticed, and at which commit."""
        for line in path.read_text().splitlines() if path.exists() else ():
            row = json.loads(line)
            if "mutant" in row:
                self.noticed[row["mutant"]] = (row["seeds"], row.get("commit", ""))
            else:
                self._keep(Outcome.of(row))

    def _keep(self, outcome: Outcome) -> None:
        self._rows[outcome.service, outcome.seed, outcome.minutes, outcome.commit] = outcome

    def add(self, outcome: Outcome) -> None:
        self._keep(outcome)
        self._write(vars(outcome))

    def add_mutant(self, name: str, seeds: int, commit: str) -> None:
        self.noticed[name] = (seeds, commit)
        self._write({"mutant": name, "seeds": seeds, "commit": commit})

    def _write(self, row: dict[str, Any]) -> None:
        self._path.parent.mkdir(parents=True, exist_ok=True)
        with self._path.open("a") as file:
            file.write(json.dumps(row) + "\n")

    def has(self, service: str, seed: int, minutes: float, commit: str) -> bool:
        found = self._rows.get((service, seed, minutes, commit))
        return found is not None and not found.violations

    def of(self, minutes: float) -> list[Outcome]:
        return [outcome for outcome in self._rows.values() if outcome.minutes == minutes]


class Sums:
    """What all schedules of one length came to, on whichever machines: kept in a file beside the ledger."""

    def __init__(self, path: Path | None) -> None:
        kept = json.loads(path.read_text()) if path is not None and path.exists() else {}
        self.services: dict[str, dict[str, float]] = kept.get("services", {})
        """By service: schedules, seconds, faults, messages checked, schedules that broke a promise."""
        self.faults = Counter[str](kept.get("faults", {}))
        self.commits: dict[str, dict[str, int]] = kept.get("commits", {})
        self.broken: list[dict[str, Any]] = kept.get("broken", [])
        """Schedules that broke a promise, and the last commit at which the same seed did not."""
        self.noticed: dict[str, list[Any]] = kept.get("noticed", {})
        """By mutant: after how many seeds it was noticed, and at which commit."""
        self.seeds: dict[str, list[Sequence[int]]] = kept.get("seeds", {})
        """The seeds that are counted here, by commit and service: the first and last of each range."""

    def add(self, outcome: Outcome) -> None:
        """Count a schedule, unless it was."""
        run = f"{outcome.commit} {outcome.service}"
        counted = self.seeds.get(run, ())
        seeds = Numbers(spans=[(first + 1, last + 1) for first, last in counted])
        if not seeds.add(outcome.seed + 1):  # a set of numbers begins at 1, and seeds at 0
            return
        self.seeds[run] = [(first - 1, last - 1) for first, last in seeds.spans()]
        is_broken = bool(outcome.violations)
        service = self.services.setdefault(outcome.service, dict.fromkeys(COUNTED, 0))
        raised = sum(outcome.faults.values())
        values = (1, outcome.seconds, raised, outcome.checked, is_broken)
        for name, value in zip(COUNTED, values, strict=True):
            service[name] += value
        self.faults += outcome.faults
        commit = self.commits.setdefault(outcome.commit, {"schedules": 0, "broken": 0})
        commit["schedules"] += 1
        commit["broken"] += is_broken
        one = {"service": outcome.service, "seed": outcome.seed}
        if is_broken:
            self.broken.append(one | {"commit": outcome.commit, "what": outcome.violations[0]})
        else:
            for found in self.broken:
                if found.items() >= one.items():
                    found["clean"] = outcome.commit

    def write(self, path: Path) -> None:
        """A line for each kind of sum."""
        kinds = ",\n".join(f"{json.dumps(kind)}: {json.dumps(v)}" for kind, v in vars(self).items())
        path.write_text(f"{{\n{kinds}\n}}\n")


COUNTED = ("schedules", "seconds", "faults", "checked", "broken")


def lines(sums: Sums, minutes: float) -> list[str]:
    """The ledger as Markdown."""
    text = [
        "# Ledger of simulated faults",
        "",
        "Schedules written from the README's promises alone, for whole nodes on the virtual network: see",
        f"`tests/promises/`. Written by `make ledger`: {minutes:g} virtual minutes of faults a seed, then",
        "the time until all promises had come true. A seed is one network with its faults: it gives the",
        "same run again at the same commit; a seed that was run at two commits counts twice.",
        "",
        "| service | schedules | virtual hours | faults | messages checked | violations |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    for name in (name for name in SERVICES if name in sums.services):
        schedules, seconds, raised, checked, broken = (sums.services[name][c] for c in COUNTED)
        text.append(
            f"| {name} | {schedules:,} | {seconds / 3600:,.1f} | {raised:,} | {checked:,} | {broken} |"
        )
    text += ["", "| fault | times |", "| --- | ---: |"]
    text += [f"| {kind} | {count:,} |" for kind, count in sorted(sums.faults.items())]
    text += ["", "| commit | schedules | violations |", "| --- | ---: | ---: |"]
    for commit, of_commit in sums.commits.items():
        text.append(
            f"| {commit or 'unknown'} | {of_commit['schedules']:,} | {of_commit['broken']} |"
        )
    if sums.broken:
        text += ["", "Seeds that broke a promise:", ""]
        for one in sums.broken:
            clean = f"; nothing at {one['clean']}" if "clean" in one else ""
            where = f"{one['service']}, seed {one['seed']}, at {one['commit'] or 'no commit'}"
            text.append(f"- {where}: {one['what']}{clean}")
    tried = [one for one in mutants.MUTANTS if one.name in sums.noticed]
    if tried:
        text += ["", "The product broken on purpose, and what the schedules said:", ""]
        text += ["| broken | service | seeds until it was noticed | commit |"]
        text += ["| --- | --- | ---: | --- |"]
        text += [mutants.row(one, *sums.noticed[one.name]) for one in tried]
    return text


def run_all(options: argparse.Namespace, rows: Rows) -> Iterator[Outcome]:
    """Run what has no row yet, until it is done or the time is over."""
    began = time.monotonic()
    commit = commit_here()
    seeds = range(options.first, options.first + options.seeds)
    wanted = [
        (service, seed, options.minutes)
        for seed in seeds
        for service in options.services
        if not rows.has(service, seed, options.minutes, commit)
    ]
    done = 0
    with ProcessPoolExecutor(options.jobs) as pool:
        while wanted and time.monotonic() - began < options.seconds:
            now, wanted = wanted[: 2 * options.jobs], wanted[2 * options.jobs :]
            for future in as_completed([pool.submit(run_one, *one) for one in now]):
                done += 1
                print(f"{done} done, {time.monotonic() - began:.0f} s", file=sys.stderr)
                outcome = future.result()
                outcome.commit = commit
                yield outcome


def run_mutants(jobs: int, rows: Rows) -> None:
    """Try the mutants that have not been noticed yet."""
    commit = commit_here()
    missed = (mutants.MISSED, "")
    wanted = [one.name for one in mutants.MUTANTS if not rows.noticed.get(one.name, missed)[0]]
    with ProcessPoolExecutor(jobs) as pool:
        trials = {pool.submit(mutants.seeds_until_noticed, name, run_one): name for name in wanted}
        for trial in as_completed(trials):
            rows.add_mutant(trials[trial], trial.result(), commit)
            print(f"{trials[trial]}: {trial.result() or 'missed'}", file=sys.stderr, flush=True)


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many for each service")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--minutes", type=float, default=4.0, help="virtual minutes of faults")
    parser.add_argument("--services", nargs="+", choices=list(SERVICES), default=list(SERVICES))
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument(
        "--seconds", type=float, default=float("inf"), help="begin no seed after this time"
    )
    parser.add_argument(
        "--rows", type=Path, default=Path("bench-results/ledger.jsonl"), help="where rows are kept"
    )
    parser.add_argument("--mutants", action="store_true", help="break the product on purpose too")
    parser.add_argument(
        "--write", type=Path, help="also write the ledger to this file, and its sums beside it"
    )
    options = parser.parse_args(argv)
    keep_files_in_memory()
    rows = Rows(options.rows)
    for outcome in run_all(options, rows):
        rows.add(outcome)
        for violation in outcome.violations[:3]:
            print(f"{outcome.service}, seed {outcome.seed}: {violation}", flush=True)
    outcomes = rows.of(options.minutes)
    if options.mutants:
        run_mutants(options.jobs, rows)
    kept = None if options.write is None else options.write.with_suffix(".json")
    sums = Sums(kept)
    for outcome in outcomes:
        sums.add(outcome)
    sums.noticed |= {name: list(found) for name, found in rows.noticed.items()}
    text = "\n".join(lines(sums, options.minutes)) + "\n"
    print(text)
    if options.write is not None and kept is not None:
        sums.write(kept)
        options.write.write_text(text)
    here = commit_here()
    is_broken = any(outcome.violations for outcome in outcomes if outcome.commit == here)
    is_missed = any(seeds == mutants.MISSED for seeds, _ in rows.noticed.values())
    return 1 if is_broken or is_missed else 0


if __name__ == "__main__":
    sys.exit(main())
