"""Answers a subscriber that lacks messages which its distributor's stream no longer holds.

The subscriber asks for a range of a source's messages; the answer holds as many consecutive pieces as fit a
datagram, or says from which number on there is something. It is asked again until it has everything.

A distributor first looks into its own log; then into its `History`, which is told every message that enters
the log and may keep it longer, as an archive does. What neither has is a gap, and the subscriber is told so.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from overlay.contact import Contact
from overlay.context import Context
from pubsub.distributors.messages import Piece, Publication, Recalled, Want
from pubsub.distributors.protocol.fanout import HEAD_BYTES, PIECE_HEAD_BYTES
from pubsub.distributors.protocol.service import Service

Found = Callable[[Sequence[Publication]], None]


class History(Protocol):
    """Past messages of services, by source and number."""

    def record(self, publication: Publication) -> None:
        """A message has entered the distributor's log."""
        ...

    def read(self, service: str, source: bytes, first: int, last: int, found: Found) -> None:
        """Call `found` once, now or later, with messages `first`, `first + 1`... as far as there are any.

        It may find fewer than were asked for, for reasons of size; none means that `first` is not there.
        """
        ...


class NoHistory:
    """Nothing is kept beyond the distributors' logs."""

    def record(self, publication: Publication) -> None:
        pass

    def read(self, service: str, source: bytes, first: int, last: int, found: Found) -> None:
        found(())


RECALLED_AT_ONCE = 64
"""Messages that are looked up for one answer."""


class Recall:
    """Reads the log and then the history; sends by `context`, which may lose the answers."""

    def __init__(self, context: Context, history: History, datagram: int, piece_bytes: int) -> None:
        self._context = context
        self._history = history
        self._room = datagram - HEAD_BYTES - 256
        """Bytes of pieces in one answer; its head names the service."""
        self._piece_bytes = piece_bytes

    def answer(self, sender: Contact, want: Want, service: Service) -> None:
        last = min(want.last, want.first + RECALLED_AT_ONCE - 1)
        held: list[Publication] = []
        for number in range(want.first, last + 1):
            publication = service.log.message(want.source, number)
            if publication is None:
                break
            held.append(publication)
        if held:
            self._send(sender, want, held)
            return

        def found(publications: Sequence[Publication]) -> None:
            self._send(sender, want, publications)

        self._history.read(want.service, want.source, want.first, last, found)

    def _send(self, to: Contact, want: Want, publications: Sequence[Publication]) -> None:
        if not publications:
            nothing = Recalled(want.service, want.source, want.first, want.last + 1, ())
            self._context.send(to, nothing)
            return
        for piece in self._answers(want, publications):
            self._context.send(to, piece)

    def _answers(self, want: Want, publications: Sequence[Publication]) -> list[Recalled]:
        """One message over several answers if it is large; else as many messages as one answer holds."""
        size = self._room - PIECE_HEAD_BYTES
        first = publications[0]
        if len(first.data) > size:
            count = -(-len(first.data) // size)
            parts = [
                Piece(
                    first.source,
                    first.sequence,
                    0,
                    number,
                    count,
                    first.data[number * size : (number + 1) * size],
                )
                for number in range(count)
            ]
            return [
                Recalled(want.service, want.source, want.first, want.first + 1, (part,))
                for part in parts
            ]
        pieces: list[Piece] = []
        room = self._room
        for publication in publications:
            room -= len(publication.data) + PIECE_HEAD_BYTES
            if room < 0:
                break
            pieces.append(
                Piece(publication.source, publication.sequence, 0, 0, 1, publication.data)
            )
        following = want.first + len(pieces)
        return [Recalled(want.service, want.source, want.first, following, tuple(pieces))]
