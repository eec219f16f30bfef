"""A token is good for the peer it was given to, for a while."""

from __future__ import annotations

import random

from overlay.contact import Contact
from overlay.dht.trust import AddressTokens
from tests.overlay.dht.swarm import key

PEER = Contact(key("peer"), "127.0.0.1", 4000)


def make() -> AddressTokens:
    return AddressTokens(random.Random(1).randbytes, lifetime=100.0, now=0.0)


def test_a_token_is_good_for_its_id_and_address_only() -> None:
    tokens = make()
    token = tokens.token_for(PEER, 0.0)
    assert tokens.accepts(PEER, token, 1.0)
    assert not tokens.accepts(Contact(PEER.id, "127.0.0.2", 4000), token, 1.0)
    assert not tokens.accepts(Contact(PEER.id, "127.0.0.1", 4001), token, 1.0)
    assert not tokens.accepts(Contact(key("other"), "127.0.0.1", 4000), token, 1.0)
    assert not tokens.accepts(PEER, b"", 1.0)
    assert not tokens.accepts(PEER, bytes(8), 1.0)


def test_a_token_outlives_one_change_of_the_secret_and_not_two() -> None:
    tokens = make()
    token = tokens.token_for(PEER, 99.0)
    assert tokens.accepts(PEER, token, 101.0)
    assert tokens.accepts(PEER, token, 199.0)
    assert not tokens.accepts(PEER, token, 201.0)


def test_a_node_that_slept_for_long_takes_no_old_token() -> None:
    tokens = make()
    token = tokens.token_for(PEER, 0.0)
    assert not tokens.accepts(PEER, token, 10_000.0)
    assert tokens.accepts(PEER, tokens.token_for(PEER, 10_000.0), 10_050.0)


def test_secrets_differ_between_nodes() -> None:
    other = AddressTokens(random.Random(2).randbytes, lifetime=100.0, now=0.0)
    assert not other.accepts(PEER, make().token_for(PEER, 0.0), 0.0)
