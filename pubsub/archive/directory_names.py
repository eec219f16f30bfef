"""Under which names archives are found in the directory."""

from __future__ import annotations

from pubsub.topic import Topic


def archives_of(topic: str) -> str:
    """The archives that manage exactly this topic; no topic has such a name."""
    return f"archive:{topic}"


def managed_topics(topic: Topic) -> tuple[str, ...]:
    """The topics of which an archive may manage this one: itself and its super-topics, the nearest first."""
    return (topic.name, *(above.name for above in topic.ancestors()))
