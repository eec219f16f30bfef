"""Hierarchies of communities made of real nodes: what they are told, and where they run."""
