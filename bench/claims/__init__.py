"""The paper's sentences with a number in them, each decided from the aggregates."""

from bench.claims.catalogue import CLAIMS
from bench.claims.claim import Claim, Verdict, decide

__all__ = ["CLAIMS", "Claim", "Verdict", "decide"]
