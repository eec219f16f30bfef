"""What CAMCAST needs of a membership service, and what a membership service needs of a directory.

A *topic table* is the partial view that a process keeps of its community: about ln N + c other members.
Three services keep one (unstructured, semi-structured, structured); the code that uses this interface does
not know which one runs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from overlay.contact import Contact, PeerId


def _ignore() -> None: ...


Found = Callable[[tuple[Contact, ...]], None]
"""Called exactly once with the contacts that were found; with none when there are none."""


class TopicDirectory(Protocol):
    """Where members of a topic are found: configured gateways, or the DHT.

    Answers come through a callback, at once or later, and always come.
    """

    def announce(self, topic: str, done: Callable[[], None] = _ignore) -> None:
        """Let others find this process under `topic`, until it is withdrawn. `done`: when they can."""
        ...

    def withdraw(self, topic: str) -> None: ...

    def contacts(self, topic: str, count: int, found: Found) -> None:
        """Some live members other than this process, quickly (the paper's getContact)."""
        ...

    def sample(self, topic: str, count: int, found: Found) -> None:
        """Distinct members other than this process, uniform over the live ones (searchPeers)."""
        ...

    def report(self, topic: str, member: Contact) -> None:
        """A member that was found under `topic` does not answer: it should not be found any more."""
        ...

    def size(self, topic: str, found: Callable[[float], None]) -> None:
        """An estimate of the number of members."""
        ...


class Membership(Protocol):
    """One process's membership of one community. A core: it acts through its context only."""

    @property
    def topic(self) -> str: ...

    @property
    def table(self) -> tuple[Contact, ...]:
        """The topic table: other members of the community, in an order that means nothing."""
        ...

    @property
    def size(self) -> float:
        """The community's estimated size N_t, this process included; at least 1."""
        ...

    @property
    def handlers(self) -> Mapping[type, Callable[[Contact, Any], None]]:
        """What takes each of this service's own messages that are of its topic."""
        ...

    def start(self) -> None:
        """Join the community."""
        ...

    def stop(self) -> None:
        """Leave it: say goodbye, cancel every timer, keep nothing."""
        ...

    def reconfigure(self, c: float) -> None:
        """Aim at tables of about ln N + c members from now on; if that is more than before, at once.

        Where members are held by those whom they subscribe to (SCAMP), a table grows with the others' c.
        """
        ...

    def receive(self, sender: Contact, message: object) -> None:
        """As the handler of the message's type does; any other message is counted and ignored."""
        ...

    def suspect(self, peer: PeerId) -> None:
        """The failure detector believes that `peer` has crashed."""
        ...


class MembershipListener(Protocol):
    """What a membership service reports to the protocol that uses it."""

    def joined(self) -> None:
        """The community has been entered: the table is usable, or this process is its first."""
        ...

    def redrawn(self) -> None:
        """The topic table was drawn anew from the directory, as some services do at an interval."""
        ...

    def member_asked(self, contact: Contact) -> None:
        """`contact` is being asked whether it is a member, and will probably enter the topic table: what else
        has to be asked of it can go along."""
        ...

    def member_added(self, contact: Contact) -> None:
        """`contact` entered the topic table."""
        ...

    def member_removed(self, contact: Contact) -> None:
        """`contact` left the topic table."""
        ...
