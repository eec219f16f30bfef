"""Suites of experiments: the built-in ones, and one's own from a TOML file."""

from bench.suites.catalogue import BUILT_IN, find_suite
from bench.suites.grid import Suite, SuiteError, expand

__all__ = ["BUILT_IN", "Suite", "SuiteError", "expand", "find_suite"]
