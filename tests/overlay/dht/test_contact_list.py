"""Lists of contacts survive the way, and nothing else passes for one."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from overlay.contact import Contact
from overlay.dht.messages import contact_of, join_contacts, split_entries
from overlay.wire import WireError
from tests.overlay.dht.swarm import key

FOUR = Contact(key(4), "127.0.0.1", 4000)
SIX = Contact(key(6), "2001:db8::1", 4001)


@given(st.lists(st.sampled_from([FOUR, SIX]), max_size=64))
def test_a_list_survives_the_way(contacts: list[Contact]) -> None:
    assert [contact_of(entry) for entry in split_entries(join_contacts(contacts))] == contacts


@pytest.mark.parametrize(
    "data",
    [
        b"\x00",
        b"\x01a",
        b"\x1a",
        join_contacts([FOUR])[:-1],
        join_contacts([SIX]) + b"\x1a",
        bytes(40),
    ],
)
def test_other_bytes_are_a_wire_error(data: bytes) -> None:
    with pytest.raises(WireError):
        [contact_of(entry) for entry in split_entries(data)]


@example(b"\x1b" + bytes(26))
@given(st.binary(max_size=200))
def test_any_bytes_are_a_list_or_a_wire_error(data: bytes) -> None:
    try:
        contacts = [contact_of(entry) for entry in split_entries(data)]
    except WireError:
        return
    assert join_contacts(contacts) == data
