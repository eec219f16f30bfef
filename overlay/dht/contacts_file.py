"""Known contacts in a file, for the next start: msgpack, `{"format": 1, "contacts": [packed, ...]}`.

A file that is damaged, too large or of another format counts as empty, and says so in the log.
"""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Iterable
from pathlib import Path

from overlay.contact import Contact
from overlay.errors import UsageError
from overlay.limited_msgpack import WireError, pack, unpack

FORMAT = 1
MOST_CONTACTS = 1024
MOST_BYTES = 64 * 1024

_log = logging.getLogger(__name__)


def save_contacts(path: Path, contacts: Iterable[Contact]) -> None:
    """Replace the file by one with these contacts, at once or not at all; an error is logged."""
    packed = [contact.packed() for contact in contacts][:MOST_CONTACTS]
    temporary = ""
    try:
        handle, temporary = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(handle, "wb") as file:
            file.write(pack({"format": FORMAT, "contacts": packed}))
        os.replace(temporary, path)
    except OSError as error:
        _log.warning("known contacts could not be saved to %s: %s", path, error.strerror)
        if temporary and os.path.exists(temporary):
            os.unlink(temporary)


def load_contacts(path: Path) -> list[Contact]:
    """The contacts saved last; none when there is no file, or no usable one."""
    try:
        with path.open("rb") as file:
            data = file.read(MOST_BYTES + 1)
    except FileNotFoundError:
        return []
    except OSError as error:
        _log.warning("known contacts could not be read from %s: %s", path, error.strerror)
        return []
    try:
        if len(data) > MOST_BYTES:
            raise UsageError("it is too large")
        saved = unpack(data)
        if type(saved) is not dict or saved.get("format") != FORMAT:
            raise UsageError("it is of another format")
        return [Contact.unpack(packed) for packed in saved["contacts"]]
    except (UsageError, WireError, KeyError, TypeError, ValueError) as error:
        _log.warning("known contacts in %s are ignored: %s", path, error)
        return []
