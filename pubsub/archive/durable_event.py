"""An event as a durable subscription delivers it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Self

from overlay.wire import WireError
from pubsub.archive.protocol.subscriber import Numbered
from pubsub.data import MALFORMED
from pubsub.event import RUN_BYTES, Event, Origin
from pubsub.validation import Validation

if TYPE_CHECKING:
    from pubsub.archive.durable_subscription import DurableSubscription


class DurableEvent(Event):
    """An event, and what the archive says of it."""

    __slots__ = ("_held", "_numbered", "archived", "catenation", "missed", "redelivered")

    def __init__(
        self,
        origin: Origin,
        data: Any,
        sequence: int,
        archived: int = 0,
        catenation: int = 0,
        redelivered: bool = False,
        missed: int = 0,
        numbered: Numbered | None = None,
    ) -> None:
        super().__init__(origin, data, sequence)
        self.archived = archived
        """Its sequence number at the archive; 0 when it came live, before the archive's word."""
        self.catenation = catenation
        """Its publisher's number for it; 0 as above."""
        self.redelivered = redelivered
        """The application may have been given it before: it was given back (`nak`), it was in hand when the
        subscriber went away, or an archive that has failed since may have given it."""
        self.missed = missed
        """This many events before this one will not come; `on_gap` is told which."""
        self._numbered = numbered
        self._held: DurableSubscription | None = None

    def ack(self) -> None:
        """The application is done with this event, which does not come again. Asking for the next one says
        the same; a subscription that is closed before either gives the event back. More than once is fine,
        and so is an event that was given back."""
        if self._held is not None:
            self._held.acknowledge(self)

    def nak(self, delay: float = 0.0) -> None:
        """Give this event back: it comes again after `delay` seconds, marked `redelivered`, to this
        subscription or, should that end before, to the next one of the name. Events behind it go on, but
        those of a subscription that crashes meanwhile come again too."""
        if self._held is not None:
            self._held.give_back(self, delay)

    def held_by(self, held: DurableSubscription) -> Self:
        """This event, in an application's hands."""
        self._held = held
        return self

    def again(self) -> Self:
        """This event, to be given to the application once more."""
        self.redelivered = True
        return self

    def _fields(self) -> dict[str, Any]:
        return super()._fields() | {name: getattr(self, name) for name in self.__slots__[2:]}


def from_archive(
    numbered: Numbered, managed: str, missed: int, validation: Validation, signed: bool
) -> DurableEvent:
    """The event that an archive sent; `WireError` for anything else, or for one that is refused."""
    assert numbered.content is not None
    origin, first, data = numbered.content.open(managed, validation.refusal, signed)
    number = int.from_bytes(numbered.id[RUN_BYTES:], "big")
    if (value := data[number - first]) is MALFORMED:
        raise WireError("malformed_data")
    return DurableEvent(
        origin,
        value,
        number,
        numbered.sequence,
        numbered.catenation,
        numbered.doubtful,
        missed,
        numbered,
    )


def from_gossip(event: Event, numbered: Numbered, missed: int) -> DurableEvent:
    """An event that came live."""
    return DurableEvent(event.origin, event.data, event.sequence, missed=missed, numbered=numbered)
