"""The interface of a Distributed Asynchronous Collection (DACE, section 3; figure 3 in Python's manner).

A collection stands for a topic. To add an element is to publish it; to ask for elements is to subscribe
to those that will be added:

    await collection.add(data)             publish
    collection.contains(...)               each element that is added from now on
    collection.contains_all(...)           those of the subtopics too
    collection.remove(...)                 elements that nobody else who removes gets: one-of-n
    collection.clear(interest)             unsubscribe
    collection.get(), `data in collection`, iteration, `len()`     pull from the local content
    collection.clear()                     forget the local content

Each node has its own local content (see `pubsub.collections.content`): what came to it while the
collection was open, and not what the others have. `pubsub.collections.classes` has the classes, which
differ in what they promise.
"""

from __future__ import annotations

import abc
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self

from overlay.errors import ClosedError, UsageError
from pubsub.collections.content import Content
from pubsub.collections.element import Element
from pubsub.collections.interest import Interest, Notify, Predicate
from pubsub.event import pack_data, unpack_data
from pubsub.filters import Filter
from pubsub.reliable.tasks import Tasks
from pubsub.topic import Topic

if TYPE_CHECKING:
    from pubsub.collections.node_collections import NodeCollections

Order = Literal["none", "fifo", "total"]

DEFAULT_KEEP = 1000
DEFAULT_QUEUE = 1000


class CollectionError(UsageError):
    """The collection cannot be made or used like this."""


class DAC(abc.ABC):
    """A collection on one node; made by `Node.collection`, open inside `async with`."""

    is_strong: ClassVar[bool]
    """Every element reaches every subscriber in the end; otherwise each does with some probability."""
    is_unique: ClassVar[bool]
    """A set: an element that is equal to one that came before is not delivered again."""
    order: ClassVar[Order]

    def __init__(
        self,
        collections: NodeCollections,
        topic: Topic,
        *,
        filter: str | Filter | None = None,
        keep: int = DEFAULT_KEEP,
        queue: int = DEFAULT_QUEUE,
    ) -> None:
        for name, value, least in (("keep", keep, 0), ("queue", queue, 1)):
            if not isinstance(value, int) or value < least:
                raise CollectionError(
                    f"{name} is a number of elements, {least} or more, not {value!r}"
                )
        if filter is not None and not isinstance(filter, str | Filter):
            raise CollectionError(
                "a collection's filter is an expression: give a Python function to contains()"
            )
        self._topic = topic
        self.filter = Filter.parse(filter) if isinstance(filter, str) else filter
        """Which elements this node wants at all; None for all."""
        self.keep = keep
        """How many elements the local content holds; without any, publishers are asked for no more than
        the interests want."""
        self.queue = queue
        """How many elements may wait in each interest."""
        self.interests: list[Interest] = []
        self._collections = collections
        self._content = Content(keep, self.is_unique)
        self.tasks = Tasks(f"collection {topic.name}", collections.node.metrics)
        """What runs for this collection; its calls raise when one of them has died."""
        self._next_remover = 0
        self._is_open = False
        self._is_closed = False

    @property
    def topic(self) -> str:
        return self._topic.name

    # Opening and closing.

    async def __aenter__(self) -> Self:
        """Join the topic. From here on, elements come."""
        if self._is_open or self._is_closed:
            raise CollectionError("a collection is entered once; make another one")
        self._is_open = True
        try:
            await self._open()
        except BaseException:
            self._is_open = False
            raise
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """End all interests and leave the topic, unless something else on this node needs it."""
        if self._is_open:
            self._is_open = False
            self._is_closed = True
            for interest in self.interests:
                interest.end()
                await interest.stopped()
            await self._close()
            self.interests.clear()

    # Publishing.

    async def add(self, data: Any) -> None:
        """Publish an element: None, bool, int, float, str, bytes, list or dict, to 1 MiB as msgpack."""
        self._check_open()
        packed = pack_data(data)
        await self._publish(unpack_data(packed), packed)

    # Subscribing.

    def contains(
        self, notify: Notify | None = None, *, filter: str | Filter | Predicate | None = None
    ) -> Interest:
        """An interest in every element that is added from now on.

        One that begins before the collection is entered misses nothing, not even what a log gives again.
        """
        return Interest(self, notify, filter)

    def contains_all(
        self, notify: Notify | None = None, *, filter: str | Filter | Predicate | None = None
    ) -> Interest:
        """The same, in the elements of all subtopics, present and future, too."""
        return Interest(self, notify, filter, below=True)

    def remove(
        self, notify: Notify | None = None, *, filter: str | Filter | None = None
    ) -> Interest:
        """An interest in elements that nobody else who removes gets; strong collections only."""
        if not self.is_strong:
            raise CollectionError(
                f"{type(self).__name__} cannot tell who gets an element: use a strong collection"
            )
        return Interest(self, notify, filter, takes=True)

    async def clear(self, interest: Interest | None = None) -> None:
        """Unsubscribe an interest; without one, forget the local content."""
        if interest is None:
            self._content.clear()
        else:
            await interest.close()

    # Pulling.

    def get(self, default: Any = None) -> Any:
        """Take out of the local content the element that has been there longest."""
        return self._content.get(default)

    def __contains__(self, data: Any) -> bool:
        return data in self._content

    def __iter__(self) -> Iterator[Any]:
        """The elements of the local content as it is now, in the order in which they were delivered."""
        return iter(self._content)

    def __len__(self) -> int:
        return len(self._content)

    def __bool__(self) -> bool:
        """A collection is something, even when its content is empty."""
        return True

    # What comes from the topic.

    def offer(self, element: Element) -> None:
        """An element has come, in the order that this collection promises."""
        if not self._is_open or (self.filter is not None and not self.filter.matches(element.data)):
            return
        if not self._content.is_new(element.topic, element.data):
            return
        if element.topic == self.topic:
            self._content.add(element.data)
        for interest in self.interests:
            if not interest.takes and interest.matches(element):
                interest.offer(element)

    # What the classes do differently.

    @abc.abstractmethod
    async def _open(self) -> None: ...

    @abc.abstractmethod
    async def _close(self) -> None: ...

    @abc.abstractmethod
    async def _publish(self, data: Any, packed: bytes) -> None: ...

    async def _begin_interest(self, interest: Interest) -> None:
        if self._is_closed:
            self._check_open()
        self.interests.append(interest)

    async def _end_interest(self, interest: Interest) -> None:
        if interest in self.interests:
            self.interests.remove(interest)

    def _check_open(self) -> None:
        if not self._is_open:
            raise ClosedError(f"the collection {self.topic} is not open: use it in `async with`")
        self.tasks.check()

    def _count_drop(self, reason: str) -> None:
        self._collections.drops.add(reason)

    def _count_error(self, handler: str) -> None:
        self._collections.errors.add(handler)
