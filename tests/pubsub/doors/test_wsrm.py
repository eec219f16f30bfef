"""The door for web services: what is acknowledged is safe, and everything comes once and in order."""

from __future__ import annotations

import asyncio
import signal
import ssl
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from overlay import loops
from overlay.errors import CamcastError
from pubsub import Archive, Node
from pubsub.doors.wsrm import WsrmConfig, WsrmDoor
from pubsub.doors.wsrm.sequences import Sequences
from pubsub.doors.wsrm.soap import (
    SOAP_11,
    Acknowledgement,
    SoapFault,
    faulted,
    read,
)
from tests.pubsub.command_process import camcast, line
from tests.pubsub.doors.certificates import make_certificate
from tests.pubsub.doors.wsrm_client import (
    CREATE,
    Client,
    acknowledgements_in,
    ending,
    envelope,
    message,
)

Body = Callable[[Client, Archive], Awaitable[None]]


def with_door(body: Body, store: str = "memory:", config: WsrmConfig | None = None) -> None:
    async def main() -> None:
        async with (
            Archive(["/soccer", "/mqtt-sessions"], store) as archive,
            WsrmDoor(archive, "127.0.0.1:0", config) as door,
            aiohttp.ClientSession() as session,
        ):
            await body(Client(session, f"http://{door.address}/topics/soccer/italy"), archive)

    loops.run(asyncio.wait_for(main(), 60))


async def archived(node: Node, many: int) -> list[str]:
    """What a new durable subscriber is given."""
    async with node.subscribe("/soccer", durable="check", since="beginning") as events:
        return [(await anext(events)).data for _ in range(many)]


def told(answer: tuple[int, bytes]) -> Acknowledgement:
    status, body = answer
    assert status == 200, body
    (one,) = acknowledgements_in(body)
    return one


def test_messages_are_acknowledged_in_order_and_stored_once() -> None:
    async def body(client: Client, archive: Archive) -> None:
        id = await client.create()
        assert told(await client.post(message(id, 1, "<a>1</a>"))) == Acknowledgement(id, 1)
        assert told(await client.post(message(id, 3, "<a>3</a>"))).nacks == (2,)
        assert told(await client.post(message(id, 4, "<a>4</a>", asks=True))).upto == 1
        assert told(await client.post(message(id, 1, "<a>again</a>"))).nacks == (2,)
        assert told(await client.post(message(id, 2, "<a>2</a>"))) == Acknowledgement(id, 4)
        assert told(await client.post(message(id, 2, "<a>again</a>"))) == Acknowledgement(id, 4)
        other = await client.create()
        assert told(await client.post(message(other, 1, "<b/>"))) == Acknowledgement(other, 1)
        assert told(await client.post(ending("Close", id))) == Acknowledgement(id, 4, final=True)
        assert told(await client.post(ending("Terminate", id))).upto == 4
        found = await archived(archive.node, 5)
        assert found == ["<a>1</a>", "<a>2</a>", "<a>3</a>", "<a>4</a>", "<b/>"]

    with_door(body)


def test_tls_and_tokens(tmp_path: Path) -> None:
    certificate, key = make_certificate(tmp_path)

    async def main() -> None:
        async with Archive(["/soccer"], "memory:") as archive:
            options: dict[str, Any] = {"tls": (certificate, key), "tokens": ["secret"]}
            async with WsrmDoor(archive, "127.0.0.1:0", **options) as door:
                url = f"https://{door.address}/topics/soccer/italy"
                connector = aiohttp.TCPConnector(ssl=ssl.create_default_context(cafile=certificate))
                async with aiohttp.ClientSession(connector=connector) as session:
                    for wrong in (url, f"{url}?token=wrong"):
                        status, _ = await Client(session, wrong).post(envelope("", CREATE))
                        assert status == 401
                    client = Client(session, f"{url}?token=secret")
                    id = await client.create()
                    assert told(await client.post(message(id, 1, "<a/>"))) == Acknowledgement(id, 1)

    loops.run(asyncio.wait_for(main(), 60))


def test_a_crash_between_two_writes_doubles_and_loses_nothing(tmp_path: Path) -> None:
    """The archive has the event, and the record that says so is not written: the worst moment."""
    store = f"sqlite:///{tmp_path}/events.db"
    ids: list[str] = []

    async def before(client: Client, archive: Archive) -> None:
        ids.append(await client.create())
        await client.post(message(ids[0], 1, "<a>1</a>"))

        async def crash(*_: object) -> None:
            raise CamcastError("the power is gone")

        archive.note = crash  # type: ignore[method-assign, assignment]
        status, answer = await client.post(message(ids[0], 2, "<a>2</a>"))
        assert status == 500
        assert b"the power is gone" in answer

    async def after(client: Client, archive: Archive) -> None:
        answer = await client.post(message(ids[0], 3, "<a>3</a>", asks=True))
        assert told(answer).upto == 1  # of 2 nothing was said
        assert told(await client.post(message(ids[0], 2, "<a>2</a>"))).upto == 3
        found = await archived(archive.node, 3)
        assert found == ["<a>1</a>", "<a>2</a>", "<a>3</a>"]
        assert archive.status()["/soccer"]["events"] == 3

    with_door(before, store)
    with_door(after, store)


@pytest.mark.sweep
def test_archive_and_client_may_be_killed_at_any_time(tmp_path: Path) -> None:
    """SIGKILL between messages; the client goes on in its sequence, and each comes once and in order."""
    bodies = [f"<a>{number}</a>" for number in range(60)]
    arguments = ["archive", "--topic", "/soccer", "--store", f"sqlite:///{tmp_path}/events.db"]
    arguments += ["--listen", "127.0.0.1:0", "--wsrm", "127.0.0.1:0"]

    async def main() -> None:
        id = ""
        for life in range(4):
            with camcast(*arguments) as process:
                at = (await asyncio.to_thread(line, process)).rpartition(" ")[2]
                door = (await asyncio.to_thread(line, process)).rpartition(" ")[2]
                async with aiohttp.ClientSession() as session:
                    client = Client(session, f"http://{door}/topics/soccer")
                    id = id or await client.create()
                    sending = asyncio.create_task(client.send_all(id, bodies))
                    if life < 3:
                        while await client.acknowledged.get() < 9 * (life + 1):
                            pass
                        process.send_signal(signal.SIGKILL)
                        sending.cancel()  # a client that starts again sends everything again
                        await asyncio.gather(sending, return_exceptions=True)
                        continue
                    await sending
                    async with Node(bootstrap=[at]) as node:
                        assert await archived(node, len(bodies)) == bodies

    loops.run(asyncio.wait_for(main(), 120))


FAULTS = [
    (b"<a>", "Client", "is not XML"),
    (b"<a/>", "VersionMismatch", "not a SOAP envelope"),
    (b'<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>', "Client", "no document type"),
    (envelope("", "<a/>", SOAP_11.namespace), "WSRMRequired", "needs a sequence"),
    (envelope('<x S:mustUnderstand="1"/>', "<a/>"), "MustUnderstand", "is not understood"),
    (envelope("", CREATE.replace("anonymous", "x")), "CreateSequenceRefused", "go out in answers"),
    (envelope("", "<wsrm:Other/>"), "Sender", "is not a request"),
    (envelope("<wsrm:Sequence/>", "<a/>"), "Sender", "needs Identifier"),
    (message("urn:x", 1, "<a/>lost"), "Sender", "text that is not in an element"),
    (envelope("", "</S:Body><S:Body>"), "Sender", "more than a header and a body"),
    (message("urn:x", 0, "<a/>"), "Sender", "is not the number of a message"),
    (message("urn:x", 2**63 - 1, "<a/>"), "MessageNumberRollover", "no number left"),
    (message("urn:x", 1, "<a/>"), "UnknownSequence", "no such sequence"),
    (ending("Terminate", "urn:x"), "UnknownSequence", "no such sequence"),
]


def test_what_is_wrong_is_answered_with_a_fault() -> None:
    async def body(client: Client, archive: Archive) -> None:
        for request, code, reason in FAULTS:
            status, answer = await client.post(request)
            assert status in (400, 500)
            assert f":{code}<".encode() in answer, answer
            assert reason.encode() in answer
        brief = CREATE.replace(
            "</wsrm:AcksTo>", "</wsrm:AcksTo><wsrm:Expires>PT0.2S</wsrm:Expires>"
        )
        assert b">PT1S<" in (await client.post(envelope("", brief)))[1], "PT0S would mean for ever"
        id = await client.create()
        await client.post(ending("Close", id))
        assert b":SequenceClosed<" in (await client.post(message(id, 1, "<a/>")))[1]
        client.url = client.url.replace("/soccer", "/cooking")
        assert b"does not manage /cooking" in (await client.post(envelope("", CREATE)))[1]
        client.url = client.url.replace("/cooking", "/mqtt-sessions")
        assert b"is for nodes alone" in (await client.post(envelope("", CREATE)))[1]
        client.url = client.url.replace("/mqtt-sessions", "/soccer/spain")
        assert b"the sequence is one of" in (await client.post(message(id, 1, "<a/>")))[1]

    with_door(body)


def test_a_message_that_no_event_can_carry_does_not_block_its_sequence() -> None:
    async def body(client: Client, archive: Archive) -> None:
        id = await client.create()
        for number in (2, 1):
            status, answer = await client.post(message(id, number, f"<a>{'x' * 2**20}</a>"))
            assert status in (400, 500)
            assert b"1048576 is the limit of an event" in answer
        assert told(await client.post(message(id, 1, "<a/>"))).upto == 1
        assert told(await client.post(ending("Terminate", id))).upto == 1

    with_door(body)


def test_a_fault_can_be_read_in_both_versions() -> None:
    fault = SoapFault("gone", "UnknownSequence", "urn:x")
    for request in (ending("Close", "urn:x"), message("urn:x", 1, "")):
        version, written = faulted(read(request), fault)
        assert version is read(request).version
        assert b"wsrm:UnknownSequence" in written
        assert b"<wsrm:Identifier>urn:x</wsrm:Identifier>" in written


def test_declarations_that_a_body_may_need_are_kept() -> None:
    body = '<a xmlns:xsi="urn:i" xmlns:xsd="urn:d" xsi:type="xsd:int">1</a>'
    assert read(message("urn:x", 1, body)).content == body


class Clock:
    now = 1000.0


def make(**bounds: int) -> tuple[Sequences, Clock]:
    clock, ids = Clock(), iter(range(1, 1000))
    config = WsrmConfig(**{"sequences": 3, "waiting": 4, "waiting_bytes": 100, **bounds})  # type: ignore[arg-type]
    return Sequences(config, lambda: clock.now, lambda: next(ids).to_bytes(16, "big")), clock


def test_what_waits_is_bounded() -> None:
    sequences, _ = make()
    one, _ = sequences.create("/a", "/a", None)
    for number in range(2, 20):
        sequences.take(one, number, "x")
    assert sorted(one.waiting) == [2, 3, 4, 5]
    sequences.take(one, 1, "x" * 190)  # what is next is taken all the same
    assert len(one.ready) == 5
    sequences.stored(one, 5)
    other, _ = sequences.create("/a", "/a", None)
    sequences.take(other, 9, "x" * 101)
    assert not other.waiting
    sequences.take(other, 9, "x" * 100)
    sequences.take(one, 8, "x")
    assert not one.waiting
    assert sequences.acknowledgement(other, nacks=True).nacks == tuple(range(1, 9))


def test_sequences_are_bounded_and_end() -> None:
    sequences, clock = make()
    first, lifetime = sequences.create("/a", "/a", 10)
    assert lifetime == 10
    sequences.take(first, 1, "x")
    for _ in range(2):
        assert sequences.make_room() is None
        empty, _ = sequences.create("/a", "/a", 0)
    with pytest.raises(SoapFault, match="no room"):
        sequences.create("/a", "/a", None)
    gone = sequences.make_room()
    assert gone is not None
    assert gone not in (first, empty)
    sequences.create("/a", "/a", None)
    clock.now += 11
    with pytest.raises(SoapFault, match="no such sequence"):
        sequences.find(first.identifier)
    assert sequences.remove_expired() == [first]
    assert sequences.find(empty.identifier) is empty


def test_a_sequence_goes_on_from_its_record() -> None:
    sequences, _ = make()
    one, _ = sequences.create("/a/b", "/a", None)
    another, _ = make()
    assert another.load("/a", one.id, one.record(7))
    found = another.find(one.identifier)
    assert (found.topic, found.managed, found.stored) == ("/a/b", "/a", 7)
    assert not another.load("/a", b"2", b"\xc1")
