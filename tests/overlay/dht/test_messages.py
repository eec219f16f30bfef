"""Messages check themselves, made here or by a peer."""

from __future__ import annotations

import pytest

from overlay.contact import Contact
from overlay.dht.messages import (
    MAX_CONTACTS,
    MAX_VALUE_BYTES,
    FindNode,
    FindValue,
    FoundNodes,
    FoundValue,
    Ping,
    Pong,
    Stored,
    StoredValue,
    StoreRefused,
    StoreValue,
    join_contacts,
)
from overlay.errors import UsageError
from overlay.limited_msgpack import pack
from overlay.wire import WireError, decode, encode
from tests.overlay.dht.swarm import key

CONTACT = Contact(key("c"), "127.0.0.1", 4000)
RECORD = StoredValue(3, b"value", 60.0)


@pytest.mark.parametrize(
    "message",
    [
        Ping(),
        Pong(b"token", False),
        FindNode(key("k"), 20),
        FindValue(key("k"), 20),
        FoundNodes(b"token", join_contacts([CONTACT] * MAX_CONTACTS)),
        FoundValue(b"token", RECORD, join_contacts([CONTACT])),
        StoreValue(key("k"), RECORD, b"token"),
        Stored(3),
        StoreRefused("token"),
    ],
    ids=lambda message: type(message).__name__,
)
def test_messages_survive_the_way(message: object) -> None:
    assert decode(encode(message)) == message


@pytest.mark.parametrize(
    ("version", "value", "life"),
    [
        (-1, b"", 1.0),
        (2**63, b"", 1.0),
        (1, bytes(MAX_VALUE_BYTES + 1), 1.0),
        (1, b"", 0.0),
        (1, b"", -5.0),
        (1, b"", float("nan")),
        (1, b"", float("inf")),
    ],
)
def test_a_record_out_of_bounds_is_refused_here_and_from_a_peer(
    version: int, value: bytes, life: float
) -> None:
    with pytest.raises(UsageError):
        StoredValue(version, value, life)
    with pytest.raises(WireError):
        decode(pack([0x05, version, value, life]))


@pytest.mark.parametrize(
    "raw",
    [
        [0x01, bytes(17)],
        [0x02, bytes(20), 0],
        [0x02, bytes(20), MAX_CONTACTS + 1],
        [0x02, bytes(1), 20],
        [0x03, b"t", bytes(39 * MAX_CONTACTS + 1)],
        [0x03, b"t", [CONTACT.packed()]],
        [0x07, bytes(20), {"a": "dict"}, b"t"],
        [0x09, "r" * 33],
    ],
)
def test_malformed_messages_do_not_decode(raw: list[object]) -> None:
    with pytest.raises(WireError):
        decode(pack(raw))
