"""A node for programs without an event loop: scripts, notebooks, and other threads of a program with one.

    from pubsub import connect

    with connect("127.0.0.1:4000") as network:
        network.publish("/soccer/italy", {"score": "1-0"})
        with network.subscribe("/soccer", last=True) as events:
            for event in events:
                print(event.topic, event.data)

`connect` runs a node on a thread of its own. In a program that has a node on its event loop,
`node.threadsafe` is the same face for the program's other threads. Every call waits until it is
done, and may be made from any number of threads at the same time. What is promised is what the node promises.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Iterator
from concurrent.futures import CancelledError
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Self, TypeVar, Unpack

from overlay.contact import Address, PeerId
from overlay.errors import ClosedError, UsageError
from overlay.futures import is_running_here
from overlay.loops import new_loop
from pubsub.config import NodeSettings
from pubsub.event import Event
from pubsub.node import Node
from pubsub.publications import AnyTopic
from pubsub.publishing import Receipt
from pubsub.subscription import Subscription
from pubsub.topic import Pattern

if TYPE_CHECKING:
    from pubsub.requests import Reply

T = TypeVar("T")

TAKEN_AT_ONCE = 1000
"""Events that are fetched from the node's thread in one go."""


class ThreadsafeNode:
    """The calls of a node that other threads than its own may make."""

    def __init__(self, node: Node, loop: asyncio.AbstractEventLoop) -> None:
        self._node = node
        self._loop = loop
        self._process = os.getpid()

    def publish(self, topic: AnyTopic, data: Any = None, **options: Any) -> Receipt:
        """`Node.publish`, with its options; the receipt says what is known when this returns."""
        return self._wait(self._node.publish(topic, data, **options))

    def publish_many(self, topic: AnyTopic, data: Iterable[Any], **options: Any) -> list[Receipt]:
        """`Node.publish_many`: much faster than one call for each."""
        return self._wait(self._node.publish_many(topic, data, **options))

    def request(self, name: str, data: Any = None, *, timeout: float = 5.0) -> Any:
        """`Node.request`: the reply of one of those who serve the name."""
        return self._wait(self._node.request(name, data, timeout=timeout))

    def request_all(self, name: str, data: Any = None, *, timeout: float = 5.0) -> list[Reply]:
        """`Node.request_all`: the replies of all who serve the name."""
        return self._wait(self._node.request_all(name, data, timeout=timeout))

    def subscribe(self, topic: AnyTopic | Pattern, **options: Any) -> ThreadsafeSubscription:
        """`Node.subscribe`, with its options, but for `durable`; it begins with `with`."""
        if "durable" in options:
            raise UsageError(
                "durable subscriptions need `async with`: use the node on its own loop"
            )
        subscription = self._call(lambda: self._node.subscribe(topic, **options))
        return ThreadsafeSubscription(subscription, self._wait)

    def status(self) -> dict[str, Any]:
        """`Node.status`."""
        return self._call(self._node.status)

    @property
    def id(self) -> PeerId:
        return self._node.id

    @property
    def address(self) -> Address:
        """Where others reach the node: they are given it as `bootstrap`."""
        return self._node.address

    def _call(self, work: Callable[[], T]) -> T:
        async def run() -> T:
            return work()

        return self._wait(run())

    def _wait(self, work: Coroutine[Any, Any, T]) -> T:
        """The result of a coroutine that runs on the node's loop."""
        try:
            if os.getpid() != self._process:
                raise ClosedError("the node runs in the process that this one was forked from")
            if is_running_here(self._loop):
                raise UsageError(
                    "this is the thread of the node's event loop, which cannot wait: "
                    "await the node's own methods"
                )
            future = asyncio.run_coroutine_threadsafe(work, self._loop)
        except BaseException as error:
            work.close()
            if isinstance(error, RuntimeError):  # the loop is closed
                raise ClosedError("the node was closed") from None
            raise
        try:
            return future.result()
        except CancelledError:  # the loop ended, and cancelled all that ran on it
            raise ClosedError("the node's event loop ended before this was done") from None
        finally:
            future.cancel()  # nothing to do unless this thread was interrupted


class ThreadsafeSubscription:
    """Events for a thread: iterate over it inside `with`, from one thread at a time."""

    def __init__(
        self, subscription: Subscription, wait: Callable[[Coroutine[Any, Any, Any]], Any]
    ) -> None:
        self._subscription = subscription
        self._wait = wait
        self._here: deque[Event] = deque()

    def __enter__(self) -> Self:
        """Join the community; what is published from here on comes."""
        self._wait(self._subscription.__aenter__())
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(ClosedError):  # it may have ended with its node
            self._wait(self._subscription.close())

    @property
    def dropped(self) -> int:
        """Events that were dropped because the queue was full."""
        return self._subscription.dropped

    def __iter__(self) -> Iterator[Event]:
        """The events as they come, until the subscription or the node is closed."""
        while (event := self.next()) is not None:
            yield event

    def next(self, timeout: float | None = None) -> Event | None:
        """The next event; None when none has come within `timeout` seconds, or none comes any more."""
        if not self._here:
            try:
                self._here.extend(self._wait(self._take(timeout)))
            except ClosedError:
                return None
        return self._here.popleft() if self._here else None

    async def _take(self, timeout: float | None) -> list[Event]:
        try:
            async with asyncio.timeout(timeout):
                first = await anext(self._subscription)
        except (TimeoutError, StopAsyncIteration):
            return []
        return [first, *self._subscription.take_waiting(TAKEN_AT_ONCE - 1)]


class Connection(ThreadsafeNode):
    """A node on a thread of its own, until it is closed; made by `connect`."""

    def __init__(self, node: Node) -> None:
        loop = new_loop()
        super().__init__(node, loop)
        self._closed = threading.Lock()
        thread = threading.Thread(target=_run, args=(loop,), name="camcast", daemon=True)
        thread.start()
        # A program that ends without a word leaves the network properly all the same.
        self._end = weakref.finalize(self, _end, node, loop, thread, self._process)
        try:
            self._wait(node.__aenter__())
        except BaseException:
            self._end()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Leave the network; subscriptions end. More than once is fine."""
        with self._closed:
            self._end()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    for task in asyncio.all_tasks(loop):
        task.cancel()
    loop.run_until_complete(asyncio.sleep(0))
    loop.run_until_complete(loop.shutdown_asyncgens())
    loop.close()


def _end(
    node: Node, loop: asyncio.AbstractEventLoop, thread: threading.Thread, process: int
) -> None:
    if os.getpid() != process:  # a forked process has the node, and not the thread that it runs on
        return

    async def close() -> None:
        await node.close()
        await asyncio.sleep(0)  # those who wait for something of the node are told first

    try:
        asyncio.run_coroutine_threadsafe(close(), loop).result()
    finally:
        loop.call_soon_threadsafe(loop.stop)
        thread.join()


def connect(*nodes: str, **settings: Unpack[NodeSettings]) -> Connection:
    """Join the network of these nodes, or begin one; `settings` are those of `Node`.

    `NetworkError` when none of the nodes answers. Close it, or use it in `with`."""
    if nodes:
        if "bootstrap" in settings:
            raise UsageError("the addresses of nodes are given twice: leave out bootstrap=...")
        settings["bootstrap"] = list(nodes)
    return Connection(Node(**settings))
