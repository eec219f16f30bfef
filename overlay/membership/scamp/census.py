"""How many members there are, from what heartbeats carry along the views.

Time is cut into epochs. In each epoch every member draws 32 random bits, and each heartbeat and echo carries
the 64 smallest draws that its sender has heard of; so after about log2 N heartbeats everyone knows the 64
smallest of all. Up to 63 draws are counted one by one. With more members, the 64th smallest as a fraction
u of the range gives 63 / u: unbiased, with a relative standard error of 1 / sqrt(62) = 13 % in N, and so 0.13
in ln N. All members see the same draws, so all err alike; the next epoch errs anew.

An epoch lasts 30 heartbeats and is ripe after 20. Until then the last ripe one counts, unless this one has
already seen clearly more members: newcomers that matter count at once, members that left or crashed count for
20 to 50 heartbeats more.

Nobody's clock is trusted: a member enters an epoch when its own time has come or when it first hears of it.
Epochs are compared modulo 2^32, so that communities that meet after a partition agree on one.

SCAMP's own estimate, exp(mean view / (c + 1)), is off by a factor of two and more, for duplicates and
departures move the mean view by one.
"""

from __future__ import annotations

import struct

from overlay.context import Randomness

REGISTERS = 64
DRAW_BITS = 32  # the draws travel as unsigned 32-bit integers
EPOCH_HEARTBEATS = 30
RIPE = 2 / 3
"""The part of an epoch after which its draws have reached everyone: 20 heartbeats; at N = 20,000 a draw
needs about log2 N = 14."""

CLEARLY_MORE = 1.4
"""Two estimates of one size differ by more than this factor once in a few dozen epochs."""

_HEAD = struct.Struct(">IB")
_WHOLE_EPOCH = 255
_RANGE = float(2**DRAW_BITS)


class Census:
    """What one member knows of the current epoch's draws."""

    __slots__ = ("_began", "_draws", "_epoch", "_last_ripe", "_packed", "_random", "_seconds")

    def __init__(self, random: Randomness, now: float, heartbeat_seconds: float) -> None:
        self._random = random
        self._seconds = heartbeat_seconds * EPOCH_HEARTBEATS
        self._last_ripe = 1.0
        self._began = now
        self._enter(0, now, now)

    def size(self, now: float) -> float:
        """The estimated number of members, this one included; at least 1."""
        estimate, last = self._estimate(), self._last_ripe
        if now - self._began >= RIPE * self._seconds:
            return estimate
        is_growth = estimate > (last if last < REGISTERS else CLEARLY_MORE * last)
        return estimate if is_growth else last

    def packed(self, now: float) -> bytes:
        """What another member needs to know, at most 261 bytes."""
        if now - self._began >= self._seconds:
            self._enter((self._epoch + 1) % 2**32, now, now)
        age = int((now - self._began) / self._seconds * _WHOLE_EPOCH)
        return _HEAD.pack(self._epoch, max(0, min(age, _WHOLE_EPOCH))) + self._packed

    def merge(self, packed: bytes, now: float) -> bool:
        """Take in what another member knows; False, and nothing done, for bytes that are no census."""
        count, rest = divmod(len(packed) - _HEAD.size, 4)
        if rest or not 0 <= count <= REGISTERS:
            return False
        epoch, age = _HEAD.unpack_from(packed)
        ahead = (epoch - self._epoch) % 2**32
        if 0 < ahead < 2**31:
            self._enter(epoch, now, now - age / _WHOLE_EPOCH * self._seconds)
        if ahead < 2**31 and packed[_HEAD.size :] != self._packed:
            self._add(struct.unpack_from(f">{count}I", packed, _HEAD.size))
        return True

    def _enter(self, epoch: int, now: float, began: float) -> None:
        if now - self._began >= RIPE * self._seconds:
            self._last_ripe = self._estimate()
        self._epoch = epoch
        self._began = began
        self._draws: tuple[int, ...] = ()
        self._add((self._random.getrandbits(DRAW_BITS),))

    def _add(self, draws: tuple[int, ...]) -> None:
        self._draws = tuple(sorted({*self._draws, *draws})[:REGISTERS])
        self._packed = struct.pack(f">{len(self._draws)}I", *self._draws)

    def _estimate(self) -> float:
        if len(self._draws) < REGISTERS:
            return float(len(self._draws))
        fraction = (self._draws[-1] + 1) / _RANGE
        return max((REGISTERS - 1) / fraction, float(REGISTERS))
