"""What a fan-out is done with."""

from __future__ import annotations

from dataclasses import dataclass

from pubsub.config import DisseminationKind, Mode

PLAIN = "asyncio-dgram"


@dataclass(frozen=True)
class Way:
    """One row of the table: plain asyncio-dgram, or nodes in a mode with a way of dissemination."""

    system: str
    mode: Mode = "structured"
    dissemination: DisseminationKind = "lazy"

    @classmethod
    def of_nodes(cls, mode: Mode, dissemination: DisseminationKind) -> Way:
        return cls(f"camcast {dissemination}, {mode}", mode, dissemination)

    @property
    def is_plain(self) -> bool:
        return self.system == PLAIN
