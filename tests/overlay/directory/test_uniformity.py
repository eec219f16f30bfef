"""Every live member is equally likely in a sample: chi-square on modelled nodes, by seed."""

from __future__ import annotations

import pytest

from overlay.directory import DirectoryConfig
from overlay.directory.sampler import Sampler
from tests.overlay.directory.model_network import ModelNetwork
from tests.overlay.directory.uniformity import count_draws, p_value

FIVE_SEEDS = (1, 2, 3, 4, 5)
UNLIKELY = 1e-3
BIASED = 1e-6


SMALL_SHARDS = DirectoryConfig(split=24, merge=8, capacity=64)
"""Many leaves for few members, and a density that differs more from one to the other."""


def settled_network(
    seed: int,
    nodes: int,
    members: int,
    loss: float = 0.0,
    config: DirectoryConfig | None = None,
) -> ModelNetwork:
    """A topic that has been there for a while."""
    network = ModelNetwork(seed, nodes, config, loss)
    network.join(members, over=2.0)
    network.run(network.config.record_life + 3)
    return network


def p_of_draws(network: ModelNetwork, draws: int, at_once: int) -> float:
    readers = [network.peer() for _ in range(4)]
    counts = count_draws(readers, network.members, draws, at_once)
    return p_value(counts, at_once, len(network.members))


@pytest.fixture(scope="module")
def network() -> ModelNetwork:
    return settled_network(seed=11, nodes=64, members=400, config=SMALL_SHARDS)


def test_draws_are_uniform(network: ModelNetwork) -> None:
    assert p_of_draws(network, draws=6_000, at_once=50) > UNLIKELY


def test_draws_are_uniform_while_a_fifth_of_the_datagrams_is_lost() -> None:
    network = settled_network(12, nodes=64, members=400, loss=0.2, config=SMALL_SHARDS)
    assert p_of_draws(network, draws=6_000, at_once=50) > UNLIKELY


def test_a_sampler_that_accepts_every_point_fails_the_same_test(
    network: ModelNetwork, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Members of sparse leaves are then drawn too often: the test would notice a bias."""
    monkeypatch.setattr(Sampler, "_share", lambda self, path, size: 3.0)
    assert p_of_draws(network, draws=6_000, at_once=50) < BIASED


def p_under_churn(
    network: ModelNetwork, seconds: int, draws_a_second: int, at_once: int, nodes_a_second: int
) -> float:
    """1 % of the members leave without a word each second, and as many come; so do DHT nodes.

    Drawn are the members that were there all the time.
    """
    readers = [network.peer() for _ in range(4)]
    totals = dict.fromkeys(network.members, 0)
    known = float(len(network.members))
    for _ in range(seconds):
        leaving = network.random.sample(list(network.members), len(network.members) // 100)
        for member in leaving:
            network.kill(network.members[member])
        network.join(len(leaving), over=1.0)
        for _ in range(nodes_a_second):
            network.kill_node(network.nodes[network.random.choice(list(network.nodes))])
            network.add_node()
        network.run(1.0)
        known += len(leaving) / 2
        for member, count in count_draws(readers, totals, draws_a_second, at_once).items():
            totals[member] += count
    there = {member: count for member, count in totals.items() if member in network.members}
    return p_value(there, at_once, round(known))


def test_draws_are_uniform_over_those_who_stay_while_others_come_and_go() -> None:
    network = settled_network(seed=21, nodes=64, members=400, config=SMALL_SHARDS)
    p = p_under_churn(network, seconds=10, draws_a_second=600, at_once=50, nodes_a_second=1)
    assert p > UNLIKELY


@pytest.mark.sweep
@pytest.mark.parametrize("seed", FIVE_SEEDS)
def test_two_thousand_members_on_256_nodes_are_drawn_uniformly(seed: int) -> None:
    """40,000 draws from a quiet topic, and as many through churn."""
    loss = (0.0, 0.0, 0.0, 0.1, 0.2)[seed - 1]
    network = settled_network(seed, nodes=256, members=2_000, loss=loss)
    assert p_of_draws(network, draws=40_000, at_once=400) > UNLIKELY
    p = p_under_churn(network, seconds=10, draws_a_second=4_000, at_once=400, nodes_a_second=1)
    assert p > UNLIKELY


@pytest.mark.sweep
def test_a_biased_sampler_fails_with_two_thousand_members_too(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Leaves of 64 to 128 members are about as dense, within 9 %: it takes more draws to tell them apart."""
    network = settled_network(seed=1, nodes=256, members=2_000)
    monkeypatch.setattr(Sampler, "_share", lambda self, path, size: 3.0)
    assert p_of_draws(network, draws=120_000, at_once=400) < BIASED
