"""A distributor takes the settings of a node that mean something to it, and refuses the others by name."""

from __future__ import annotations

import pytest

from overlay.contact import Address
from overlay.errors import UsageError
from pubsub.distributors import Distributor
from pubsub.distributors.settings import inner_client, inner_node

TOPICS = {"football": "/soccer"}


def test_what_runs_inside_is_known_by_the_host_and_a_port_of_its_own() -> None:
    here = Address("192.0.2.1", 4000)
    settings = {"listen": "0.0.0.0:4000", "advertise": str(here), "insecure": True}
    outer = Distributor(topics=TOPICS, **settings).node
    feed = inner_node(outer, here)
    assert (feed.listen, feed.advertise) == ("0.0.0.0:0", "192.0.2.1:0")
    assert feed.bootstrap == ("192.0.2.1:4000",)
    client = inner_client(outer, here)
    assert (client["listen"], client["advertise"]) == ("0.0.0.0:0", "192.0.2.1:0")


def test_topics_are_refused_where_one_port_stands_for_another() -> None:
    settings = {"listen": "127.0.0.1:4000", "advertise": "192.0.2.1:9000"}
    with pytest.raises(UsageError, match=r"advertise=192.0.2.1:9000 is not the port of listen"):
        Distributor(topics=TOPICS, **settings)
    Distributor(["ticker"], **settings)
