"""The benchmark of stores measures what is installed, and says what is not."""

from __future__ import annotations

import pytest

from bench.servers import NotInstalled, installed
from bench.workloads import stores
from bench.workloads.workload import LEFT_OUT


def test_stores_take_turns_and_what_is_missing_is_left_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = stores._contenders

    def some(directory: object) -> dict[str, object]:
        def missing(stack: object) -> object:
            raise NotInstalled("this one is not installed")

        kept = {name: real(directory)[name] for name in ("sqlite", "append files")}  # type: ignore[arg-type]
        return {**kept, "another": missing}

    monkeypatch.setattr(stores, "_contenders", some)
    options = stores.WORKLOAD.defaults(quick=True)
    options.seconds, options.rounds, options.batches, options.publishers = 0.01, 1, [1, 8], [3]
    rows = list(stores.run(options))
    rates = [row for row in rows if row.metric == "rate"]
    names = [row.settings["store"] for row in rates]
    assert names.count("sqlite") == names.count("append files") == 3
    assert all(row.value > 0 for row in rates)
    [left_out] = [row for row in rows if row.metric == LEFT_OUT]
    assert (left_out.settings, left_out.note) == (
        {"store": "another"},
        "this one is not installed",
    )


def test_a_program_that_is_not_there_names_its_package() -> None:
    with pytest.raises(NotInstalled, match="Debian's package: some-package"):
        installed("no-such-program-here", "some-package")
