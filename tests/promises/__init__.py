"""Schedules of faults against the promises of the README, one file a service; `make ledger` runs many.

They use the public interface alone, and were written from the README and docs/, not from the code.
"""
