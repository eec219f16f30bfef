"""A filter: parsed once, evaluated often, and sent as its canonical text."""

from __future__ import annotations

from typing import Any

from pubsub.filters.canonical import canonical
from pubsub.filters.errors import FilterError
from pubsub.filters.evaluator import Budget, BudgetSpent, compile_expression
from pubsub.filters.limits import TEXT_LIMIT
from pubsub.filters.parser import parse


class Filter:
    """A condition on an event's data; equal to another when their canonical texts are.

    Nothing that it is given as data makes it raise."""

    __slots__ = ("_condition", "text")

    text: str
    """The condition in its canonical form, which `parse` takes anywhere."""

    def __init__(self, text: str) -> None:
        expression = parse(text)
        self.text = canonical(expression)
        if len(self.text) > TEXT_LIMIT:
            raise FilterError(
                f"its canonical form has {len(self.text)} characters, and {TEXT_LIMIT} is the limit"
            )
        self._condition = compile_expression(expression)

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
            condition = self._condition(data, Budget())
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
