"""Servers to measure against and to test with: each in a temporary directory, and gone afterwards."""

from bench.servers.nats import JetStreamServer, NatsServer
from bench.servers.postgresql import PostgresqlServer
from bench.servers.redis import RedisServer
from bench.servers.temporary import NotInstalled, TemporaryServer

__all__ = [
    "JetStreamServer",
    "NatsServer",
    "NotInstalled",
    "PostgresqlServer",
    "RedisServer",
    "TemporaryServer",
]
