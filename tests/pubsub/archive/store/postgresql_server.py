"""A PostgreSQL server of one's own, from the packages of the distribution, on a socket in its directory."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import subprocess
import tempfile
from pathlib import Path
from urllib.parse import quote

import pytest


class PostgresqlServer:
    """Data in a temporary directory, nothing on the network, stopped and removed by `stop`."""

    def __init__(self) -> None:
        self._programs = _programs()
        self._user = _user()
        self._directory = Path(tempfile.mkdtemp(prefix="camcast-postgresql-"))
        self._run("chown", self._user, str(self._directory), alone=False)
        self._as_user("initdb", "-D", self._data, "-A", "trust", "-U", "archive", "-E", "UTF8")
        self._schemas = 0
        self.start()

    @property
    def _data(self) -> str:
        return str(self._directory / "data")

    def start(self) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories='{self._directory}'"
        log = str(self._directory / "log")
        self._as_user("pg_ctl", "-D", self._data, "-w", "-l", log, "-o", options, "start")

    def crash(self) -> None:
        """Stop at once, without writing anything back; `start` then recovers from the log."""
        self._as_user("pg_ctl", "-D", self._data, "-w", "-m", "immediate", "stop")

    def stop(self) -> None:
        self.crash()
        shutil.rmtree(self._directory, ignore_errors=True)

    def new_address(self) -> str:
        """The address of a schema that nobody has used."""
        import psycopg

        self._schemas += 1
        base = f"postgresql://archive@/postgres?host={quote(str(self._directory), safe='')}"
        with psycopg.connect(base, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA s{self._schemas}")
        return f"{base}&options=-csearch_path%3Ds{self._schemas}"

    def _as_user(self, program: str, *arguments: str) -> None:
        self._run(f"{self._programs}/{program}", *arguments, alone=os.getuid() == 0)

    def _run(self, *command: str, alone: bool) -> None:
        switch = ("setpriv", f"--reuid={self._user}", "--clear-groups") if alone else ()
        done = subprocess.run(
            [*switch, *command],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            text=True,
        )
        if done.returncode:
            pytest.skip(f"no PostgreSQL server could be started: {done.stderr.strip()[-300:]}")


def _programs() -> str:
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin")) or [
        os.path.dirname(path) for path in [shutil.which("pg_ctl")] if path
    ]
    if not found:
        pytest.skip("PostgreSQL's server is not installed (Debian's package: postgresql)")
    try:
        import psycopg  # noqa: F401
    except ImportError:
        pytest.skip("psycopg is not installed (the extra: camcast[postgresql])")
    return found[-1]


def _user() -> str:
    """The server refuses to run as root."""
    if os.getuid():
        return pwd.getpwuid(os.getuid()).pw_name
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
