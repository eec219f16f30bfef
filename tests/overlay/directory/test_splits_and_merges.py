"""The tree follows the topic: shards split and merge, and nobody is lost or counted twice on the way."""

from __future__ import annotations

from collections import Counter

import pytest

from overlay.directory import DirectoryConfig
from overlay.directory.announcer import Stay
from overlay.directory.tree import Shard, point_of, shard_at, topic_key
from tests.overlay.directory.model_network import TOPIC, ModelNetwork, ModelPeer, drive

SMALL = DirectoryConfig(split=16, merge=8, capacity=64)
SPARSE = DirectoryConfig(split=48, merge=16, capacity=96)
KEY = topic_key(TOPIC)


def stay(member: ModelPeer) -> Stay:
    return member.service._announcer._stays[KEY]


def leaves(network: ModelNetwork) -> Counter[Shard]:
    """Where the members believe that they live."""
    return Counter(
        shard_at(KEY, stay(member).depth, point_of(KEY, member.contact.id))
        for member in network.members.values()
    )


def listed(network: ModelNetwork) -> set[bytes]:
    """Everyone that a newcomer finds when it asks for all."""
    found = network.peer().sample(2 * len(network.members))
    assert len({contact.id for contact in found}) == len(found)
    return {contact.id for contact in found}


def test_a_growing_topic_splits_and_everyone_is_found_at_every_step() -> None:
    network = ModelNetwork(seed=1, nodes=40, config=SMALL)
    for _ in range(12):
        network.join(15, over=4.0)
        network.run(5.0)
        assert listed(network) == set(network.members)
    network.run(2 * network.config.period)
    assert max(leaves(network).values()) <= SMALL.split
    assert min(shard.depth for shard in leaves(network)) >= 2


@pytest.mark.parametrize(
    "seed", [2, 11, *(pytest.param(seed, marks=pytest.mark.sweep) for seed in (5, 7, 9, 10, 12))]
)
def test_a_shrinking_topic_merges_down_to_one_shard_and_everyone_is_found_at_every_step(
    seed: int,
) -> None:
    """With seeds 5 to 12 the few that were left deep in the tree had left no trace above, by chance."""
    network = ModelNetwork(seed=seed, nodes=40, config=SPARSE)
    network.join(300, over=4.0)
    network.run(network.config.ttl)
    depth = max(shard.depth for shard in leaves(network))
    while len(network.members) > 3:
        for member in list(network.members.values())[: len(network.members) // 3]:
            network.kill(member)
            member.withdraw()
        network.run(network.config.period)
        assert listed(network) == set(network.members)
    network.run(3 * network.config.ttl)
    assert depth >= 3
    assert set(leaves(network)) == {Shard(KEY, 0, 0)}


def test_no_shard_is_listed_beyond_what_a_reply_holds_when_a_crowd_arrives_at_once() -> None:
    network = ModelNetwork(seed=3, nodes=40, config=SMALL)
    network.join(300)
    network.run(network.config.period)
    assert listed(network) == set(network.members)
    assert all(
        len(held.members) <= SMALL.capacity
        for node in network.nodes.values()
        for held in node.server._store._shards.values()
    )


def test_the_tree_survives_that_a_third_of_the_nodes_dies_at_once() -> None:
    network = ModelNetwork(seed=4, nodes=60, config=SMALL)
    network.join(200, over=4.0)
    network.run(network.config.ttl)
    before = leaves(network)
    for node in network.random.sample(list(network.nodes.values()), 20):
        network.kill_node(node)
    network.run(network.config.period)
    assert listed(network) == set(network.members)
    network.run(network.config.ttl)
    assert leaves(network) == before


@pytest.mark.parametrize("seed", [1, 2, 3, 19])
def test_the_last_few_of_a_large_topic_are_found_one_time_to_live_after_the_others_crashed(
    seed: int,
) -> None:
    network = ModelNetwork(seed, nodes=40, config=SPARSE)
    members = network.join(300, over=4.0)
    network.run(network.config.ttl)
    for member in members[3:]:
        network.kill(member)
    network.run(network.config.ttl)
    assert listed(network) == set(network.members)
    assert set(leaves(network)) == {Shard(KEY, 0, 0)}


def test_a_member_alone_in_a_shard_that_is_too_deep_finds_back() -> None:
    network = ModelNetwork(seed=5, nodes=40, config=SMALL)
    network.join(20, over=2.0)
    network.run(network.config.ttl)
    lost = next(iter(network.members.values()))
    stay(lost).depth = 30
    network.run(2 * network.config.period)
    assert stay(lost).depth <= 3
    assert listed(network) == set(network.members)


def test_a_member_that_moved_up_can_come_back_down() -> None:
    network = ModelNetwork(seed=9, nodes=40, config=SMALL)
    member = network.join(1)[0]
    announcer = member.service._announcer
    for depth in (2, 0, 2):
        if depth < stay(member).depth:
            drive(announcer._move_up(stay(member), depth))
        else:
            stay(member).depth = depth
            drive(announcer._settle(stay(member)))
        shard = shard_at(KEY, depth, point_of(KEY, member.contact.id))
        for contact in network.closest(shard.key, SMALL.replicas, 0):
            held = network.nodes[contact.id].server._store.held(shard)
            assert held is not None
            assert member.contact.id in held.members


def test_twenty_nodes_around_the_root_of_a_large_topic_know_how_deep_it_is() -> None:
    network = ModelNetwork(seed=10, nodes=60, config=SMALL)
    network.join(400, over=2.0)
    network.run(network.config.ttl)
    root = Shard(KEY, 0, 0)
    for contact in network.closest(root.key, 20, 0):
        held = network.nodes[contact.id].server._store.held(root)
        assert held is not None
        assert abs(held.hint() - 5) <= 1


@pytest.mark.parametrize("count", [1, 12, 63])
def test_under_64_members_every_question_is_one_lookup_at_most(count: int) -> None:
    network = ModelNetwork(seed=6, nodes=200)
    network.join(count, over=2.0)
    network.run(network.config.ttl)
    for question in ("contacts", "sample"):
        peer = network.peer()
        assert len(getattr(peer, question)(12)) == min(count, 12)
        assert peer.lookups <= 1
        assert peer.asks <= 6
    peer = network.peer()
    assert peer.size().members == count
    assert len(peer.sample(12)) == min(count, 12)
    assert peer.lookups <= 1


def test_a_process_that_keeps_sampling_pays_a_few_datagrams_a_draw() -> None:
    config = DirectoryConfig(split=64, merge=20, capacity=128)
    network = ModelNetwork(seed=7, nodes=64, config=config)
    network.join(440, over=2.0)
    network.run(network.config.ttl)
    peer = network.peer()
    for _ in range(20):
        peer.sample(10)
    asks, lookups = peer.asks, peer.lookups
    for _ in range(20):
        peer.sample(10)
    assert (peer.asks - asks) / 200 <= 4
    assert peer.lookups == lookups


def test_a_light_look_at_a_large_topic_leaves_the_root_alone() -> None:
    network = ModelNetwork(seed=8, nodes=64, config=SMALL)
    network.join(300, over=2.0)
    network.run(network.config.ttl)
    root = network.closest(Shard(KEY, 0, 0).key, 20, 0)
    peer = network.peer()
    peer.sample(5)
    for node in network.nodes.values():
        node.served = 0
    for _ in range(10):
        peer.sample(5)
    at_root = [network.nodes[contact.id].served for contact in root]
    total = sum(node.served for node in network.nodes.values())
    assert sum(at_root) / total < 2 * len(root) / len(network.nodes)
