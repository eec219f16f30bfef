"""One publisher and S subscriber processes on loopback: how many events a second, how late, at what cost.

The same work is done by nodes of this project and, in the same run, by plain asyncio-dgram with a window of
unacknowledged events, which is what a fan-out costs without discovery, gossip or recovery.
"""
