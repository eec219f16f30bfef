"""Many contacts as one string of bytes: for each its length (1 byte) and its packed form.

Nearly every reply of the DHT is a list of contacts that were packed before. Joined from the packed forms and
cut up again, a list costs a third of what an array of contacts does.
"""

from __future__ import annotations

from collections.abc import Iterable

from overlay.contact import Contact
from overlay.errors import UsageError
from overlay.wire import WireError


def entry(contact: Contact) -> bytes:
    """One contact of a list: 27 bytes for IPv4 and 39 for IPv6."""
    packed = contact.packed()
    return bytes((len(packed),)) + packed


def pack_contacts(contacts: Iterable[Contact]) -> bytes:
    return b"".join(map(entry, contacts))


def unpack_contacts(data: bytes) -> list[Contact]:
    """The contacts that were packed, in their order; `WireError` for any other bytes."""
    contacts: list[Contact] = []
    unpack = Contact.unpack
    start, end = 0, len(data)
    try:
        while start < end:
            following = start + 1 + data[start]
            contacts.append(unpack(data[start + 1 : following]))
            start = following
    except UsageError:
        raise WireError("wrong_fields") from None
    if start != end:
        raise WireError("truncated")
    return contacts
