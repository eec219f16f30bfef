"""The data of an event: whatever msgpack carries, within bounds."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgpack

from overlay import limited_msgpack
from overlay.errors import UsageError
from overlay.wire import MAX_ARRAY, MAX_MAP, WireError

DATA_LIMIT = 1024 * 1024
"""The most bytes that an event's data may have as msgpack, and those of all events of a block together."""

_UP_TO_255_BYTES, _UP_TO_65535_BYTES = 0xC4, 0xC5
"""How msgpack begins bytes; their number is next."""

_MOST_BYTES = 65_535
_TEXTS = (bytes, str)
_pack_plain: Callable[[bytes | str], bytes] = msgpack.Packer(use_bin_type=True).pack

PLAIN = frozenset((bytes, str, int, float, bool, type(None)))
"""Types of data that need no further look."""


class DataError(UsageError):
    """The data cannot travel in an event: too large, or of a kind that msgpack does not know."""


class _Malformed:
    def __repr__(self) -> str:
        return "MALFORMED"


MALFORMED = _Malformed()
"""Stands for the data of an event that cannot be read."""


def pack_data(data: Any) -> bytes:
    """The data as msgpack; `DataError` when it cannot be, or is larger than `DATA_LIMIT`."""
    try:
        if type(data) in _TEXTS and len(data) <= _MOST_BYTES:
            return _pack_plain(data)
        packed = limited_msgpack.pack_data(data)
    except (UsageError, UnicodeEncodeError) as error:
        raise DataError(
            f"the data cannot travel as msgpack: {error}; an event's data has at most {DATA_LIMIT} bytes, "
            f"arrays at most {MAX_ARRAY} elements, maps at most {MAX_MAP} entries"
        ) from None
    if len(packed) > DATA_LIMIT:
        raise DataError(
            f"the data has {len(packed)} bytes as msgpack, and {DATA_LIMIT} is the limit of an event"
        )
    return packed


def unpack_data(packed: bytes) -> Any:
    """The data that `pack_data` gave, tuples as lists; `WireError` for anything else."""
    head = packed[:3]
    if len(head) == 3:  # bytes are what is most often sent where speed matters
        if head[0] == _UP_TO_255_BYTES and len(packed) == 2 + head[1]:
            return packed[2:]
        if head[0] == _UP_TO_65535_BYTES and len(packed) == 3 + (head[1] << 8 | head[2]):
            return packed[3:]
    try:
        return limited_msgpack.unpack_data(packed)
    except WireError:
        raise WireError("malformed_data") from None


def unpack_or_malformed(packed: bytes) -> Any:
    try:
        return unpack_data(packed)
    except WireError:
        return MALFORMED


def check_or_malformed(value: Any) -> Any:
    try:
        return limited_msgpack.check_data_in(value)
    except WireError:
        return MALFORMED
