"""Every benchmark of the project that is not a comparison of the modes: one module each.

A module here has a `WORKLOAD` (see `workload.py`) and is named in `MODULES`. To add a benchmark, add its
module: the command, the result file and the tables of the report come from what it declares."""

from __future__ import annotations

from importlib import import_module

from bench.workloads.workload import Workload

MODULES = (
    "fanout",
    "durable",
    "distributors",
    "topics",
    "broadcasts",
    "collections",
    "channels",
    "dht",
    "stores",
    "simulator",
    "layers",
    "emulator",
    "harness",
    "sources",
    "ledger",
    "attacks",
    "floods",
    "mqtt",
)
"""In the order in which `camcast bench run speed` runs them."""


def workload(module: str) -> Workload:
    """The workload that a module of this package declares."""
    found: Workload = import_module(f"bench.workloads.{module}").WORKLOAD
    return found


def workloads() -> list[Workload]:
    """All workloads."""
    return [workload(module) for module in MODULES]
