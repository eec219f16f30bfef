"""A Redis server that writes every command to its append-only file."""

from __future__ import annotations

from typing import Literal

from bench.servers.temporary import TemporaryServer, free_port, installed


class RedisServer(TemporaryServer):
    """`sync="always"`: a reply comes after the command's sync; `everysec`: synced once a second."""

    def __init__(self, sync: Literal["always", "everysec"]) -> None:
        program = installed("redis-server", "redis-server")
        super().__init__("redis")
        self.port = free_port()
        settings = f"""
            port {self.port}
            bind 127.0.0.1
            dir {self.directory}
            save ""
            appendonly yes
            appendfsync {sync}
        """
        path = self.directory / "redis.conf"
        path.write_text("\n".join(line.strip() for line in settings.splitlines()))
        self.run(program, str(path), port=self.port)
