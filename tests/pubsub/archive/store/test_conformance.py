"""What every store promises, tried on each of them."""

from __future__ import annotations

import pytest

from pubsub.archive.store import (
    AdvanceSync,
    Drop,
    ForgetStreams,
    Note,
    PutEntity,
    Reserve,
    Store,
    StoreError,
)
from pubsub.reliable.numbers import Span
from tests.pubsub.archive.store.conftest import Opener
from tests.pubsub.archive.store.plain_store import PlainStore
from tests.pubsub.archive.store.schedules import (
    PUBLISHERS,
    TOPICS,
    Schedule,
    event,
)

LAST = (1 << 40) - 1


def commit(store: Store, *changes: object) -> None:
    store.write(list(changes))  # type: ignore[arg-type]
    store.sync()


def assert_same(store: Store, plain: PlainStore) -> None:
    """The store answers every question as the plain one does."""
    registry = plain.registry
    assert store.topics() == tuple(sorted(registry))
    for topic in TOPICS:
        inventory = plain.inventory(topic)
        last = registry.last(topic)
        assert store.last_sequence(topic) == last
        assert store.events(topic, 0, 1000) == inventory
        assert store.count(topic) == len(inventory)
        assert store.size(topic) == sum(len(one.body) for one in inventory)
        assert store.first_sequence(topic) == (inventory[0].sequence if inventory else last + 1)
        assert store.holdings(topic, 0, 1000) == plain.holdings(topic)
        entities = registry.rows(topic, "entity")
        assert store.entities(topic) == tuple(entities[name] for name in sorted(entities))
        assert store.catenations(topic) == registry.rows(topic, "catenation")
        assert store.notes(topic) == dict(sorted(registry.rows(topic, "note").items()))
        for publisher in PUBLISHERS:
            stream = [one for one in inventory if one.publisher == publisher]
            assert store.by_catenation(topic, publisher, Span(0, LAST)) == stream
            assert store.by_catenation(topic, publisher, Span(0, LAST), 2) == stream[:2]
        middle = last // 2
        firsts: dict[bytes, int] = {}
        for one in inventory:
            if one.sequence > middle:
                firsts.setdefault(one.publisher, one.catenation)
        assert store.firsts_above(topic, middle) == firsts
        marks = {PUBLISHERS[0]: middle}
        beyond = [one.sequence for one in inventory if one.catenation > marks.get(one.publisher, 0)]
        assert store.first_beyond(topic, marks) == (beyond[0] if beyond else last + 1)
        ids = {one.id: one.sequence for one in inventory}
        assert store.sequences(topic, [*ids, b"another id 12345"]) == ids
        late = [one.sequence for one in inventory if one.time >= 50]
        assert store.since(topic, 50) == (late[0] if late else last + 1)


def test_streams_are_forgotten_and_begin_anew(opener: Opener) -> None:
    store = opener()
    commit(store, *(event(n, publisher=PUBLISHERS[n % 2]) for n in range(1, 7)))
    commit(store, Drop("/soccer", (Span(1, 6),)), ForgetStreams("/soccer", PUBLISHERS))
    for _ in range(2):
        assert store.catenations("/soccer") == {}
        assert store.firsts_above("/soccer", 0) == {}
        store.close()
        store = opener()
    commit(store, event(9, publisher=PUBLISHERS[0], catenation=1))
    store.close()
    store = opener()
    assert store.catenations("/soccer") == {PUBLISHERS[0]: 1}
    assert [one.publisher for one in store.events("/soccer", 0, 9)] == [PUBLISHERS[0]]
    assert store.verify() == ()
    store.close()


def run_schedule(opener: Opener, seed: int, batches: int) -> None:
    store, plain, schedule = opener(), PlainStore(), Schedule(seed)
    for _ in range(batches):
        batch = schedule.batch()
        store.write(batch)
        if schedule.chance.random() < 0.3:
            assert_same(store, plain)
        store.sync()
        plain.apply(batch)
        if schedule.chance.random() < 0.2:
            store.close()
            store = opener()
        if schedule.chance.random() < 0.4:
            assert_same(store, plain)
    assert_same(store, plain)
    assert store.verify() == ()
    store.close()


@pytest.mark.parametrize("seed", range(2))
def test_any_schedule_reads_back_as_from_a_plain_store(opener: Opener, seed: int) -> None:
    run_schedule(opener, seed, 30)


@pytest.mark.sweep
@pytest.mark.parametrize("seed", range(100, 108))
def test_many_schedules_read_back_as_from_a_plain_store(opener: Opener, seed: int) -> None:
    run_schedule(opener, seed, 60)


def test_readers_see_nothing_before_the_sync(opener: Opener) -> None:
    store = opener()
    store.write([PutEntity("/soccer", "anna", 0, b""), event(1), Note("/soccer", "key", b"1")])
    assert store.topics() == ()
    assert store.last_sequence("/soccer") == 0
    assert store.events("/soccer", 0, 10) == []
    assert store.entities("/soccer") == ()
    store.sync()
    assert store.events("/soccer", 0, 10) == [event(1)]
    assert [one.waiting for one in store.holdings("/soccer", 0, 10)] == [("anna",)]


def test_a_batch_that_was_not_synced_is_whole_or_gone_after_closing(opener: Opener) -> None:
    store = opener()
    commit(store, event(1))
    store.write([event(2), event(3)])
    store.close()
    kept = [one.sequence for one in opener().events("/soccer", 0, 10)]
    assert kept in ([1], [1, 2, 3])


def test_numbers_are_never_free_again(opener: Opener) -> None:
    store = opener()
    commit(store, event(1), event(2), Reserve("/soccer", 7))
    commit(store, Drop("/soccer", (Span(1, 7),)))
    store.close()
    store = opener()
    assert store.last_sequence("/soccer") == 7
    assert store.first_sequence("/soccer") == 8
    assert store.catenations("/soccer") == {PUBLISHERS[0]: 2}


def test_reserved_numbers_are_filled_later(opener: Opener) -> None:
    store = opener()
    commit(store, Reserve("/soccer", 3), event(4))
    commit(store, event(2), event(1))
    assert [one.sequence for one in store.events("/soccer", 0, 10)] == [1, 2, 4]
    assert store.last_sequence("/soccer") == 4


def test_sync_points_and_catenation_numbers_never_go_back(opener: Opener) -> None:
    store = opener()
    commit(store, PutEntity("/soccer", "anna", 0, b""), event(5), AdvanceSync("/soccer", "anna", 5))
    commit(store, event(6, catenation=2), AdvanceSync("/soccer", "anna", 3))
    entity = store.entity("/soccer", "anna")
    assert entity is not None
    assert entity.sync == 5
    assert store.catenations("/soccer") == {PUBLISHERS[0]: 5}


def test_registering_again_changes_nothing(opener: Opener) -> None:
    store = opener()
    commit(store, PutEntity("/soccer", "anna", 3, b"*"), Reserve("/soccer", 4))
    commit(store, PutEntity("/soccer", "anna", 9, b"?"))
    entity = store.entity("/soccer", "anna")
    assert entity is not None
    assert (entity.done, entity.sync, entity.state) == (3, 3, b"?")


def test_sync_points_strike_from_the_dissemination_table(opener: Opener) -> None:
    store = opener()
    commit(store, PutEntity("/soccer", "anna", 0, b""), *(event(n) for n in range(1, 8)))
    commit(store, AdvanceSync("/soccer", "anna", 4))
    assert [one.waiting for one in store.holdings("/soccer", 3, 2)] == [(), ("anna",)]


def test_pages_end_at_the_limits_of_count_and_bytes(opener: Opener) -> None:
    store = opener()
    commit(store, *(event(n, body=b"x" * 100) for n in range(1, 6)))

    def page(after: int, limit: int, max_bytes: int | None) -> list[int]:
        return [one.sequence for one in store.events("/soccer", after, limit, max_bytes)]

    assert page(0, 2, None) == [1, 2]
    assert page(2, 10, 250) == [3, 4]
    assert page(4, 10, 1) == [5]
    assert [one.sequence for one in store.read("/soccer", [5, 1, 9, 1])] == [1, 5]


def test_an_event_can_be_written_anew_under_its_number(opener: Opener) -> None:
    store = opener()
    commit(store, event(1), event(2, body=b"offside"))
    commit(store, event(2, body=b"no goal after all"))
    assert [one.body for one in store.events("/soccer", 0, 10)] == [b"goal", b"no goal after all"]
    assert (store.count("/soccer"), store.size("/soccer")) == (2, 21)


def test_an_event_under_two_numbers_is_found_once_in_its_stream(opener: Opener) -> None:
    store = opener()
    commit(store, event(1), event(2), event(3, catenation=2), event(4, catenation=3))
    found = store.by_catenation("/soccer", PUBLISHERS[0], Span(0, LAST))
    assert [(one.catenation, one.sequence) for one in found] == [(1, 1), (2, 3), (3, 4)]


def test_nobody_else_gets_in_while_a_store_is_open(opener: Opener) -> None:
    store = opener()
    with pytest.raises(StoreError):
        opener()
    store.close()
    opener().close()


def test_a_closed_store_says_so(opener: Opener) -> None:
    store = opener()
    store.close()
    with pytest.raises(StoreError, match="closed"):
        store.write([event(1)])
    with pytest.raises(StoreError, match="closed"):
        store.events("/soccer", 0, 1)


def test_batches_wait_for_one_another(opener: Opener) -> None:
    store = opener()
    store.write([event(1)])
    with pytest.raises(StoreError, match="synced"):
        store.write([event(2)])
    store.sync()
    store.write([])
    store.sync()
    assert store.count("/soccer") == 1
