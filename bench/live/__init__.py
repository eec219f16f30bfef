"""Populations of real nodes in real processes over UDP on loopback, for the live tier."""
