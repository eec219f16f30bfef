"""What a node needs of the network it is attached to; `pubsub.attach` makes one from the overlay."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from overlay.channel import OnAck
from overlay.contact import Contact
from overlay.context import Context
from overlay.identity import Identity
from overlay.membership.interface import TopicDirectory
from overlay.runtime import Runtime
from pubsub.camcast.bootstrap import FindContacts
from pubsub.camcast.community import MakeMembership
from pubsub.camcast.process import Process
from pubsub.event import Copies


class Attachment(Protocol):
    """A node's place in the network. Which membership service runs, only its maker knows."""

    @property
    def contact(self) -> Contact: ...

    @property
    def identity(self) -> Identity: ...

    @property
    def runtime(self) -> Runtime:
        """What further protocols of the node run on."""
        ...

    @property
    def directory(self) -> TopicDirectory:
        """Where nodes are found by what they announced."""
        ...

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

    @property
    def copies_room(self) -> int:
        """Bytes of copies that travel to a member in one datagram, together with all that is around them."""
        ...

    def send_copies(self, to: Contact, copies: Copies, on_ack: OnAck | None) -> bool:
        """Send copies of events; `on_ack` is called once over channels, and never otherwise.

        False for what is larger than a datagram where events travel as datagrams: it never leaves."""
        ...

    async def writable(self, contacts: Iterable[Contact]) -> None:
        """Give others a turn, and wait while too much is waiting to leave for any of these."""
        ...

    async def close(self) -> None:
        """Leave the network: what is on its way has a moment to arrive, then nothing is left."""
        ...
