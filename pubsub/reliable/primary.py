"""A client's choice among several servers of a service, and how it fails over (UARC, section 4.1.1).

A client knows a *primary*, which it is connected to, and some secondaries, from a well-known place. It
decides alone that its primary has failed: when a sign of life that it asked for more than once does not
come, for longer than such signs took before. Then it removes the primary from its view and tries the
secondaries one after another; when none is left, it asks for a new list. The more clients a server has, the
less often each asks, and questions and requests that are not answered are repeated more and more slowly: a
server that is slow because of its crowd is not made slower by it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from overlay.contact import Contact, PeerId
from overlay.context import Context, OneTimer

LEAST_ASKED = 3
"""Questions without an answer before a primary is suspected: this process may itself have stood still."""

PACES = 2.0
"""A primary is asked for a sign of life after this many times its pace, if that is longer."""

SLOWEST_PACE = 10.0
SLOWEST_ANSWER = 5.0
"""Seconds: the most that is believed of what a server says, or takes to answer."""


class Patience(Protocol):
    """Times in seconds; a configuration class that has them will do."""

    @property
    def sign_of_life(self) -> float:
        """A primary that was silent for this many seconds is asked for a sign of life."""
        ...

    @property
    def suspect_after(self) -> float:
        """A primary is suspected after this many seconds without an answer."""
        ...

    @property
    def retry(self) -> float:
        """A request or question is repeated after this many seconds, then twice as long, up to 8 times."""
        ...

    @property
    def connect_within(self) -> float:
        """A server that has not answered a first request for this many seconds is passed over."""
        ...


class Connecting(Protocol):
    """What the keeper of a primary asks of its client; messages may be lost."""

    def request(self, to: Contact) -> None:
        """Send the request that connects to a server; called again until it is answered."""
        ...

    def ask(self, primary: Contact) -> None:
        """Ask the primary for a sign of life."""
        ...

    def lost(self, primary: Contact) -> None:
        """The primary is suspected."""
        ...

    def want_servers(self) -> None:
        """The view is empty: have `know` called with a new list, now or later."""
        ...


class PrimaryKeeper:
    """Keeps one connection to one server."""

    def __init__(self, context: Context, config: Patience, client: Connecting) -> None:
        self.primary: Contact | None = None
        self.candidate: Contact | None = None
        """The server that is asked to be the primary."""
        self.secondaries: dict[PeerId, Contact] = {}
        self.changes = 0
        """How often the connection to a primary was lost."""
        self._context = context
        self._config = config
        self._client = client
        self._timer = OneTimer(context.call_later, self._ring)
        self._asked_at: float | None = None
        """When the primary was first asked for a sign of life that has not come."""
        self._asked = 0
        """How often since, or how often a candidate was sent the request."""
        self._slowest_answer = 0.0
        """Seconds; forgotten slowly."""
        self._pace = 0.0
        self._lost: PeerId | None = None
        """The primary that was suspected last."""
        self._heard_at = context.now()
        self._tried_at = context.now()

    def start(self, contacts: Iterable[Contact] = ()) -> None:
        """Connect to one of these, or to one of a list that is asked for."""
        self._set_view(contacts)
        self._next()
        self._timer.set(self._config.retry)

    def know(self, contacts: Iterable[Contact]) -> None:
        """A list from the well-known place; it replaces the secondaries."""
        self._set_view(contacts)
        if self.primary is None and self.candidate is None and self.secondaries:
            self._next()

    def close(self) -> None:
        self._timer.close()

    def _set_view(self, contacts: Iterable[Contact]) -> None:
        """In random order, so that subscribers spread over the servers; who failed last is last."""
        in_use = [one.id for one in (self.primary, self.candidate) if one is not None]
        others = {one.id: one for one in contacts if one.id not in in_use}
        listed = list(others.values())
        self._context.random.shuffle(listed)
        listed.sort(key=lambda one: one.id == self._lost)
        self.secondaries = {one.id: one for one in listed}

    # What the client hears.

    def heard(self, sender: Contact, pace: float = 0.0) -> None:
        """Something came from a server; `pace` is how often it wants to hear from its clients."""
        if self.primary is not None and sender.id == self.primary.id:
            now = self._context.now()
            if self._asked_at is not None:
                took = min(now - self._asked_at, SLOWEST_ANSWER)
                self._slowest_answer = max(took, 0.9 * self._slowest_answer)
            self._heard_at = now
            self._asked_at = None
            self._pace = min(pace, SLOWEST_PACE)

    def connected(self, sender: Contact) -> None:
        """The candidate has taken this client."""
        self.primary = sender
        self.candidate = None
        self._asked_at = None
        self._slowest_answer = self._pace = 0.0
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
            self.secondaries[self.primary.id] = self.primary
            self.primary = self._asked_at = None
            self._try(list(self.secondaries.values())[-1])

    def fail_over(self) -> None:
        """Do without the primary from now on."""
        primary = self.primary
        if primary is not None:
            self.changes += 1
            self.primary = self._asked_at = None
            self._lost = primary.id
            self._client.lost(primary)
            self._next()

    # Time.

    def _ring(self) -> None:
        config = self._config
        if self.primary is not None:
            self._watch(self.primary)
        elif (
            self.candidate is None or self._context.now() - self._tried_at >= config.connect_within
        ):
            self._next()
        else:
            self._asked += 1
            self._client.request(self.candidate)
        self._timer.set(self._until_next())

    def _until_next(self) -> float:
        if self.primary is not None and self._asked_at is None:
            quiet_until = self._heard_at + self._patience_with_silence()
            return max(quiet_until - self._context.now(), self._config.retry)
        doublings = min(max(self._asked - 1, 0), 3)
        pause = self._config.retry * float(2**doublings)
        if self._asked_at is not None:
            left = self._asked_at + self._patience_with_questions() - self._context.now()
        else:
            left = self._tried_at + self._config.connect_within - self._context.now()
        return min(pause, max(left, self._config.retry))

    def _patience_with_questions(self) -> float:
        return max(self._config.suspect_after, 3 * self._slowest_answer)

    def _patience_with_silence(self) -> float:
        return max(self._config.sign_of_life, PACES * self._pace)

    def _watch(self, primary: Contact) -> None:
        now = self._context.now()
        if self._asked_at is None:
            if now - self._heard_at < self._patience_with_silence():
                return
            self._asked_at = now
            self._asked = 0
        is_overdue = now - self._asked_at >= self._patience_with_questions()
        if self._asked >= LEAST_ASKED and is_overdue:
            self.fail_over()
        else:
            self._asked += 1
            self._client.ask(primary)

    def _next(self) -> None:
        self.candidate = None
        for one in self.secondaries.values():
            self._try(one)
            return
        self._client.want_servers()

    def _try(self, candidate: Contact) -> None:
        del self.secondaries[candidate.id]
        self.candidate = candidate
        self._tried_at = self._context.now()
        self._asked = 1
        self._client.request(candidate)
