"""Protocol cores over channels and datagrams: dispatch, drops, back-pressure, timers and a clean end."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass
from typing import Any

import pytest

from overlay.channel import ChannelConfig, ChannelState, MessageTooLarge
from overlay.contact import Contact
from overlay.context import Context
from overlay.errors import UsageError
from overlay.limited_msgpack import pack
from overlay.loops import run as run_on_real_loop
from overlay.membership.structured.drawing import Farewell
from overlay.runtime import Links, Runtime, RuntimeConfig
from overlay.transport.config import EndpointConfig
from overlay.transport.frame import FrameKind
from overlay.virtual import Deadlock, Latency, Network, nth_host
from overlay.wire import MAX_ARRAY, encode, message

SMALL = ChannelConfig(
    max_message=20_000, send_buffer=200_000, receive_buffer=200_000, receive_memory=1_000_000
)


@message(0x2F10)
@dataclass(frozen=True)
class Ping:
    number: int


@message(0x2F11)
@dataclass(frozen=True)
class Pong:
    number: int


@message(0x2F12)
@dataclass(frozen=True)
class Blob:
    data: bytes


@dataclass(frozen=True)
class NotRegistered:
    number: int


class PingPong:
    """A core: answers each Ping, and sends one a second until it has had three answers."""

    def __init__(self, context: Context, peer: Contact | None = None) -> None:
        self.context = context
        self.peer = peer
        self.answers: list[int] = []

    def start(self) -> None:
        if self.peer is not None and len(self.answers) < 3:
            self.context.send(self.peer, Ping(len(self.answers)))
            self.context.call_later(1.0, self.start)

    def receive(self, sender: Contact, message: Any) -> None:
        if isinstance(message, Ping):
            self.context.send(sender, Pong(message.number))
        else:
            self.answers.append(message.number)


async def open_runtime(
    net: Network | None = None, index: int = 0, channel: ChannelConfig = SMALL
) -> Runtime:
    if net is None:
        return await Runtime.open(RuntimeConfig(EndpointConfig("127.0.0.1:0"), channel))
    config = RuntimeConfig(EndpointConfig(f"{nth_host(index)}:4000"), channel)
    return await net.spawn(nth_host(index), Runtime.open(config))


def dropped(runtime: Runtime, direction: str) -> object:
    return runtime.metrics.as_dict()[f"messages_dropped_{direction}"]


async def play_ping_pong(a: Runtime, b: Runtime, links: Any) -> list[int]:
    asking = PingPong(a.context(links), b.contact)
    answering = PingPong(b.context(links))
    answered = asyncio.Event()

    def receive(sender: Contact, pong: Pong) -> None:
        asking.receive(sender, pong)
        answered.set()

    a.on(Pong, receive)
    b.on(Ping, answering.receive)
    asking.start()
    await asyncio.wait_for(answered.wait(), 30)
    return asking.answers


@pytest.mark.parametrize("links", ["channel", "datagram"])
def test_the_same_core_runs_on_the_virtual_network_and_on_real_sockets(links: str) -> None:
    net = Network(1)

    async def virtually() -> list[int]:
        return await play_ping_pong(await open_runtime(net, 1), await open_runtime(net, 2), links)

    async def really() -> list[int]:
        async with await open_runtime() as a, await open_runtime() as b:
            return await play_ping_pong(a, b, links)

    assert net.run(virtually()) == run_on_real_loop(really()) == [0]


def test_a_core_keeps_its_promises_over_channels_under_loss() -> None:
    net = Network(2, latency=Latency.uniform(0.01, 0.1), loss=0.4)

    async def main() -> None:
        a, b = await open_runtime(net, 1), await open_runtime(net, 2)
        core, other = PingPong(a.context("channel"), b.contact), PingPong(b.context("channel"))
        a.on(Pong, core.receive)
        b.on(Ping, other.receive)
        core.start()
        await asyncio.sleep(60)
        assert len(core.answers) >= 3
        assert set(core.answers) <= {0, 1, 2}

    net.run(main())


def test_what_cannot_be_decoded_or_has_no_handler_is_counted_and_dropped() -> None:
    net = Network(3)

    async def main() -> None:
        a, b = await open_runtime(net, 1), await open_runtime(net, 2)
        b.on(Pong, lambda sender, message: None)
        a.send(b.contact, Ping(1))
        a.send_datagram(b.contact, Ping(2))
        await a.channels.to(b.contact).send(b"\xc1 is no message")
        a.endpoint.send(b.contact.address, FrameKind.DATAGRAM, b"\x91\xcd\xff\xff")
        await asyncio.sleep(1)
        assert dropped(b, "in") == {"malformed": 1, "no_handler": 2, "unknown_type": 1}

    net.run(main())


def test_what_comes_when_its_handler_has_gone_is_counted_as_late() -> None:
    net = Network(3)

    async def main() -> None:
        a, b = await open_runtime(net, 1), await open_runtime(net, 2)
        for handled in (Ping, Pong):
            b.on(handled, lambda sender, message: None)
        b.off(Ping)
        a.send_datagram(b.contact, Ping(1))
        await asyncio.sleep(1)
        assert dropped(b, "in") == {"late": 1}
        b.on(Ping, lambda sender, message: None)
        a.send_datagram(b.contact, Ping(2))
        await asyncio.sleep(1)
        assert dropped(b, "in") == {"late": 1}

    net.run(main())


def test_what_comes_before_the_first_protocol_is_there_is_counted_apart() -> None:
    net = Network(3)

    async def main() -> None:
        a, b = await open_runtime(net, 1), await open_runtime(net, 2)
        a.send_datagram(b.contact, Ping(1))
        await asyncio.sleep(1)
        b.on(Pong, lambda sender, message: None)
        a.send_datagram(b.contact, Ping(2))
        await asyncio.sleep(1)
        assert dropped(b, "in") == {"starting": 1, "no_handler": 1}

    net.run(main())


def test_a_service_starts_when_its_first_message_comes_and_gets_it() -> None:
    async def main() -> None:
        config = RuntimeConfig(EndpointConfig("127.0.0.1:0"))
        async with await Runtime.open(config) as one, await Runtime.open(config) as other:
            got: list[object] = []
            arrived = asyncio.Event()
            starts: list[str] = []

            def start() -> None:
                starts.append("service")
                other.on(Pong, lambda _, pong: (got.append(pong), arrived.set()))

            other.start_on(range(0x2F11, 0x2F12), start)
            other.start_on(range(0x5000, 0x6000), lambda: starts.append("another"))
            one.send(other.contact, Pong(1))
            one.send(other.contact, Blob(b"nobody's"))
            async with asyncio.timeout(10):
                await arrived.wait()
            assert got == [Pong(1)]
            assert starts == ["service"]
            # A type that this process has never imported: only its code is known.
            other.start_on(range(0x4FFF, 0x5000), lambda: starts.append("unknown type"))
            other._receive(one.contact, pack((0x4FFF, 1)))
            assert starts == ["service", "unknown type"]
            assert other.metrics.as_dict()["messages_dropped_in"]["unknown_type"] == 1

    asyncio.run(main())


def test_a_full_channel_drops_and_counts_but_does_not_raise() -> None:
    net = Network(4)

    async def main() -> None:
        a, b = await open_runtime(net, 1), await open_runtime(net, 2)
        b.channels.pause()
        context = a.context("channel")
        blob = Blob(bytes(1_000))
        for _ in range(1_000):
            context.send(b.contact, blob)
        assert dropped(a, "out") == {"channel_full": 1_000 - 200_000 // (len(encode(blob)) + 64)}
        context.send(b.contact, Blob(bytes(30_000)))
        a.context("datagram").send(b.contact, Blob(bytes(3_000)))
        counts = dropped(a, "out")
        assert isinstance(counts, dict)
        assert counts["too_large"] == 2
        with pytest.raises(MessageTooLarge, match="20000"):
            a.send(b.contact, Blob(bytes(30_000)))

    net.run(main())


def test_more_channels_than_allowed_are_counted_and_not_raised() -> None:
    net = Network(5)

    async def main() -> None:
        narrow = ChannelConfig(max_channels=1)
        a, b, c = [await open_runtime(net, index, narrow) for index in (1, 2, 3)]
        assert a.send(b.contact, Ping(1))
        assert not a.send(c.contact, Ping(1))
        assert dropped(a, "out") == {"too_many_channels": 1}

    net.run(main())


def test_publishers_can_wait_for_space_and_dead_peers_hold_nobody_up() -> None:
    net = Network(6)

    async def main() -> None:
        a, slow, dead = [await open_runtime(net, index) for index in (1, 2, 3)]
        received: list[int] = []
        slow.on(Blob, lambda sender, blob: received.append(len(blob.data)))
        net.crash(nth_host(3))
        slow.channels.pause()
        for peer in (slow, dead):
            while a.send(peer.contact, Blob(bytes(1_000))):
                pass
        waiting = asyncio.create_task(a.writable([dead.contact]))
        await asyncio.sleep(20)
        assert a.channels.to(dead.contact).state is ChannelState.CLOSED
        assert waiting.done()
        for _ in range(300):
            a.send(slow.contact, Blob(bytes(1_000)))
        waiting = asyncio.create_task(a.writable([dead.contact, slow.contact]))
        await asyncio.sleep(20)
        assert not waiting.done()
        slow.channels.resume()
        await waiting
        assert len(received) > 100

    net.run(main())


def test_acknowledgements_are_reported_once_each() -> None:
    net = Network(7, loss=0.2)

    async def main() -> None:
        a, b = await open_runtime(net, 1), await open_runtime(net, 2)
        outcomes: list[bool] = []
        for number in range(50):
            assert a.send(b.contact, Ping(number), outcomes.append)
        assert a.send(a.contact, Ping(99), outcomes.append)
        await asyncio.sleep(10)
        assert outcomes == [True] * 51
        net.crash(nth_host(2))
        a.send(b.contact, Ping(1), outcomes.append)
        await asyncio.sleep(1)
        await a.close()
        assert outcomes == [True] * 51 + [False]

    net.run(main())


def test_messages_to_oneself_arrive_later_and_not_within_the_call() -> None:
    net = Network(8)

    async def main() -> None:
        a = await open_runtime(net, 1)
        received: list[int] = []
        a.on(Ping, lambda sender, ping: received.append(ping.number))
        a.context("channel").send(a.contact, Ping(1))
        a.context("datagram").send(a.contact, Ping(2))
        assert received == []
        await asyncio.sleep(0)
        assert received == [1, 2]

    net.run(main())


def test_a_message_to_many_is_encoded_once_and_changes_nothing_for_the_next() -> None:
    net = Network(9)

    async def main() -> None:
        a, b, c = [await open_runtime(net, index) for index in (1, 2, 3)]
        received: list[tuple[int, int]] = []
        for number, runtime in enumerate((b, c)):
            runtime.on(Ping, lambda _, ping, number=number: received.append((number, ping.number)))
        context = a.context("channel")
        for number in (1, 2):
            ping = Ping(number)
            context.send(b.contact, ping)
            context.send(c.contact, ping)
        await asyncio.sleep(1)
        assert sorted(received) == [(0, 1), (0, 2), (1, 1), (1, 2)]

    net.run(main())


def test_timers_fire_once_unless_cancelled_or_closed() -> None:
    net = Network(10)

    async def main() -> list[str]:
        a = await open_runtime(net, 1)
        fired: list[str] = []
        context = a.context("channel")
        context.call_later(1, lambda: fired.append("once"))
        cancelled = context.call_later(1, lambda: fired.append("cancelled"))
        cancelled.cancel()
        cancelled.cancel()
        late = context.call_later(5, lambda: fired.append("after close"))
        await asyncio.sleep(2)
        await a.close()
        context.call_later(1, lambda: fired.append("set after close"))
        await asyncio.sleep(10)
        late.cancel()
        return fired

    assert net.run(main()) == ["once"]


def test_whoever_called_it_nothing_of_a_node_outlives_a_crash_of_its_host() -> None:
    net = Network(15)

    async def main() -> list[str]:
        a, b = await open_runtime(net, 1), await open_runtime(net, 2)
        alive: list[str] = []
        a.context("channel").call_later(5, lambda: alive.append("timer"))
        a.failure.watch(b.contact)
        a.failure.subscribe(lambda peer: alive.append("suspicion"))
        a.channels.on_state(lambda peer, state: alive.append(state.name))
        a.send(b.contact, Ping(1))
        await asyncio.sleep(1)
        assert alive == ["OPEN"]
        a.send(b.contact, Ping(2))
        net.crash(nth_host(1))
        net.crash(nth_host(2))
        await asyncio.sleep(60)
        return alive

    assert net.run(main()) == ["OPEN"]


def test_each_context_has_its_own_stream_of_chance_and_the_same_clock() -> None:
    net = Network(11)

    async def main() -> None:
        a = await open_runtime(net, 1)
        one, two = a.context("channel"), a.context("datagram")
        assert one.random.random() != two.random.random()
        assert one.now() == two.now() == asyncio.get_running_loop().time()
        assert one.contact == a.contact

    net.run(main())


def test_nothing_is_left_running_after_close() -> None:
    """Waiting for ever is a deadlock only if no timer, task or packet is left."""
    net = Network(12, loss=0.3)

    async def main() -> None:
        nodes = [await open_runtime(net, index) for index in (1, 2, 3)]
        for node in nodes:
            for other in nodes:
                if other is not node:
                    node.failure.watch(other.contact)
                    node.send(other.contact, Blob(bytes(15_000)))
            node.context("channel").call_later(3_600, lambda: None)
        await asyncio.sleep(2)
        for node in nodes:
            await node.close()
            await node.close()
            assert not node.send(nodes[0].contact, Ping(1)) or node is nodes[0]
        await asyncio.get_running_loop().create_future()

    with pytest.raises(Deadlock):
        net.run(main())


def test_wrong_arguments_are_named() -> None:
    net = Network(13)

    async def main() -> None:
        a = await open_runtime(net, 1)
        with pytest.raises(UsageError, match="NotRegistered is not a registered message"):
            a.on(NotRegistered, lambda sender, message: None)
        with pytest.raises(UsageError, match="NotRegistered"):
            a.send(a.contact, NotRegistered(1))
        with pytest.raises(UsageError, match="'tcp' is neither 'channel' nor 'datagram'"):
            a.context("tcp")  # type: ignore[arg-type]
        a.on(Ping, lambda sender, message: None)
        with pytest.raises(UsageError, match="have a handler already"):
            a.on(Ping, lambda sender, message: None)
        a.off(Ping)
        a.on(Ping, lambda sender, message: None)

    net.run(main())


def test_messages_of_one_type_go_to_the_handler_of_their_topic() -> None:
    net = Network(15)

    async def main() -> None:
        a, b = await open_runtime(net, 1), await open_runtime(net, 2)
        received: list[tuple[str, str]] = []
        for topic in ("/chess", "/soccer"):
            b.on(Farewell, lambda _, said, here=topic: received.append((here, said.topic)), topic)
        with pytest.raises(UsageError, match="have a handler already"):
            b.on(Farewell, lambda sender, said: None, "/soccer")
        for topic in ("/soccer", "/chess", "/tennis"):
            a.send_datagram(b.contact, Farewell(topic))
        await asyncio.sleep(1)
        assert sorted(received) == [("/chess", "/chess"), ("/soccer", "/soccer")]
        b.off(Farewell, "/soccer")
        a.send_datagram(b.contact, Farewell("/soccer"))
        await asyncio.sleep(1)
        assert len(received) == 2
        assert dropped(b, "in") == {"other_topic": 2}

    net.run(main())


def test_a_failing_handler_stops_nothing() -> None:
    net = Network(14)

    async def main() -> None:
        a, b = await open_runtime(net, 1), await open_runtime(net, 2)
        received: list[int] = []

        def fail(sender: Contact, ping: Ping) -> None:
            received.append(ping.number)
            raise RuntimeError

        b.on(Ping, fail)
        for number in range(3):
            a.send(b.contact, Ping(number))
            a.send_datagram(b.contact, Ping(number))
        await asyncio.sleep(1)
        assert sorted(received) == [0, 0, 1, 1, 2, 2]

    net.run(main())


@message(0x2F13)
@dataclass(frozen=True)
class Many:
    numbers: tuple[int, ...]


@pytest.mark.parametrize("links", ["channel", "datagram"])
def test_what_no_peer_could_be_sent_is_counted_logged_once_and_ends_no_timer(
    links: Links, caplog: pytest.LogCaptureFixture
) -> None:
    net = Network(16)
    unsendable = (Many((0,) * (MAX_ARRAY + 1)), NotRegistered(1), Blob(bytes(30_000)))

    async def main() -> tuple[int, dict[str, int]]:
        a, b = await open_runtime(net, 1), await open_runtime(net, 2)
        context = a.context(links)
        rings = 0

        def ring() -> None:
            nonlocal rings
            rings += 1
            for each in unsendable:
                context.send(b.contact, each)
            context.call_later(1, ring)

        ring()
        await asyncio.sleep(5.5)
        await a.close()
        await b.close()
        return rings, dict(a.metrics.as_dict()["messages_dropped_out"])  # type: ignore[arg-type]

    assert net.run(main()) == (6, {"cannot_be_encoded": 12, "too_large": 6})
    assert sum("Many" in line for line in caplog.messages) == 1


def test_an_action_that_raises_is_counted_and_reported_and_other_timers_go_on() -> None:
    net = Network(17)

    async def main() -> list[str]:
        a = await open_runtime(net, 1)
        context = a.context("channel")
        fired: list[str] = []

        def fail() -> None:
            raise RuntimeError("this action fails")

        context.call_later(1, fail)
        context.call_later(2, lambda: fired.append("later"))
        await asyncio.sleep(3)
        assert a.metrics.as_dict()["timers_failed"] == 1
        return fired

    assert net.run(main()) == ["later"]
    (told,) = net.unhandled
    assert "this action fails" in str(told["exception"])
    net.unhandled.clear()
