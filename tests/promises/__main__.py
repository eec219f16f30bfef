"""`make ledger`: run schedules by the hundred, and print what was tried and what was found.

python -m tests.promises --seeds 50 --minutes 4 --services durable strong --write docs/ledger.md
"""

from __future__ import annotations

import argparse
import logging
import sys
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tests.promises import durable, groups, no_gap, one_of_n, sorted_sets, strong
from tests.promises.storm import Outcome

SERVICES = {
    module.NAME: module for module in (durable, strong, sorted_sets, one_of_n, no_gap, groups)
}


def run_one(service: str, seed: int, minutes: float) -> Outcome:
    logging.disable(logging.CRITICAL)
    try:
        return SERVICES[service].run(seed, minutes)
    except Exception as error:  # a schedule that ends in an exception has found something
        return Outcome(service, seed, [f"{type(error).__name__}: {error}"])


def lines(outcomes: Sequence[Outcome], minutes: float, first: int) -> list[str]:
    """The ledger as Markdown."""
    seeds = len(dict.fromkeys(outcome.seed for outcome in outcomes))
    text = [
        "# Ledger of simulated faults",
        "",
        "Schedules written from the README's promises alone, for whole nodes on the virtual network: see",
        f"`tests/promises/`. Made by `make ledger SEEDS={seeds}`: seeds {first} to {first + seeds - 1}, with",
        f"{minutes:g} virtual minutes of faults each, and then the time until all promises had come true.",
        "",
        "| service | seeds | virtual hours | faults | messages checked | violations |",
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
            f"| {service} | {len(of_it)} | {hours:.1f} | {raised:,} | {checked:,} | {broken} |"
        )
        for outcome in of_it:
            faults += outcome.faults
    text += ["", "| fault | times |", "| --- | ---: |"]
    text += [f"| {kind} | {count:,} |" for kind, count in sorted(faults.items())]
    broken_runs = [outcome for outcome in outcomes if outcome.violations]
    if broken_runs:
        text += ["", "Seeds that broke a promise:", ""]
        text += [f"- {o.service}, seed {o.seed}: {o.violations[0]}" for o in broken_runs]
    return text


def ledger(outcomes: Sequence[Outcome], options: argparse.Namespace) -> str:
    return "\n".join(lines(outcomes, options.minutes, options.first)) + "\n"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=20, help="how many for each service")
    parser.add_argument("--first", type=int, default=0, help="the first seed")
    parser.add_argument("--minutes", type=float, default=4.0, help="virtual minutes of faults")
    parser.add_argument("--services", nargs="+", choices=list(SERVICES), default=list(SERVICES))
    parser.add_argument("--jobs", type=int, default=2, help="processes")
    parser.add_argument("--write", type=Path, help="also write the ledger to this file")
    options = parser.parse_args(argv)
    began = time.monotonic()
    outcomes: list[Outcome] = []
    with ProcessPoolExecutor(options.jobs) as pool:
        seeds = range(options.first, options.first + options.seeds)
        running = [
            pool.submit(run_one, service, seed, options.minutes)
            for seed in seeds
            for service in options.services
        ]
        for number, future in enumerate(running, 1):
            outcome = future.result()
            outcomes.append(outcome)
            for violation in outcome.violations[:3]:
                print(f"{outcome.service}, seed {outcome.seed}: {violation}", flush=True)
            print(f"{number} of {len(running)}, {time.monotonic() - began:.0f} s", file=sys.stderr)
            if options.write is not None and number % len(options.services) == 0:
                # A long run that is stopped leaves the ledger of the seeds that it has done.
                options.write.write_text(ledger(outcomes, options))
    print(ledger(outcomes, options))
    return 1 if any(outcome.violations for outcome in outcomes) else 0


if __name__ == "__main__":
    sys.exit(main())
