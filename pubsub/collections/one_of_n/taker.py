"""A participant that asked for elements."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from overlay.contact import PeerId
from pubsub.filters import Filter


@dataclass(frozen=True, slots=True)
class Taker:
    id: PeerId
    filter: Filter | None = None
    """What it asked for; None is everything."""

    def wants(self, data: Any) -> bool:
        return self.filter is None or self.filter.matches(data)
