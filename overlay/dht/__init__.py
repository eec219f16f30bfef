"""A Kademlia DHT on the node's endpoint.

`DhtNode` is the node as a protocol core, `Dht` runs it on an endpoint and answers coroutines. What is used
of the `kademlia` package is in `upstream`; where another part does better than upstream, its docstring
names upstream's lines.
"""

from overlay.dht.config import DhtConfig
from overlay.dht.driver import Dht
from overlay.dht.lookup import LookupReport
from overlay.dht.messages import (
    BAD_TOKEN,
    MAX_VALUE_BYTES,
    StoredValue,
    StoreRefused,
    ValueTooLarge,
)
from overlay.dht.node import DhtNode
from overlay.dht.upkeep import NoBootstrapAnswer
from overlay.dht.values import PutOutcome

__all__ = [
    "BAD_TOKEN",
    "MAX_VALUE_BYTES",
    "Dht",
    "DhtConfig",
    "DhtNode",
    "LookupReport",
    "NoBootstrapAnswer",
    "PutOutcome",
    "StoreRefused",
    "StoredValue",
    "ValueTooLarge",
]
