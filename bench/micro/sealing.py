"""What it costs to seal a datagram and to open it, against leaving it plain.

Processor time, both envelopes in one run, for datagrams of the default size and of the largest on loopback.
"""

from __future__ import annotations

import time

from bench.micro.measurement import Measurement
from overlay.contact import PeerId
from overlay.transport.frame import Envelope, Kind, PlainEnvelope, frame_head
from overlay.transport.seal import SealedEnvelope, new_key

BODY = 256
"""Bytes of a frame's body."""

ROUNDS = 5
"""The fastest of so many rounds counts: the others were disturbed."""


def measure() -> list[Measurement]:
    """The cost of wrapping and unwrapping, sealed and plain, a datagram and a frame."""
    measurements: list[Measurement] = []
    for frames, datagrams in ((5, 5000), (230, 250)):
        measurements += _measure_size(frames, datagrams)
    return measurements


def _measure_size(frames: int, datagrams: int) -> list[Measurement]:
    key = new_key()
    alice, bob = PeerId(b"A" * 20), PeerId(b"B" * 20)
    parts = [frame_head(Kind.DATAGRAM, BODY), b"x" * BODY] * frames
    what = f"{frames} frames of {BODY} bytes"
    sealed = _costs(
        SealedEnvelope([key], alice, 1), SealedEnvelope([key], bob, 1), parts, datagrams
    )
    plain = _costs(PlainEnvelope(alice), PlainEnvelope(bob), parts, datagrams)
    return [
        Measurement("seal", sealed[0] * 1e6, "us/datagram", f"{what}; plain: {plain[0] * 1e6:.2f}"),
        Measurement("open", sealed[1] * 1e6, "us/datagram", f"{what}; plain: {plain[1] * 1e6:.2f}"),
        Measurement(
            "sealing adds",
            (sum(sealed) - sum(plain)) / frames * 1e6,
            "us/frame",
            f"both sides together, {what}",
        ),
    ]


def _costs(
    sender: Envelope, receiver: Envelope, parts: list[bytes], datagrams: int
) -> tuple[float, float]:
    """Seconds of processor time to wrap one datagram, and to unwrap it."""
    rounds = [_one_round(sender, receiver, parts, datagrams) for _ in range(ROUNDS)]
    return min(wrap for wrap, _ in rounds), min(unwrap for _, unwrap in rounds)


def _one_round(
    sender: Envelope, receiver: Envelope, parts: list[bytes], datagrams: int
) -> tuple[float, float]:
    start = time.process_time()
    wrapped = [sender.wrap(parts) for _ in range(datagrams)]
    half = time.process_time()
    for datagram in wrapped:
        receiver.unwrap(datagram)
    end = time.process_time()
    return (half - start) / datagrams, (end - half) / datagrams
