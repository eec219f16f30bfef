"""What a filter may cost, whoever wrote it."""

from __future__ import annotations

TEXT_LIMIT = 4096
"""Characters of an expression."""

NODE_LIMIT = 512
"""Operators, fields and values in one expression."""

DEPTH_LIMIT = 32
"""Parentheses, NOT and signs within each other."""

STEP_LIMIT = 250_000
"""Work in one evaluation, beyond that of the expression's own nodes, each of which is evaluated once:
elements looked at in a list, characters looked at by LIKE (64 count as one where there is no `_`; between
two `%` with an `_`, each counts once more for every 64 characters there). Tens of milliseconds. What would
take more is unknown, so it does not match."""

INTEGER_LIMIT = 2**64 - 1
"""The largest integer, without its sign, that may be written; msgpack carries no larger one."""
