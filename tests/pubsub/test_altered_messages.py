"""A member sends messages of every kind, with fields altered, to nodes that run every service.

They are made of the true messages of a network at work: a field or two are drawn anew, out of the values that
fields of that type had, and of those at the edges. Whoever sends them may send them, as far as sessions and
rights go. Nothing raises, and the network goes on as before.
"""

from __future__ import annotations

import asyncio
import dataclasses
import importlib
import types
import typing
from collections import defaultdict
from collections.abc import Awaitable
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

import overlay
import pubsub
from overlay import wire
from overlay.contact import Address, Contact, PeerId
from overlay.dht.exchange import Exchange
from overlay.runtime import Runtime
from overlay.virtual import Latency, Network, nth_host
from pubsub import Node
from pubsub.archive.archive import Archive
from pubsub.archive.protocol.messages import Register
from pubsub.collections import DAStrongSet
from pubsub.distributors import Distributor, Publisher, Subscriber
from pubsub.distributors.messages import ClientRequest, ViewHello
from pubsub.files.sharing import FileSharing

INTEGERS = (0, 1, -1, 2, 8, 255, 65_535, 2**31, 2**32 - 1, 2**63 - 1, 2**63, 2**64 - 1, -(2**63))
FLOATS = (0.0, -1.0, 1e-300, 1e300, 60.0)
TEXTS = ("", "/", "/t", "/t/a", "/strong", "main", "news", "//", "/t/", "/a*", "x" * 300, "done")
SIZES = (0, 1, 8, 16, 20, 28, 32, 64, 200)
MESSAGES = 20_000
MAY_DO_HARM = (Register, ClientRequest, ViewHello)
"""By these anybody may, where there is no authority, take over a durable name, remove a service, and become a
distributor that others wait for: see docs/security.md."""
COUNTS_OF_ERRORS = ("handler_errors", "channel_handler_errors", "strong_handler_errors")


def kinds_of_the_product() -> list[Any]:
    """All of them, in the same order whatever was loaded before: a seed draws the same in any run."""
    for package in (overlay, pubsub):
        top = Path(package.__path__[0])
        for path in sorted(top.rglob("*.py")):
            if "\n@message(" in path.read_text(encoding="utf-8"):
                importlib.import_module(
                    ".".join(path.relative_to(top.parent).with_suffix("").parts)
                )
    kinds = [kind for kind in wire._BY_CLASS if kind.__module__.startswith(("overlay.", "pubsub."))]
    return sorted(kinds, key=lambda kind: (kind.__module__, kind.__qualname__))


class Forger:
    """Draws messages like those that it has seen."""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)
        self._seen: dict[type, list[Any]] = defaultdict(list)
        self._values: dict[type, list[Any]] = defaultdict(list)
        self.kinds = [kind for kind in kinds_of_the_product() if kind not in MAY_DO_HARM]
        self.contacts: list[Contact] = []

    def see(self, message: Any) -> None:
        if len(self._seen[type(message)]) < 100:
            self._seen[type(message)].append(message)
            self._keep(message)

    def _keep(self, value: Any) -> None:
        self._values[type(value)].append(value)
        if dataclasses.is_dataclass(value):
            for field in dataclasses.fields(value):
                self._keep(getattr(value, field.name))
        elif type(value) is tuple:
            for one in value:
                self._keep(one)

    def message(self, kind: Any) -> bytes | None:
        """The bytes of one; None where the fields that were drawn do not go together."""
        hints = typing.get_type_hints(kind)
        names = [field.name for field in dataclasses.fields(kind)]
        seen, altered = self._seen[kind], 1.2 / max(len(names), 1)
        try:
            if seen and self.random.random() < 0.8:
                old = self.random.choice(seen)
                changed = [name for name in names if self.random.random() < altered]
                fields = {name: getattr(old, name) for name in names}
                fields |= {name: self._draw(hints[name]) for name in changed}
            else:
                fields = {name: self._draw(hints[name]) for name in names}
            return wire.encode(kind(**fields))
        except (ValueError, wire.WireError):
            return None

    def _draw(self, hint: Any) -> Any:
        random, arguments = self.random, typing.get_args(hint)
        origin = typing.get_origin(hint)
        if origin in (types.UnionType, typing.Union):
            return None if random.random() < 0.5 else self._draw(arguments[0])
        if origin is tuple and arguments[1:] == (Ellipsis,):
            return tuple(self._draw(arguments[0]) for _ in range(random.choice((0, 1, 2, 5))))
        if origin is tuple:
            return tuple(map(self._draw, arguments))
        if origin is dict:
            return {self._draw(arguments[0]): self._draw(arguments[1])}
        if hint in (Contact, Address, PeerId):
            contact = random.choice(self.contacts)
            return {Contact: contact, Address: contact.address, PeerId: contact.id}[hint]
        if hint in self._values and random.random() < 0.5:
            return random.choice(self._values[hint])
        plain = {int: INTEGERS, float: FLOATS, str: TEXTS, bool: (True, False)}
        if hint in plain:
            return random.choice(plain[hint])
        if hint is bytes:
            return random.randbytes(random.choice(SIZES))
        return random.choice((None, 1, "x", b"y", {"a": 1}, [1, 2]))


@pytest.mark.sweep
@pytest.mark.parametrize(
    ("mode", "seed"), [("structured", 1), ("semi-structured", 2), ("hyparview", 3)]
)
def test_nothing_raises_and_all_goes_on(
    mode: Any, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forger, letters = Forger(seed), []
    receive, receive_letter = Runtime._receive, Exchange.receive

    def see(self: Runtime, sender: Contact, data: Any) -> None:
        forger.see(wire.decode(data))
        receive(self, sender, data)

    def see_letter(self: Exchange, sender: Contact, letter: Any) -> None:
        letters.append(letter)
        forger.see(wire.decode(letter.payload))
        receive_letter(self, sender, letter)

    monkeypatch.setattr(Runtime, "_receive", see)
    monkeypatch.setattr(Exchange, "receive", see_letter)
    had: dict[str, int] = defaultdict(int)

    async def attack(nodes: list[Node], sender: Contact) -> None:
        random = forger.random
        for number in range(MESSAGES):
            node = random.choice(nodes)
            data = forger.message(random.choice(forger.kinds))
            if data is not None and random.random() < 0.6:
                receive(node.attachment.runtime, sender, data)
            elif data is not None:
                dht: Any = node.attachment.directory
                letter = random.choice(letters)
                letter = letter._replace(payload=data, is_reply=random.random() < 0.3)
                receive_letter(dht._peers.exchange, sender, letter)
            if number % 50 == 0:
                await asyncio.sleep(0.05)

    async def main() -> None:
        async with AsyncExitStack() as stack:
            nodes, mallory = await _services(stack, mode, tmp_path, had)
            await asyncio.sleep(15)
            monkeypatch.undo()
            runtimes = [node.attachment.runtime for node in nodes]
            forger.contacts = [runtime.contact for runtime in runtimes]
            forger.contacts += [Contact(PeerId(bytes([n]) * 20), "127.9.9.9", n) for n in (1, 2)]
            await attack(nodes, mallory.attachment.contact)
            await asyncio.sleep(20)
            for runtime in runtimes:
                counters = runtime.metrics.as_dict()
                assert not any(counters.get(name) for name in COUNTS_OF_ERRORS)
                assert not counters["timers_failed"]
                assert not runtime._named_unsendable, "a number after which there is none"
            before = dict(had)
            await asyncio.sleep(10)
            went_on = {name: had[name] - before[name] for name in before}
            assert min(went_on.values()) >= 8, went_on

    Network(seed, latency=Latency.uniform(0.005, 0.03)).run(main())


async def _services(
    stack: AsyncExitStack, mode: str, path: Path, had: dict[str, int]
) -> tuple[list[Node], Node]:
    """Nodes that run everything, which counts what has come once a second; and one that runs nothing."""

    def at(host: int, **more: Any) -> dict[str, Any]:
        known = [f"{nth_host(0)}:4000"] if host else []
        return {"listen": f"{nth_host(host)}:4000", "bootstrap": known, "keys": [bytes(32)], **more}

    def go_on(work: Awaitable[None]) -> None:
        stack.callback(asyncio.ensure_future(work).cancel)

    async def count(name: str, events: Any) -> None:
        async for event in events:
            if name == "requests":
                await event.reply(event.data)
            had[name] += 1

    store = f"sqlite:///{path}/a.db"
    archive = await stack.enter_async_context(Archive(["/t"], store=store, **at(0, mode=mode)))
    served = [await stack.enter_async_context(Distributor(["news"], **at(n))) for n in (1, 2)]
    nodes = [archive.node]
    nodes += [await stack.enter_async_context(Node(**at(n, mode=mode))) for n in range(3, 6)]
    for name, options in (("live", {}), ("durable", {"durable": "a name"})):
        events = await stack.enter_async_context(nodes[1].subscribe("/t", **options))
        go_on(count(name, events))
    strong = [
        await stack.enter_async_context(node.collection(DAStrongSet, "/strong"))
        for node in nodes[1:3]
    ]
    go_on(_count_elements(strong[1], had))
    for node in nodes[1:3]:
        await stack.enter_async_context(FileSharing(node))
    go_on(count("requests", nodes[2].serve("/quotes")))
    reader = await stack.enter_async_context(Subscriber(**at(6)))
    go_on(count("news", await stack.enter_async_context(reader.subscribe("news", gaps="skip"))))
    writer = await stack.enter_async_context(Publisher(**at(7)))

    async def work() -> None:
        number = 0
        while True:
            number += 1
            await nodes[2].publish("/t", number, durable=True, wait="sent")
            await strong[0].add(number, wait="sent")
            await writer.publish("news", number)
            await nodes[3].request("/quotes", number, timeout=20.0)
            await asyncio.sleep(1.0)

    go_on(work())
    mallory = await stack.enter_async_context(Node(**at(8, mode=mode)))
    return [*nodes, *(one._node for one in served)], mallory


async def _count_elements(elements: DAStrongSet, had: dict[str, int]) -> None:
    while True:
        had["elements"] = len(elements)
        await asyncio.sleep(0.1)
