"""`python -m bench.micro`: every measure of this package, one after the other, as a table."""

from __future__ import annotations

import argparse
import importlib
import inspect
import pkgutil
from collections.abc import Callable

import bench.micro
from bench.micro.measurement import Measurement

Measure = Callable[..., list[Measurement]]


def measures() -> dict[str, Measure]:
    """The `measure` of every module of this package that has one, by the module's name."""
    found: dict[str, Measure] = {}
    for module in pkgutil.iter_modules(bench.micro.__path__):
        if not module.name.startswith("_"):
            measure = getattr(
                importlib.import_module(f"bench.micro.{module.name}"), "measure", None
            )
            if measure is not None:
                found[module.name] = measure
    return found


def show(measurement: Measurement) -> str:
    value = f"{measurement.value:,.0f}" if measurement.value >= 1000 else f"{measurement.value:.2f}"
    return (
        f"  {measurement.name:<44} {value:>12} {measurement.unit:<14} {measurement.note}".rstrip()
    )


def main() -> None:
    found = measures()
    parser = argparse.ArgumentParser(prog="python -m bench.micro", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="name", help=f"among {', '.join(found)}; all")
    parser.add_argument("--nodes", type=int, help="how many, for a measure of a whole network")
    options = parser.parse_args()
    names = options.names or list(found)
    unknown = [name for name in names if name not in found]
    if unknown:
        parser.error(f"there is no measure {', '.join(unknown)}; choose among {', '.join(found)}")
    for name in names:
        print(name.replace("_", " "), flush=True)
        sized = options.nodes is not None and "nodes" in inspect.signature(found[name]).parameters
        for measurement in found[name](nodes=options.nodes) if sized else found[name]():
            print(show(measurement), flush=True)


if __name__ == "__main__":
    main()
