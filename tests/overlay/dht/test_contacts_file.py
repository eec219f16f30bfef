"""Known contacts survive a restart; a bad file is as good as none."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest
from kademlia.network import Server

from overlay.contact import Contact
from overlay.dht.driver import MOST_BYTES, MOST_CONTACTS, load_contacts, save_contacts
from overlay.limited_msgpack import pack
from tests.overlay.dht.both import on_both
from tests.overlay.dht.swarm import key

CONTACTS = [Contact(key(n), f"127.0.0.{n + 1}", 4000) for n in range(5)]
CONTACTS.append(Contact(key("six"), "::1", 4001))


def test_contacts_are_saved_and_loaded(tmp_path: Path) -> None:
    file = tmp_path / "contacts"
    save_contacts(file, CONTACTS)
    save_contacts(file, CONTACTS)
    assert load_contacts(file) == CONTACTS
    assert [path.name for path in tmp_path.iterdir()] == ["contacts"]


def test_no_file_means_no_contacts(tmp_path: Path) -> None:
    assert load_contacts(tmp_path / "missing") == []


def test_a_file_that_cannot_be_written_is_no_error(tmp_path: Path) -> None:
    save_contacts(tmp_path / "missing" / "contacts", CONTACTS)
    assert list(tmp_path.iterdir()) == []


class Bomb:
    """Unpickled, it makes a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[object, ...]:
        return (os.mkdir, (str(self.folder),))


@on_both(load_contacts, lambda file: asyncio.run(Server.load_state(file, 0)))
def test_a_file_cannot_run_code(
    subject: Callable[[Path], object], verdict: AbstractContextManager[Any], tmp_path: Path
) -> None:
    file = tmp_path / "contacts"
    file.write_bytes(pickle.dumps(Bomb(tmp_path / "boom")))
    with contextlib.suppress(TypeError):
        subject(file)
    with verdict:
        assert not (tmp_path / "boom").exists()


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"garbage",
        pickle.dumps({"contacts": []}),
        pack({"format": 2, "contacts": []}),
        pack({"format": 1}),
        pack({"format": 1, "contacts": 5}),
        pack({"format": 1, "contacts": [b"short"]}),
        pack({"format": 1, "contacts": [5]}),
        pack([1, 2]),
        bytes(MOST_BYTES + 1),
    ],
)
def test_a_damaged_file_counts_as_empty(tmp_path: Path, content: bytes) -> None:
    file = tmp_path / "contacts"
    file.write_bytes(content)
    assert load_contacts(file) == []


def test_the_most_that_is_saved_can_be_loaded(tmp_path: Path) -> None:
    file = tmp_path / "contacts"
    many = [Contact(key(n), "2001:db8::1", 1 + n) for n in range(MOST_CONTACTS + 10)]
    save_contacts(file, many)
    assert load_contacts(file) == many[:MOST_CONTACTS]
