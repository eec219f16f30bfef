"""Populations of real nodes on the virtual network, for the emulated tier."""
