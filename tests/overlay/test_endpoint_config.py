"""What an endpoint's configuration allows, and what it says about the rest."""

from __future__ import annotations

from typing import Any

import pytest

from overlay.contact import Address
from overlay.errors import UsageError
from overlay.transport.config import EndpointConfig, SocketConfig

KEY = bytes(32)


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "127.8.8.8:4000", "[::1]:0", Address("::1", 0)])
def test_loopback_needs_no_key(listen: str | Address) -> None:
    assert EndpointConfig(listen).listen_address == Address.of(listen)


@pytest.mark.parametrize("listen", ["10.0.0.1:0", "[2001:db8::1]:0", "192.168.0.1:4000"])
def test_elsewhere_a_key_is_needed_unless_told_otherwise(listen: str) -> None:
    with pytest.raises(UsageError, match=r"insecure=True"):
        EndpointConfig(listen)
    EndpointConfig(listen, keys=(KEY,))
    EndpointConfig(listen, insecure=True)


@pytest.mark.parametrize("listen", ["0.0.0.0:4000", "[::]:4000"])
def test_a_wildcard_is_no_loopback_and_needs_a_name_for_others(listen: str) -> None:
    with pytest.raises(UsageError, match="keys"):
        EndpointConfig(listen, advertise="10.0.0.1:4000")
    with pytest.raises(UsageError, match="advertise"):
        EndpointConfig(listen, keys=(KEY,))
    config = EndpointConfig(listen, keys=(KEY,), advertise="10.0.0.1:4000")
    assert config.advertised_address == Address("10.0.0.1", 4000)


def test_a_free_port_is_advertised_as_port_0() -> None:
    with pytest.raises(UsageError, match=r"listen=127.0.0.1:0 takes any free port"):
        EndpointConfig("127.0.0.1:0", advertise="10.0.0.1:4000")
    EndpointConfig("127.0.0.1:0", advertise="10.0.0.1:0")
    EndpointConfig("127.0.0.1:4000", advertise="10.0.0.1:0")


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("listen", "nonsense"),
        ("listen", ("localhost", "x")),
        ("keys", (b"short",)),
        ("keys", (KEY, KEY)),
        ("advertise", "nonsense"),
        ("advertise", "0.0.0.0:5"),
        ("datagram_size", 511),
        ("datagram_size", 65_508),
        ("socket", SocketConfig(outgoing_limit=2_000)),
    ],
)
def test_values_that_cannot_work_are_refused(field: str, value: Any) -> None:
    settings: dict[str, Any] = {"listen": "127.0.0.1:0", field: value}
    with pytest.raises(UsageError):
        EndpointConfig(**settings)


@pytest.mark.parametrize("field", ["incoming_limit", "flood_limit"])
def test_a_socket_that_takes_nothing_is_refused(field: str) -> None:
    with pytest.raises(UsageError, match=f"{field}=0"):
        SocketConfig(**{field: 0})


def test_keys_are_not_printed() -> None:
    key = bytes(range(32))
    printed = repr(EndpointConfig("127.0.0.1:0", keys=(key,)))
    assert repr(key) not in printed
    assert "keys" not in printed
