"""`camcast send` and `camcast receive`, over UDP on this machine."""

from __future__ import annotations

import argparse
import asyncio
import hashlib
import json
import random
from pathlib import Path

import pytest

from pubsub import Archive, Node
from pubsub.archive.errors import NotSafe
from pubsub.cli import parser_for
from pubsub.cli.files import megabytes, receive, receiving, send, sending
from pubsub.files import Manifest, Transfer
from pubsub.files.disk import PieceFile


def parsed(*words: str) -> argparse.Namespace:
    return parser_for(words).parse_args(words)


def test_a_file_goes_from_one_command_to_the_other(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "match.mp4"
    source.write_bytes(random.Random(1).randbytes(700_000))

    async def main() -> list[int]:
        async with Node() as node:
            join = ("--bootstrap", str(node.address))
            incoming = str(tmp_path / "in")
            async with asyncio.timeout(60):
                return await asyncio.gather(
                    receive(parsed("receive", "/videos", incoming, "--count", "1", *join)),
                    send(parsed("send", str(source), "/videos", *join)),
                )

    assert asyncio.run(main()) == [0, 0]
    assert (tmp_path / "in" / "match.mp4").read_bytes() == source.read_bytes()
    printed = capsys.readouterr().out
    assert "1 have it" in printed
    assert printed.count("sha256") == 2


def test_programs_get_a_json_line_for_each_file_and_an_archive_keeps_it(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    source = tmp_path / "match.mp4"
    source.write_bytes(b"goal" * 1000)
    digest = hashlib.sha256(source.read_bytes()).hexdigest()

    async def main() -> None:
        async with Archive(["/videos"], "memory:") as archive:
            words = ("--json", "--bootstrap", str(archive.node.address))
            incoming = str(tmp_path / "in")
            durable = ("--durable", "me", "--since", "beginning", "--count", "1")
            async with asyncio.timeout(60):
                await send(parsed("send", str(source), "/videos", "--durable", *words))
                await receive(parsed("receive", "/videos", incoming, *durable, *words))
                lacking = ("--durable", "--copies", "2", "--deadline", "0.5")
                with pytest.raises(NotSafe, match=r"on 2 replicas within 0\.5 s"):
                    await send(parsed("send", str(source), "/videos", *lacking, *words))

    asyncio.run(main())
    sent, received = map(json.loads, capsys.readouterr().out.splitlines())
    assert sent.pop("seconds") > 0
    assert sent == {
        "name": "match.mp4",
        "size": 4000,
        "sha256": digest,
        "copies": 1,
        "receivers": None,
        "sent": 0,
    }
    path = str(tmp_path / "in" / "match.mp4")
    assert received == {"path": path, "size": 4000, "sha256": digest}


def test_progress_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "match.mp4").write_bytes(b"x" * 1000)
    manifest = Manifest("match.mp4", 1000, 100, bytes(32), bytes(32), "/videos")
    transfer = Transfer(manifest, PieceFile(tmp_path / "match.mp4", manifest))
    transfer.archived_pieces = 5
    assert "0.0% of 1,000 B" in receiving(transfer, 1e6)
    assert "50.0% of 1,000 B safe" in sending(transfer, 0.0)
    assert megabytes(123_456_789) == "123.5 MB"
