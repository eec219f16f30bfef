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

    gone_after: float = 5.0
    """Seconds out of the view after which a participant that has not left counts as gone: what it had in
    hand goes to others, and what it had to give is given by others. When participants enter, those who are
    there may be out of a view for a moment."""

    spares: int = 3
    """Takers that get a spare copy of each element, if there are as many."""

    most_remembered: int = 65_536
    """Elements taken, and spare copies, that a participant remembers."""

    def __post_init__(self) -> None:
        for name in ("in_hand", "most_waiting", "most_attempts", "most_remembered"):
            if getattr(self, name) < 1:
                raise UsageError(f"{name}={getattr(self, name)} must be 1 or more")
        for name in ("try_again", "gone_after"):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name}={getattr(self, name)} must be more than 0 seconds")
        if self.spares < 0:
            raise UsageError(f"spares={self.spares} must be 0 or more")
