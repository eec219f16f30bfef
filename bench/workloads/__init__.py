"""Every benchmark of the project that is not a comparison of the modes: one module each.

A module here that has a `WORKLOAD` (see `workload.py`) is a benchmark; the others are what benchmarks share.
To add one, add its module: the command, the result file and the tables of the report come from what it
declares."""

from __future__ import annotations

from functools import cache
from importlib import import_module
from pkgutil import iter_modules

from bench.workloads.workload import Workload


@cache
def workloads() -> tuple[Workload, ...]:
    """All workloads, by name."""
    modules = (import_module(f"{__name__}.{found.name}") for found in iter_modules(__path__))
    return tuple(module.WORKLOAD for module in modules if hasattr(module, "WORKLOAD"))
