"""A client of WS-ReliableMessaging: it has envelopes like those of the specification's examples, and sends a
message again until it is acknowledged."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Iterable, Iterator

import aiohttp
from lxml import etree

from pubsub.doors.wsrm.soap import ANONYMOUS, RM, SOAP_11, SOAP_12, WSA, Acknowledgement

CREATE = (
    f"<wsrm:CreateSequence><wsrm:AcksTo><wsa:Address>{ANONYMOUS}</wsa:Address></wsrm:AcksTo>"
    "</wsrm:CreateSequence>"
)


def envelope(header: str, body: str, version: str = SOAP_12.namespace) -> bytes:
    return (
        f'<?xml version="1.0" encoding="UTF-8"?><S:Envelope xmlns:S="{version}" xmlns:wsrm="{RM}" '
        f'xmlns:wsa="{WSA}"><S:Header><wsa:MessageID>http://example.org/guid/71e0</wsa:MessageID>'
        f"<wsa:Action>urn:example</wsa:Action>{header}</S:Header><S:Body>{body}</S:Body></S:Envelope>"
    ).encode()


def message(identifier: str, number: int, body: str, asks: bool = False) -> bytes:
    of = f"<wsrm:Identifier>{identifier}</wsrm:Identifier>"
    asked = f"<wsrm:AckRequested>{of}</wsrm:AckRequested>" if asks else ""
    return envelope(
        f'<wsrm:Sequence S:mustUnderstand="1">{of}<wsrm:MessageNumber>{number}</wsrm:MessageNumber>'
        f"</wsrm:Sequence>{asked}",
        body,
    )


def ending(name: str, identifier: str, version: str = SOAP_11.namespace) -> bytes:
    of = f"<wsrm:Identifier>{identifier}</wsrm:Identifier>"
    return envelope("", f"<wsrm:{name}Sequence>{of}</wsrm:{name}Sequence>", version)


class Client:
    """Talks to one topic's address."""

    def __init__(self, session: aiohttp.ClientSession, url: str) -> None:
        self._session = session
        self.url = url
        self.acknowledged: asyncio.Queue[int] = asyncio.Queue()

    async def post(self, body: bytes) -> tuple[int, bytes]:
        async with self._session.post(self.url, data=body) as response:
            return response.status, await response.read()

    async def create(self) -> str:
        status, answer = await self.post(envelope("", CREATE))
        assert status == 200, answer
        found = re.search(rb"<wsrm:Identifier>(.*?)</wsrm:Identifier>", answer)
        assert found is not None
        return found[1].decode()

    async def send_all(self, identifier: str, bodies: Iterable[str]) -> None:
        """Send each until it is acknowledged, whatever happens to the server meanwhile."""
        for number, body in enumerate(bodies, 1):
            while not await self._is_acknowledged(identifier, number, body):
                pass
            self.acknowledged.put_nowait(number)

    async def _is_acknowledged(self, identifier: str, number: int, body: str) -> bool:
        try:
            status, answer = await self.post(message(identifier, number, body, asks=True))
        except aiohttp.ClientError:
            await asyncio.sleep(0.05)  # until the server is there again
            return False
        assert status == 200, answer
        return any(one.upto >= number for one in acknowledgements_in(answer))


def acknowledgements_in(envelope: bytes) -> Iterator[Acknowledgement]:
    """What an answer acknowledges."""
    rm = f"{{{RM}}}"
    for block in etree.fromstring(envelope).iter(f"{rm}SequenceAcknowledgement"):
        ranges = block.findall(f"{rm}AcknowledgementRange")
        yield Acknowledgement(
            block.findtext(f"{rm}Identifier", ""),
            max((int(one.get("Upper", "0")) for one in ranges), default=0),
            tuple(int(one.text) for one in block.findall(f"{rm}Nack")),
            block.find(f"{rm}Final") is not None,
        )
