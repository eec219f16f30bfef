"""Notices that a topic has got a nearer archive than the one in use: publishers go on to it by themselves."""

from __future__ import annotations

from collections.abc import Callable

from overlay.context import Timer
from pubsub.archive.client import NEARER_SECONDS, DurableClient
from pubsub.archive.protocol.finder import Found
from pubsub.topic import Topic


class NearerWatch:
    """Looks every few seconds until there is one, and tells once."""

    def __init__(
        self, client: DurableClient, topic: Topic, managed: str, found: Callable[[Found], None]
    ) -> None:
        """`managed`: the topic whose archive is in use for `topic`."""
        self._client = client
        self._topic = topic
        self._managed = managed
        self._found = found
        self._context = client.runtime.context("channel")
        self._timer: Timer | None = None
        self._stopped = managed == topic.name
        self._wait()

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def _wait(self) -> None:
        if not self._stopped:
            self._timer = self._context.call_later(NEARER_SECONDS, self._look)

    def _look(self) -> None:
        self._client.look_nearer(self._topic, self._managed, b"", self._there)
        self._wait()

    def _there(self, found: Found) -> None:
        if not self._stopped:
            self.stop()
            self._found(found)
