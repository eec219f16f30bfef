"""Many contacts as one string of bytes: an entry for each, its length (1 byte) and its packed form.

Nearly every reply of the DHT is a list of contacts that were packed before, and most of whom the asker knows
already. So a list is joined from entries, is cut up again, and only the unknown entries are unpacked.
"""

from __future__ import annotations

from collections.abc import Iterable

from overlay.contact import Contact
from overlay.errors import UsageError
from overlay.wire import WireError


def entry_of(contact: Contact) -> bytes:
    """One contact of a list: 27 bytes for IPv4 and 39 for IPv6."""
    packed = contact.packed()
    return bytes((len(packed),)) + packed


def join_contacts(contacts: Iterable[Contact]) -> bytes:
    return b"".join(map(entry_of, contacts))


def split_entries(data: bytes) -> list[bytes]:
    """The entries of a list, in their order; `WireError` if they do not fill it."""
    entries: list[bytes] = []
    start, end = 0, len(data)
    while start < end:
        following = start + 1 + data[start]
        entries.append(data[start:following])
        start = following
    if start != end:
        raise WireError("truncated")
    return entries


def contact_of(entry: bytes) -> Contact:
    """The contact of an entry; `WireError` if it holds none."""
    try:
        return Contact.unpack(entry[1:])
    except UsageError:
        raise WireError("wrong_fields") from None
