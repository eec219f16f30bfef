"""What a node needs of the network it is attached to; `pubsub.attach` makes one from the overlay."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Protocol

from overlay.channel import OnAck
from overlay.contact import Contact
from overlay.context import Context
from overlay.identity import Identity
from pubsub.camcast.bootstrap import FindContacts
from pubsub.camcast.community import MakeMembership
from pubsub.camcast.process import Process
from pubsub.event import Gossip


class Attachment(Protocol):
    """A node's place in the network. Which membership service runs, only its maker knows."""

    @property
    def contact(self) -> Contact: ...

    @property
    def identity(self) -> Identity: ...

    @property
    def control(self) -> Context: ...

    @property
    def make_membership(self) -> MakeMembership: ...

    @property
    def find_contacts(self) -> FindContacts: ...

    def watch(self, contact: Contact) -> None: ...

    def unwatch(self, contact: Contact) -> None: ...

    def serve(self, process: Process) -> None:
        """Hand the process its messages, and the failure detector's suspicions."""
        ...

    def send_event(self, to: Sequence[Contact], gossip: Gossip, on_ack: OnAck | None) -> None:
        """Send a copy to each; `on_ack` is called once for each over channels, and never otherwise."""
        ...

    async def writable(self, contacts: Iterable[Contact]) -> None:
        """Wait while too much is waiting to leave for any of these; publishers do, forwarding never."""
        ...

    async def close(self) -> None:
        """Leave the network: what is on its way has a moment to arrive, then nothing is left."""
        ...
