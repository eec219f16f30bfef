"""The times of the total order."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.errors import UsageError


@dataclass(frozen=True)
class OrderConfig:
    """How soon members tell each other their clocks."""

    delay: float = 0.01
    """Seconds from an addition to the announcement that it causes; additions in between share it."""

    repeat: float = 1.0
    """Seconds after which announcements are made again while something waits for the others."""

    patience: float = 30.0
    """Seconds that what another member has may take to come; then the order goes on without it."""

    def __post_init__(self) -> None:
        for name in ("delay", "repeat", "patience"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name}={getattr(self, name)} must be more than 0 seconds")
