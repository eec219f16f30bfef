"""What goes wrong with Spark itself, and what it says of places that it cannot read or write."""

from __future__ import annotations

import re

from overlay.errors import CamcastError

_DENIED = ("AccessControlException", "AccessDenied", "Permission denied", "403 Forbidden")


class SparkError(CamcastError):
    """Spark is not installed, does not start, or its master does not answer."""


def reason(text: str) -> str | None:
    """Of the pages that Spark says of a place that it cannot use, what is wrong; None for anything else."""
    scheme = re.search(r'No FileSystem for scheme "?([^"\s]+)', text)
    if scheme:
        return (
            f"Spark has no file system for {scheme.group(1)}://; its jars go with --conf spark.jars"
        )
    missing_class = re.search(r"Class (\S*FileSystem) not found", text)
    if missing_class:
        return (
            f"Spark has no {missing_class.group(1)}; the jars with it go with --conf spark.jars, or "
            "spark.jars.packages"
        )
    missing = re.search(r"Path does not exist: (\S+?)\.?(\s|$)", text)
    if missing:
        return f"there is no {missing.group(1)}"
    if any(word in text for word in _DENIED):
        return "permission denied; whose credentials does Spark have?"
    unreachable = re.search(r"(UnknownHost|Connect|NoRouteToHost)Exception: ([^\n]+)", text)
    if unreachable:
        return f"its server does not answer ({unreachable.group(2).strip()[:120]})"
    return None
