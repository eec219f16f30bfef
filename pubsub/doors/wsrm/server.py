"""The door itself: SOAP over HTTP into an archive.

    async with WsrmDoor(archive, "127.0.0.1:8081") as door:
        ...                        # clients: http://127.0.0.1:8081/topics/soccer/italy

A client creates a sequence at the address of a topic that the archive manages, and sends its messages there.
Each becomes an event of the topic: the XML in the body, as text. The answer to a message comes when the
message is safe, and acknowledges everything up to there; or when it is not safe within
`WsrmConfig.deadline`. Acknowledgements go out in answers alone: a client that wants them sent elsewhere
(`AcksTo`) is refused, since this process calls no address that a stranger names.

Promised: what is acknowledged is on the archive's disk, and each message is delivered to durable subscribers
once and in its sequence's order, through crashes of the client and of the archive. A sequence lives at one
archive: when that is gone for good, its client is told `UnknownSequence` elsewhere and begins another.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Self

from aiohttp import web

from overlay.contact import Address
from overlay.entropy import entropy
from overlay.errors import CamcastError
from overlay.topic_name import check_topic_name
from pubsub.archive.archive import Archive
from pubsub.data import DATA_LIMIT, DataError, pack_data
from pubsub.doors.serving import CHALLENGE, TOKEN_NEEDED, Bodies, Tokens, certificate, serve
from pubsub.doors.wsrm import soap
from pubsub.doors.wsrm.sequences import ID_BYTES, Sequence, Sequences, WsrmConfig
from pubsub.doors.wsrm.soap import Acknowledgement, Create, End, Request, SoapFault
from pubsub.topic import included, is_reserved

RECORD = "wsrm "
"""How the keys of sequences' records begin."""

_ROOM_FOR_SOAP = 64 * 1024
"""Bytes of an envelope around an event's data."""

EXPIRY_SECONDS = 60.0
"""How often sequences are looked for whose time is over."""


class WsrmDoor:
    """Serves while it is entered; the archive is entered before and left after it."""

    def __init__(
        self,
        archive: Archive,
        listen: str,
        config: WsrmConfig | None = None,
        *,
        tls: tuple[str | Path, str | Path] | None = None,
        tokens: Iterable[str] = (),
    ) -> None:
        """`tls`: files with a certificate and its key. `tokens`: with any, a request must bring one, as
        `Authorization: Bearer TOKEN` or, for clients that set no headers, as `?token=TOKEN`."""
        self._archive = archive
        self._listen = Address.parse(listen)
        self._tls = None if tls is None else certificate(*tls)
        self._tokens = Tokens(list(tokens))
        self._config = config or WsrmConfig()
        self._sequences = Sequences(self._config, time.time, lambda: entropy().randbytes(ID_BYTES))
        self._bodies = Bodies(self._config.most_bodies, self._config.body_seconds)
        self._storing: dict[bytes, asyncio.Task[None]] = {}
        self._stack = AsyncExitStack()
        metrics = archive.node.metrics
        self._answers = metrics.family(
            "wsrm_answers", "kind", "Answers to clients of WS-ReliableMessaging, by kind"
        )
        metrics.gauge(
            "wsrm_sequences",
            "Sequences of WS-ReliableMessaging that are open",
            lambda: float(len(self._sequences)),
        )

    async def __aenter__(self) -> Self:
        for managed in self._archive.topics:
            for key, record in self._archive.notes(managed, RECORD).items():
                id = bytes.fromhex(key.removeprefix(RECORD))
                if not self._sequences.load(managed, id, record):
                    self._answers.add("lost_record")
        app = web.Application(client_max_size=DATA_LIMIT + _ROOM_FOR_SOAP)
        app.router.add_post("/topics{topic:.*}", self._answer)
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._end)
            self._expiring = asyncio.create_task(self._forget_expired())
            self.address = await serve(stack, app, self._listen, self._tls, "WS-ReliableMessaging")
            self._stack = stack.pop_all()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._stack.aclose()

    async def _end(self) -> None:
        tasks = [*self._storing.values(), self._expiring]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    async def _forget_expired(self) -> None:
        while True:
            for sequence in self._sequences.remove_expired():
                await self._note(sequence, None)
            await asyncio.sleep(EXPIRY_SECONDS)

    # Requests.

    async def _answer(self, http: web.Request) -> web.Response:
        if not self._tokens.allow(http):
            self._answers.add("not_allowed")
            return web.Response(status=401, text=TOKEN_NEEDED, headers=CHALLENGE)
        request: Request | None = None
        try:
            request = soap.read(await self._bodies.read(http))
            answer = await self._obey(request, http.match_info["topic"] or "/")
            self._answers.add("served")
            return _response(200, request.version, answer)
        except SoapFault as error:
            fault = error
        except CamcastError as error:
            fault = SoapFault(str(error), by_sender=False)
        self._answers.add(fault.code or "refused")
        version, answer = soap.faulted(request, fault)
        is_bad_request = version is soap.SOAP_12 and fault.by_sender
        return _response(400 if is_bad_request else 500, version, answer)

    async def _obey(self, request: Request, topic: str) -> bytes:
        match request.command:
            case Create(acks_to, expires):
                return await self._create(request, topic, acks_to, expires)
            case End(name, identifier):
                return await self._finish(request, name, self._sequences.find(identifier))
        told: dict[str, Acknowledgement] = {}
        asked = {
            identifier: self._sequences.find(identifier) for identifier in request.ack_requested
        }
        if request.sequence is not None:
            identifier, number = request.sequence
            sequence = self._sequences.find(identifier)
            if sequence.topic != topic:
                raise SoapFault(
                    f"the sequence is one of {sequence.topic}, not of {topic:.200}",
                    "UnknownSequence",
                    identifier,
                )
            try:
                pack_data(request.content)
            except DataError as error:  # taken up, it would be in the way of all that follows
                raise SoapFault(str(error)) from None
            self._sequences.take(sequence, number, request.content)
            await self._store(sequence)
            told[identifier] = self._sequences.acknowledgement(sequence, nacks=True)
        for identifier, sequence in asked.items():
            told[identifier] = self._sequences.acknowledgement(sequence)
        if not told:
            raise SoapFault("a message needs a sequence: create one first", "WSRMRequired")
        return soap.acknowledged(request, tuple(told.values()))

    async def _create(
        self, request: Request, topic: str, acks_to: str, expires: float | None
    ) -> bytes:
        refused = "CreateSequenceRefused"
        if acks_to != soap.ANONYMOUS:
            raise SoapFault(
                f"acknowledgements go out in answers: AcksTo is {soap.ANONYMOUS}", refused
            )
        try:
            name = check_topic_name(topic)
        except CamcastError as error:
            raise SoapFault(str(error), refused) from None
        above = [one for one in self._archive.topics if included(one, name, ())]
        if not above:
            raise SoapFault(f"this archive does not manage {name}", refused)
        if is_reserved(name):
            raise SoapFault(f"{name} is for nodes alone", refused)
        if (gone := self._sequences.make_room()) is not None:
            await self._note(gone, None)
        sequence, lifetime = self._sequences.create(name, max(above, key=len), expires)
        await self._note(sequence, sequence.record(0))
        return soap.created(request, sequence.identifier, lifetime)

    async def _finish(self, request: Request, name: str, sequence: Sequence) -> bytes:
        await self._store(sequence)
        if sequence.id in self._storing:
            raise SoapFault(
                "the archive is still storing messages of it: ask again", by_sender=False
            )
        self._sequences.close(sequence)
        told = self._sequences.acknowledgement(sequence)
        if name == "Terminate":
            await self._note(sequence, None)
            self._sequences.remove(sequence)
        else:
            await self._note(sequence, sequence.record(sequence.stored))
        return soap.ended(request, name, told)

    async def _note(self, sequence: Sequence, record: bytes | None) -> None:
        if sequence.managed in self._archive.topics:
            await self._archive.note(sequence.managed, RECORD + sequence.id.hex(), record)

    # Into the archive.

    async def _store(self, sequence: Sequence) -> None:
        """Have what is ready stored; return when it is, or when it takes too long. The work goes on all the
        same, once for however many wait."""
        end = asyncio.get_running_loop().time() + self._config.deadline
        try:
            async with asyncio.timeout_at(end):
                while sequence.ready:
                    task = self._storing.get(sequence.id)
                    if task is None:
                        task = asyncio.create_task(self._store_ready(sequence))
                        self._storing[sequence.id] = task
                        task.add_done_callback(partial(self._done, sequence))
                    await asyncio.shield(task)
        except TimeoutError:
            self._answers.add("too_slow")

    def _done(self, sequence: Sequence, task: asyncio.Task[None]) -> None:
        del self._storing[sequence.id]
        if not task.cancelled() and task.exception() is not None:
            self._answers.add("not_stored")  # those who wait are told why

    async def _store_ready(self, sequence: Sequence) -> None:
        ready = sequence.ready
        await self._archive.node.publish_in_run(
            sequence.topic, sequence.run, sequence.stored + 1, ready
        )
        upto = sequence.stored + len(ready)
        await self._note(sequence, sequence.record(upto))
        self._sequences.stored(sequence, upto)


def _response(status: int, version: soap.Version, body: bytes) -> web.Response:
    return web.Response(
        status=status, body=body, content_type=version.content_type, charset="utf-8"
    )
