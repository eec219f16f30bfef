"""A NATS server with JetStream on files, which it syncs every two minutes by default."""

from __future__ import annotations

from bench.servers.temporary import TemporaryServer, free_port, installed


class JetStreamServer(TemporaryServer):
    def __init__(self) -> None:
        program = installed("nats-server", "nats-server")
        super().__init__("jetstream")
        self.port = free_port()
        place = str(self.directory)
        self.run(
            program, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", place, port=self.port
        )
