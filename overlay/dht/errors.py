"""What the DHT raises; what peers send never raises."""

from __future__ import annotations

from overlay.errors import NetworkError, UsageError


class NoBootstrapAnswer(NetworkError):
    """None of the bootstrap addresses, nor any contact known from before, answered in time."""


class ValueTooLarge(UsageError):
    """The value does not fit into one datagram beside what travels with it."""
