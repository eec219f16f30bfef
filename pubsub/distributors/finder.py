"""Where distributors are found: the directory in the DHT, or a list of addresses."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from overlay.contact import Address, Contact
from overlay.errors import ClosedError, UsageError
from overlay.overlay import Overlay
from overlay.runtime import Runtime
from overlay.topic_name import check_topic_name
from pubsub.introduction import Introduction, ItIsMe, WhoIsThere

FOUND_AT_ONCE = 16
"""Distributors of a group that a client learns of."""


def group_topic(group: str) -> str:
    """The topic under which the distributors of a group are announced."""
    if not group or "/" in group:
        raise UsageError(f"group={group!r} is no name of a group: one word without slashes")
    return check_topic_name(f"/distributors/{group}")


class Finder(Protocol):
    """The well-known place."""

    async def find(self) -> list[Contact]:
        """Some distributors of the group, perhaps with some that are gone; none where nobody answers."""
        ...


class DirectoryFinder:
    """Draws from all distributors that are announced under the group's topic."""

    def __init__(self, overlay: Overlay, group: str, count: int = FOUND_AT_ONCE) -> None:
        self._overlay = overlay
        self._topic = group_topic(group)
        self._count = count

    async def find(self) -> list[Contact]:
        try:
            return await self._overlay.service.sample(self._topic, self._count)
        except ClosedError:
            return []


class AddressFinder:
    """Asks who listens at given addresses."""

    def __init__(self, runtime: Runtime, addresses: Sequence[str | Address]) -> None:
        self._addresses = [Address.of(address) for address in addresses]
        self._introduction = introduce(runtime)

    async def find(self) -> list[Contact]:
        found = await asyncio.gather(*map(self._ask, self._addresses))
        return [contact for contact in found if contact is not None]

    async def _ask(self, address: Address) -> Contact | None:
        answer: asyncio.Future[Contact | None] = asyncio.get_running_loop().create_future()

        def answered(contact: Contact | None) -> None:
            if not answer.done():
                answer.set_result(contact)

        self._introduction.resolve(address, answered)
        return await answer


def introduce(runtime: Runtime) -> Introduction:
    """Have a node say who it is, and able to ask others."""
    introduction = Introduction(runtime.context("datagram"))
    runtime.on(WhoIsThere, introduction.receive_question)
    runtime.on(ItIsMe, introduction.receive_answer)
    return introduction
