"""`camcast send` and `camcast receive`, over UDP on this machine."""

from __future__ import annotations

import argparse
import asyncio
import random
from pathlib import Path

import pytest

import pubsub.cli
from pubsub import Node
from pubsub.cli.progress_bar import megabytes, receiving, sending
from pubsub.cli.receive import receive
from pubsub.cli.send import send
from pubsub.files import Manifest, Transfer
from pubsub.files.piece_file import PieceFile


def parsed(*words: str) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    pubsub.cli.add_commands(parser.add_subparsers())
    return parser.parse_args(words)


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


def test_progress_is_told_in_one_line(tmp_path: Path) -> None:
    (tmp_path / "match.mp4").write_bytes(b"x" * 1000)
    manifest = Manifest("match.mp4", 1000, 100, bytes(32), bytes(32))
    transfer = Transfer(manifest, PieceFile(tmp_path / "match.mp4", manifest))
    transfer.archived_pieces = 5
    assert "0.0% of 1,000 B" in receiving(transfer, 1e6)
    assert "50.0% of 1,000 B safe" in sending(transfer, 0.0)
    assert megabytes(123_456_789) == "123.5 MB"
