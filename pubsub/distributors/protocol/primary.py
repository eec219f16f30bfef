"""A publisher's or subscriber's view of the distributors, and its choice among them (section 4.1.1).

It knows a primary, which it is connected to, and some secondaries, from a well-known place. It decides alone
that its primary has failed: when a sign of life that it asked for does not come. Then it removes the
primary from its view and tries the secondaries one after another; when none is left, it asks for a new list.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from overlay.contact import Contact, PeerId
from overlay.context import Context, Timer
from pubsub.distributors.config import ClientConfig


class Connecting(Protocol):
    """What the keeper of a primary asks of its client; messages may be lost."""

    def request(self, to: Contact) -> None:
        """Send the request that connects to a distributor; called again until it is answered."""
        ...

    def ask(self, primary: Contact) -> None:
        """Ask the primary for a sign of life."""
        ...

    def lost(self, primary: Contact) -> None:
        """The primary is suspected."""
        ...

    def want_distributors(self) -> None:
        """The view is empty: have `know` called with a new list, now or later."""
        ...


class PrimaryKeeper:
    """Keeps one connection to one distributor."""

    def __init__(self, context: Context, config: ClientConfig, client: Connecting) -> None:
        self.primary: Contact | None = None
        self.candidate: Contact | None = None
        """The distributor that is asked to be the primary."""
        self.secondaries: dict[PeerId, Contact] = {}
        self.changes = 0
        """How often the connection to a primary was lost."""
        self._context = context
        self._config = config
        self._client = client
        self._timer: Timer | None = None
        self._asked_at: float | None = None
        """When the primary was first asked for a sign of life that has not come."""
        self._heard_at = context.now()
        self._tried_at = context.now()
        self._closed = False

    def start(self, contacts: Iterable[Contact] = ()) -> None:
        """Connect to one of these, or to one of a list that is asked for."""
        self._set_view(contacts)
        self._next()
        self._arm(self._config.retry)

    def know(self, contacts: Iterable[Contact]) -> None:
        """A list from the well-known place; it replaces the secondaries."""
        self._set_view(contacts)
        if self.primary is None and self.candidate is None and self.secondaries:
            self._next()

    def close(self) -> None:
        self._closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _set_view(self, contacts: Iterable[Contact]) -> None:
        """In random order, so that subscribers spread over the distributors."""
        in_use = [one.id for one in (self.primary, self.candidate) if one is not None]
        others = {one.id: one for one in contacts if one.id not in in_use}
        listed = list(others.values())
        self._context.random.shuffle(listed)
        self.secondaries = {one.id: one for one in listed}

    # What the client hears.

    def heard(self, sender: Contact) -> None:
        """Something came from a distributor."""
        if self.primary is not None and sender.id == self.primary.id:
            self._heard_at = self._context.now()
            self._asked_at = None

    def connected(self, sender: Contact) -> None:
        """The candidate has taken this client."""
        self.primary = sender
        self.candidate = None
        self._asked_at = None
        self._heard_at = self._context.now()
        self.secondaries.pop(sender.id, None)

    def refused(self, sender: Contact) -> None:
        """The candidate has not taken it: try the next one."""
        if self.candidate is not None and sender.id == self.candidate.id:
            self._next()

    def reconnect(self) -> None:
        """The primary has lost this client, or skipped: connect to it again."""
        if self.primary is not None:
            self.changes += 1
            self.candidate, self.primary = self.primary, None
            self._tried_at = self._context.now()
            self._client.request(self.candidate)

    def fail_over(self) -> None:
        """Do without the primary from now on."""
        primary = self.primary
        if primary is not None:
            self.changes += 1
            self.primary = self._asked_at = None
            self._client.lost(primary)
            self._next()

    # Time.

    def _arm(self, delay: float) -> None:
        if not self._closed:
            self._timer = self._context.call_later(delay, self._ring)

    def _ring(self) -> None:
        config = self._config
        if self.primary is not None:
            self._watch(self.primary)
            is_quiet = self.primary is not None and self._asked_at is None
            self._arm(config.sign_of_life / 2 if is_quiet else config.retry)
            return
        if self.candidate is None or self._context.now() - self._tried_at >= config.connect_within:
            self._next()
        else:
            self._client.request(self.candidate)
        self._arm(config.retry)

    def _watch(self, primary: Contact) -> None:
        now, config = self._context.now(), self._config
        if self._asked_at is not None and now - self._asked_at >= config.suspect_after:
            self.fail_over()
        elif self._asked_at is not None or now - self._heard_at >= config.sign_of_life:
            if self._asked_at is None:
                self._asked_at = now
            self._client.ask(primary)

    def _next(self) -> None:
        self.candidate = None
        for peer in list(self.secondaries):
            self.candidate = self.secondaries.pop(peer)
            self._tried_at = self._context.now()
            self._client.request(self.candidate)
            return
        self._client.want_distributors()
