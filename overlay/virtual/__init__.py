"""A network in memory on a virtual clock: the real code, any fault, replayable by seed.

from overlay.virtual import Latency, Network

net = Network(seed=7, latency=Latency.uniform(0.005, 0.050), loss=0.05)
result = net.run(main(net))
"""

from overlay.virtual.deadlock import Deadlock
from overlay.virtual.host import HostCrashed, nth_host
from overlay.virtual.latency import Latency
from overlay.virtual.network import Network
from overlay.virtual.rules import DROP, PASS, Packet, Rule, Verdict
from overlay.virtual.stats import HostStats, Loss, Stats

__all__ = [
    "DROP",
    "PASS",
    "Deadlock",
    "HostCrashed",
    "HostStats",
    "Latency",
    "Loss",
    "Network",
    "Packet",
    "Rule",
    "Stats",
    "Verdict",
    "nth_host",
]
