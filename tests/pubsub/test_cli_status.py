"""`camcast status` where something else than a node answers."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from overlay.contact import Address
from pubsub.cli import main

OPEN = {"public_key": "bb", "sealed": False, "sessions": [], "lacks": ["secrecy"]}
NODE = {
    "id": "ab" * 20,
    "address": "127.0.0.1:4000",
    "mode": "structured",
    "protection": OPEN,
    "rights": None,
}


def response(body: bytes) -> bytes:
    return b"HTTP/1.0 200 OK\r\n\r\n" + body


def as_response(value: Any) -> bytes:
    return response(json.dumps(value).encode())


@contextmanager
def answering(answer: bytes) -> Iterator[Address]:
    """Something that gives everybody this answer, whatever the question."""
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            connection, _ = server.accept()
            with connection:
                connection.recv(65536)
                connection.sendall(answer)

        thread = threading.Thread(target=serve)
        thread.start()
        yield Address(*server.getsockname())
        thread.join()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"SSH-2.0-OpenSSH\r\n", "no node answers at"),
        (b"", "no node answers at"),
        (b"HTTP/1.0 404 Not\x1b[2J Found\r\n\r\n", "no node answers at"),
        (response(b"hello"), "no node answers at"),
        (response(b"\xff"), "no node answers at"),
        (response(b"[" * 200_000), "no node answers at"),
        (as_response({"a": 1}), "is not a node"),
        (as_response([1]), "is not a node"),
        (as_response({**NODE, "communities": 5, "counters": {}}), "is not a node"),
        (as_response({**NODE, "communities": {"/a": {}}, "counters": {}}), "is not a node"),
        (as_response({**NODE, "communities": {}, "counters": {"x": "y"}}), "is not a node"),
        (as_response({**NODE, "services": {"ticker": 1}, "counters": {}}), "is not a node"),
    ],
)
@pytest.mark.parametrize("more", [[], ["--json"]])
def test_what_is_no_node_is_said_to_be_none(
    answer: bytes, words: str, more: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    with answering(answer) as address:
        assert main(["status", str(address), *more]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert words in captured.err
    assert str(address) in captured.err
    assert len(captured.err.strip().splitlines()) == 1
    assert captured.err.strip().isprintable()


def test_a_node_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    community = {"size": 3.2, "table": [1, 2], "subscriptions": 1, "super_tables": {"/": [1]}}
    sealed = {
        "sealed": True,
        "public_key": "bb",
        "sessions": ["cdcdcdcd@127.0.0.1:4001"],
        "lacks": [],
    }
    rights = {
        "authority": ["aa"],
        "own": ["12 to publish on /a"],
        "shown": {"cd" * 20: ["34 to subscribe on /a"]},
        "revoked": ["56"],
    }
    status = {
        **NODE,
        "protection": sealed,
        "rights": rights,
        "communities": {"/a": community},
        "counters": {"sent": 2, "lost": {"x": 1}},
    }
    with answering(as_response(status)) as address:
        assert main(["status", str(address)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "node abababab on 127.0.0.1:4000, mode structured",
        "this node's key is bb",
        "sealed, sessions with 1 peers",
        "  cdcdcdcd@127.0.0.1:4001",
        "authority aa",
        "  right 12 to publish on /a",
        "cdcdcdcd has shown right 34 to subscribe on /a",
        "right 56 was taken back",
        "/a  about 3 members, 2 known, 1 subscriptions",
        "  linked to / by 1 processes",
        "lost[x]  1",
        "sent  2",
    ]


def test_a_node_without_a_key_says_what_it_lacks(capsys: pytest.CaptureFixture[str]) -> None:
    with answering(as_response({**NODE, "communities": {}, "counters": {}})) as address:
        assert main(["status", str(address)]) == 0
    assert "not sealed, lacks secrecy" in capsys.readouterr().out.splitlines()


def test_a_distributor_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    status = {
        "id": "ab" * 20,
        "address": "127.0.0.1:4000",
        "group": "main",
        "view": 3,
        "distributors": ["abababab@127.0.0.1:4000", "cdcdcdcd@127.0.0.1:4001"],
        "protection": NODE["protection"],
        "rights": {"authority": ["aa"], "own": [], "shown": {}, "revoked": []},
        "services": {"ticker": {"subscribers": 2, "held_bytes": 100}},
        "counters": {"distributor_dropped": {"no_service": 1}},
    }
    with answering(as_response(status)) as address:
        assert main(["status", str(address)]) == 0
    assert capsys.readouterr().out.splitlines() == [
        "distributor abababab on 127.0.0.1:4000, group main",
        "view 3: abababab@127.0.0.1:4000, cdcdcdcd@127.0.0.1:4001",
        "this node's key is bb",
        "not sealed, lacks secrecy",
        "authority aa",
        "  no rights",
        "ticker  2 subscribers, 100 bytes held",
        "distributor_dropped[no_service]  1",
    ]
