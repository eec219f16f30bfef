"""Which topics an archive lets others hand to it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from pubsub.archive.errors import DurableUsageError
from pubsub.topic import Pattern, included

MOST_TOPICS = 1_000
"""Topics that an archive manages at most before it takes no more."""


@dataclass(frozen=True)
class Acceptance:
    """Any node of the network may ask an archive to manage a topic; what no pattern matches is refused."""

    patterns: Sequence[str] = ()
    """Topics, each with its subtopics, or patterns such as `/soccer/*`; none accepts nothing."""
    most: int = MOST_TOPICS
    _parsed: tuple[Pattern, ...] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        if isinstance(self.patterns, str):
            raise DurableUsageError(
                f"accept is a list of patterns of topics: write [{self.patterns!r}]"
            )
        object.__setattr__(self, "_parsed", tuple(Pattern.of(one) for one in self.patterns))
        if self.most < 1:
            raise DurableUsageError(f"an archive takes one topic or more, not {self.most}")

    def refusal(self, topic: str, managed: int) -> str:
        """Why an archive that manages so many topics does not take this one; empty when it does."""
        if not any(
            included(pattern.topic.name, topic, ()) and pattern.matches(topic)
            for pattern in self._parsed
        ):
            accepted = f"{' and '.join(self.patterns)} only" if self.patterns else "none"
            return f"it accepts {accepted}"
        if managed >= self.most:
            return f"it manages {managed} topics, and takes no more"
        return ""
