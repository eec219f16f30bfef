"""msgpack within limits: what is let out is let in, and garbage costs neither exceptions nor memory."""

from __future__ import annotations

import contextlib
import tracemalloc
from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from overlay.errors import UsageError
from overlay.limited_msgpack import (
    MAX_ARRAY,
    MAX_MAP,
    MAX_MESSAGE,
    MAX_NESTING,
    MAX_STRING,
    WireError,
    pack_data,
    unpack,
    unpack_data,
)

scalars = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats(allow_nan=False)
    | st.text()
    | st.binary()
)
keys = st.integers(-(2**63), 2**64 - 1) | st.text() | st.binary()
data = st.recursive(
    scalars, lambda inner: st.lists(inner) | st.dictionaries(keys, inner), max_leaves=30
)


def nested(levels: int) -> Any:
    value: Any = 1
    for level in range(levels):
        value = [value] if level % 2 else {"in": value}
    return value


@given(data)
def test_data_survives(value: Any) -> None:
    assert unpack_data(pack_data(value)) == value


@given(data, st.data())
def test_mangled_data_is_refused_by_name_or_is_other_data(value: Any, draw: st.DataObject) -> None:
    packed = bytearray(pack_data(value))
    for _ in range(draw.draw(st.integers(1, 4))):
        packed[draw.draw(st.integers(0, len(packed) - 1))] = draw.draw(st.integers(0, 255))
    accept_or_refuse(bytes(packed))


@given(st.binary(max_size=200))
@example(b"")
@example(b"\xc1")
@example(b"\xc7\x00\x05")  # an empty extension
@example(b"\xd6\xff\x00\x00\x00\x00")  # a timestamp
@example(b"\x81\x90\x01")  # an array for a key
@example(b"\x81\xcb\x00\x00\x00\x00\x00\x00\x00\x00\x01")  # a float for a key
@example(b"\x82\x01\x01\x01\x02")  # a key that comes twice
@example(b"\xa1\xff")  # no UTF-8
@example(b"\x01\x02")  # two values
@example(b"\x91" * 200)
def test_garbage_is_refused_by_name_or_is_data(garbage: bytes) -> None:
    accept_or_refuse(garbage)


def accept_or_refuse(packed: bytes) -> None:
    with contextlib.suppress(WireError):
        value = unpack_data(packed)
        pack_data(value)
    assert unpack(b"\x93\x01\x02\x03") == (1, 2, 3), "garbage must leave nothing behind"


@pytest.mark.parametrize(
    "packed",
    [
        b"\xc7\x00\x05",
        b"\x81\x90\x01",
        b"\x82\x01\x01\x01\x02",
        b"\x81\xc3\x01",
        b"\x01\x02",
        b"",
        b"\x92\x01",
    ],
    ids=["extension", "tuple key", "key twice", "bool key", "two values", "nothing", "cut short"],
)
def test_what_data_may_not_hold_is_refused(packed: bytes) -> None:
    with pytest.raises(WireError, match="malformed"):
        unpack_data(packed)


@pytest.mark.parametrize(
    "largest",
    [
        b"x" * MAX_STRING,
        "x" * MAX_STRING,
        list(range(-32, 96)) * (MAX_ARRAY // 128),
        dict.fromkeys(range(MAX_MAP)),
        nested(MAX_NESTING),
    ],
    ids=["bytes", "text", "array", "map", "nesting"],
)
def test_the_largest_of_each_survives(largest: Any) -> None:
    assert unpack_data(pack_data(largest)) == largest


TOO_LARGE: dict[str, Any] = {
    "bytes": b"x" * (MAX_STRING + 1),
    "text": "x" * (MAX_STRING + 1),
    "array": [0] * (MAX_ARRAY + 1),
    "map": dict.fromkeys(range(MAX_MAP + 1)),
    "nesting": nested(MAX_NESTING + 1),
    "message": [b"x" * (MAX_MESSAGE // 2)] * 2,
}


@pytest.mark.parametrize("what", TOO_LARGE)
def test_one_more_is_refused_on_both_sides(what: str) -> None:
    with pytest.raises(UsageError):
        pack_data(TOO_LARGE[what])
    with pytest.raises(WireError):
        unpack_data(msgpack.packb(TOO_LARGE[what]))


@pytest.mark.parametrize(
    "value",
    [object(), {1, 2}, 2**64, {(1, 2): 3}, {1.5: 3}, {None: 3}, {True: 3}, "\ud800", bytearray(3)],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_travel_is_the_callers_error(value: Any) -> None:
    with pytest.raises(UsageError):
        pack_data([value])
    assert pack_data([1]) == b"\x91\x01"


def test_data_that_holds_itself_is_the_callers_error() -> None:
    endless: list[Any] = []
    endless.append(endless)
    with pytest.raises(UsageError, match="nested"):
        pack_data(endless)


@pytest.mark.parametrize(
    "hostile",
    [
        b"\xdd\x00\x01\xff\xff" * 1000,  # arrays that promise much, within each other
        b"\xdc\xff\xff" * (MAX_MESSAGE // 3),
        b"\xdf\x00\x00\x0f\xff\x01" * 1000,
        b"\xc6\x7f\xff\xff\xff",  # two gigabytes that are not there
        b"\xdc\x40\x00" + b"\x81\xa1x\x80" * 0x4000,  # small maps: the worst that is allowed
        b"\xdc\x40\x00" + b"\x91\x90" * 0x4000,
    ],
    ids=["arrays", "many arrays", "maps", "bytes", "small maps", "small arrays"],
)
def test_memory_stays_in_proportion_to_the_input(hostile: bytes) -> None:
    unpack(b"\x01")
    tracemalloc.start()
    try:
        with contextlib.suppress(WireError):
            unpack(hostile)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert peak < 128 * len(hostile) + 100_000
