"""Bootstrap: finding somebody in the super-communities (CAMCAST, figure 5 and section 3.3).

Known contacts come first: those that the directory names. Else the neighbourhood is asked, and hands the
question on a few times; where the directory knows of every community, only in the first round, and when those
that it names do not answer. While nobody is found the search widens, a level of super-topics at a time, up to
the root; so processes near the root are not asked by everyone. Found farther up than a parent, a
super-process serves as a bridge. While a parent is not linked, the search is repeated by those who keep the
links in touch (see `pubsub.camcast.links`): about g processes of the community at a time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from overlay.contact import Contact, PeerId
from overlay.context import Timer
from overlay.membership.interface import Found
from pubsub.camcast.links import Links
from pubsub.camcast.messages import FindSuper, SuperFound
from pubsub.topic import Topic

if TYPE_CHECKING:
    from pubsub.camcast.community import Community, Services

NEIGHBOURS_ASKED = 5
"""To how many processes a question goes, from each process that sends it or hands it on."""

NONCES_KEPT = 8
"""To how many of the last questions an answer is still taken."""

FindContacts = Callable[[str, int, Found], None]
"""Names at most the given number of processes of a topic: the directory's `contacts` or `sample`."""


class SuperSearch:
    """FIND_SUPER_CONTACT for one community on one process.

    A *round* looks in every super-topic that is neither linked nor bridged away, nearest first, and ends when
    something was found or the root has been reached.
    """

    def __init__(
        self,
        community: Community,
        services: Services,
        links: Links,
        round_over: Callable[[], None],
    ) -> None:
        self._draws = services.draws_tables
        self._finds_all = services.finds_all
        """Where nobody is named there is nobody, and to ask around again and again would cost each member of
        a topic without super-communities several messages a second."""
        self._has_searched = False
        self._is_named = False
        """The directory has named somebody, who may have crashed."""
        self._community = community
        self._context = services.control
        self._find_contacts = services.find_contacts
        self._links = links
        self._round_over = round_over
        self._nonces: dict[int, None] = {}
        self._unanswered: dict[PeerId, None] = {}
        self._timer: Timer | None = None
        self._searching = False
        self._asked_around = False
        self._step = 0
        self._stopped = False

    def start(self) -> None:
        """Begin a round, unless one is on."""
        if not self._searching and not self._stopped:
            self._searching = True
            self._asked_around = False
            if self._timer is not None:
                self._timer.cancel()
            self._ask_directory()

    def redraw(self) -> None:
        """Draw every super-topic table that is linked anew, as the topic table has just been."""
        if not self._draws or self._stopped:
            return
        for table in self._links.tables.linked():
            name = table.topic.name
            self._find_contacts(
                name,
                self._community.parameters.z,
                lambda sample, name=name: self._links.draw(name, sample),  # type: ignore[misc]
            )

    def stop(self) -> None:
        self._stopped = True
        if self._timer is not None:
            self._timer.cancel()

    def receive(self, sender: Contact, answer: SuperFound) -> bool:
        """Take an answer from the neighbourhood; False when it is to no question of this search."""
        if answer.nonce not in self._nonces or self._stopped:
            return False
        self._unanswered.pop(sender.id, None)
        step = self._step
        self._links.introduce(answer.topic, answer.contacts, lambda: self._heard(step))
        return True

    def _ask_directory(self) -> None:
        self._step += 1
        self._is_named = False
        step, missing = self._step, self._links.tables.missing()
        open_lookups = len(missing)

        def looked_up() -> None:
            nonlocal open_lookups
            open_lookups -= 1
            if not open_lookups and step == self._step and not self._stopped:
                self._directory_answered()

        def look_up(topic: Topic) -> None:
            def found(contacts: tuple[Contact, ...]) -> None:
                self._is_named = self._is_named or bool(contacts)
                if self._draws:
                    self._links.draw(topic.name, contacts, looked_up)
                else:
                    self._links.introduce(topic.name, contacts, looked_up)

            self._find_contacts(topic.name, self._community.parameters.z, found)

        for topic in missing:
            look_up(topic)
        if not missing:
            self._end_round()

    def _directory_answered(self) -> None:
        """Ask around about what is still missing; what is bridged, once a round."""
        tables = self._links.tables
        if not tables.missing() or (self._asked_around and tables.covered()):
            self._end_round()
        elif self._finds_all and self._has_searched and not self._is_named:
            self._widen()
        else:
            self._asked_around = True
            self._ask_neighbourhood()

    def _ask_neighbourhood(self) -> None:
        neighbours = self._community.table
        if len(neighbours) > NEIGHBOURS_ASKED:
            neighbours = tuple(self._context.random.sample(neighbours, NEIGHBOURS_ASKED))
        if not neighbours:
            self._widen()
            return
        nonce = self._context.random.getrandbits(63)
        self._nonces[nonce] = None  # an answer from afar may come when the search has gone on
        if len(self._nonces) > NONCES_KEPT:
            del self._nonces[next(iter(self._nonces))]
        self._unanswered = {neighbour.id: None for neighbour in neighbours}
        topics = tuple(topic.name for topic in self._links.tables.missing())
        question = FindSuper(
            self._context.contact, nonce, topics, self._community.parameters.search_ttl
        )
        for neighbour in neighbours:
            self._context.send(neighbour, question)
        step = self._step
        self._timer = self._context.call_later(
            self._community.parameters.search_timeout, lambda: self._timed_out(step)
        )

    def _heard(self, step: int) -> None:
        """An answer has been looked at; the last one of a step decides it before its time-out."""
        if step == self._step and self._searching and not self._unanswered:
            self._timed_out(step)

    def _timed_out(self, step: int) -> None:
        if step == self._step and self._searching and not self._stopped:
            self._step += 1
            if self._timer is not None:
                self._timer.cancel()
            self._widen()

    def _widen(self) -> None:
        if not self._links.tables.covered() and self._links.tables.widen():
            self._ask_directory()
        else:
            self._end_round()

    def _end_round(self) -> None:
        self._searching = False
        self._has_searched = True
        self._round_over()
