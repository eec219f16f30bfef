"""No node is hot: neither records nor datagrams of one large topic concentrate.

The pure directory on modelled nodes: 20,000 members on 512 nodes, all of them joining within 15 seconds,
which is when the root of the tree is needed most.
"""

from __future__ import annotations

import pytest

from overlay.directory import DirectoryConfig
from tests.overlay.directory.model_network import ModelNetwork
from tests.overlay.directory.test_sizes import check_size, kill_thirty_per_cent

FACTOR = 8

A_READER = 2.0
"""Questions of one newcomer's sample that the most asked node answers, at most. Of 20,000 members it is not
held against the mean over all nodes, which falls when a sample reads fewer leaves."""


def check_balance(network: ModelNetwork) -> None:
    records = [node.server.records for node in network.nodes.values()]
    served = [node.served for node in network.nodes.values()]
    assert max(records) <= FACTOR * sum(records) / len(records)
    assert max(served) <= FACTOR * sum(served) / len(served)


def sample_from_everywhere(network: ModelNetwork, readers: int) -> None:
    """Count only what processes that know nothing of the topic yet cost."""
    for node in network.nodes.values():
        node.served = 0
    for _ in range(readers):
        assert len(network.peer().sample(12)) == 12
    assert max(node.served for node in network.nodes.values()) <= A_READER * readers


def test_six_hundred_members_joining_at_once_make_no_node_hot() -> None:
    config = DirectoryConfig(split=24, merge=8, capacity=64)
    network = ModelNetwork(seed=1, nodes=128, config=config)
    network.join(600, over=15.0)
    network.run(16.0)
    check_balance(network)
    sample_from_everywhere(network, readers=20)
    check_balance(network)


@pytest.mark.sweep
def test_twenty_thousand_members_on_512_nodes_make_no_node_hot_and_are_counted() -> None:
    network = ModelNetwork(seed=1, nodes=512)
    network.join(20_000, over=15.0)
    network.run(16.0)
    check_balance(network)
    check_size(network)
    sample_from_everywhere(network, readers=300)
    kill_thirty_per_cent(network)
    network.run(network.config.ttl)
    check_balance(network)
    check_size(network)
