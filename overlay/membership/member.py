"""What every membership service has: a place in a community, and the messages that it reacts to."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Generic, TypeVar

from overlay.contact import Contact
from overlay.context import Context
from overlay.membership.interface import MembershipListener, TopicDirectory
from overlay.metrics import Metrics

C = TypeVar("C")
Reaction = Callable[[Contact, Any], None]

FOUND_NOBODY = "Times that nobody else was found in a community."
"""What `membership_alone` counts: right for its first member, and else the sign of contacts that are gone."""


class Member(Generic[C]):
    """One process in one community; a service with the configuration `C` is a subclass that says how it
    reacts to each of its messages.

    A message that the service does not react to is counted and ignored, from any sender; so is one from this
    process itself, and one that comes while the service does not run."""

    def __init__(
        self,
        topic: str,
        context: Context,
        directory: TopicDirectory,
        listener: MembershipListener,
        config: C,
        metrics: Metrics,
        *,
        balance: bool = True,
    ) -> None:
        """`balance`: see `overlay.membership.modes.MembershipConfig`."""
        self._topic = topic
        self._context = context
        self._directory = directory
        self._listener = listener
        self._config = config
        self._balance = balance
        self._alone = metrics.counter("membership_alone", FOUND_NOBODY)
        self._dropped = metrics.family(
            "membership_dropped", "reason", "Membership messages that were not acted upon"
        )
        self._is_running = False
        self._has_joined = False
        self._reactions = self._prepare()

    def _prepare(self) -> dict[type, Reaction]:
        """Make what the service keeps of the community; how it reacts to each of its messages."""
        raise NotImplementedError

    @property
    def topic(self) -> str:
        return self._topic

    @property
    def handlers(self) -> Mapping[type, Reaction]:
        return {kind: partial(self._react, reaction) for kind, reaction in self._reactions.items()}

    def receive(self, sender: Contact, message: object) -> None:
        reaction = self._reactions.get(type(message))
        if reaction is None:
            self._dropped.add("unknown_message")
        else:
            self._react(reaction, sender, message)

    def _react(self, reaction: Reaction, sender: Contact, message: object) -> None:
        if not self._is_running:
            self._dropped.add("not_a_member")
        elif sender.id == self._context.contact.id:
            self._dropped.add("from_itself")
        else:
            reaction(sender, message)
