"""The same little programs have the same outcome on the virtual network and on real sockets."""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable, Coroutine
from typing import Any

import asyncio_dgram
import pytest
from kademlia.network import Server

from overlay.contact import Address
from overlay.virtual import Network

from .helpers import Recorder, connect, listen, opened

HERE = "127.0.0.1"
Program = Callable[[], Coroutine[Any, Any, Any]]


async def until(condition: Callable[[], object]) -> None:
    """Wait until a condition holds; on real sockets nobody knows when."""
    async with asyncio.timeout(10):
        while not condition():  # noqa: ASYNC110
            await asyncio.sleep(0.001)


async def echo() -> object:
    server = await asyncio_dgram.bind((HERE, 0))
    client = await asyncio_dgram.connect(server.sockname)
    answers = []
    for question in (b"one", b"two", bytes(1400), bytes(60_000)):
        await client.send(question)
        data, sender = await server.recv()
        assert sender == client.sockname
        await server.send(data[::-1], sender)
        answer, origin = await client.recv()
        answers.append((len(answer), answer[:8], origin == server.sockname))
    names = server.peername, client.peername == server.sockname, type(server.sockname)
    server.close()
    with pytest.raises(asyncio_dgram.TransportClosed):
        await server.recv()
    with pytest.raises(asyncio_dgram.TransportClosed):
        await server.send(b"", client.sockname)
    client.close()
    return answers, names


async def stock_kademlia() -> object:
    servers = [Server(ksize=4) for _ in range(4)]
    ports = []
    for server in servers:
        await server.listen(0, HERE)
        ports.append(server.transport.get_extra_info("sockname")[1])
        if len(ports) > 1:
            await server.bootstrap([(HERE, ports[0])])
    stored = await servers[1].set("key", "value")
    found = [await server.get("key") for server in servers]
    unknown = await servers[2].get("nothing")
    for server in servers:
        server.stop()
    return stored, found, unknown


async def two_sockets_on_one_port() -> object:
    first = await listen(HERE)
    try:
        await listen(HERE, first.address.port)
    except OSError as refused:
        in_use = refused.errno
    first.transport.close()
    at_once = list(first.calls), first.transport.is_closing()
    await until(lambda: first.calls == ["made", "lost"])
    again = await listen(HERE, first.address.port)
    again.transport.close()
    return in_use, at_once, again.address.port == first.address.port


async def an_address_that_is_not_ours() -> object:
    try:
        await listen("192.0.2.1")
    except OSError as refused:
        return refused.errno
    return "bound"


async def nobody_listens() -> object:
    gone = await listen(HERE)
    gone.transport.close()
    await until(lambda: "lost" in gone.calls)
    stranger, client = await listen(HERE), await connect(gone.address)
    stranger.transport.sendto(b"x", tuple(gone.address))
    client.transport.sendto(b"x")
    await until(lambda: client.errors)
    return [type(error) for error in client.errors], stranger.errors


async def a_connected_socket_hears_its_peer_only() -> object:
    server, stranger = await listen(HERE), await listen(HERE)
    client = await connect(server.address)
    with pytest.raises(ValueError, match="Invalid address"):
        client.transport.sendto(b"x", tuple(stranger.address))
    client.transport.sendto(b"without address")
    client.transport.sendto(b"with address", tuple(server.address))
    stranger.transport.sendto(b"stranger", tuple(client.address))
    await until(lambda: len(server.received) == 2)
    server.transport.sendto(b"server", tuple(client.address))
    await until(lambda: client.received)
    return client.payloads, server.payloads


async def too_large() -> object:
    one, two = await listen(HERE), await listen(HERE)
    one.transport.sendto(bytes(65_508), tuple(two.address))
    one.transport.sendto(bytes(65_507), tuple(two.address))
    await until(lambda: two.received)
    errors = [error.errno for error in one.errors if isinstance(error, OSError)]
    return errors, [len(data) for data in two.payloads]


async def impossible_destinations() -> object:
    one, two = await listen(HERE), await listen(HERE)
    one.transport.sendto(b"x", (HERE, 0))
    errors = [error.errno for error in one.errors if isinstance(error, OSError)]
    one.transport.sendto(b"x", (HERE, 99_999))
    closing = one.transport.is_closing()
    await until(lambda: "lost" in one.calls)
    with pytest.raises(TypeError):
        two.transport.sendto("text", tuple(one.address))
    return errors, closing, one.calls


async def names_and_kinds_of_data() -> object:
    server = await listen("localhost")
    anywhere = await listen("0.0.0.0")
    anywhere.transport.sendto(b"", tuple(server.address))  # sent by some versions of asyncio
    anywhere.transport.sendto(bytearray(b"array"), tuple(server.address))
    anywhere.transport.sendto(memoryview(b"view"), ("localhost", server.address.port))
    await until(lambda: b"view" in server.payloads)
    kinds = {type(data) for data in server.payloads}
    origins = {origin for _, _, origin in server.received}
    return (
        server.payloads,
        kinds,
        origins == {(HERE, anywhere.address.port)},
        server.address.host,
        anywhere.address.host,
    )


async def what_a_transport_says_of_itself() -> object:
    server = await listen(HERE)
    client = await connect(server.address)
    sock = client.transport.get_extra_info("socket")
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 20_000)
    described = (
        sock.family,
        sock.type,
        sock.getsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF) >= 20_000,
        sock.getsockname() == client.address,
        sock.getpeername() == server.address,
        client.transport.get_extra_info("nonsense", "default"),
        client.transport.get_write_buffer_size(),
        client.transport.get_protocol() is client,
    )
    with pytest.raises(OSError, match="not connected"):
        server.transport.get_extra_info("socket").getpeername()
    return described


async def a_protocol_that_raises_goes_on() -> object:
    class Raises(Recorder):
        def datagram_received(self, data: bytes, addr: Any) -> None:
            super().datagram_received(data, addr)
            raise RuntimeError("a bug of the program")

    loop = asyncio.get_running_loop()
    reported: list[str] = []
    loop.set_exception_handler(lambda _, context: reported.append(str(context["exception"])))
    _, broken = await loop.create_datagram_endpoint(Raises, local_addr=(HERE, 0))
    sender = await listen(HERE)
    for data in (b"1", b"2"):
        sender.transport.sendto(data, tuple(broken.address))
    await until(lambda: len(broken.received) == 2)
    return broken.payloads, reported


async def and_close(program: Program) -> object:
    """Run a program; real sockets would outlive their loop."""
    opened.clear()
    outcome = await program()
    for recorder in list(opened):
        recorder.transport.close()
    await asyncio.sleep(0.01)
    return outcome


@pytest.mark.parametrize(
    "program",
    [
        echo,
        stock_kademlia,
        two_sockets_on_one_port,
        an_address_that_is_not_ours,
        nobody_listens,
        a_connected_socket_hears_its_peer_only,
        too_large,
        impossible_destinations,
        names_and_kinds_of_data,
        what_a_transport_says_of_itself,
        a_protocol_that_raises_goes_on,
    ],
)
def test_the_outcome_is_the_same(program: Program, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.CRITICAL)
    virtual = Network(seed=1).run(and_close(program))
    assert virtual == asyncio.run(and_close(program))
    assert virtual not in (None, "bound")


def test_ports_are_given_out_in_order() -> None:
    async def main() -> list[Address]:
        await listen("127.0.0.2", 32_769)
        return [(await listen("127.0.0.2")).address for _ in range(3)]

    assert [port for _, port in Network(seed=1).run(main())] == [32_768, 32_770, 32_771]


def test_real_sockets_cannot_be_brought_along() -> None:
    async def main() -> None:
        with (
            socket.socket(type=socket.SOCK_DGRAM) as real,
            pytest.raises(ValueError, match="opens its own sockets"),
        ):
            await asyncio_dgram.from_socket(real)

    Network(seed=1).run(main())
