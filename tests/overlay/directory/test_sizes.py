"""How many members a topic has: exact below 64, within a tenth above."""

from __future__ import annotations

import pytest

from tests.overlay.directory.model_network import ModelNetwork


def check_size(network: ModelNetwork, readers: int = 5) -> None:
    """What newcomers are told of the topic's size."""
    true = len(network.members)
    for _ in range(readers):
        size = network.peer().size()
        if true < 64:
            assert (size.members, size.relative_error) == (true, 0.0)
        else:
            assert abs(size.members - true) <= 0.1 * true
            assert abs(size.members - true) <= 5 * size.relative_error * true + 0.01 * true


def kill_thirty_per_cent(network: ModelNetwork) -> None:
    members = list(network.members.values())
    for member in network.random.sample(members, round(0.3 * len(members))):
        network.kill(member)


@pytest.mark.parametrize(
    ("seed", "count", "loss"),
    [(1, 1, 0.2), (2, 10, 0.1), (3, 63, 0.2), (4, 100, 0.0), (5, 100, 0.2), (6, 1_000, 0.1)],
)
def test_sizes_are_right_at_once_and_one_time_to_live_after_thirty_per_cent_have_died(
    seed: int, count: int, loss: float
) -> None:
    network = ModelNetwork(seed, nodes=32, loss=loss)
    network.join(count, over=2.0)
    network.run(3.0)
    check_size(network)
    kill_thirty_per_cent(network)
    network.run(network.config.ttl)
    check_size(network)


def test_nobody_has_announced_an_unknown_topic() -> None:
    peer = ModelNetwork(seed=1, nodes=32).peer()
    assert peer.size("/unknown").members == 0
    assert peer.sample(5, "/unknown") == []
    assert peer.contacts(5, "/unknown") == []


def test_a_process_that_keeps_asking_is_told_of_growth_from_one_shard_to_many() -> None:
    network = ModelNetwork(seed=6, nodes=32)
    reader = network.peer()
    for step in (1, 9, 90, 300):
        network.join(step, over=1.0)
        network.run(network.config.size_life + 1)
        size = reader.size().members
        assert size == pytest.approx(len(network.members), rel=0.05)
