"""Topics, their hierarchy, and patterns over them.

A topic is named by a path, and a path's super-topic is the path without its last level: `/soccer` is
the super-topic of `/soccer/italy`, and `/`, the root, includes every topic. A topic may also be named by a
Python class: the class hierarchy is then the topic hierarchy, and a class with several bases has several
super-topics. The *level* of a topic is the length of the longest path to it from the root (CAMCAST,
sections 2.1 and 3.6).
"""

from __future__ import annotations

import abc
import typing
from dataclasses import dataclass, field
from functools import lru_cache

from overlay.topic_name import TopicNameError, check_topic_name

MAX_LINEAGE = 64
"""The most super-topics, near and far, that a topic may have if its path does not tell them."""

RESERVED = ("/camcast", "/mqtt-doors", "/mqtt-sessions")
"""There, and below, nodes talk among themselves: of rights, and of the clients of doors."""

_NO_TOPICS = (object, abc.ABC, typing.Generic, typing.Protocol)
"""Bases that say how a class is made, and not what it is about."""


def is_reserved(topic: str) -> bool:
    """Whether nodes talk among themselves there. Doors keep their clients out of such topics."""
    return topic.startswith(RESERVED) and "/" + topic.split("/", 2)[1] in RESERVED


@dataclass(frozen=True, slots=True)
class Topic:
    """A name and its direct super-topics; the root has none. Equal when the names are.

    `TopicNameError` when the name is not valid, or when the topic could not be reached from the root."""

    name: str
    parents: tuple[Topic, ...] = field(compare=False)
    by_path: bool = field(init=False, compare=False)
    """The super-topics follow from the name alone."""

    def __post_init__(self) -> None:
        check_topic_name(self.name)
        parents = self.parents
        if not isinstance(parents, tuple) or not all(isinstance(one, Topic) for one in parents):
            raise TopicNameError(
                f"{self.name!r} is not a valid topic: its super-topics {parents!r} are not a tuple of topics"
            )
        if bool(parents) == (self.name == "/"):
            raise TopicNameError(
                f"{self.name!r} is not a valid topic: all have super-topics, and only / has none"
            )
        above = [_above(self.name)] if parents else []
        by_path = [one.name for one in parents] == above and all(one.by_path for one in parents)
        object.__setattr__(self, "by_path", by_path)
        if not by_path and len(self.ancestors()) > MAX_LINEAGE:
            raise TopicNameError(
                f"{self.name!r} is not a valid topic: it has more than {MAX_LINEAGE} super-topics"
            )

    @staticmethod
    def of(topic: Topic | str | type) -> Topic:
        """The topic that a path or a class names; `TopicNameError` when it names none."""
        if isinstance(topic, Topic):
            return topic
        if isinstance(topic, type):
            return _of_class(topic)
        if not isinstance(topic, str):
            raise TopicNameError(
                f"{topic!r} is not a valid topic: name one by its path, as in /soccer/italy, or by a class"
            )
        return _of_path(topic)

    @property
    def level(self) -> int:
        return 1 + max(parent.level for parent in self.parents) if self.parents else 0

    @property
    def is_root(self) -> bool:
        return not self.parents

    def ancestors(self) -> tuple[Topic, ...]:
        """Every super-topic, each once, the nearest first."""
        found: dict[str, Topic] = {}
        edge = self.parents
        while edge:
            found.update((topic.name, topic) for topic in edge if topic.name not in found)
            edge = tuple(parent for topic in edge for parent in topic.parents)
        return tuple(found.values())

    @property
    def lineage(self) -> tuple[str, ...]:
        """What an event must say about its super-topics: nothing when the path says it."""
        return () if self.by_path else tuple(topic.name for topic in self.ancestors())

    def includes(self, other: Topic) -> bool:
        """Whether this is `other` or a super-topic of it."""
        return included(self.name, other.name, other.lineage)

    def __str__(self) -> str:
        return self.name


def included(community: str, topic: str, lineage: tuple[str, ...]) -> bool:
    """Whether events of `topic`, which declares `lineage`, belong in `community`."""
    if community == topic or community == "/":
        return True
    return community in lineage if lineage else topic.startswith(community + "/")


@dataclass(frozen=True, slots=True)
class Pattern:
    """What a subscription asks for: a topic to join, and which events of its community it takes.

    In a pattern `*` stands for exactly one level and a final `**` for the topic before it and all its
    subtopics, which is what a plain topic means too. The community joined is that of the levels before
    the first star, so a star near the root subscribes to much and shows little of it.
    """

    text: str
    topic: Topic
    levels: tuple[str, ...] | None = None
    """The levels that an event's topic must match; None takes them all."""
    deep: bool = True
    """Further levels may follow."""

    @staticmethod
    def of(text: Pattern | Topic | str | type) -> Pattern:
        if isinstance(text, Pattern):
            return text
        if not isinstance(text, str) or "*" not in text:
            topic = Topic.of(text)
            return Pattern(topic.name, topic)
        return _parse(text)

    def matches(self, topic: str) -> bool:
        if self.levels is None:
            return True
        levels = () if topic == "/" else topic[1:].split("/")
        if len(levels) < len(self.levels) or (len(levels) > len(self.levels) and not self.deep):
            return False
        return all(
            wanted in ("*", level) for wanted, level in zip(self.levels, levels, strict=False)
        )


def _parse(text: str) -> Pattern:
    levels = text[1:].split("/")
    deep = levels[-1] == "**"
    fixed = levels[:-1] if deep else levels
    if not text.startswith("/") or any("*" in level and level != "*" for level in fixed):
        raise TopicNameError(
            f"{text!r} is not a valid pattern: * stands for one whole level, ** may only come last"
        )
    check_topic_name("/" + "/".join("any" if level == "*" else level for level in fixed))
    stars = [place for place, level in enumerate(fixed) if level == "*"]
    base = fixed[: stars[0]] if stars else fixed
    topic = Topic.of("/" + "/".join(base))
    if not stars:
        return Pattern(text, topic)
    return Pattern(text, topic, tuple(fixed), deep)


def _above(name: str) -> str:
    """The path without its last level."""
    return name.rpartition("/")[0] or "/"


@lru_cache(maxsize=4096)
def _of_path(name: str) -> Topic:
    check_topic_name(name)
    return Topic(name, () if name == "/" else (_of_path(_above(name)),))


@lru_cache(maxsize=4096)
def _of_class(cls: type) -> Topic:
    bases = [base for base in cls.__bases__ if base not in _NO_TOPICS]
    parents = tuple(_of_class(base) for base in bases) or (_of_path("/"),)
    return Topic(f"/{cls.__module__}.{cls.__qualname__}", parents)
