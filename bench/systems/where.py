"""Where a process's time goes: samples of what runs, each 1 ms of processor time, by layer of the project."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType

SAMPLE_SECONDS = 0.001

LAYERS = (
    ("overlay/transport", "datagrams"),
    ("overlay/turn", "datagrams"),
    ("overlay/identity", "signing"),
    ("pubsub/validation", "signing"),
    ("overlay/channel/", "channels"),
    ("overlay/runtime", "channels"),
    ("overlay/limited_msgpack", "encoding"),
    ("overlay/wire", "encoding"),
    ("pubsub/event.", "encoding"),
    ("pubsub/camcast/", "gossip"),
    ("pubsub/attach", "gossip"),
    ("pubsub/communities", "delivery"),
    ("pubsub/subscription", "delivery"),
    ("pubsub/", "publishing"),
    ("overlay/", "DHT and membership"),
    ("bench/", "measuring"),
)
"""The first part of a file's path that fits says which layer it belongs to."""

ELSEWHERE = "event loop"
"""What no file of the project is running: the loop, and system calls that it makes itself."""


@contextmanager
def sampled(samples: dict[str, int]) -> Iterator[None]:
    """Count samples of this process's main thread by layer, while the block runs."""

    def take(_: int, frame: FrameType | None) -> None:
        layer = layer_of(frame)
        samples[layer] = samples.get(layer, 0) + 1

    before = signal.signal(signal.SIGPROF, take)
    signal.setitimer(signal.ITIMER_PROF, SAMPLE_SECONDS, SAMPLE_SECONDS)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0.0)
        signal.signal(signal.SIGPROF, before)


def layer_of(frame: FrameType | None) -> str:
    """The layer of the innermost function that belongs to one, below the loop's own."""
    while frame is not None:
        path = frame.f_code.co_filename
        if path.endswith("overlay/loops.py"):
            break
        for part, layer in LAYERS:
            if "/" + part in path:
                return layer
        frame = frame.f_back
    return ELSEWHERE


def shares(*counts: Mapping[str, int]) -> dict[str, float]:
    """The part of all samples in each layer, the largest first."""
    total: dict[str, int] = {}
    for samples in counts:
        for layer, count in samples.items():
            total[layer] = total.get(layer, 0) + count
    everything = max(sum(total.values()), 1)
    ordered = sorted(total.items(), key=lambda item: -item[1])
    return {layer: count / everything for layer, count in ordered}
