"""Clients that keep many messages on their way and count the answers, without a library to be measured."""

from __future__ import annotations

import asyncio
import time
from typing import Protocol

_CHUNK = 1 << 18


class WindowedClient(Protocol):
    async def rate(self, window: int, seconds: float) -> float:
        """Answered messages a second, with `window` of them on their way."""
        ...


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
