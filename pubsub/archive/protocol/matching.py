"""The matching engine (section 4.2): for which of the registered entities an event is."""

from __future__ import annotations

from collections.abc import Mapping

from pubsub.archive.protocol.archived_event import ReadEvent
from pubsub.archive.protocol.dissemination import Dissemination
from pubsub.archive.protocol.interest import Interest


class Matching:
    """Matches events one after another; made anew for each batch, as entities come, go and change."""

    def __init__(self, entities: Mapping[str, Dissemination]) -> None:
        self._entities = entities
        self._by_topic: dict[tuple[str, tuple[str, ...]], list[tuple[str, Interest]]] = {}
        """Those who ask for a topic; whether for all of its events, their profiles say."""
        self._for_all: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}
        """Their names, where none has a profile: all events of the topic are for the same ones."""

    def destinations(self, event: ReadEvent) -> tuple[str, ...]:
        """The entities that an event is for, in the order of their registration."""
        topic = (event.block.topic, event.block.lineage)
        names = self._for_all.get(topic)
        if names is not None:
            return names
        asking = self._by_topic.get(topic)
        if asking is None:
            asking = self._look_up(topic)
        return tuple(name for name, interest in asking if interest.selects(event))

    def _look_up(self, topic: tuple[str, tuple[str, ...]]) -> list[tuple[str, Interest]]:
        interests = ((name, entity.interest) for name, entity in self._entities.items())
        asking = self._by_topic[topic] = [one for one in interests if one[1].includes(*topic)]
        if not any(interest.profile.constraints for _, interest in asking):
            self._for_all[topic] = tuple(name for name, _ in asking)
        return asking
