"""Replicas in bad faith: nothing raises, honest members stay equally likely, nobody is made up."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from overlay.directory import DirectoryConfig
from overlay.directory.tree import Shard, topic_key
from tests.overlay.directory import hostile
from tests.overlay.directory.model_network import TOPIC, Answer, ModelNetwork, ModelNode
from tests.overlay.directory.uniformity import count_draws, p_value

Kind = Callable[[ModelNetwork, ModelNode], Answer]
NODES = 120
HOSTILE = 8


def turn_hostile(network: ModelNetwork, kinds: tuple[Kind, ...]) -> None:
    """Some nodes, so that no shard has three of them among its five replicas: a majority could lie."""
    nodes = list(network.nodes.values())
    for _ in range(100):
        chosen = network.random.sample(nodes, HOSTILE)
        ids = {node.contact.id for node in chosen}
        if all(
            sum(contact.id in ids for contact in network.closest(shard.key, 5, 0)) < 3
            for depth in range(7)
            for prefix in range(1 << depth)
            for shard in [Shard(topic_key(TOPIC), depth, prefix)]
        ):
            break
    else:
        pytest.fail("no such choice of nodes")
    for index, node in enumerate(chosen):
        node.answer = kinds[index % len(kinds)](network, node)


@pytest.mark.parametrize(
    "kind", [*hostile.KINDS, None], ids=lambda kind: getattr(kind, "__name__", "all")
)
def test_honest_members_stay_uniform_and_nobody_else_is_drawn(kind: Kind | None) -> None:
    network = ModelNetwork(3, NODES, DirectoryConfig(split=24, merge=8, capacity=64))
    turn_hostile(network, hostile.KINDS if kind is None else (kind,))
    network.join(150, over=2.0)
    network.run(3 * network.config.period + 3)
    readers = [network.peer() for _ in range(3)]
    counts = count_draws(readers, network.members, draws=1_500, at_once=30)
    assert sum(counts.values()) >= 0.99 * 1_500
    assert p_value(counts, 30, len(network.members)) > 1e-3
    size = readers[0].size().members
    assert size == pytest.approx(150, rel=0.02)
