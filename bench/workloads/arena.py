"""One emulated network for the measurement of attacks: honest nodes, attackers, and what reached whom."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from typing import Any

from overlay.contact import Contact
from overlay.identity import Identity
from overlay.virtual import Latency, Network, nth_host
from pubsub.node import Node
from pubsub.rights import Action, Grant, grant_first

TOPIC = "/t"
KEY = bytes(range(32))
BEFORE = 5
"""Events before the attack begins."""
DURING = 15
"""Events from then on; twice as many where newcomers are judged, who have to join first."""
SETTLE_SECONDS = 5.0
LATE_SECONDS = 10.0
"""An event that has not come this long after the last one was published is lost."""
AUTHORITY = Identity(b"a" * 32)


@dataclass(frozen=True)
class Case:
    """One attack against one defence."""

    attack: str
    defence: str
    settings: dict[str, Any] = field(default_factory=dict)
    """Of all nodes, besides the usual ones."""
    has_rights: bool = False
    """An authority gives honest nodes the right to the topic, and attackers none."""
    with_insiders: bool = False
    """Attackers have the right as well."""
    turn_off: Callable[[Node], None] | None = None
    """Takes a defence from an honest member."""


@dataclass(frozen=True)
class Attack:
    """What attackers do, and when."""

    begin: Callable[[Arena], Awaitable[None]]
    is_by_members: bool = False
    """Attackers have been good members, and so have a place in the tree by which events go."""
    is_cold_boot: bool = False
    """Attackers start together with the others."""
    is_on_newcomers: bool = False
    """The loss is that of newcomers, who come after the attack has begun."""


class Arena:
    """One network: honest nodes, attackers, and what reached whom."""

    def __init__(self, attack: Attack, case: Case, nodes: int, attackers: int, seed: int) -> None:
        self.attack = attack
        self.case = case
        self.honest_count = nodes
        self.attackers = attackers
        self.network = Network(seed, latency=Latency.uniform(0.005, 0.050))
        self.random = random.Random(seed)
        self.stack = AsyncExitStack()
        self.honest: list[Node] = []
        self.hostile: list[Node] = []
        self.liars: list[Contact] = []
        """Attackers that name nobody but each other."""
        self.had: list[dict[int, float]] = []
        """The events that each honest node has had, and when."""
        self.judged = self.had
        """Those of the nodes whose loss counts."""
        self.events = BEFORE + (2 if attack.is_on_newcomers else 1) * DURING
        self.published = 0
        self.published_at: dict[int, float] = {}
        self.judged_from = BEFORE
        """The first event that counts."""
        self.figures: dict[str, float] = {}
        self._hosts = 0

    def settings(self, identity: Identity, is_honest: bool) -> dict[str, Any]:
        settings: dict[str, Any] = {"keys": [KEY], **self.case.settings}
        if self.case.has_rights:
            settings["authority"] = [AUTHORITY.public_key]
            if is_honest or self.case.with_insiders:
                both = Action.PUBLISH | Action.SUBSCRIBE
                right = grant_first(AUTHORITY, Grant(identity.public_key, both, TOPIC))
                settings["rights"] = [right.packed]
        return settings

    async def node(
        self, *, is_honest: bool = True, port: int = 4000, identity: Identity | None = None
    ) -> Node:
        """One more node, on a host of its own unless a port is given."""
        host = nth_host(self._hosts if port == 4000 else 250)
        self._hosts += port == 4000
        identity = identity or Identity(self.random.randbytes(32))
        known = [f"{nth_host(0)}:4000"] if self.honest else []
        node = Node(
            listen=f"{host}:{port}",
            bootstrap=known,
            identity=identity,
            **self.settings(identity, is_honest),
        )
        await self.stack.enter_async_context(node)
        (self.honest if is_honest else self.hostile).append(node)
        return node

    async def subscriber(self, had: list[dict[int, float]]) -> Node:
        node = await self.node()
        if self.attack.is_cold_boot:
            self.turn_off(node)
        await self.listen(node, had)
        return node

    async def listen(self, node: Node, had: list[dict[int, float]]) -> None:
        events = await self.stack.enter_async_context(node.subscribe(TOPIC))
        mine: dict[int, float] = {}
        had.append(mine)

        async def take() -> None:
            async for event in events:
                mine[event.data] = self.network.now

        task = asyncio.ensure_future(take())
        self.stack.callback(task.cancel)

    def turn_off(self, node: Node) -> None:
        """Take the defence from a node that the case takes."""
        if self.case.turn_off is not None:
            self.case.turn_off(node)

    async def member(self, *, port: int = 4000) -> Node:
        """A hostile node in the community, if it is let in."""
        node = await self.node(is_honest=False, port=port)
        gate = node.attachment.gate
        if gate is not None:
            gate.own.check = lambda action, topic: None  # type: ignore[method-assign]
        await self.stack.enter_async_context(node.subscribe(TOPIC))
        return node

    async def members(self) -> list[Node]:
        return list(await asyncio.gather(*(self.member() for _ in range(self.attackers))))

    def run(self) -> None:
        self.network.run(self._live(), limit=3600)

    async def _live(self) -> None:
        attack = self.attack
        async with self.stack:
            await self.node()
            if attack.is_cold_boot:
                self.turn_off(self.honest[0])
                starting = asyncio.ensure_future(attack.begin(self))
                await self._start(at_once=True)
                await starting
            else:
                await self._start(at_once=False)
                if attack.is_by_members:
                    await self.members()
                await asyncio.sleep(SETTLE_SECONDS)
            attacking: asyncio.Future[None] | None = None
            for number in range(self.events):
                if number == BEFORE:
                    for node in self.honest:
                        self.turn_off(node)
                if number == BEFORE and not attack.is_cold_boot:
                    attacking = asyncio.ensure_future(attack.begin(self))
                self.published_at[number] = self.network.now
                await self.honest[0].publish(TOPIC, number)
                self.published = number + 1
                await asyncio.sleep(1.0)
            await asyncio.sleep(LATE_SECONDS)
            if attacking is not None:
                attacking.cancel()
                if attacking.done() and not attacking.cancelled():
                    attacking.result()
            self._judge()

    async def _start(self, *, at_once: bool) -> None:
        count = self.honest_count - 1
        if at_once:
            await asyncio.gather(*(self.subscriber(self.had) for _ in range(count)))
        else:
            for _ in range(count):
                await self.subscriber(self.had)

    def _judge(self) -> None:
        numbers = range(self.judged_from, self.events)
        nodes = max(len(self.judged), 1)
        missing = {n: sum(n not in had for had in self.judged) for n in numbers}
        self.figures["lost"] = 100 * sum(missing.values()) / nodes / len(numbers)
        lossy = [number for number, count in missing.items() if count]
        if not lossy:
            self.figures["recovered"] = 0.0
        elif lossy[-1] < numbers[-1]:
            self.figures["recovered"] = lossy[-1] + 1.0 - self.judged_from
        late = [had[n] - self.published_at[n] for had in self.judged for n in numbers if n in had]
        if late:
            self.figures["delay"] = 1000 * sum(late) / len(late)
