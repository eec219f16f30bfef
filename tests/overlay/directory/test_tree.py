"""Points, shards and the order of a salt."""

from __future__ import annotations

from collections import Counter
from random import Random

import pytest
from scipy.stats import chisquare

from overlay.directory import DirectoryConfig
from overlay.directory.survey import TopicOutline
from overlay.directory.tree import Shard, by_rank, point_of, shard_at, topic_key
from overlay.errors import UsageError
from tests.overlay.directory.model_network import contact_of

TOPIC = topic_key("/soccer")


def test_a_point_is_in_one_shard_of_each_depth() -> None:
    for index in range(50):
        point = point_of(TOPIC, contact_of(Random(index), 0).id)
        for depth in (0, 1, 5, 32):
            shard = shard_at(TOPIC, depth, point)
            assert shard.holds(point)
            assert 0 <= shard.prefix < 1 << depth


def test_shards_are_kept_at_unrelated_places() -> None:
    keys = {Shard(TOPIC, depth, prefix).key for depth in range(8) for prefix in range(1 << depth)}
    assert len(keys) == 255
    first_bytes = Counter(key[0] >> 5 for key in keys)
    assert chisquare([first_bytes[part] for part in range(8)]).pvalue > 1e-3


def test_by_the_order_of_a_salt_everybody_is_first_equally_often() -> None:
    random = Random(4)
    members = [random.getrandbits(32) for _ in range(90)]
    first: Counter[int] = Counter()
    second: Counter[int] = Counter()
    for _ in range(9_000):
        order = by_rank(members, random.getrandbits(32))
        first[order[0]] += 1
        second[order[1]] += 1
    for places in (first, second):
        assert chisquare([places[member] for member in members]).pvalue > 1e-3


def test_even_neighbouring_numbers_are_first_equally_often() -> None:
    random = Random(5)
    first = Counter(by_rank(range(64), random.getrandbits(32))[0] for _ in range(6_400))
    assert chisquare([first[member] for member in range(64)]).pvalue > 1e-3


def test_an_outline_estimates_from_the_leaves_it_saw() -> None:
    outline = TopicOutline(TOPIC, life=60.0)
    assert (outline.size(), outline.share()) == (0.0, 0.0)
    outline.saw(Shard(TOPIC, 1, 0), 100.0, 0.0, thorough=True)
    outline.saw(Shard(TOPIC, 2, 2), 200.0, 0.0, thorough=True)
    assert outline.share() == 0.75
    assert outline.size() == pytest.approx((100 * 0.5 + 200 * 0.25) / 0.75)


def test_an_outline_forgets_what_a_split_or_a_merge_has_outdated() -> None:
    outline = TopicOutline(TOPIC, life=60.0)
    outline.saw(Shard(TOPIC, 0, 0), 100.0, 0.0, thorough=True)
    outline.saw(Shard(TOPIC, 2, 3), 120.0, 1.0, thorough=True)
    outline.saw(Shard(TOPIC, 2, 1), 130.0, 1.0, thorough=True)
    assert outline.leaf_at(0) is None
    outline.saw(Shard(TOPIC, 1, 1), 90.0, 2.0, thorough=True)
    known = outline.leaf_at((1 << 64) - 1)
    assert known is not None
    assert known[0] == Shard(TOPIC, 1, 1)
    assert len(outline) == 2
    outline.forget_old(62.0)
    assert len(outline) == 1


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("ttl", 0.0),
        ("replicas", 0),
        ("replicas", 21),
        ("root_replicas", 4),
        ("merge", 65),
        ("split", 224),
        ("capacity", 300),
        ("max_records", 0),
        ("announcement_burst", 0),
    ],
)
def test_a_configuration_that_cannot_work_names_its_field(field: str, value: float) -> None:
    with pytest.raises(UsageError, match=field):
        DirectoryConfig(**{field: value})  # type: ignore[arg-type]
