"""The benchmark of stores measures what is installed, and says what is not."""

from __future__ import annotations

import pytest

from bench.micro import stores
from bench.servers import NotInstalled
from bench.servers.temporary import installed


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
    monkeypatch.setattr(stores, "SECONDS", 0.01)
    monkeypatch.setattr(stores, "ROUNDS", 1)
    monkeypatch.setattr(stores, "BATCHES", (1, 8))
    monkeypatch.setattr(stores, "PUBLISHERS", (3,))
    measured = stores.measure()
    names = [one.name for one in measured]
    assert names.count("sqlite") == names.count("append files") == 3
    assert [one.note for one in measured if one.name == "another"] == [
        "left out: this one is not installed"
    ]
    assert all(one.value > 0 for one in measured if one.name != "another")


def test_a_program_that_is_not_there_names_its_package() -> None:
    with pytest.raises(NotInstalled, match="Debian's package: some-package"):
        installed("no-such-program-here", "some-package")
