"""What goes wrong with Spark itself."""

from __future__ import annotations

from overlay.errors import CamcastError


class SparkError(CamcastError):
    """Spark is not installed, does not start, or its master does not answer."""
