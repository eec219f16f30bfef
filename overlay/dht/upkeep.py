"""The one task that looks after a node's place in the DHT while nobody asks it for anything.

Each round checks a few contacts that have been silent, tries one of the dead again (the network may
only have been cut in two), refreshes buckets, publishes records again and saves the known contacts,
each at its own interval. A node that has lost everybody looks for the bootstrap nodes again.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import random
from collections.abc import Callable, Sequence

from overlay.contact import Address
from overlay.dht.config import DhtConfig
from overlay.dht.joining import explore
from overlay.dht.peer import Peer
from overlay.dht.server import DhtServer

AFTER_A_RETURN = 0.5
"""Seconds from the first lost contact that answers to the round in which the network is explored again."""

_log = logging.getLogger(__name__)


class Upkeep:
    """The upkeep of one node; it runs from `start` to `close`."""

    def __init__(self, server: DhtServer, config: DhtConfig, draw: random.Random) -> None:
        self._server = server
        self._config = config
        self._draw = draw
        self._loop = asyncio.get_running_loop()
        self._next_save = self._loop.time() + config.save_interval
        self._rejoin = False
        self._task: asyncio.Task[None] | None = None
        self._news = asyncio.Event()
        self.bootstrap: Sequence[Address] = ()
        self.on_rejoined: Callable[[], None] = lambda: None
        """Told when nodes that were lost are back and have been asked what they know."""

    def start(self) -> None:
        self._server.protocol.on_return = self._returned
        self._task = self._loop.create_task(self._run())

    async def close(self) -> None:
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
        self._save()

    def _returned(self, peer: Peer) -> None:
        """A dead contact answered: what it knows is news, for the network may have been cut in two.

        The others that were lost may be back as well, and are asked at once."""
        if not self._rejoin:
            self._rejoin = True
            self._server.protocol.probe_buried()
            self._news.set()

    async def _run(self) -> None:
        while True:
            pause = self._config.check_interval * self._draw.uniform(0.8, 1.2)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause):
                    await self._news.wait()
                    await asyncio.sleep(AFTER_A_RETURN)
            self._news.clear()
            try:
                await self._round()
            except Exception:
                # One round that went wrong must not end all upkeep.
                _log.exception("a round of the DHT's upkeep failed")

    async def _round(self) -> None:
        protocol = self._server.protocol
        for peer in protocol.silent_contacts(self._config.checks_a_round):
            protocol.check(peer)
        await self._look_for_the_lost()
        if self._rejoin:
            self._rejoin = False
            await explore(self._server, self._config, self._draw)
            self.on_rejoined()
        await self._server.refresh_table()
        if self._loop.time() >= self._next_save:
            self._next_save = self._loop.time() + self._config.save_interval
            self._save()

    async def _look_for_the_lost(self) -> None:
        protocol = self._server.protocol
        if protocol.buried:
            # Once, not several times: nearly all of these are dead, and the next round tries another one.
            await protocol.call_ping(self._draw.choice(list(protocol.buried)), tries=1)
        if len(protocol.router) == 0 and self.bootstrap:
            self._rejoin = bool(await self._server.bootstrap(self.bootstrap)) or self._rejoin

    def _save(self) -> None:
        if self._config.contacts_file is not None:
            self._server.save_state(self._config.contacts_file)
