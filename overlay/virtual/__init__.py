"""A network in memory on a virtual clock: the real code, under any fault, replayable by seed.

    from overlay.virtual import DROP, Latency, Network

    net = Network(seed=7, latency=Latency.uniform(0.005, 0.050), loss=0.05, duplicate=0.01)
    result = net.run(main(net))            # runs to completion in virtual time

and within `main`:

    net.spawn("127.0.0.2", coroutine)      # a program of that host, which dies with it
    net.partition({"127.0.0.2", "127.0.0.3"}, {"127.0.0.4"}); net.heal()
    net.crash("127.0.0.3"); net.restart("127.0.0.3"); net.slow("127.0.0.4", factor=20)
    net.link("127.0.0.2", "127.0.0.4", loss=0.5); net.skew("127.0.0.4", offset=2.0, rate=1.001)
    with net.rule(lambda packet: DROP if len(packet.data) > 1000 else None):
        ...
    with net.capture() as packets:
        ...
    net.trace_hash, net.stats

Programs are any that open datagram endpoints on the running loop. They take time and timers from the
loop and chance from `overlay.entropy`, `random` or `os.urandom`; the same seed then gives the same run, as
long as they never walk a set of strings, bytes or plain objects.
"""

from overlay.virtual.hosts import HostCrashed, HostStats, Loss, Stats, nth_host
from overlay.virtual.links import DROP, PASS, Latency, Packet, PacketVerdict, Rule
from overlay.virtual.loop import Deadlock
from overlay.virtual.network import Network

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
    "PacketVerdict",
    "Rule",
    "Stats",
    "nth_host",
]
