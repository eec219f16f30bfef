"""How much is given to whom."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.errors import UsageError


@dataclass(frozen=True)
class OneOfNConfig:
    in_hand: int = 8
    """Elements of one giver that a taker may have in hand."""

    most_waiting: int = 10_000
    """Elements at a giver that are not taken yet; its publisher waits before it adds more."""

    most_attempts: int = 8
    """How often an element may be given back."""

    try_again: float = 2.0
    """Seconds after which an element that all takers gave back is offered to them again."""

    spares: int = 3
    """Takers that get a spare copy of each element, if there are as many."""

    most_remembered: int = 65_536
    """Elements taken, and spare copies, that a participant remembers."""

    def __post_init__(self) -> None:
        for name in ("in_hand", "most_waiting", "most_attempts", "most_remembered"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}={getattr(self, name)} must be 1 or more")
        if not self.try_again > 0:
            raise UsageError(f"try_again={self.try_again} must be more than 0 seconds")
        if self.spares < 0:
            raise UsageError(f"spares={self.spares} must be 0 or more")
