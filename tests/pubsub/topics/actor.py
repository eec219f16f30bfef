"""One participant on the stage, in one of its starts."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from overlay.contact import Contact, PeerId
from overlay.context import Timer
from overlay.virtual.stage import StageContext
from pubsub.reliable.runs import Gap
from pubsub.topics.aside import AsideMessages
from pubsub.topics.broadcast import TopicBroadcast
from pubsub.topics.context import Outcome
from pubsub.topics.messages import Absent, Aside, Entry, Item
from pubsub.topics.views import StableView, TopicView

if TYPE_CHECKING:
    from tests.pubsub.topics.troupe import Troupe

TOPIC = "/topic"
MessageId = tuple[PeerId, int, int]


class Actor:
    """One participant in one of its starts; it is the context and the application of its core."""

    def __init__(
        self, troupe: Troupe, number: int, start: int, run: int, in_topic: bool = True
    ) -> None:
        self.troupe = troupe
        self.number = number
        self.start = start
        self.run = run
        """In which run of its node it is."""
        self.in_topic = in_topic
        self.runs: dict[int, int] = {}
        """In which runs of other nodes its channels to them are."""
        self.contact = troupe.contacts[number]
        self._stage: StageContext = troupe.stage.context(self.contact, f"start {start}")
        self.random = self._stage.random
        self.alive = True
        self.has_left = False
        self.watched: dict[PeerId, Contact] = {}
        self.suspected: dict[PeerId, None] = {}
        self.delivered: list[Item] = []
        self.is_slow = False
        """Whether it leaves messages unfinished, until `finish`."""
        self.unfinished: list[Item] = []
        self.aside: AsideMessages | None = None
        self.core: TopicBroadcast

    # The context.

    def now(self) -> float:
        return self.troupe.stage.now

    def call_later(self, delay: float, action: Callable[[], None]) -> Timer:
        return self._stage.call_later(delay, action)

    def send(self, to: Contact, message: object) -> None:
        self.troupe.send(self, to, message, None)

    def try_send(self, to: Contact, message: object, outcome: Outcome) -> bool:
        return self.troupe.send(self, to, message, outcome)

    def send_datagram(self, to: Contact, message: object) -> None:
        self.troupe.send(self, to, message, None, waits=False)

    def watch(self, contact: Contact) -> None:
        self.watched[contact.id] = contact
        self.troupe.look_soon(self, contact.id)

    def unwatch(self, contact: Contact) -> None:
        self.watched.pop(contact.id, None)
        self.suspected.pop(contact.id, None)

    def receive(self, sender: Contact, message: object) -> None:
        if not self.in_topic:
            if self.troupe.config.absent_answer and not isinstance(message, Absent):
                self.send_datagram(sender, Absent(TOPIC))
        elif not isinstance(message, Aside):
            self.core.receive(sender, message)
        elif self.aside is not None:
            self.aside.receive(sender, message)

    # The application.

    def joined(self) -> None:
        entry = self.core.membership.participants[self.core.membership.me]
        self._note("joined", (entry.boot, self.core.state.acknowledged_here()))

    def deliver(self, item: Item, complete: int = 0) -> None:
        self.delivered.append(item)
        self._note("delivered", identity(item))
        if self.is_slow:
            self.unfinished.append(item)
        else:
            self.core.finished(item)

    def finish(self, count: int) -> None:
        """Be done with some messages, the oldest first."""
        done, self.unfinished = self.unfinished[:count], self.unfinished[count:]
        for item in done:
            self.core.finished(item)

    def gap(self, gap: Gap) -> None:
        self._note("gap", gap)

    def lacked(self, item: Item, by: PeerId) -> None:
        self._note("lacked", identity(item))

    def view_changed(self, view: TopicView) -> None:
        self._note("view", view)

    def stable(self, view: StableView) -> None:
        self._note("stable", view)

    def participant_changed(self, before: Entry | None, now: Entry) -> None:
        pass

    def room(self) -> None:
        pass

    def _note(self, what: str, of: Any) -> None:
        self.troupe.note(self, what, of)


def identity(item: Item) -> MessageId:
    return (item.publisher, item.run, item.number)
