"""How many members there are, from what heartbeats carry along the views.

Time is cut into epochs. In each epoch every member draws 32 random bits, and each heartbeat and echo carries
the 64 smallest draws that its sender has heard of; so after about log2 N heartbeats everyone knows the 64
smallest of all. Up to 63 draws are counted one by one. With more members, the 64th smallest as a fraction
u of the range gives 63 / u: unbiased, with a relative standard error of 1 / sqrt(62) = 13 % in N, and so 0.13
in ln N. All members see the same draws, so all err alike; the next epoch errs anew.

An epoch lasts 30 heartbeats. It is ripe when its draws have reached everyone: when 8 messages in a row held
the very draws that this member knew, or after 20 heartbeats. Until then the last ripe one counts, unless this
one has already seen clearly more members, so that newcomers that matter count at once. Members that left or
crashed count until the next epoch is ripe. A member that has lost a sixth of its view in an epoch begins the
next as soon as 16 messages agreed, and all who hear of it follow. When a third or a half of up to 1,000
members crash, the rest know their number 10 to 25 heartbeats later; 20 to 50 would pass without.

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
"""The part of an epoch after which its draws have reached everyone, agreed or not: 20 heartbeats; at N =
20,000 a draw needs about log2 N = 14."""

AGREEING = 8
"""Messages in a row that bring the draws that are known: by about two a heartbeat, four heartbeats' worth."""

AGREED_BY_ALL = 2 * AGREEING
"""Messages in a row after which the others, too, may be taken to have agreed."""

MANY_LOST = 1 / 6
"""The part of a view whose loss within one epoch begins the next."""

CLEARLY_MORE = 1.4
"""Two estimates of one size differ by more than this factor once in a few dozen epochs."""

_HEAD = struct.Struct(">IB")
_WHOLE_EPOCH = 255
_RANGE = float(2**DRAW_BITS)


class Census:
    """What one member knows of the current epoch's draws."""

    __slots__ = (
        "_agreeing",
        "_began",
        "_draws",
        "_epoch",
        "_has_lost_many",
        "_last_ripe",
        "_lost",
        "_packed",
        "_random",
        "_seconds",
    )

    def __init__(self, random: Randomness, now: float, heartbeat_seconds: float) -> None:
        self._random = random
        self._seconds = heartbeat_seconds * EPOCH_HEARTBEATS
        self._last_ripe = 1.0
        self._began = now
        self._agreeing = 0
        self._enter(0, now, now)

    def size(self, now: float) -> float:
        """The estimated number of members, this one included; at least 1."""
        estimate, last = self._estimate(), self._last_ripe
        if self._is_ripe(now):
            return estimate
        is_growth = estimate > (last if last < REGISTERS else CLEARLY_MORE * last)
        return estimate if is_growth else last

    def lost_member(self, remaining: int) -> None:
        """A member of the view is gone, and `remaining` are left."""
        self._lost += 1
        self._has_lost_many = self._lost >= MANY_LOST * (self._lost + remaining)

    def packed(self, now: float) -> bytes:
        """What another member needs to know, at most 261 bytes."""
        is_outdated = self._has_lost_many and self._agreeing >= AGREED_BY_ALL
        if is_outdated or now - self._began >= self._seconds:
            self._enter((self._epoch + 1) % 2**32, now, now)
        age = int((now - self._began) / self._seconds * _WHOLE_EPOCH)
        return _HEAD.pack(self._epoch, max(0, min(age, _WHOLE_EPOCH))) + self._packed

    def merge(self, packed: bytes, now: float) -> bool:
        """Take in what another member knows; False, and nothing done, for bytes that are not a census."""
        count, rest = divmod(len(packed) - _HEAD.size, 4)
        if rest or not 0 <= count <= REGISTERS:
            return False
        epoch, age = _HEAD.unpack_from(packed)
        ahead = (epoch - self._epoch) % 2**32
        if 0 < ahead < 2**31:
            self._enter(epoch, now, now - age / _WHOLE_EPOCH * self._seconds)
        if ahead < 2**31:
            if packed[_HEAD.size :] == self._packed:
                self._agreeing += 1
            else:
                self._add(struct.unpack_from(f">{count}I", packed, _HEAD.size))
                if self._agreeing < AGREEING:
                    self._agreeing = 0
        return True

    def _is_ripe(self, now: float) -> bool:
        return self._agreeing >= AGREEING or now - self._began >= RIPE * self._seconds

    def _enter(self, epoch: int, now: float, began: float) -> None:
        # Others found the epoch over; who agreed with even one of them knew as much as they.
        if self._agreeing or self._is_ripe(now):
            self._last_ripe = self._estimate()
        self._epoch = epoch
        self._began = began
        self._lost = 0
        self._has_lost_many = False
        self._agreeing = 0
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
