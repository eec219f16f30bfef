"""Find peers and talk to them: contacts, channels, the DHT and the topic directory."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from overlay.overlay import Overlay

__all__ = ["Overlay"]


def __getattr__(name: str) -> Any:
    """`overlay.Overlay`, imported when it is first used: most of this package does without the DHT."""
    if name == "Overlay":
        from overlay.overlay import Overlay

        return Overlay
    raise AttributeError(f"module 'overlay' has no attribute {name!r}")
