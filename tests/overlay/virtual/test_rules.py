"""Rules see every datagram as it leaves, and pass it, drop it or hold it back while their block lasts."""

from __future__ import annotations

import asyncio

import pytest

from overlay.contact import Address
from overlay.errors import UsageError
from overlay.virtual import DROP, PASS, Network, Packet

from .helpers import Recorder, listen

ONE, TWO = "127.0.0.2", "127.0.0.3"


async def pair() -> tuple[Recorder, Recorder]:
    return await listen(ONE), await listen(TWO)


def test_rules_pass_drop_and_delay_while_their_block_lasts() -> None:
    async def main() -> list[tuple[float, bytes]]:
        one, two = await pair()

        def rule(packet: Packet) -> object:
            return {b"a": PASS, b"b": DROP, b"c": 2.5, b"d": None}[packet.data]

        with net.rule(rule):  # type: ignore[arg-type]
            for data in (b"a", b"b", b"c", b"d"):
                one.transport.sendto(data, tuple(two.address))
        one.transport.sendto(b"b", tuple(two.address))
        await asyncio.sleep(10)
        return [(round(time, 6), data) for time, data, _ in two.received]

    net = Network(seed=1)
    assert net.run(main()) == [(0.001, b"a"), (0.001, b"d"), (0.001, b"b"), (2.501, b"c")]
    assert net.stats.lost == net.stats.lost_by["rule"] == 1


def test_delays_add_up_and_a_drop_ends_it() -> None:
    async def main() -> list[float]:
        one, two = await pair()
        asked: list[str] = []
        with net.rule(lambda packet: 1), net.rule(lambda packet: 2):
            one.transport.sendto(b"x", tuple(two.address))
            with net.rule(lambda packet: DROP), net.rule(lambda packet: asked.append("later")):
                one.transport.sendto(b"y", tuple(two.address))
        await asyncio.sleep(10)
        assert asked == []
        return [round(time, 6) for time, _, _ in two.received]

    net = Network(seed=1)
    assert net.run(main()) == [3.001]


def test_a_rule_may_be_installed_twice_and_nested() -> None:
    seen: list[bytes] = []

    def watch(packet: Packet) -> None:
        seen.append(packet.data)

    async def main() -> None:
        one, two = await pair()
        with net.rule(watch):
            with net.rule(watch):
                one.transport.sendto(b"twice", tuple(two.address))
            one.transport.sendto(b"once", tuple(two.address))
        one.transport.sendto(b"never", tuple(two.address))

    net = Network(seed=1)
    net.run(main())
    assert seen == [b"twice", b"twice", b"once"]


def test_a_capture_has_every_datagram_even_those_that_are_lost() -> None:
    async def main() -> tuple[list[Packet], Address, Address]:
        one, two = await pair()
        await asyncio.sleep(1.5)
        with net.capture() as packets:
            one.transport.sendto(b"hello", tuple(two.address))
            await asyncio.sleep(1)
            two.transport.sendto(bytearray(b"answer"), tuple(one.address))
        one.transport.sendto(b"unseen", tuple(two.address))
        return packets, one.address, two.address

    net = Network(seed=1, loss=1.0)
    packets, one, two = net.run(main())
    assert packets == [Packet(1.5, one, two, b"hello"), Packet(2.5, two, one, b"answer")]
    assert isinstance(packets[0].source, Address)
    assert str(packets[0]) == f"1.500000s {one} -> {two} 5 bytes"


def test_an_exception_of_a_rule_ends_the_run_even_where_the_sender_catches_all() -> None:
    async def main() -> None:
        one, two = await pair()

        def rule(packet: Packet) -> None:
            assert packet.data != b"forbidden", "seen on the wire"

        with net.rule(rule):
            try:
                one.transport.sendto(b"forbidden", tuple(two.address))
            except BaseException:
                pytest.fail("a sender is not told of a rule")
            await asyncio.sleep(1)

    net = Network(seed=1)
    with pytest.raises(AssertionError, match="seen on the wire"):
        net.run(main())


@pytest.mark.parametrize("nonsense", [True, False, -1.0, float("nan"), "drop"])
def test_a_rule_that_answers_nonsense_ends_the_run(nonsense: object) -> None:
    async def main() -> None:
        one, two = await pair()
        with net.rule(lambda packet: nonsense):  # type: ignore[arg-type, return-value]
            one.transport.sendto(b"x", tuple(two.address))
            await asyncio.sleep(1)

    net = Network(seed=1)
    with pytest.raises(UsageError, match="a rule returns PASS, DROP or seconds"):
        net.run(main())
