"""What the benchmark of distributors leaves behind for those that run after it."""

from __future__ import annotations

import argparse
import tracemalloc

from bench.workloads.distributors import run


def test_memory_is_counted_and_nothing_is_traced_any_more_when_it_has_been() -> None:
    rows = list(run(argparse.Namespace(subscribers=[20], bytes=256, runs=0)))
    assert [row.unit for row in rows] == ["bytes", "bytes"]
    assert min(row.value for row in rows) > 100
    assert not tracemalloc.is_tracing()
