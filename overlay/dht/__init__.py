"""A Kademlia DHT on the node's endpoint: `kademlia`'s parts, overridden where they are wrong.

`Dht` is the front door. Below it `server`, `protocol`, `lookup`, `routing_table`, `bucket` and
`record_store` derive from upstream's classes, and the docstring of every override names the lines that it
replaces; what they do not override is upstream's.
"""

from overlay.dht.config import DhtConfig
from overlay.dht.dht import Dht
from overlay.dht.errors import NoBootstrapAnswer, ValueTooLarge
from overlay.dht.lookup import LookupReport
from overlay.dht.messages import BAD_TOKEN, MAX_VALUE_BYTES, Record, Refused
from overlay.dht.server import PutOutcome

__all__ = [
    "BAD_TOKEN",
    "MAX_VALUE_BYTES",
    "Dht",
    "DhtConfig",
    "LookupReport",
    "NoBootstrapAnswer",
    "PutOutcome",
    "Record",
    "Refused",
    "ValueTooLarge",
]
