"""The stacks by name: what `qos="urb"` stands for, and with which order on top."""

from __future__ import annotations

from collections.abc import Callable

from overlay.errors import UsageError
from pubsub.broadcast.kernel import Layer, Stack
from pubsub.broadcast.links import BestEffort, PerfectDetector, PerfectLinks, UnreliableLinks
from pubsub.broadcast.log import StableLog
from pubsub.broadcast.majority import IndulgentUniform
from pubsub.broadcast.order import CausalLayer, FifoLayer
from pubsub.broadcast.probabilistic import Probabilistic
from pubsub.broadcast.reliable import LazyReliable, UniformAllAck

PATIENCE = 2.0
"""Seconds that an order waits for what may never come: a message that probabilistic broadcast missed, or,
for causal order, one that best-effort broadcast brought to others alone before its sender crashed."""

_STACKS: dict[str, Callable[[], tuple[Layer, ...]]] = {
    "beb": lambda: (BestEffort(), PerfectLinks()),
    "rb": lambda: (LazyReliable(), PerfectDetector(), BestEffort(), PerfectLinks()),
    "urb": lambda: (UniformAllAck(), PerfectDetector(), BestEffort(), PerfectLinks()),
    "iurb": lambda: (IndulgentUniform(), BestEffort(), PerfectLinks()),
    "pb": lambda: (Probabilistic(), UnreliableLinks()),
}

NAMES = tuple(_STACKS)
ORDERS = ("none", "fifo", "causal")
NEED_DETECTOR = ("rb", "urb")
"""The stacks that deliver to all only once the failure detector was started."""


def stack(name: str, order: str = "none", probabilistic: Probabilistic | None = None) -> Stack:
    """The stack of this name, with `fifo` or `causal` order on top; `UsageError` for any other name."""
    if name not in _STACKS:
        raise UsageError(f"qos={name!r} is none of {', '.join(NAMES)}")
    if order not in ORDERS:
        raise UsageError(f"order={order!r} is none of {', '.join(ORDERS)}")
    layers = _STACKS[name]()
    if name == "pb" and probabilistic is not None:
        layers = (probabilistic, *layers[1:])
    if order == "fifo":
        layers = (FifoLayer(PATIENCE if name == "pb" else None), *layers)
    elif order == "causal":
        layers = (CausalLayer(PATIENCE if name in ("pb", "beb") else None), *layers)
    return Stack([*layers], name)


def recoverable(log: StableLog) -> Stack:
    """The stack of `iurb` whose members come back from a crash with their logs."""
    return Stack([IndulgentUniform(log=log), BestEffort(), PerfectLinks()], "iurb")
