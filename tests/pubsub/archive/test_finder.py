"""Finding an archive: whom a search asks, how often, and which answer it takes."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from overlay.contact import Contact
from overlay.virtual.stage import Stage, numbered_contact
from pubsub.archive.protocol.config import DurableConfig
from pubsub.archive.protocol.finder import Finder, FoundArchive, choose
from pubsub.archive.protocol.messages import Discover, Offer


def found(number: int, load: float, trip: float) -> FoundArchive:
    return FoundArchive(numbered_contact(number), "/t", b"", load, trip, 0, 0)


def test_the_nearest_of_the_least_loaded_is_chosen() -> None:
    idle_far, idle_near = found(1, 10, 0.2), found(2, 90, 0.1)
    busy_nearest = found(3, 5_000, 0.001)
    assert choose([idle_far, idle_near, busy_nearest]) == idle_near
    assert choose([idle_far, busy_nearest]) == idle_far


class Search:
    """A search over archives that answer, each with its load and catenation number, or do not."""

    def __init__(
        self,
        managed: dict[str, list[int]],
        answers: dict[int, int],
        slow: dict[str, float] | None = None,
        deaf: int = 0,
    ) -> None:
        """`slow`: seconds that the directory takes to answer for a topic. `deaf`: questions that it never
        answers, the first ones."""
        self.stage = Stage(1)
        self.asked: list[float] = []
        self.results: list[FoundArchive] = []
        self._managed = managed
        self._slow = slow or {}
        self._deaf = deaf
        seeker = numbered_contact(9)
        for number, catenation in answers.items():
            contact = numbered_contact(number)
            self.stage.attach(contact, self._answerer(contact, catenation))
        self.finder = Finder(
            self.stage.context(seeker),
            ("/a/b", "/a", "/"),
            seeker.id,
            self._lookup,
            DurableConfig(),
            self.results.append,
        )
        self.stage.attach(seeker, lambda sender, offer: self.finder.receive(sender, offer))  # type: ignore[arg-type]
        self.finder.start()

    def _answerer(self, contact: Contact, catenation: int) -> Callable[[Contact, object], None]:
        context = self.stage.context(contact)

        def answer(sender: Contact, question: object) -> None:
            assert isinstance(question, Discover)
            context.send(sender, Offer(question.topic, question.nonce, b"", 0.0, catenation, 0))

        return answer

    def _lookup(self, topic: str, answer: Callable[[tuple[Contact, ...]], None]) -> None:
        if topic == "/a/b":
            self.asked.append(self.stage.now)
        managed = tuple(numbered_contact(number) for number in self._managed.get(topic, []))
        if topic in self._slow:
            self.stage.call_at(self.stage.now + self._slow[topic], lambda: answer(managed))
        elif self._deaf:
            self._deaf -= 1
        else:
            answer(managed)


def test_the_nearest_managed_topic_above_counts() -> None:
    search = Search({"/a": [1], "/": [2]}, {1: 0, 2: 0})
    search.stage.run(5)
    (result,) = search.results
    assert (result.topic, result.archive) == ("/a", numbered_contact(1))


@pytest.mark.parametrize("seconds", [0.15, 0.6, 2.0])
def test_a_nearer_topic_counts_though_the_directory_takes_its_time(seconds: float) -> None:
    search = Search({"/a/b": [1], "/a": [2]}, {1: 0, 2: 0}, {"/a/b": seconds})
    search.stage.run(5)
    (result,) = search.results
    assert (result.topic, result.archive) == ("/a/b", numbered_contact(1))


def test_a_nearer_topic_without_an_archive_that_answers_is_passed_over() -> None:
    search = Search({"/a/b": [1], "/a": [2]}, {2: 0}, {"/a/b": 0.6})
    search.stage.run(5)
    (result,) = search.results
    assert (result.topic, result.archive) == ("/a", numbered_contact(2))


def test_a_publisher_learns_the_highest_number_that_any_replica_knows() -> None:
    search = Search({"/a/b": [1, 2]}, {1: 4, 2: 7})
    search.stage.run(5)
    assert search.results[0].catenation == 7


def test_those_who_do_not_answer_do_not_hold_up_the_others() -> None:
    search = Search({"/a/b": [1, 2]}, {2: 0})
    search.stage.run(2)
    assert search.results[0].archive == numbered_contact(2)


def test_a_search_goes_on_at_growing_intervals_until_it_is_stopped() -> None:
    search = Search({}, {})
    search.stage.run(30)
    waits = [later - sooner for sooner, later in zip(search.asked, search.asked[1:], strict=False)]
    assert waits == sorted(waits)
    assert len(waits) > 5
    assert waits[-1] > waits[0]
    search.finder.stop()
    asked = len(search.asked)
    search.stage.run(60)
    assert len(search.asked) == asked
    assert not search.results


def test_a_lookup_that_is_never_answered_is_asked_again() -> None:
    search = Search({"/a/b": [1]}, {1: 0}, deaf=3)
    search.stage.run(9)
    assert not search.results
    search.stage.run(20)
    assert search.results[0].archive == numbered_contact(1)
