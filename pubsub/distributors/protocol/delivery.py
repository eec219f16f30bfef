"""What a subscription gives to its application."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Delivery:
    """A message of a service."""

    service: str
    source: bytes
    """Which run of which publisher."""
    sequence: int
    data: bytes


@dataclass(frozen=True, slots=True)
class Gap:
    """Messages `first` to `last` of a source were missed and will not come."""

    service: str
    source: bytes
    first: int
    last: int

    @property
    def count(self) -> int:
        return self.last - self.first + 1
