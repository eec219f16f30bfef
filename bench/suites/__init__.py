"""Suites of experiments: the built-in ones, and one's own from a TOML file."""

from bench.suites.built_in import BUILT_IN, find_suite
from bench.suites.grid import Family, Suite, SuiteError, expand

__all__ = ["BUILT_IN", "Family", "Suite", "SuiteError", "expand", "find_suite"]
