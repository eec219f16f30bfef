"""The expression language of filters: SQL-like conditions on an event's data.

    wanted = Filter.parse("price > 10 AND symbol IN ('A', 'B')")
    wanted.matches({"price": 12, "symbol": "A"})

One language for the content filters of collections, which travel to publishers, and for the profiles of
archives. An expression runs no code, and its size, its depth and the work of one evaluation are bounded, so
that whatever a stranger sends may be parsed and evaluated (see `pubsub.filters.syntax`).
"""

from pubsub.filters.filter import Filter
from pubsub.filters.syntax import FilterError

__all__ = ["Filter", "FilterError"]
