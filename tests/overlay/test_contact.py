"""Ids, addresses and contacts: what they accept, print and pack."""

from __future__ import annotations

import ipaddress
import pickle
import re
import socket

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.contact import ID_BYTES, Address, AddressError, Contact, PeerId
from overlay.errors import UsageError

ports = st.integers(0, 65535)
hosts = st.ip_addresses().map(
    lambda ip: socket.inet_ntop(socket.AF_INET if ip.version == 4 else socket.AF_INET6, ip.packed)
)
addresses = st.builds(Address, hosts, ports)
peer_ids = st.binary(min_size=ID_BYTES, max_size=ID_BYTES).map(PeerId)
contacts = st.builds(Contact, peer_ids, hosts, ports)


@given(addresses)
def test_an_address_survives_printing_and_parsing(address: Address) -> None:
    assert Address.parse(str(address)) == address
    assert Address.of(address) == Address.of(str(address)) == address


@given(addresses)
def test_an_address_survives_packing(address: Address) -> None:
    assert Address.unpack(address.packed()) == address


@given(contacts)
def test_a_contact_survives_packing(contact: Contact) -> None:
    assert Contact.unpack(contact.packed()) == contact
    assert len(contact.packed()) in (26, 38)


@given(st.binary(max_size=50))
def test_any_other_bytes_are_refused_by_name(packed: bytes) -> None:
    for cls in (Address, Contact):
        try:
            unpacked = cls.unpack(packed)
        except UsageError:
            continue
        assert unpacked.packed() == packed


@given(st.text())
def test_any_text_parses_or_is_refused_by_name(text: str) -> None:
    try:
        address = Address.parse(text)
    except AddressError:
        return
    assert Address.parse(str(address)) == address


@pytest.mark.parametrize(
    "text",
    [
        "",
        ":",
        "127.0.0.1",
        "127.0.0.1:",
        ":4000",
        "127.0.0.1:65536",
        "127.0.0.1:-1",
        "127.0.0.1:٤",  # a digit, but not of ASCII
        "127.0.0.1:" + "9" * 5000,
        "127.1:1",
        "[127.0.0.1]:1",
        "::1:4000",
        "[::1:4000",
        "[localhost]:1",
        "example.org:1",
        "[fe80::1%eth0]:1",
    ],
)
def test_what_is_no_address_is_refused_and_quoted(text: str) -> None:
    with pytest.raises(AddressError, match=re.escape(repr(text))):
        Address.parse(text)


def test_an_address_has_one_text_whatever_way_it_was_written() -> None:
    assert str(Address.parse("[0:0:0:0:0:0:0:1]:5")) == "[::1]:5"
    assert Address.parse("localhost:5") == Address("127.0.0.1", 5)
    assert Address.parse("[::FFFF:1.2.3.4]:5") == Address.unpack(
        (5).to_bytes(2, "big") + ipaddress.ip_address("::ffff:1.2.3.4").packed
    )


def test_loopback_and_wildcard_addresses_are_known() -> None:
    assert Address.parse("127.9.9.9:1").is_loopback
    assert Address.parse("[::1]:1").is_loopback
    assert not Address.parse("10.0.0.1:1").is_loopback
    assert Address.parse("0.0.0.0:1").is_wildcard
    assert Address.parse("[::]:1").is_wildcard
    assert not Address.parse("[::]:1").is_loopback


@pytest.mark.parametrize("address", [Address("localhost", 1), Address("1.2.3.4", 65536)])
def test_what_is_not_numeric_cannot_be_packed(address: Address) -> None:
    with pytest.raises(AddressError):
        address.packed()


@pytest.mark.parametrize("size", [0, 19, 21])
def test_a_peer_id_has_twenty_bytes(size: int) -> None:
    with pytest.raises(UsageError, match=str(size)):
        PeerId(bytes(size))


def test_a_peer_id_compares_and_hashes_as_its_bytes() -> None:
    raw = bytes(range(ID_BYTES))
    assert PeerId(raw) == raw
    assert {raw: 1}[PeerId(raw)] == 1
    assert pickle.loads(pickle.dumps(PeerId(raw))) == PeerId(raw)
    assert str(PeerId(raw)) == raw.hex()
