"""msgpack within limits, for bytes that come from anywhere.

The limits hold both ways: what `pack` lets out, `unpack` lets in. `unpack` first walks over the bytes without
building anything. So no length is believed before the bytes for it are there, and the memory of the result is
bounded by the input's size (under 128 bytes for each byte, the worst being maps of one entry).
"""

from __future__ import annotations

import threading
from typing import Any

import msgpack

from overlay.errors import UsageError

MAX_STRING = 1024 * 1024 + 32 * 1024
"""Bytes of one text or byte string: 1 MiB of an application's data, and a message around it."""

MAX_MESSAGE = MAX_STRING + 32 * 1024
"""Bytes of one message: such a string, and another message around that."""

MAX_ARRAY = 131_072
"""Elements of one array: 1 MiB of floating-point numbers fits."""

MAX_MAP = 4096
"""Entries of one map; keys are integers, text or bytes, and no key comes twice."""

MAX_NESTING = 32
"""Arrays and maps within each other, in an application's data."""

_BUFFER = 16 * 1024
"""Bytes of a packer or unpacker to begin with; it grows."""

# Shorter messages cannot hold an array, map or string over its limit.
_SHORT = 2 * MAX_MAP


class WireError(Exception):
    """Bytes that are not a message; `reason` is a short constant for the drop counter."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


def pack(value: Any) -> bytes:
    """The msgpack of `value`, whose text, bytes and arrays are within the limits, or `UsageError`."""
    try:
        packed: bytes = _codec.packer.pack(value)
    except (TypeError, ValueError, OverflowError, RecursionError) as error:
        raise UsageError(f"msgpack cannot carry it: {error}") from None
    if len(packed) > _SHORT:
        try:
            unpack(packed)
        except WireError as error:
            raise UsageError(
                f"it breaks a limit of the wire ({error.reason}, {len(packed)} bytes in all)"
            ) from None
    return packed


def unpack(data: bytes | memoryview) -> Any:
    """The one value in `data`, arrays as tuples; `WireError` for anything else."""
    if len(data) > MAX_MESSAGE:
        raise WireError("oversized")
    unpacker = _codec.unpacker
    try:
        end = unpacker.tell() + len(data)
        unpacker.feed(data)
        unpacker.skip()
        if unpacker.tell() == end:
            unpacker.feed(data)
            return unpacker.unpack()
    except WireError:
        _codec.renew()
        raise
    except Exception:
        pass
    # It holds a rest of this input.
    _codec.renew()
    raise WireError("malformed")


def is_one_value(data: bytes | memoryview) -> bool:
    """Whether `data` is exactly one msgpack value; it is walked over and not built, whatever its limits."""
    if not data or len(data) > MAX_MESSAGE:
        return False
    unpacker = _codec.unpacker
    try:
        end = unpacker.tell() + len(data)
        unpacker.feed(data)
        unpacker.skip()
        if unpacker.tell() == end:
            return True
    except Exception:
        pass
    _codec.renew()
    return False


def unpack_walked(data: bytes | memoryview) -> Any:
    """As `unpack`, for bytes of which `is_one_value` is known to be true: they are neither copied nor walked
    over a second time."""
    try:
        return msgpack.unpackb(data, **_LIMITS)
    except WireError:
        raise
    except Exception:
        raise WireError("malformed") from None


def ends(data: bytes | memoryview) -> list[int]:
    """Where each of the values in `data` ends; `WireError` for bytes that are not msgpack values."""
    unpacker = _codec.unpacker
    result: list[int] = []
    try:
        start = unpacker.tell()
        unpacker.feed(data)
        while not result or result[-1] < len(data):
            unpacker.skip()
            result.append(unpacker.tell() - start)
    except Exception:
        _codec.renew()
        raise WireError("malformed") from None
    return result


def pack_data(value: Any) -> bytes:
    """The msgpack of an application's data, or `UsageError` when data may not look like that."""
    return pack(check_data_out(value))


def unpack_data(packed: bytes | memoryview) -> Any:
    """The data that `pack_data` packed, tuples as lists; `WireError` for anything else."""
    return check_data_in(unpack(packed))


def check_data_out(value: Any, depth: int = 0) -> Any:
    """`value` itself when an application's data may look like that, else `UsageError`."""
    if value is None or isinstance(value, bool | int | float | str | bytes):
        return value
    if not isinstance(value, list | tuple | dict):
        raise UsageError(
            f"{type(value).__name__} cannot travel: use None, bool, int, float, str, bytes, list, dict"
        )
    if depth >= MAX_NESTING:
        raise UsageError(f"data is nested deeper than {MAX_NESTING} levels")
    if isinstance(value, dict):
        for key, item in value.items():
            if not isinstance(key, int | str | bytes) or isinstance(key, bool):
                raise UsageError(f"{key!r} cannot be a key: use int, str or bytes")
            check_data_out(item, depth + 1)
    else:
        for item in value:
            check_data_out(item, depth + 1)
    return value


def check_data_in(value: Any, depth: int = 0) -> Any:
    """Unpacked data as the application gets it, with lists for arrays, or `WireError`."""
    if not isinstance(value, tuple | dict):
        return value
    if depth >= MAX_NESTING:
        raise WireError("too_deep")
    if isinstance(value, tuple):
        return [check_data_in(item, depth + 1) for item in value]
    return {key: check_data_in(item, depth + 1) for key, item in value.items()}


def _make_map(pairs: list[tuple[Any, Any]]) -> dict[Any, Any]:
    """Keys are looked at before they are hashed: chosen tuples or floats could all collide."""
    for key, _ in pairs:
        if type(key) is not str and type(key) is not bytes and type(key) is not int:
            raise WireError("malformed")
    made = dict(pairs)
    if len(made) != len(pairs):
        raise WireError("malformed")
    return made


def _no_extension(code: int, data: bytes) -> Any:
    raise WireError("malformed")


_LIMITS: dict[str, Any] = {
    "raw": False,
    "use_list": False,
    "strict_map_key": False,
    "object_pairs_hook": _make_map,
    "ext_hook": _no_extension,
    "max_str_len": MAX_STRING,
    "max_bin_len": MAX_STRING,
    "max_array_len": MAX_ARRAY,
    "max_map_len": MAX_MAP,
    "max_ext_len": 0,
}


class _Codec(threading.local):
    """A packer and an unpacker for each thread, kept because making one costs more than using it."""

    def __init__(self) -> None:
        self.packer = msgpack.Packer(use_bin_type=True, buf_size=_BUFFER)
        self.renew()

    def renew(self) -> None:
        self.unpacker = msgpack.Unpacker(
            read_size=_BUFFER,
            max_buffer_size=2 * MAX_MESSAGE,
            **_LIMITS,
        )


_codec = _Codec()
