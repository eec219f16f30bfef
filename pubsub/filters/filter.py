"""A filter: parsed once, compiled to a function of the data, evaluated often, sent as its canonical text.

Values are null, booleans, numbers, texts, bytes, lists and maps. A field that is missing is null, and
null stands for *unknown*: whatever is computed from it or compared with it is null again, and so is what
makes no sense, such as an order between a number and a text, arithmetic on texts, a division by zero, or
a condition that is not a boolean. AND, OR and NOT follow SQL's three values: `FALSE AND NULL` is false,
`TRUE OR NULL` is true, everything else with a null in it is null. `IS NULL` is the only thing that always
knows.
"""

from __future__ import annotations

from typing import Any

from pubsub.filters.evaluation import BudgetSpent, FilterBudget
from pubsub.filters.parser import parse
from pubsub.filters.syntax import TEXT_LIMIT, FilterError


class Filter:
    """A condition on an event's data; equal to another when their canonical texts are.

    Nothing that it is given as data makes it raise."""

    __slots__ = ("_condition", "text")

    text: str
    """The condition in its canonical form, which `parse` takes anywhere."""

    def __init__(self, text: str) -> None:
        self.text, _, self._condition, *_ = parse(text)
        if len(self.text) > TEXT_LIMIT:
            raise FilterError(
                f"its canonical form has {len(self.text)} characters, and {TEXT_LIMIT} is the limit"
            )

    @classmethod
    def parse(cls, text: str) -> Filter:
        """The filter that the text is; `FilterError`, with the position, for any other text."""
        return cls(text)

    def matches(self, data: Any) -> bool:
        """Whether the condition is known to be true of the data."""
        return self.evaluate(data) is True

    def evaluate(self, data: Any) -> bool | None:
        """Whether the condition is true of the data; None when that is unknown."""
        try:
            condition = self._condition(data, FilterBudget())
        except BudgetSpent:
            return None
        return condition if isinstance(condition, bool) else None

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Filter) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __str__(self) -> str:
        return self.text

    def __repr__(self) -> str:
        return f"Filter.parse({self.text!r})"
