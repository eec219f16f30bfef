"""Records: the newest stays, lives end on time, memory is bounded."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kademlia.storage import ForgetfulStorage

from overlay.contact import Address, PeerId
from overlay.dht.messages import StoredValue
from overlay.dht.values import RecordStore
from tests.overlay.dht.both import on_both
from tests.overlay.dht.swarm import key

Verdict = AbstractContextManager[Any]
Make = Callable[[Callable[[], float], float], Any]
OWNER = PeerId(bytes(20))


def ours(clock: Callable[[], float], life: float = 100.0, **limits: int) -> RecordStore:
    bounds = {"capacity": 100, "capacity_a_source": 100} | limits
    return RecordStore(OWNER, clock, longest_life=life, **bounds)


class Stock(ForgetfulStorage):  # type: ignore[misc]
    """Upstream's storage, under our names."""

    def __init__(self, clock: Callable[[], float], life: float) -> None:
        super().__init__(ttl=life)

    def offer(self, key: PeerId, record: StoredValue) -> None:
        self[key] = record


@on_both(ours, Stock)
def test_an_old_version_does_not_overwrite_a_new_one(subject: Make, verdict: Verdict) -> None:
    store = subject(lambda: 0.0, 100.0)
    store.offer(key("k"), StoredValue(2, b"new", 50.0))
    store.offer(key("k"), StoredValue(1, b"old", 50.0))
    with verdict:
        assert store.get(key("k")).value == b"new"


@on_both(ours, Stock)
def test_storing_the_same_record_again_does_not_extend_its_life(
    subject: Make, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("kademlia.storage.time.monotonic", lambda: now[0])
    store = subject(lambda: now[0], 10.0)
    store.offer(key("k"), StoredValue(1, b"v", 10.0))
    now[0] = 6.0
    store.offer(key("k"), StoredValue(1, b"v", 10.0))
    now[0] = 11.0
    with verdict:
        assert store.get(key("k")) is None


@on_both(ours, Stock)
def test_every_record_has_its_own_life(
    subject: Make, verdict: Verdict, monkeypatch: pytest.MonkeyPatch
) -> None:
    now = [0.0]
    monkeypatch.setattr("kademlia.storage.time.monotonic", lambda: now[0])
    store = subject(lambda: now[0], 100.0)
    store.offer(key("short"), StoredValue(1, b"v", 2.0))
    store.offer(key("long"), StoredValue(1, b"v", 50.0))
    now[0] = 3.0
    with verdict:
        assert [held for held, _ in store] == [key("long")]


def test_a_record_is_read_with_the_time_it_has_left() -> None:
    now = [0.0]
    store = ours(lambda: now[0])
    store.offer(key("k"), StoredValue(1, b"v", 50.0))
    now[0] = 20.0
    assert store.get(key("k")) == StoredValue(1, b"v", 30.0)
    now[0] = 50.0
    assert store.get(key("k")) is None


def test_no_record_lives_longer_than_the_store_allows() -> None:
    store = ours(lambda: 0.0, life=60.0)
    store.offer(key("k"), StoredValue(1, b"v", 1e9))
    assert store.get(key("k")) == StoredValue(1, b"v", 60.0)


@given(
    st.permutations([(v, bytes([b]), t) for v in (1, 2, 3) for b in (1, 2) for t in (30.0, 60.0)])
)
def test_the_order_of_arrival_does_not_matter(records: list[tuple[int, bytes, float]]) -> None:
    store = ours(lambda: 0.0)
    for record in records:
        store.offer(key("k"), StoredValue(*record))
    assert store.get(key("k")) == StoredValue(3, b"\x02", 30.0)


def test_the_version_held_is_reported() -> None:
    store = ours(lambda: 0.0)
    assert store.offer(key("k"), StoredValue(5, b"v", 9.0)) == 5
    assert store.offer(key("k"), StoredValue(4, b"v", 9.0)) == 5


def test_a_full_store_keeps_the_keys_nearest_to_its_node() -> None:
    store = ours(lambda: 0.0, capacity=3)
    near_to_far = [PeerId(n.to_bytes(20, "big")) for n in range(1, 7)]
    for place in reversed(near_to_far):
        store.offer(place, StoredValue(1, b"v", 9.0))
    assert sorted(held for held, _ in store) == near_to_far[:3]
    assert store.offer(near_to_far[5], StoredValue(1, b"v", 9.0)) is None


def test_one_address_cannot_fill_the_store() -> None:
    now = [0.0]
    store = ours(lambda: now[0], capacity=10, capacity_a_source=2)
    flooder, other = Address("127.0.0.9", 1), Address("127.0.0.8", 1)
    taken = [store.offer(key(n), StoredValue(1, b"v", 5.0), flooder) for n in range(5)]
    assert taken == [1, 1, None, None, None]
    assert store.offer(key("other"), StoredValue(1, b"v", 9.0), other) == 1
    now[0] = 6.0
    assert store.offer(key(9), StoredValue(1, b"v", 9.0), flooder) == 1, (
        "its old ones are dead and gone"
    )


def test_a_host_with_many_ports_cannot_fill_the_store_with_keys_next_to_its_node() -> None:
    store = ours(lambda: 0.0, capacity=40, capacity_a_source=10)
    for n in range(1, 101):
        store.offer(
            PeerId(n.to_bytes(20, "big")), StoredValue(1, b"v", 9.0), Address("10.6.6.6", n)
        )
    others = [PeerId(bytes([n]) * 20) for n in range(1, 31)]
    for n, place in enumerate(others):
        assert store.offer(place, StoredValue(1, b"v", 9.0), Address(f"10.0.{n}.1", 1)) == 1
    assert set(others) <= {held for held, _ in store}
    assert len(store) == 40
    assert store.offer(
        PeerId(bytes(19) + b"\xff"), StoredValue(1, b"v", 9.0), Address("10.6.6.7", 1)
    )


def test_expired_records_leave_memory() -> None:
    now = [0.0]
    store = ours(lambda: now[0])
    for n in range(50):
        store.offer(key(n), StoredValue(1, b"v", 5.0), Address("127.0.0.9", 1))
    now[0] = 10.0
    store.cull()
    assert len(store) == 0
    assert store._by_source == store._distances == {}


def test_records_that_nobody_stored_lately_are_due() -> None:
    now = [0.0]
    store = ours(lambda: now[0])
    store.offer(key("a"), StoredValue(1, b"v", 90.0))
    store.offer(key("b"), StoredValue(1, b"v", 90.0))
    now[0] = 30.0
    store.offer(key("b"), StoredValue(1, b"v", 60.0))
    now[0] = 40.0
    assert [held for held, _ in store.unheard(35.0)] == [key("a")]
    store.mark_heard(key("a"))
    assert store.unheard(35.0) == []
