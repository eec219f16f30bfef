"""Servers to measure against and to test with: each in a temporary directory, and gone afterwards."""

from __future__ import annotations

import asyncio
import glob
import os
import pwd
import shutil
import socket
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Literal, Self
from urllib.parse import quote

from bench.players import seconds_of

STARTING_SECONDS = 20.0


class NotInstalled(Exception):
    """The server is not on this machine, or does not start; the text says what to install."""


class TemporaryServer:
    """A process with a directory of its own; leaving the `with` block ends the one and removes the other."""

    port = 0
    """Where the server listens on loopback; 0 where it does not."""

    def __init__(self, name: str) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix=f"camcast-{name}-"))
        self._process: subprocess.Popen[bytes] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self._process is not None:
            self._process.kill()
            self._process.wait()
        shutil.rmtree(self.directory, ignore_errors=True)

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def processor_seconds(self) -> float:
        """What the process has used so far, where the system tells (Linux); 0 elsewhere."""
        try:
            return seconds_of(self.pid)
        except (OSError, AssertionError):
            return 0.0


class ConfiguredServer(TemporaryServer):
    """A server on a port of loopback, with a file of configuration as its last argument."""

    def __init__(self, program: str, package: str, *arguments: str, config: str) -> None:
        """`config`: the text of the file, with `{port}` and `{directory}` in it."""
        path = installed(program, package)
        super().__init__(program)
        self.port = free_port()
        file = self.directory / "server.conf"
        file.write_text(config.format(port=self.port, directory=self.directory))
        self._run(path, *arguments, str(file))

    def _run(self, *command: str) -> None:
        """Start the process, and wait until it listens on the loopback port."""
        self._process = subprocess.Popen(
            command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=self.directory
        )
        until = time.monotonic() + STARTING_SECONDS
        while time.monotonic() < until and self._process.poll() is None:
            with socket.socket() as attempt:
                if attempt.connect_ex(("127.0.0.1", self.port)) == 0:
                    return
            time.sleep(0.02)
        self.stop()
        raise NotInstalled(f"{os.path.basename(command[0])} did not start")


def installed(program: str, package: str) -> str:
    """The path of a program, or `NotInstalled` with the Debian package that has it."""
    places = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/usr/local/sbin"))
    path = shutil.which(program, path=places)
    if path is None:
        raise NotInstalled(f"{program} is not installed (Debian's package: {package})")
    return path


def free_port() -> int:
    with socket.socket() as attempt:
        attempt.bind(("127.0.0.1", 0))
        port: int = attempt.getsockname()[1]
        return port


REDIS = """port {{port}}
bind 127.0.0.1
dir {{directory}}
save ""
appendonly yes
appendfsync {sync}
"""
NATS = "listen: 127.0.0.1:{{port}}\nmax_pending: {pending}\nwrite_deadline: 60s\n"
JETSTREAM = 'listen: 127.0.0.1:{port}\njetstream {{ store_dir: "{directory}" }}\n'
MOSQUITTO = """listener {port} 127.0.0.1
allow_anonymous true
persistence false
max_inflight_messages 1000
max_queued_messages 100000
log_dest none
"""


def redis_server(sync: Literal["always", "everysec"]) -> ConfiguredServer:
    """Writes every command to its append-only file. `always`: a reply comes after the command's sync;
    `everysec`: synced once a second."""
    return ConfiguredServer("redis-server", "redis-server", config=REDIS.format(sync=sync))


def nats_server(max_pending: int) -> ConfiguredServer:
    """Core publish/subscribe; `max_pending`: bytes that it keeps for a slow consumer before it drops it."""
    config = NATS.format(pending=max_pending)
    return ConfiguredServer("nats-server", "nats-server", "-c", config=config)


def jetstream_server() -> ConfiguredServer:
    """JetStream on files, which the server syncs every two minutes by default."""
    return ConfiguredServer("nats-server", "nats-server", "-c", config=JETSTREAM)


def mosquitto_server() -> ConfiguredServer:
    """MQTT without persistence, with room for every message of a benchmark."""
    return ConfiguredServer("mosquitto", "mosquitto", "-c", config=MOSQUITTO)


# A PostgreSQL server from the packages of the distribution, reached over a socket in its directory.


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


# Clients that keep many messages on their way and count the answers, without a library to be measured.


_CHUNK = 1 << 18


class RedisClient:
    """Adds entries to a stream. An answer is `$<length>`, the entry's id, each with a line end."""

    def __init__(self, port: int, body: bytes) -> None:
        self._port = port
        length = str(len(body)).encode()
        self._command = (
            b"*5\r\n$4\r\nXADD\r\n$6\r\nstream\r\n$1\r\n*\r\n$1\r\nb\r\n$%s\r\n%s\r\n"
            % (
                length,
                body,
            )
        )

    async def rate(self, window: int, seconds: float) -> float:
        """Answered messages a second, with `window` of them on their way."""
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            return await _windowed(reader, writer, self._command, b"$", window, seconds)
        finally:
            writer.close()


class JetStreamClient:
    """Publishes to a stream on files. An answer is a `MSG` to the inbox that the message named."""

    def __init__(self, port: int, body: bytes) -> None:
        self._port = port
        self._command = b"PUB events inbox %d\r\n%s\r\n" % (len(body), body)

    async def rate(self, window: int, seconds: float) -> float:
        reader, writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            await reader.readline()
            stream = (
                b'{"name":"events","subjects":["events"],"storage":"file","retention":"limits"}'
            )
            writer.write(
                b'CONNECT {"verbose":false,"headers":false}\r\nSUB made 1\r\nSUB inbox 2\r\n'
                b"PUB $JS.API.STREAM.CREATE.events made %d\r\n%s\r\n" % (len(stream), stream)
            )
            while not (await reader.readline()).startswith(b"MSG made"):
                pass
            await reader.readline()
            return await _windowed(reader, writer, self._command, b"MSG ", window, seconds)
        finally:
            writer.close()


WindowedClient = RedisClient | JetStreamClient


async def _windowed(
    reader: asyncio.StreamReader,
    writer: asyncio.StreamWriter,
    command: bytes,
    answer: bytes,
    window: int,
    seconds: float,
) -> float:
    """Send a command for each answer; answers are counted by the text with which each begins."""
    answered, rest, start = 0, b"", time.perf_counter()
    writer.write(command * window)
    while (elapsed := time.perf_counter() - start) < seconds:
        chunk = rest + await reader.read(_CHUNK)
        whole, rest = _split(chunk)
        came = whole.count(answer)
        answered += came
        if came:
            writer.write(command * came)
            await writer.drain()
    return answered / elapsed


def _split(chunk: bytes) -> tuple[bytes, bytes]:
    """The whole lines, and the beginning of the next one."""
    end = chunk.rfind(b"\n") + 1
    return chunk[:end], chunk[end:]
