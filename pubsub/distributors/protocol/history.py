"""Where messages come from that a subscriber without gaps still lacks when it changes its distributor.

A distributor first looks into its own log; then into its `History`, which is told every message that enters
the log and may keep it longer, as an archive does. What neither has is a gap, and the subscriber is told so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from pubsub.distributors.messages import Publication

Found = Callable[[Sequence[Publication]], None]


class History(Protocol):
    """Past messages of services, by source and number."""

    def record(self, publication: Publication) -> None:
        """A message has entered the distributor's log."""
        ...

    def read(self, service: str, source: bytes, first: int, last: int, found: Found) -> None:
        """Call `found` once, now or later, with messages `first`, `first + 1`... as far as there are any.

        It may find fewer than were asked for, for reasons of size; none means that `first` is not there.
        """
        ...


class NoHistory:
    """Nothing is kept beyond the distributors' logs."""

    def record(self, publication: Publication) -> None:
        pass

    def read(self, service: str, source: bytes, first: int, last: int, found: Found) -> None:
        found(())
