"""What processes say to each other about communities; blocks of events travel as `pubsub.event.Copy`."""

from __future__ import annotations

from overlay.contact import Contact
from overlay.errors import UsageError
from overlay.topic_name import MAX_NAME_BYTES
from overlay.wire import message
from pubsub.topic import MAX_LINEAGE

MOST_NAMES = MAX_LINEAGE * MAX_NAME_BYTES
"""Characters of all super-topics of a topic."""


@message(0x42)
class Check:
    """Are you there, and in this community?"""

    topic: str
    nonce: int
    room: bytes = bytes(8)
    """Makes the question as large as its answer, which may go to another address than it came from."""

    def __post_init__(self) -> None:
        if len(self.room) > 8:
            raise UsageError(f"room has at most 8 bytes, not {len(self.room)}")


@message(0x43)
class CheckAnswer:
    """I am here; and for `lease` seconds from your question I stay in the community (0: I am not in it)."""

    topic: str
    nonce: int
    lease: float


@message(0x44)
class Goodbye:
    """I am leaving this community, or am not in it: send me no events of it."""

    topic: str


@message(0x45)
class FindSuper:
    """REQCONTACT: who knows processes of one of these topics, the first the nearest?"""

    origin: Contact
    nonce: int
    topics: tuple[str, ...]
    ttl: int

    def __post_init__(self) -> None:
        # It is handed on, and each of its topics is held against each of the sender's rights.
        if len(self.topics) > MAX_LINEAGE or sum(map(len, self.topics)) > MOST_NAMES:
            raise UsageError(f"a question names at most {MAX_LINEAGE} super-topics")


@message(0x46)
class SuperFound:
    """ANSCONTACT: processes of `topic`; none when the answering process knows none of any topic asked for."""

    nonce: int
    topic: str
    contacts: tuple[Contact, ...]


@message(0x47)
class NewProcesses:
    """NEWPROCESS, the question: name up to `count` processes of your community `topic`."""

    topic: str
    count: int


@message(0x48)
class NewProcessesAnswer:
    """NEWPROCESS, the answer."""

    topic: str
    contacts: tuple[Contact, ...]


@message(0x49)
class ShareSuper:
    """A member of community `topic` passes on its super-topic table for `super_topic`."""

    topic: str
    super_topic: str
    contacts: tuple[Contact, ...]


@message(0x4C)
class AnnounceBlocks:
    """I have these events of `source`, as ranges: first number, how many, first number, how many."""

    topic: str
    source: bytes
    ranges: tuple[int, ...]


@message(0x4D)
class FetchBlocks:
    """Send me these events, which you announced; and if I say so (`go_on`), those that follow."""

    topic: str
    source: bytes
    ranges: tuple[int, ...]
    go_on: bool


@message(0x4E)
class Prune:
    """I have the events of `source` from somebody else: only announce them to me."""

    topic: str
    source: bytes
