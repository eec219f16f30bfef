"""Who watches a process: one call for each thing that happens, for traces and for tests."""

from __future__ import annotations

from typing import Protocol

from overlay.contact import PeerId


class Observer(Protocol):
    """`kind` is one of `pubsub.trace.KINDS`, which docs/traces.md describes."""

    def record(
        self,
        kind: str,
        topic: str,
        *,
        event: bytes | None = None,
        peer: PeerId | None = None,
        hops: int | None = None,
        detail: str | None = None,
    ) -> None: ...
