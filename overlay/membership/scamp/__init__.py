"""SCAMP: partial views that grow with the logarithm of the community, which nobody knows in full.

`published` has the rule of Ganesh, Kermarrec and Massoulie, "Peer-to-peer membership management for
gossip-based protocols" (2003), and says where it goes further; `balance` and `census` have what is added
unless `balance` is False. `community` is what a process knows, `service` puts the parts together.
"""
