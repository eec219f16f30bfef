"""Durable delivery: archives that keep the events of a topic and replay them."""
