"""What a subscriber does: find a contact, be welcomed, wait until others hold it; and again when it must.

Contacts come from the directory; a member that has a view can also ask one of its own. Asking goes on, with a
shorter way each time, until a welcome comes or all tries are spent. A process that finds nobody is the
community's first, and keeps looking (see `service`).
"""

from __future__ import annotations

from collections.abc import Callable

from overlay.contact import Contact, PeerId
from overlay.context import Timer
from overlay.membership.interface import TopicDirectory
from overlay.membership.scamp.messages import Subscribe, Welcome
from overlay.membership.scamp.state import Community

CONTACTS = 3
"""How many contacts are asked of the directory at a time."""

TRIES = 4
"""How often a subscriber asks, contact after contact, before it gives up; only the first try is indirect,
for a walk has many hops that may be lost."""

SETTLE_FRACTION = 0.5
"""A newcomer waits for its copies to be kept for at most this part of `answer_seconds`."""


class Joining:
    """A process's own subscription: `begin` it as often as needed; one at a time is under way."""

    def __init__(
        self, community: Community, directory: TopicDirectory, done: Callable[[], None]
    ) -> None:
        self._community = community
        self._directory = directory
        self._done = done
        self._attempt = 0
        self._busy = False
        self._copies: int | None = None
        self._candidates: list[Contact] = []
        self._tries = 0
        self._expected: int | None = None
        self._timer: Timer | None = None

    @property
    def is_busy(self) -> bool:
        return self._busy

    def begin(self, copies: int | None) -> None:
        """Subscribe with `copies` copies, or as a newcomer with None; calls `done` when it is over."""
        self.cancel()
        self._busy = True
        self._copies = copies
        self._tries = 0
        self._expected = None
        attempt = self._attempt
        self._directory.contacts(
            self._community.topic, CONTACTS, lambda contacts: self._found(attempt, contacts)
        )

    def cancel(self) -> None:
        """Give up what is under way; answers that come later are for nobody."""
        self._attempt += 1
        self._busy = False
        self._stop_timer()

    def welcome(self, welcome: Welcome) -> None:
        """A contact took the subscription on: hold the contact."""
        community = self._community
        community.take_census(welcome.census)
        community.hold(welcome.contact)
        if not self._busy:
            return
        self._stop_timer()
        if self._copies is not None:
            self._finish()
            return
        lease = max(welcome.lease - community.config.grace_seconds, 0.0)
        community.renew_at = community.context.now() + lease
        self._expected = welcome.copies
        self._timer = community.context.call_later(
            SETTLE_FRACTION * community.config.answer_seconds, self._settled
        )
        self.held_by_another()

    def held_by_another(self) -> None:
        """Somebody says that it holds this process."""
        if self._expected is None or not self._busy:
            return
        community = self._community
        if len(community.holders) >= min(self._expected, round(community.size) - 1):
            self._finish()

    def suspect(self, peer: PeerId) -> None:
        """Do not wait for a contact that has crashed."""
        self._candidates = [contact for contact in self._candidates if contact.id != peer]

    def _found(self, attempt: int, contacts: tuple[Contact, ...]) -> None:
        if attempt != self._attempt:
            return
        me = self._community.context.contact.id
        self._candidates = [contact for contact in contacts if contact.id != me]
        member = self._community.random_member(other_than=me)
        if member is not None:
            self._candidates.append(member)
        self._ask()

    def _ask(self) -> None:
        community = self._community
        if not self._candidates or self._tries >= TRIES:
            self._finish()
            return
        candidate = self._candidates[self._tries % len(self._candidates)]
        message = Subscribe(
            community.topic, community.own_subscription(), self._copies, self._tries == 0
        )
        self._tries += 1
        community.context.send(candidate, message)
        self._timer = community.context.call_later(community.config.answer_seconds, self._ask)

    def _settled(self) -> None:
        if len(self._community.holders):
            self._finish()
        else:
            self._ask()

    def _finish(self) -> None:
        self.cancel()
        self._done()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
