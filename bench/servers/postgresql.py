"""A PostgreSQL server from the packages of the distribution, reached over a socket in its directory."""

from __future__ import annotations

import glob
import os
import pwd
import shutil
import subprocess
from urllib.parse import quote

from bench.servers.temporary import NotInstalled, TemporaryServer


class PostgresqlServer(TemporaryServer):
    """Nothing of it is on the network. It refuses to run as root, and so runs as somebody else then."""

    def __init__(self) -> None:
        self._programs = _programs()
        self._user = _user()
        super().__init__("postgresql")
        self._data = str(self.directory / "data")
        self._schemas = 0
        shutil.chown(self.directory, self._user)
        self._as_user("initdb", "-D", self._data, "-A", "trust", "-U", "archive", "-E", "UTF8")
        self.start()

    def start(self) -> None:
        options = f"-c listen_addresses='' -c unix_socket_directories='{self.directory}'"
        log = str(self.directory / "log")
        self._as_user("pg_ctl", "-D", self._data, "-w", "-l", log, "-o", options, "start")

    def crash(self) -> None:
        """Stop at once, without writing anything back; `start` then recovers from the log."""
        self._as_user("pg_ctl", "-D", self._data, "-w", "-m", "immediate", "stop")

    def stop(self) -> None:
        self.crash()
        super().stop()

    def new_address(self) -> str:
        """The address of a schema that nobody has used."""
        import psycopg

        self._schemas += 1
        schema = f"schema_{self._schemas}"
        base = f"postgresql://archive@/postgres?host={quote(str(self.directory), safe='')}"
        with psycopg.connect(base, autocommit=True) as connection:
            connection.execute(f"CREATE SCHEMA {schema}".encode())
        return f"{base}&options=-csearch_path%3D{schema}"

    def _as_user(self, program: str, *arguments: str) -> None:
        switch = ("setpriv", f"--reuid={self._user}", "--clear-groups") if os.getuid() == 0 else ()
        done = subprocess.run(
            [*switch, f"{self._programs}/{program}", *arguments],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            cwd="/",
            text=True,
        )
        if done.returncode:
            raise NotInstalled(f"PostgreSQL's {program} failed: {done.stderr.strip()[-300:]}")


def _programs() -> str:
    found = sorted(glob.glob("/usr/lib/postgresql/*/bin"))
    on_path = shutil.which("pg_ctl")
    if not found and on_path is None:
        raise NotInstalled("PostgreSQL's server is not installed (Debian's package: postgresql)")
    try:
        import psycopg  # noqa: F401
    except ImportError:
        raise NotInstalled("psycopg is not installed (the extra: camcast[postgresql])") from None
    return found[-1] if found else os.path.dirname(on_path or "")


def _user() -> str:
    if os.getuid():
        return pwd.getpwuid(os.getuid()).pw_name
    names = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in names else "nobody"
