"""Puts the pieces of a stream in order and together into messages again, at a subscriber."""

from __future__ import annotations

from collections.abc import Callable

from pubsub.distributors.messages import Deliveries, Piece

Take = Callable[[bytes, int, bytes, int], None]
"""Called with a source, a number, the data and `Piece.lost` of each message, in the order of the stream."""


class Reception:
    """The stream of one distributor, from a place on."""

    def __init__(self, take: Take) -> None:
        self.expected = 1
        """The place of the next piece."""
        self.ahead: dict[int, Piece] = {}
        """Pieces that have overtaken it."""
        self._take = take
        self._parts: list[bytes] = []

    def begin(self, place: int) -> None:
        """Begin anew at a place, where a message begins."""
        self.expected = place
        self.ahead.clear()
        self._parts.clear()

    def receive(self, deliveries: Deliveries, room: int) -> None:
        """Take consecutive pieces, at most `room` places beyond the next one."""
        place, furthest = deliveries.first, self.expected + room
        for piece in deliveries.pieces:
            if place == self.expected:
                self._advance(piece)
            elif self.expected < place < furthest:
                self.ahead[place] = piece
            place += 1
        while self.ahead and (next_piece := self.ahead.pop(self.expected, None)) is not None:
            self._advance(next_piece)

    def missing(self, most: int) -> tuple[int, ...]:
        """The first places that were overtaken."""
        if not self.ahead:
            return ()
        places: list[int] = []
        for place in range(self.expected, max(self.ahead)):
            if place not in self.ahead:
                places.append(place)
                if len(places) == most:
                    break
        return tuple(places)

    def _advance(self, piece: Piece) -> None:
        self.expected += 1
        if piece.count == 1:
            self._take(piece.source, piece.sequence, piece.data, piece.lost)
            return
        self._parts.append(piece.data)
        if piece.number == piece.count - 1:
            data = b"".join(self._parts)
            self._parts.clear()
            self._take(piece.source, piece.sequence, data, piece.lost)
