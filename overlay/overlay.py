"""The front door of the overlay: the DHT and the topic directory on one socket.

    async with Overlay(listen="127.0.0.1:0", bootstrap=["127.0.0.1:4000"]) as overlay:
        await overlay.announce("/soccer/italy")
        peers = await overlay.sample("/soccer/italy", count=12)

The first node of a network has no bootstrap addresses. What peers do or fail to do raises nothing, except
that nobody answers when the node joins.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Self

from overlay.contact import ID_BYTES, Address, Contact, PeerId
from overlay.dht import Dht, DhtConfig, PutOutcome, StoredValue
from overlay.directory import (
    DirectoryConfig,
    DirectoryService,
    ShardReplication,
    TopicSize,
    serve_directory,
)
from overlay.errors import ClosedError, UsageError
from overlay.futures import Finish, Futures
from overlay.identity import Identity
from overlay.metrics import Metrics
from overlay.topic_name import check_topic_name
from overlay.transport.config import EndpointConfig
from overlay.transport.endpoint import Endpoint

GOODBYE_SECONDS = 2.0
"""How long closing waits for its withdrawals to be answered."""


class CountError(UsageError):
    """A number of members was asked for that nobody can give."""


class NotOpenError(UsageError):
    """The overlay was used before it was entered."""


class OverlayClosedError(ClosedError):
    """The overlay was used after it was closed."""


class Overlay:
    """One node's place among its peers. Enter it to join, leave it to withdraw and close."""

    def __init__(
        self,
        listen: str | Address = "127.0.0.1:0",
        bootstrap: Sequence[str | Address] = (),
        key: bytes | Sequence[bytes] | None = None,
        identity: Identity | None = None,
        serve: bool | None = None,
        *,
        contacts_file: str | Path | None = None,
        insecure: bool = False,
        advertise: str | Address | None = None,
        dht: DhtConfig | None = None,
        directory: DirectoryConfig | None = None,
    ) -> None:
        """`key`: the network key, or a ring of them; `identity`: a new one unless given.

        `serve=False` makes a light member, which uses the DHT without being part of it; None leaves that to
        `dht`. `contacts_file` keeps known contacts for the next start. `insecure` allows an address that
        others can reach without a key, `advertise` says what others call this node where it is not `listen`.
        """
        keys = () if key is None else (key,) if isinstance(key, bytes) else tuple(key)
        self._listening: EndpointConfig | None = EndpointConfig(
            listen, keys=keys, insecure=insecure, advertise=advertise
        )
        self._identity = identity
        self._endpoint: Endpoint | None = None
        self._set_up(bootstrap, serve, contacts_file, dht, directory)

    @classmethod
    def on(
        cls,
        endpoint: Endpoint,
        bootstrap: Sequence[str | Address] = (),
        serve: bool | None = None,
        *,
        contacts_file: str | Path | None = None,
        dht: DhtConfig | None = None,
        directory: DirectoryConfig | None = None,
    ) -> Overlay:
        """An overlay on an endpoint that serves others too, such as a runtime's, and is theirs to close."""
        self = cls.__new__(cls)
        self._listening = None
        self._identity = endpoint.identity
        self._endpoint = endpoint
        self._set_up(bootstrap, serve, contacts_file, dht, directory)
        return self

    def _set_up(
        self,
        bootstrap: Sequence[str | Address],
        serve: bool | None,
        contacts_file: str | Path | None,
        dht: DhtConfig | None,
        directory: DirectoryConfig | None,
    ) -> None:
        if isinstance(bootstrap, str):
            raise UsageError(f"bootstrap={bootstrap!r} is one address: write it in a list")
        self._bootstrap = [Address.of(address) for address in bootstrap]
        self._dht_config = dht or DhtConfig()
        if serve is not None:
            self._dht_config = replace(self._dht_config, serve=serve)
        if contacts_file is not None:
            self._dht_config = replace(self._dht_config, contacts_file=Path(contacts_file))
        self._directory_config = directory or DirectoryConfig()
        self._dht: Dht | None = None
        self._service: DirectoryService | None = None
        self._replication: ShardReplication | None = None
        self._futures = Futures("this overlay is closed: make a new one")
        self._closed = False
        self._finish = Finish(self._end)

    async def __aenter__(self) -> Self:
        """Listen and join. Joining retries with back-off, and a warning in the log each time.

        `NoBootstrapAnswer` when none of the bootstrap nodes has answered at last.
        """
        self._check_not_closed()
        if self._dht is not None:
            raise UsageError("this overlay is open already")
        try:
            if self._listening is not None:
                self._endpoint = await Endpoint.open(
                    self._listening, self._identity or Identity.create(), Metrics()
                )
            assert self._endpoint is not None
            self._dht = Dht(self._endpoint, self._dht_config)
            self._service = self._open_directory(self._dht, self._endpoint.metrics)
            await self._dht.join(self._bootstrap)
        except BaseException:
            await self.close()
            raise
        return self

    def _open_directory(self, dht: Dht, metrics: Metrics) -> DirectoryService:
        service = DirectoryService(dht.node, self._directory_config, metrics)
        dht.node.upkeep.on_rejoined = service.network_changed
        if self._dht_config.serve:
            self._replication = serve_directory(
                dht.node, self._directory_config, metrics, dht.max_message
            )
        return service

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Withdraw from every topic and stop; more than once is fine. What ran gets `ClosedError`.

        A caller that is cancelled meanwhile stops waiting; the overlay closes all the same."""
        await self._finish()

    async def _end(self) -> None:
        self._closed = True
        goodbye = Futures("")
        self._futures.close()
        try:
            if self._service is not None:
                # The directory ends by itself in that time; closing must end though its timers do not ring.
                with contextlib.suppress(TimeoutError):
                    async with asyncio.timeout(GOODBYE_SECONDS):
                        await goodbye.told(partial(self._service.close, GOODBYE_SECONDS))
        finally:
            if self._replication is not None:
                self._replication.close()
            if self._dht is not None:
                self._dht.close()
            if self._endpoint is not None and self._listening is not None:
                await self._endpoint.close()

    # The topic directory.

    async def announce(self, topic: str) -> None:
        """Be a member of `topic`, kept alive until it is withdrawn or the overlay is closed."""
        await self._futures.told(partial(self._topics(topic).announce, topic))

    async def withdraw(self, topic: str) -> None:
        """Be no member of `topic` any more; nothing if it was not announced."""
        await self._futures.told(partial(self._topics(topic).withdraw, topic))

    async def contacts(self, topic: str, count: int = 1) -> list[Contact]:
        """Some members other than this node, quickly (the paper's getContact)."""
        contacts = self._topics(topic, count).contacts
        return list(await self._futures.answer(partial(contacts, topic, count)))

    async def sample(self, topic: str, count: int) -> list[Contact]:
        """Distinct members other than this node, uniform over all of them (searchPeers).

        All members if they are fewer than `count`.
        """
        sample = self._topics(topic, count).sample
        return list(await self._futures.answer(partial(sample, topic, count)))

    async def size(self, topic: str) -> TopicSize:
        """The number of members, this node included if it is one, and the estimate's relative error."""
        return await self._futures.answer(partial(self._topics(topic).count, topic))

    # Plain values.

    async def put(
        self,
        key: str | bytes,
        value: bytes,
        *,
        version: int | None = None,
        time_to_live: float = 3600.0,
    ) -> PutOutcome:
        """Store a value for `time_to_live` seconds; an older version never replaces a newer one.

        The version is the wall clock's milliseconds unless given. A `PeerId` is taken as the key that
        it is, any other key is hashed.
        """
        if version is None:
            version = int(time.time() * 1000)
        return await self._open_dht().put(_digest(key), value, version, time_to_live)

    async def get(self, key: str | bytes) -> StoredValue | None:
        """The newest version of a value, with the seconds it has left; None if there is none."""
        return await self._open_dht().get(_digest(key))

    # What can be seen of it.

    @property
    def contact(self) -> Contact:
        """This node, as others know it."""
        return self._open_endpoint().contact

    @property
    def neighbours(self) -> list[Contact]:
        """The DHT nodes closest to this one, as far as it knows."""
        return list(self._open_dht().node.neighbours(self._dht_config.k))

    @property
    def metrics(self) -> Metrics:
        return self._open_endpoint().metrics

    @property
    def topics(self) -> list[str]:
        """The topics that this node is announced under."""
        self._open_dht()
        assert self._service is not None
        return self._service.topics

    @property
    def service(self) -> DirectoryService:
        """The directory that answers through callbacks, for the protocols of this project."""
        self._open_dht()
        assert self._service is not None
        return self._service

    def _topics(self, topic: str, count: int = 1) -> DirectoryService:
        check_topic_name(topic)
        if not isinstance(count, int) or count < 1:
            raise CountError(f"count={count!r}: ask for one member or more")
        return self.service

    def _open_dht(self) -> Dht:
        self._check_not_closed()
        if self._dht is None:
            raise NotOpenError("this overlay has not been entered: use it in `async with`")
        return self._dht

    def _open_endpoint(self) -> Endpoint:
        if self._endpoint is None:
            raise NotOpenError("this overlay has not been entered: use it in `async with`")
        return self._endpoint

    def _check_not_closed(self) -> None:
        if self._closed:
            raise OverlayClosedError("this overlay is closed: make a new one")


def _digest(key: str | bytes) -> PeerId:
    if isinstance(key, PeerId):
        return key
    data = key.encode() if isinstance(key, str) else key
    return PeerId(blake2b(data, digest_size=ID_BYTES, person=b"camcast value").digest())
