"""SCAMP: partial views that grow with the logarithm of the community, which nobody knows in full.

One part of the protocol a file: `forwarding` (subscription), `indirection` (a near-uniform contact),
`joining` (what a newcomer does), `heartbeat`, `unsubscription`, `census` (how many members there are), and
`service`, which puts them together. The protocol is that of Ganesh, Kermarrec and Massoulie, "Peer-to-peer
membership management for gossip-based protocols" (2003); each file says where it goes further.
"""
