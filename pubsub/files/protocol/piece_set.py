"""Which pieces of a file somebody has: one bit a piece."""

from __future__ import annotations

from collections.abc import Iterator


class PieceSet:
    """A set of the numbers 0 to `total - 1`."""

    __slots__ = ("_bits", "count", "total")

    def __init__(self, total: int, bits: bytes = b"") -> None:
        self.total = total
        self._bits = bytearray(bits or bytes(-(-total // 8)))
        self.count = int.from_bytes(self._bits, "big").bit_count()

    @classmethod
    def full(cls, total: int) -> PieceSet:
        pieces = cls(total)
        for index in range(total):
            pieces.add(index)
        return pieces

    @classmethod
    def unpack(cls, total: int, packed: bytes) -> PieceSet | None:
        """The set that `packed` gave; None for bytes of another length or with bits too many."""
        if len(packed) != -(-total // 8) or (total % 8 and packed[-1] >> total % 8):
            return None
        return cls(total, packed)

    def packed(self) -> bytes:
        return bytes(self._bits)

    @property
    def is_full(self) -> bool:
        return self.count == self.total

    def add(self, index: int) -> None:
        if index not in self:
            self._bits[index >> 3] |= 1 << (index & 7)
            self.count += 1

    def __contains__(self, index: int) -> bool:
        return bool(self._bits[index >> 3] >> (index & 7) & 1)

    def missing(self) -> Iterator[int]:
        return (index for index in range(self.total) if index not in self)
