"""NATS servers: the plain one, and one with JetStream."""

from __future__ import annotations

from bench.servers.temporary import TemporaryServer, free_port, installed


class NatsServer(TemporaryServer):
    """Core publish/subscribe; `max_pending`: bytes that it keeps for a slow consumer before it drops it."""

    def __init__(self, max_pending: int) -> None:
        program = installed("nats-server", "nats-server")
        super().__init__("nats")
        self.port = free_port()
        config = self.directory / "nats.conf"
        config.write_text(
            f"listen: 127.0.0.1:{self.port}\nmax_pending: {max_pending}\nwrite_deadline: 60s\n"
        )
        self.run(program, "-c", str(config), port=self.port)


class JetStreamServer(TemporaryServer):
    """JetStream on files, which the server syncs every two minutes by default."""

    def __init__(self) -> None:
        program = installed("nats-server", "nats-server")
        super().__init__("jetstream")
        self.port = free_port()
        place = str(self.directory)
        self.run(
            program, "-a", "127.0.0.1", "-p", str(self.port), "-js", "-sd", place, port=self.port
        )
