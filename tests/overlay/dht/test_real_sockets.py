"""The same nodes on the real loop and real sockets of loopback: plain, sealed with verified ids, IPv6."""

from __future__ import annotations

import asyncio
import socket

import pytest

from overlay.dht import Dht, DhtConfig
from overlay.identity import Identity
from overlay.loops import run
from overlay.metrics import Metrics
from overlay.session import new_key
from overlay.transport.config import EndpointConfig
from overlay.transport.endpoint import Endpoint
from tests.overlay.dht.swarm import key


def has_ipv6() -> bool:
    try:
        with socket.socket(socket.AF_INET6, socket.SOCK_DGRAM) as probe:
            probe.bind(("::1", 0))
    except OSError:
        return False
    return True


async def network(listen: str, keys: tuple[bytes, ...], config: DhtConfig) -> None:
    nodes: list[tuple[Endpoint, Dht]] = []
    try:
        for _ in range(10):
            endpoint = await Endpoint.open(
                EndpointConfig(listen, keys=keys), Identity.create(), Metrics()
            )
            dht = Dht(endpoint, config)
            nodes.append((endpoint, dht))
            await dht.join([nodes[0][1].contact.address])
        goal = int.from_bytes(key("x"), "big")
        contacts = [dht.contact for _, dht in nodes]
        closest = sorted(contacts, key=lambda contact: int.from_bytes(contact.id, "big") ^ goal)[:5]
        results = await asyncio.gather(*(dht.closest(key("x"), 5) for _, dht in nodes))
        assert all(found == closest for found in results)
        assert (await nodes[3][1].put(key("k"), b"value", 1, 60.0)).replicas == 10
        record = await nodes[7][1].get(key("k"))
        assert record is not None
        assert record.value == b"value"
    finally:
        for endpoint, dht in nodes:
            dht.close()
            await endpoint.close()


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "[::1]:0"])
def test_real_nodes_find_each_other_and_keep_values(listen: str) -> None:
    if "::" in listen and not has_ipv6():
        pytest.skip("this machine has no IPv6")
    run(network(listen, (), DhtConfig()))


def test_sealed_nodes_with_verified_ids_do_the_same() -> None:
    run(network("127.0.0.1:0", (new_key(),), DhtConfig(verify_ids=True)))
