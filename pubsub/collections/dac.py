"""The interface of a Distributed Asynchronous Collection (DACE, section 3; figure 3 in Python's manner).

A collection stands for a topic. To add an element is to publish it; to ask for elements is to subscribe
to those that will be added:

    await collection.add(data)             publish; add_all(several)
    collection.contains(...)               each element that is added from now on
    collection.contains_all(...)           those of the subtopics too
    collection.remove(...)                 elements that nobody else who removes gets: one-of-n
    collection.clear(interest)             unsubscribe
    collection.get(), `data in collection`, iteration, `len()`, truth     pull from the local content
    collection.remove(data)                take an element out of the local content
    collection.clear()                     forget the local content

Each node has its own local content (see `pubsub.collections.content`): what came to it while the
collection was open, and not what the others have. `pubsub.collections.classes` has the classes, which
differ in what they promise.
"""

from __future__ import annotations

import abc
from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Self, get_args, overload

from overlay.errors import ClosedError, UsageError
from pubsub.collections.content import Element, LocalContent
from pubsub.collections.interest import Interest, Notify, Predicate
from pubsub.data import pack_data, unpack_data
from pubsub.filters import Filter
from pubsub.publishing import Receipt
from pubsub.reliable.receipts import MessageReceipt, Wait, budget, check_wait
from pubsub.reliable.runs import Gaps
from pubsub.reliable.tasks import Tasks
from pubsub.topic import Topic
from pubsub.topics import Semantics, Unfinished

if TYPE_CHECKING:
    from pubsub.collections.node_collections import NodeCollections

Order = Literal["none", "fifo", "total"]

AddReceipt = Receipt | MessageReceipt
"""Of an element: a strong collection's `MessageReceipt`, or what `Node.publish` gives for a weak one."""

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
    _most_wait: ClassVar[Wait] = "safe"
    """How far `add` can wait for an element."""

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
        """How many elements may wait in each interest. Of more, a weak collection drops the oldest, and a
        strong one acknowledges none."""
        self.interests: list[Interest] = []
        self._collections = collections
        self._content = LocalContent(keep, self.is_unique)
        self.tasks = Tasks(
            f"collection {topic.name}", collections.node.metrics, lambda failure: self._wake()
        )
        """What runs for this collection; its calls, and iterations, raise when one of them has died."""
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
            self._is_closed = True
            for interest in self.interests:
                interest.end()
            raise
        self._collections.open[self] = None
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """End all interests and leave the topic, unless something else on this node needs it."""
        if self._is_open:
            self._is_open = False
            self._is_closed = True
            self._collections.open.pop(self, None)
            for interest in list(self.interests):  # one that is being closed leaves meanwhile
                interest.end()
                await interest.stopped()
            await self._close()
            self.interests.clear()

    # Publishing.

    async def add(
        self,
        data: Any,
        *,
        wait: Wait = "sent",
        deadline: float | None = None,
        semantics: Semantics = "reliable",
    ) -> AddReceipt:
        """Publish an element: None, bool, int, float, str, bytes, list or dict, to 1 MiB as msgpack.

        `wait`: return when the element is "sent", when another node has it ("acked"), or, with a strong
        collection, when every participant that wants it has it ("safe"). `NotInTime` when that, and whatever
        else `add` has to wait for, takes more than `deadline` seconds; the element may be added all the same.
        `semantics`: "stubborn" and "best-effort" elements of a strong collection cost less, are promised less
        (see `pubsub.topics.aside`) and have no receipt that tells more than "sent"."""
        self._check_open()
        self._check_add(wait, deadline, semantics)
        packed = pack_data(data)
        async with budget(deadline, f"adding to {self.topic}"):
            receipt = await self._publish(unpack_data(packed), packed, semantics)
            await receipt.wait(wait)
        return receipt

    async def add_all(
        self,
        data: Iterable[Any],
        *,
        wait: Wait = "sent",
        deadline: float | None = None,
        semantics: Semantics = "reliable",
    ) -> list[AddReceipt]:
        """Add several elements, in their order; the receipts of all. `wait` and `deadline` are for all."""
        self._check_add(wait, deadline, semantics)
        receipts: list[AddReceipt] = []
        async with budget(deadline, f"adding to {self.topic}"):
            for one in data:
                receipts.append(await self.add(one, semantics=semantics))
            for receipt in receipts:
                await receipt.wait(wait)
        return receipts

    def _check_add(self, wait: str, deadline: float | None, semantics: str) -> None:
        if semantics not in get_args(Semantics):
            words = ", ".join(f'"{word}"' for word in get_args(Semantics))
            raise CollectionError(f"semantics is one of {words}, not {semantics!r}")
        if semantics != "reliable" and not (self.is_strong and self.order == "none"):
            raise CollectionError(
                f"{type(self).__name__} has one semantics: choose others with DAStrongSet or DAStrongBag"
            )
        check_wait(wait, deadline, most=self._most_wait if semantics == "reliable" else "sent")

    # Subscribing.

    def contains(
        self,
        notify: Notify | None = None,
        *,
        filter: str | Filter | Predicate | None = None,
        gaps: Gaps = "skip",
    ) -> Interest:
        """An interest in every element that is added from now on.

        One that begins before the collection is entered misses nothing, not even what a log gives again.
        `gaps`: what happens where elements of a strong collection will never come: they are left out ("skip",
        and `on_gap` of the collection tells), or a `Gap` comes in their place ("give"), or the iteration
        raises `GapError`, and goes on after it ("raise").
        """
        return Interest(self, notify, filter, gaps=gaps)

    def contains_all(
        self,
        notify: Notify | None = None,
        *,
        filter: str | Filter | Predicate | None = None,
        gaps: Gaps = "skip",
    ) -> Interest:
        """The same, in the elements of all subtopics, present and future, too."""
        return Interest(self, notify, filter, below=True, gaps=gaps)

    @overload
    def remove(
        self, notify: Notify | None = None, *, filter: str | Filter | None = None
    ) -> Interest: ...

    @overload
    def remove(
        self, notify: Element | str | bytes | float | list[Any] | dict[Any, Any]
    ) -> bool: ...

    def remove(self, notify: Any = None, *, filter: str | Filter | None = None) -> Interest | bool:
        """An interest in elements that nobody else who removes gets; strong collections only.

        With an element, or the data of one, in place of a callback: take it out of this node's local content,
        and say whether it was there."""
        if notify is not None and not callable(notify):
            return self._content.remove(notify.data if isinstance(notify, Element) else notify)
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

    @property
    def is_empty(self) -> bool:
        """Whether the local content holds nothing; then the collection is false, as others of Python are."""
        return not len(self)

    # What comes from the topic.

    def offer(self, element: Element, unfinished: Unfinished | None = None) -> None:
        """An element has come, in the order that this collection promises; `unfinished` waits for each
        interest that gets it."""
        if not self._is_open or (self.filter is not None and not self.filter.matches(element.data)):
            return
        if not self._content.is_new(element.topic, element.data):
            return
        if element.topic == self.topic:
            self._content.add(element.data)
        for interest in self.interests:
            if not interest.takes and interest.matches(element):
                interest.offer(element, unfinished.one_more() if unfinished else None)

    # What the classes do differently.

    @abc.abstractmethod
    async def _open(self) -> None: ...

    @abc.abstractmethod
    async def _close(self) -> None: ...

    @abc.abstractmethod
    async def _publish(self, data: Any, packed: bytes, semantics: Semantics) -> AddReceipt: ...

    async def _begin_interest(self, interest: Interest) -> None:
        if self._is_closed:
            self._check_open()
        self.interests.append(interest)

    async def _end_interest(self, interest: Interest) -> None:
        self._give_up_interest(interest)

    def _give_up_interest(self, interest: Interest) -> None:
        """One that has not begun after all."""
        if interest in self.interests:
            self.interests.remove(interest)

    def _wake(self) -> None:
        for interest in self.interests:
            interest.wake()

    def _check_open(self) -> None:
        if not self._is_open:
            raise ClosedError(f"the collection {self.topic} is not open: use it in `async with`")
        self.tasks.check()

    @property
    def is_closed(self) -> bool:
        return self._is_closed

    def _count_drop(self, reason: str) -> None:
        self._collections.drops.add(reason)

    def _count_error(self, handler: str) -> None:
        self._collections.errors.add(handler)
