"""Configured gateways as a topic directory: the unstructured service's way to find a community.

A *gateway* is a member of a community that is nearly always there and whose address everybody is told, in
a configuration file. Gateways help newcomers in and do nothing else that other members do not do.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from overlay.contact import Address, Contact
from overlay.context import Context
from overlay.membership.interface import Found
from overlay.topic_name import check_topic_name

Resolve = Callable[[Address, Callable[[Contact | None], None]], None]
"""Asks who listens at an address; answers once, with None when nobody does."""


class Gateways:
    """A `TopicDirectory` that knows the gateways of each topic and nobody else.

    Gateways are asked for their identity every time, for a gateway that was restarted may have a new one.
    """

    def __init__(
        self, context: Context, gateways: Mapping[str, Sequence[Address]], resolve: Resolve
    ) -> None:
        self._context = context
        self._gateways = {
            check_topic_name(topic): tuple(addresses) for topic, addresses in gateways.items()
        }
        self._resolve = resolve

    def announce(self, topic: str, done: Callable[[], None] = lambda: None) -> None:
        """Gateways are known by configuration, and other members are not found: that is done at once."""
        done()

    def withdraw(self, topic: str) -> None:
        """Nothing to do: gateways are known by configuration."""

    def contacts(self, topic: str, count: int, found: Found) -> None:
        """Up to `count` gateways of the topic that answer, in random order."""
        me = self._context.contact
        addresses = [a for a in self._gateways.get(topic, ()) if a != me.address]
        self._context.random.shuffle(addresses)
        answers = _Answers(len(addresses), count, found)
        for address in addresses:
            self._resolve(address, answers.add)

    def sample(self, topic: str, count: int, found: Found) -> None:
        """The same as `contacts`: a sample of the gateways is all there is."""
        self.contacts(topic, count, found)

    def report(self, topic: str, member: Contact) -> None:
        """Nothing to do: a gateway that is down may come back."""

    def size(self, topic: str, found: Callable[[float], None]) -> None:
        """Give `found` a lower bound of the size: this process and the gateways."""
        others = [a for a in self._gateways.get(topic, ()) if a != self._context.contact.address]
        found(1.0 + len(others))


class _Answers:
    """Calls `found` when enough gateways have answered, or all have."""

    def __init__(self, pending: int, wanted: int, found: Found) -> None:
        self._pending = pending
        self._wanted = wanted
        self._found: Found | None = found
        self._contacts: list[Contact] = []
        self._check()

    def add(self, contact: Contact | None) -> None:
        self._pending -= 1
        if contact is not None and contact not in self._contacts:
            self._contacts.append(contact)
        self._check()

    def _check(self) -> None:
        if self._found is not None and (self._pending <= 0 or len(self._contacts) >= self._wanted):
            found, self._found = self._found, None
            found(tuple(self._contacts))
