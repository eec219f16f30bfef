"""A claim: a sentence, the paper's value, and a function from aggregates to a verdict.

A verdict is computed from aggregates alone. What was not measured is neither true nor false.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from bench.aggregates import Aggregates


@dataclass(frozen=True, slots=True)
class Verdict:
    """What the results say of a claim."""

    holds: bool | None
    """None when the results do not decide it: not measured, or the interval covers both answers."""
    ours: str
    """Our value with its interval, in the units of the claim."""
    because: str = ""
    """Why it does not hold or is not decided, or what is to be known of it where it holds."""
    word: str = ""
    """What the verdict is called where `holds` says too little, such as that a difference is explained."""

    @property
    def words(self) -> str:
        """The verdict as a reader is told it."""
        usual = {True: "holds", False: "does not hold", None: "undecided"}
        return self.word or usual[self.holds]


@dataclass(frozen=True, slots=True)
class Claim:
    """One sentence of the paper that results can decide."""

    name: str
    sentence: str
    source: str
    """Where the paper says it."""
    paper: str
    """The paper's value."""
    evidence: Callable[[Aggregates], Verdict]


def decide(claims: Iterable[Claim], aggregates: Aggregates) -> list[tuple[Claim, Verdict]]:
    """A verdict for each claim, in order."""
    return [(claim, claim.evidence(aggregates)) for claim in claims]


NOT_MEASURED = Verdict(None, "not measured", "no suite with these experiments has been run")
EXPLAINED = "explained"
FITTED = "fitted"
IN_PART = "in part"
NOT_REFUTED = "not refuted"
