"""Addresses of stores."""

from __future__ import annotations

from pathlib import Path

import pytest

from overlay.errors import UsageError
from pubsub.archive.store import StoreError, open_store
from tests.pubsub.archive.store.schedules import event


@pytest.mark.parametrize(
    "address", ["events.db", "mysql://localhost/x", "sqlite://", "file://host/dir", "sqlite:///"]
)
def test_an_address_that_is_none_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="write"):
        open_store(address)


def test_a_relative_path_is_below_the_working_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    open_store("sqlite:///my%20events.db").close()
    assert (tmp_path / "my events.db").exists()


@pytest.mark.parametrize("address", ["postgresql://[", "http://[", "file://[::1/x"])
def test_an_address_that_cannot_be_read_is_refused(address: str) -> None:
    with pytest.raises(UsageError, match="is not the address of a store"):
        open_store(address)


def test_a_store_in_memory_keeps_events_as_long_as_it_is_open() -> None:
    store = open_store("memory:")
    store.write([event(1)])
    store.sync()
    assert store.events("/soccer", 0, 1) == [event(1)]


def test_a_file_that_is_no_database_is_refused(tmp_path: Path) -> None:
    (tmp_path / "events.db").write_text("this is prose, and far too long to be an empty database")
    with pytest.raises(StoreError, match="cannot be opened"):
        open_store(f"sqlite:///{tmp_path}/events.db")


def test_a_server_that_does_not_answer_is_reported_without_its_password() -> None:
    pytest.importorskip("psycopg")
    with pytest.raises(StoreError, match="cannot be opened") as raised:
        open_store("postgresql://me:secret@127.0.0.1:1/nothing")
    assert "secret" not in str(raised.value)
