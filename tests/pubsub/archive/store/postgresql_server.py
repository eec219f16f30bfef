"""A PostgreSQL server for tests, which are skipped where there is none."""

from __future__ import annotations

import pytest

from bench.servers import NotInstalled
from bench.servers import PostgresqlServer as TemporaryPostgresql


class PostgresqlServer(TemporaryPostgresql):
    """`new_address()` gives a schema that nobody has used; `crash()` and `start()` are a loss of power."""

    def __init__(self) -> None:
        try:
            super().__init__()
        except NotInstalled as missing:
            pytest.skip(str(missing))
