"""Doors: how programs that are not peers take part in a network, by protocols that they speak already."""
