"""Topic filters of MQTT, and the tree that finds the subscriptions of a topic."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from typing import Generic, TypeVar

from overlay.topic_name import MAX_LEVELS, MAX_NAME_BYTES
from pubsub.doors.mqtt.packets import LONGEST_KNOWN, MqttError, Reason

T = TypeVar("T")
_SHARE = "$share"

_LONGEST = MAX_NAME_BYTES + MAX_LEVELS + 2
"""Characters of a filter that has something to match: a wildcard may stand for an empty level."""


@dataclass(frozen=True, slots=True)
class TopicFilter:
    """A filter, parsed: `+` stands for one level, a final `#` for the level above it and all below.

    `$share/GROUP/FILTER` gives each message to one of the group (section 4.8.2)."""

    levels: tuple[str, ...]
    group: str | None = None

    @classmethod
    def parse(cls, text: str) -> TopicFilter:
        """`MqttError` when the text is not a filter (section 4.7). Clients with the same one share it."""
        return _known_filter(text) if len(text) <= LONGEST_KNOWN else cls._parse(text)

    @classmethod
    def _parse(cls, text: str) -> TopicFilter:
        group: str | None = None
        rest = text
        if text == _SHARE or text.startswith(_SHARE + "/"):
            _, _, rest = text.partition("/")
            group, _, rest = rest.partition("/")
            if not group or "+" in group or "#" in group:
                raise _invalid(text)
        levels = rest.split("/", MAX_LEVELS + 1)
        if not rest or "#" in levels[:-1] or any(_is_wrong(level) for level in levels):
            raise _invalid(text)
        if len(levels) > MAX_LEVELS + 1 or len(rest) > _LONGEST or len(group or "") > _LONGEST:
            raise _invalid(text)  # no topic is so long, or so deep
        return cls(tuple(levels), group)

    @property
    def base(self) -> str:
        """The topic name before the first wildcard: whose hierarchy has all that the filter matches."""
        fixed = []
        for level in self.levels:
            if level in ("+", "#"):
                break
            fixed.append(level)
        return "/".join(fixed)


_known_filter = lru_cache(maxsize=4096)(TopicFilter._parse)


def _is_wrong(level: str) -> bool:
    return len(level) > 1 and ("+" in level or "#" in level)


def _invalid(text: str) -> MqttError:
    return MqttError(Reason.TOPIC_FILTER_INVALID, f"{text!r:.60} is not a topic filter")


class FilterTree(Generic[T]):
    """Values under filters; a look-up costs the topic's levels, whatever the number of filters."""

    def __init__(self) -> None:
        self._root: _Level[T] = _Level()

    def put(self, levels: tuple[str, ...], key: object, value: T) -> None:
        at = self._root
        for level in levels:
            at = at.below.setdefault(level, _Level())
        at.values[key] = value

    def remove(self, levels: tuple[str, ...], key: object) -> None:
        """Forget a value, and the levels that nothing is under any more."""
        path = [self._root]
        for level in levels:
            below = path[-1].below.get(level)
            if below is None:
                return
            path.append(below)
        path[-1].values.pop(key, None)
        for place in range(len(levels), 0, -1):
            if path[place].values or path[place].below:
                break
            del path[place - 1].below[levels[place - 1]]

    def matching(self, topic: str) -> Iterator[T]:
        """The values whose filters match. Wildcards do not match a first level that begins with `$`."""
        levels = topic.split("/")
        edge = [self._root]
        wild = not topic.startswith("$")
        for level in levels:
            found: list[_Level[T]] = []
            for at in edge:
                if wild and "#" in at.below:
                    yield from at.below["#"].values.values()
                if wild and "+" in at.below:
                    found.append(at.below["+"])
                if level in at.below and level not in ("+", "#"):
                    found.append(at.below[level])
            edge, wild = found, True
        for at in edge:
            yield from at.values.values()
            if "#" in at.below:
                yield from at.below["#"].values.values()

    def matched_by(self, filter: tuple[str, ...]) -> Iterator[T]:
        """The other way: the values under names of topics that this filter matches."""
        edge = [self._root]
        for place, level in enumerate(filter):
            if level not in ("+", "#"):
                edge = [at.below[level] for at in edge if level in at.below]
                continue
            found = [
                below
                for at in edge
                for name, below in at.below.items()
                if place or not name.startswith("$")
            ]
            if level == "+":
                edge = found
            else:  # the level above it too
                edge += [one for at in found for one in at.all()]
        for at in edge:
            yield from at.values.values()


class _Level(Generic[T]):
    __slots__ = ("below", "values")

    def __init__(self) -> None:
        self.below: dict[str, _Level[T]] = {}
        self.values: dict[object, T] = {}

    def all(self) -> Iterator[_Level[T]]:
        """This level, and all below it."""
        yield self
        for below in self.below.values():
            yield from below.all()


def matches(levels: tuple[str, ...], topic: str) -> bool:
    """Whether one filter matches one topic."""
    tree: FilterTree[bool] = FilterTree()
    tree.put(levels, None, True)
    return any(tree.matching(topic))
