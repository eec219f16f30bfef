"""Progress of files on the terminal: one line each while they move, and a last one when they are there."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable
from typing import Self, TextIO

from pubsub.files import FileSharing, Transfer

_WIDTH = 28
_SECONDS = 0.5


class ProgressBar:
    """Redraws one line on a terminal while it is entered; elsewhere it prints nothing."""

    def __init__(self, files: FileSharing, show: Callable[[Transfer, float], str]) -> None:
        self._files = files
        self._show = show
        self._out: TextIO = sys.stderr
        self._before: dict[int, tuple[float, int]] = {}
        self._shown = 0

    async def __aenter__(self) -> Self:
        self._drawing = asyncio.create_task(self._run())
        return self

    async def __aexit__(self, *_: object) -> None:
        self._drawing.cancel()
        self.clear()

    async def _run(self) -> None:
        loop = asyncio.get_running_loop()
        while self._out.isatty():
            moving = [one for one in self._files.transfers if one.path is None]
            if moving:
                self._draw(self._show(moving[-1], self._rate(moving[-1], loop.time())))
            await asyncio.sleep(_SECONDS)

    def clear(self) -> None:
        """Make room for a line that stays."""
        if self._shown:
            self._draw("")
            self._out.write("\r")
            self._out.flush()

    def _rate(self, transfer: Transfer, now: float) -> float:
        """Bytes a second, here and given away together, since the last drawing."""
        moved = transfer.done + transfer.given
        then, before = self._before.get(id(transfer), (now - _SECONDS, moved))
        self._before[id(transfer)] = (now, moved)
        return max(0.0, (moved - before) / max(now - then, 1e-3))

    def _draw(self, line: str) -> None:
        self._out.write("\r" + line + " " * max(0, self._shown - len(line)))
        self._out.flush()
        self._shown = len(line)


def receiving(transfer: Transfer, rate: float) -> str:
    share = transfer.done / transfer.size if transfer.size else 1.0
    bar = "#" * int(share * _WIDTH)
    left = (transfer.size - transfer.done) / rate if rate else 0.0
    return (
        f"{transfer.name[:30]:<30} [{bar:<{_WIDTH}}] {share:6.1%} of {megabytes(transfer.size)}"
        f"  {megabytes(int(rate))}/s  {left:4.0f} s left"
    )


def sending(transfer: Transfer, rate: float) -> str:
    if transfer.exchange is None:
        share = transfer.archived / transfer.size if transfer.size else 1.0
        return f"{transfer.name[:30]:<30} {share:6.1%} of {megabytes(transfer.size)} safe"
    return (
        f"{transfer.name[:30]:<30} {megabytes(transfer.given)} sent at {megabytes(int(rate))}/s,"
        f" {transfer.waiting_peers} receiving, {transfer.finished_peers} done"
    )


def megabytes(size: int) -> str:
    return f"{size / 1e6:,.1f} MB" if size >= 1e5 else f"{size:,} B"
