"""CAMCAST: gossip within communities, and upward from a community to its super-communities."""
