"""How the members of a group, known by their addresses, find out who each other are.

A member says hello to the address of each one that it has not met, `again_after` seconds after the last time,
until it is answered. The hello names the group, so that processes with another list of members or another
stack are not taken in. A rank belongs to the first process that had it: one that started again has lost its
state, and is refused, unless `may_return` says that members keep what they must in a log.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from overlay.contact import ID_BYTES, Address, Contact, PeerId
from overlay.wire import message
from pubsub.broadcast.process import Process

AGAIN_AFTER = 0.25
"""Seconds between two hellos to a member that has not answered."""

_NOBODY = PeerId(bytes(ID_BYTES))
"""The id of whoever listens at an address."""


@message(0x51)
@dataclass(frozen=True)
class Hello:
    group: bytes
    rank: int
    is_answer: bool


@message(0x52)
@dataclass(frozen=True)
class Refusal:
    """The rank is taken by an earlier process."""

    group: bytes


class Meeting:
    """Tells `process.found` of each member; it speaks over the unreliable links."""

    def __init__(
        self,
        process: Process,
        addresses: Sequence[Address],
        group: bytes,
        *,
        may_return: bool,
        on_met: Callable[[int], None],
        on_refused: Callable[[int], None],
    ) -> None:
        self._process = process
        self._addresses = addresses
        self._group = group
        self._may_return = may_return
        self._on_met = on_met
        self._on_refused = on_refused

    @property
    def missing(self) -> list[int]:
        """The members that were not met yet."""
        return [rank for rank, one in enumerate(self._process.members) if one is None]

    def start(self) -> None:
        """Say hello now, and again as long as somebody is missing."""
        missing = self.missing
        for rank in missing:
            self._say_hello(Contact(_NOBODY, *self._addresses[rank]), is_answer=False)
        if missing:
            self._process.unreliable.call_later(AGAIN_AFTER, self.start)

    def hello(self, sender: Contact, hello: Hello) -> None:
        if hello.group != self._group or not 0 <= hello.rank < len(self._addresses):
            self._process.count("another_group")
            return
        if hello.rank == self._process.rank or sender.address != self._addresses[hello.rank]:
            self._process.count("wrong_rank")
            return
        known = self._process.members[hello.rank]
        if known is not None and known.id != sender.id and not self._may_return:
            self._process.count("returned")
            self._process.unreliable.send(sender, Refusal(self._group))
            return
        if not hello.is_answer:
            self._say_hello(sender, is_answer=True)
        if known is None or known.id != sender.id:
            self._process.found(hello.rank, sender)
            self._on_met(hello.rank)

    def refusal(self, sender: Contact, refusal: Refusal) -> None:
        if refusal.group == self._group and sender.address in self._addresses:
            self._on_refused(self._addresses.index(sender.address))

    def _say_hello(self, to: Contact, is_answer: bool) -> None:
        self._process.unreliable.send(to, Hello(self._group, self._process.rank, is_answer))
