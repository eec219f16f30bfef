"""The paper's sentences with a number in them, each decided from the aggregates by the rules of
`claim.py`."""

from bench.claims.catalogue import CLAIMS
from bench.claims.claim import Claim, Decided, Part, Verdict, decide

__all__ = ["CLAIMS", "Claim", "Decided", "Part", "Verdict", "decide"]
