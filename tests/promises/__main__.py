"""`make ledger`: run schedules by the hundred, and print what was tried and what was found.

python -m tests.promises --seeds 50 --minutes 4 --services durable strong --write docs/ledger.md

Each schedule leaves a row in a file, so a run that was stopped goes on where it was: what has a row of this
commit without a violation is not run again. The ledger counts the rows of all commits, and says how many each
commit has.
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

from tests.memory import keep_files_in_memory
from tests.promises import (
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
    for module in (durable, strong, sorted_sets, one_of_n, no_gap, groups, mqtt_doors)
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


def lines(outcomes: Sequence[Outcome], minutes: float, caught: Sequence[str] = ()) -> list[str]:
    """The ledger as Markdown; `caught`: the rows of the table of mutants."""
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
    faults: Counter[str] = Counter()
    for service in SERVICES:
        of_it = [outcome for outcome in outcomes if outcome.service == service]
        if not of_it:
            continue
        hours = sum(outcome.seconds for outcome in of_it) / 3600
        raised = sum(sum(outcome.faults.values()) for outcome in of_it)
        checked = sum(outcome.checked for outcome in of_it)
        broken = sum(bool(outcome.violations) for outcome in of_it)
        text.append(
            f"| {service} | {len(of_it):,} | {hours:,.1f} | {raised:,} | {checked:,} | {broken} |"
        )
        for outcome in of_it:
            faults += outcome.faults
    text += ["", "| fault | times |", "| --- | ---: |"]
    text += [f"| {kind} | {count:,} |" for kind, count in sorted(faults.items())]
    text += ["", "| commit | schedules | violations |", "| --- | ---: | ---: |"]
    for commit in dict.fromkeys(outcome.commit for outcome in outcomes):
        of_commit = [outcome for outcome in outcomes if outcome.commit == commit]
        broken = sum(bool(outcome.violations) for outcome in of_commit)
        text.append(f"| {commit or 'unknown'} | {len(of_commit):,} | {broken} |")
    broken_runs = [outcome for outcome in outcomes if outcome.violations]
    if broken_runs:
        text += ["", "Seeds that broke a promise:", ""]
        text += [f"- {_told(one, outcomes)}" for one in broken_runs]
    if caught:
        text += ["", "The product broken on purpose, and what the schedules said:", ""]
        text += ["| broken | service | seeds until it was noticed | commit |"]
        text += ["| --- | --- | ---: | --- |"]
        text += caught
    return text


def _told(broken: Outcome, outcomes: Sequence[Outcome]) -> str:
    """What a schedule found, and at which later commit it found nothing."""
    clean = [
        one.commit
        for one in outcomes[outcomes.index(broken) :]
        if (one.service, one.seed) == (broken.service, broken.seed) and not one.violations
    ]
    since = f"; nothing at {clean[-1]}" if clean else ""
    where = broken.commit or "an unknown commit"
    return f"{broken.service}, seed {broken.seed}, at {where}: {broken.violations[0]}{since}"


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
    parser.add_argument("--write", type=Path, help="also write the ledger to this file")
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
    tried = [one for one in mutants.MUTANTS if one.name in rows.noticed]
    caught = [mutants.row(one, *rows.noticed[one.name]) for one in tried]
    text = "\n".join(lines(outcomes, options.minutes, caught)) + "\n"
    print(text)
    if options.write is not None:
        options.write.write_text(text)
    here = commit_here()
    is_broken = any(outcome.violations for outcome in outcomes if outcome.commit == here)
    is_missed = any(seeds == mutants.MISSED for seeds, _ in rows.noticed.values())
    return 1 if is_broken or is_missed else 0


if __name__ == "__main__":
    sys.exit(main())
