"""Requests and replies, against rpcudp where it fails."""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Callable, Coroutine
from contextlib import AbstractContextManager
from typing import Any

import pytest
from rpcudp.protocol import RPCProtocol

from overlay.contact import Contact
from overlay.dht.exchange import Call, ReplyOutcome
from overlay.dht.messages import (
    TOO_LARGE,
    FindNode,
    FoundNodes,
    Leaving,
    Letter,
    Ping,
    Pong,
    StoredValue,
    StoreValue,
    unpack_letter,
)
from overlay.entropy import entropy
from overlay.errors import ClosedError, UsageError
from overlay.transport.endpoint import FrameKind
from overlay.transport.frame import FRAME_HEAD_BYTES, HEADER_BYTES
from overlay.virtual import Latency, Network, Packet
from overlay.wire import encode
from tests.overlay.dht.both import on_both
from tests.overlay.dht.rogue import Rogue
from tests.overlay.dht.swarm import Member, key, open_member

Observe = Callable[[Network], Coroutine[Any, Any, Any]]
Verdict = AbstractContextManager[Any]
A, B, C = "127.0.0.2", "127.0.0.3", "127.0.0.4"


def silent(sender: Contact, request: object) -> None:
    return None


def pong(sender: Contact, request: object) -> Pong:
    return Pong(b"token", False)


async def stock(host: str, protocol: type[RPCProtocol] = RPCProtocol) -> RPCProtocol:
    loop = asyncio.get_running_loop()
    _, opened = await loop.create_datagram_endpoint(protocol, local_addr=(host, 4000))
    return opened


def letter_in(packet: Packet) -> Any:
    return unpack_letter(packet.data[HEADER_BYTES + FRAME_HEAD_BYTES :])


async def reply_from_another_address(net: Network) -> bool:
    a, b, c = await open_member(A), await Rogue.open(B, silent), await Rogue.open(C, silent)
    with net.capture() as packets:
        call = a.protocol.ping(b.contact)
        await asyncio.sleep(0.1)
        c.reply(a.contact.address, letter_in(packets[0]), b"\x92\x01\xc4\x01t")
        await asyncio.sleep(0.1)
    return call.outcome is not None


async def reply_from_another_address_stock(net: Network) -> bool:
    a, _, c = await stock(A), await stock(B), await stock(C)
    with net.capture() as packets:
        future = a.ping((B, 4000))
        await asyncio.sleep(0.0005)
        c.transport.sendto(b"\x01" + packets[0].data[1:21] + b"\xa1x", (A, 4000))
        await asyncio.sleep(0.1)
    return bool(future.done() and future.result() == (True, "x"))


@on_both(reply_from_another_address, reply_from_another_address_stock)
def test_a_reply_counts_only_from_the_address_that_was_asked(
    subject: Observe, verdict: Verdict, seed: int
) -> None:
    net = Network(seed)
    with verdict:
        assert not net.run(subject(net))


async def cancelled(net: Network) -> int:
    a, b = await open_member(A), await Rogue.open(B, silent)
    waiting = asyncio.ensure_future(a.dht.ask(b.contact, Ping()))
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.sleep(0.01)
    return len(a.protocol.exchange)


async def cancelled_stock(net: Network) -> int:
    a, _ = await stock(A), await stock(B)
    waiting = asyncio.ensure_future(asyncio.wait_for(a.no_such_call((B, 4000)), 3))
    await asyncio.sleep(0.01)
    waiting.cancel()
    await asyncio.sleep(0.01)
    return len(a._outstanding)


@on_both(cancelled, cancelled_stock)
def test_a_cancelled_call_leaves_nothing(subject: Observe, verdict: Verdict, seed: int) -> None:
    net = Network(seed)
    with verdict:
        assert net.run(subject(net)) == 0


async def tasks_of_a_flood(net: Network) -> int:
    a, b = await open_member(A), await Rogue.open(B, silent)
    before = len(asyncio.all_tasks())
    body = b"\x00\x00" + bytes(8) + b"\x91\x00"
    for _ in range(500):
        a.dht.receive(b.contact, body)
    return len(asyncio.all_tasks()) - before


async def tasks_of_a_flood_stock(net: Network) -> int:
    a = await stock(A)
    before = len(asyncio.all_tasks())
    for _ in range(500):
        a.datagram_received(b"\x00" + bytes(20) + b"\x92\xa4ping\x90", (B, 4000))
    return len(asyncio.all_tasks()) - before


@on_both(tasks_of_a_flood, tasks_of_a_flood_stock)
def test_requests_start_no_tasks(subject: Observe, verdict: Verdict, seed: int) -> None:
    net = Network(seed)
    with verdict:
        assert net.run(subject(net)) == 0


async def oversized_reply(net: Network) -> Any:
    a, b = await open_member(A), await open_member(B)
    b.dht.serve(Ping, lambda sender, request: FoundNodes(b"", bytes(1400)))
    return await a.dht.ask(b.contact, Ping())


async def oversized_reply_stock(net: Network) -> Any:
    class Talkative(RPCProtocol):  # type: ignore[misc]
        def rpc_all(self, sender: object) -> bytes:
            return bytes(70_000)

    a, _ = await stock(A), await stock(B, Talkative)
    answered, _ = await a.all((B, 4000))
    return TOO_LARGE if answered else None


@on_both(oversized_reply, oversized_reply_stock)
def test_who_asks_for_too_much_is_told_so(subject: Observe, verdict: Verdict, seed: int) -> None:
    net = Network(seed)
    with verdict:
        assert net.run(subject(net)) == TOO_LARGE


async def misspelt(net: Network) -> bool:
    return hasattr((await open_member(A)).protocol, "call_pimg")


async def misspelt_stock(net: Network) -> bool:
    return hasattr(await stock(A), "call_pimg")


@on_both(misspelt, misspelt_stock)
def test_a_misspelt_attribute_is_an_error(subject: Observe, verdict: Verdict, seed: int) -> None:
    net = Network(seed)
    with verdict:
        assert not net.run(subject(net))


async def answers_under_loss(net: Network) -> int:
    a, b = await open_member(A), await open_member(B)
    return sum([await a.dht.ask(b.contact, Ping()) is not None for _ in range(200)])


async def answers_under_loss_stock(net: Network) -> int:
    class Polite(RPCProtocol):  # type: ignore[misc]
        def rpc_ping(self, sender: object) -> str:
            return "pong"

    a, _ = await stock(A), await stock(B, Polite)
    return sum([(await a.ping((B, 4000)))[0] for _ in range(200)])


@on_both(answers_under_loss, answers_under_loss_stock)
def test_lost_datagrams_are_sent_again(subject: Observe, verdict: Verdict, seed: int) -> None:
    net = Network(seed, latency=Latency.uniform(0.005, 0.05), loss=0.2)
    with verdict:
        assert net.run(subject(net)) >= 199


def two(
    seed: int, work: Callable[[Member, Rogue, Network], Coroutine[Any, Any, Any]], **faults: Any
) -> Any:
    """Run `work` with a member and a rogue that answers pings."""
    net = Network(seed, latency=Latency.constant(0.05), **faults)

    async def main() -> Any:
        member = await open_member(A)
        result = await work(member, await Rogue.open(B, pong), net)
        await member.close()
        return result

    return net.run(main())


def test_a_reply_counts_only_from_the_id_that_was_asked(seed: int) -> None:
    async def work(member: Member, rogue: Rogue, net: Network) -> Any:
        posing = Contact(key("somebody else"), rogue.contact.host, rogue.contact.port)
        return await member.dht.ask(posing, Ping()), member.metrics.as_dict()["dht_dropped"]

    answer, dropped = two(seed, work)
    assert answer is None
    assert dropped["reply_from_another"] > 0


@pytest.mark.parametrize(
    ("reply", "reason"),
    [
        (b"", "malformed_reply"),
        (b"\xc1", "malformed_reply"),
        (b"\x92\x03\xc4\x00", "malformed_reply"),
        (StoredValue(1, b"", 1.0), "wrong_reply"),
        (Ping(), "wrong_reply"),
    ],
)
def test_a_malformed_reply_ends_the_call_and_costs_the_place(
    seed: int, reply: object, reason: str
) -> None:
    async def work(member: Member, rogue: Rogue, net: Network) -> Any:
        await member.ping(rogue.contact)
        assert rogue.contact in member.dht.known_contacts()
        rogue.answer = lambda sender, request: reply
        call = await member.ping(rogue.contact)
        rogue.answer = pong
        rogue.request(member.contact.address, Ping())
        await asyncio.sleep(1)
        return (
            call.outcome,
            call.reply,
            member.counted("dht_dropped", reason),
            member.dht.known_contacts(),
        )

    assert two(seed, work) == (ReplyOutcome.OFFENDED, None, 1, [])


def test_a_dead_peer_is_given_up_in_a_few_round_trips(seed: int) -> None:
    async def work(member: Member, rogue: Rogue, net: Network) -> Any:
        for _ in range(100):
            await member.dht.ask(rogue.contact, Ping())
        rogue.answer = silent
        started = net.now
        return await member.dht.ask(rogue.contact, Ping()), net.now - started

    answer, seconds = two(seed, work)
    assert answer is None
    assert 0.1 < seconds < 0.6


def test_duplicates_and_late_replies_are_counted_and_harmless(seed: int) -> None:
    async def work(member: Member, rogue: Rogue, net: Network) -> Any:
        answers = [await member.dht.ask(rogue.contact, Ping()) for _ in range(50)]
        await asyncio.sleep(1)
        return answers, member.counted("dht_dropped", "late_reply")

    answers, late = two(seed, work, duplicate=0.5)
    assert answers == [Pong(b"token", False)] * 50
    assert late > 0


def test_closing_wakes_those_who_wait(seed: int) -> None:
    async def work(member: Member, rogue: Rogue, net: Network) -> Any:
        rogue.answer = silent
        waiting = [
            asyncio.ensure_future(member.dht.ask(rogue.contact, Ping())),
            asyncio.ensure_future(member.dht.closest(key("x"))),
        ]
        await asyncio.sleep(0.01)
        member.dht.close()
        results = await asyncio.gather(*waiting, return_exceptions=True)
        with pytest.raises(ClosedError):
            await member.dht.ask(rogue.contact, Ping())
        return results, len(member.protocol.exchange)

    (first, _), left = two(seed, work)
    assert isinstance(first, ClosedError)
    assert left == 0


def test_a_closed_dht_answers_nobody(seed: int) -> None:
    async def work(member: Member, rogue: Rogue, net: Network) -> Any:
        rogue.request(member.contact.address, Ping())
        await asyncio.sleep(1)
        before = len(rogue.heard)
        member.dht.close()
        rogue.request(member.contact.address, Ping())
        await asyncio.sleep(1)
        return before, rogue.heard[before:], member.counted("dht_dropped", "closed")

    before, after, dropped = two(seed, work)
    assert before > 0
    assert after == [Leaving()]
    assert dropped == 2, "the request, and the rogue's answer to the goodbye"


def test_a_request_that_does_not_fit_is_the_callers_error(seed: int) -> None:
    async def work(member: Member, rogue: Rogue, net: Network) -> Any:
        with pytest.raises(UsageError):
            await member.dht.ask(rogue.contact, FoundNodes(b"", bytes(1400)))
        return len(member.protocol.exchange)

    assert two(seed, work) == 0


def test_random_bytes_raise_nothing_and_are_counted(seed: int) -> None:
    async def work(member: Member, rogue: Rogue, net: Network) -> Any:
        draw = entropy()
        samples = [
            Ping(),
            FindNode(key("x"), 20),
            StoreValue(key("x"), StoredValue(1, b"v", 9.0), b"t"),
        ]
        for number in range(3000):
            body = bytearray(b"\x00\x00" + bytes(8) + encode(samples[number % 3]))
            for _ in range(draw.randrange(0, 4)):
                body[draw.randrange(0, len(body))] = draw.getrandbits(8)
            rogue.endpoint.send(member.contact.address, FrameKind.DHT, bytes(body))
            if number % 100 == 0:
                await asyncio.sleep(0.1)
        await asyncio.sleep(2)
        answer = await member.dht.ask(rogue.contact, Ping())
        return answer, member.metrics.as_dict()

    answer, metrics = two(seed, work)
    assert answer == Pong(b"token", False)
    assert metrics["handler_errors"] == {}
    assert sum(metrics["dht_dropped"].values()) > 100


def test_a_call_ends_once() -> None:
    ended: list[Call] = []
    letter = Letter(False, False, 0, bytes(8), None, None, b"")
    call = Call(Contact(key("x"), "127.0.0.1", 1), letter)
    call.on_end = ended.append
    call.end(ReplyOutcome.ANSWERED)
    call.end(ReplyOutcome.GIVEN_UP)
    call.cancel()
    assert ended == [call]
    assert call.outcome is ReplyOutcome.ANSWERED


def test_a_timer_that_rings_late_is_not_held_against_the_peer(seed: int) -> None:
    """A process that was held up for longer than the time-out first looks into its socket."""

    async def work(member: Member, rogue: Rogue, net: Network) -> Any:
        over: asyncio.Future[Call] = asyncio.get_running_loop().create_future()
        call = member.protocol.ping(rogue.contact, over.set_result)
        call.due -= 10.0
        call.sent[0] -= 10.5
        member.protocol.exchange._expired(call)
        sendings = len(call.sent)
        return sendings, (await over).reply

    assert two(seed, work) == (1, Pong(b"token", False))


class Asker:
    """Asks a peer once, and keeps what it asked."""

    def __init__(self, member: Member, peer: Contact) -> None:
        self.answer: object = None
        self.asked = member.protocol.ask(peer, Ping(), self.take)

    def take(self, answer: object) -> None:
        self.answer = answer


def test_an_answered_question_is_freed_without_the_collector_of_cycles() -> None:
    async def main() -> None:
        a, b = await open_member(A), await open_member(B)
        asker = Asker(a, b.contact)
        await asyncio.sleep(1.0)
        assert isinstance(asker.answer, Pong)
        calls = [one for one in gc.get_objects() if isinstance(one, Call) and one.to == b.contact]
        del asker.asked
        left = sys.getrefcount(calls.pop())
        assert left == 1, "something still holds the call"

    Network(1).run(main())
