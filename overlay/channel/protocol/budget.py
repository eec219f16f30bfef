"""Memory that all channels of a node share."""

from __future__ import annotations


class Budget:
    """So many bytes, reserved and released."""

    __slots__ = ("limit", "used")

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.used = 0

    def reserve(self, size: int) -> bool:
        """False, and nothing reserved, when less than `size` is left."""
        if self.used + size > self.limit:
            return False
        self.used += size
        return True

    def release(self, size: int) -> None:
        self.used -= size
