"""Typed messages as msgpack: frozen dataclasses, each registered once under a code.

A message travels as the msgpack array `[code, field, field, ...]`, its fields in the order of the class.
Fields may be `bool`, `int`, `float`, `str`, `bytes`, `PeerId`, `Contact`, `Address`, a registered
message, `X | None`, `tuple[X, ...]`, `tuple[X, Y]`, `dict[X, Y]`, or `Data` for what an application
passes through.

`decode` promises: it returns a message whose every field has its declared type, or raises `WireError` with
a reason from this module, whatever the bytes; sizes and nesting are checked before memory is spent.

Codes are grouped: 0x00 DHT and directory, 0x20 channels and failure detection, 0x30 membership,
0x40 CAMCAST, 0x50 broadcast, 0x60 topic membership and collections, 0x70 archive, 0x80 distributors.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

import msgpack

from overlay.contact import ID_BYTES, Address, Contact, PeerId
from overlay.errors import UsageError

MAX_ELEMENTS = 4096
"""The most elements of one array or map in a message."""

MAX_NESTING = 32
"""The deepest nesting of arrays and maps in application data."""

Data = typing.NewType("Data", object)
"""A field that carries what the application gave: anything msgpack knows."""

T = TypeVar("T")
_Check = Callable[[Any], Any]
_Pack = Callable[[Any], Any]


class WireError(Exception):
    """Bytes that are no message; `reason` is a short constant for the drop counter."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclasses.dataclass(frozen=True, slots=True)
class _Codec:
    code: int
    cls: type
    names: tuple[str, ...]
    checks: tuple[_Check, ...]
    packs: tuple[_Pack | None, ...]


_BY_CODE: dict[int, _Codec] = {}
_BY_CLASS: dict[type, _Codec] = {}


def message(code: int) -> Callable[[type[T]], type[T]]:
    """Class decorator that registers a frozen dataclass under `code` (0 to 65535)."""

    def register(cls: type[T]) -> type[T]:
        if not dataclasses.is_dataclass(cls):
            raise UsageError(f"{cls.__name__} must be a dataclass to be a message")
        if not 0 <= code < 65536 or code in _BY_CODE:
            raise UsageError(f"code {code:#x} of {cls.__name__} is taken or not in 0..65535")
        hints = typing.get_type_hints(cls)
        names = tuple(field.name for field in dataclasses.fields(cls))
        codec = _Codec(
            code,
            cls,
            names,
            tuple(_checker(hints[name]) for name in names),
            tuple(_packer(hints[name]) for name in names),
        )
        _BY_CODE[code] = _BY_CLASS[cls] = codec
        return cls

    return register


def is_message(value: object) -> bool:
    return type(value) in _BY_CLASS


def encode(value: object) -> bytes:
    """The bytes of a registered message; `UsageError` when application data does not fit msgpack."""
    try:
        return typing.cast(bytes, msgpack.packb(_flatten(value), use_bin_type=True))
    except (TypeError, ValueError, OverflowError) as error:
        raise UsageError(f"{type(value).__name__} cannot travel as msgpack: {error}") from None


def decode(data: bytes | memoryview) -> Any:
    """The message in `data`; `WireError` for anything else."""
    return _restore(unpack(data))


def unpack(data: bytes | memoryview) -> Any:
    """One msgpack value under this module's limits; arrays come back as tuples."""
    try:
        return msgpack.unpackb(
            data,
            raw=False,
            use_list=False,
            strict_map_key=False,
            max_array_len=min(MAX_ELEMENTS, len(data)),
            max_map_len=min(MAX_ELEMENTS, len(data)),
            max_ext_len=0,
        )
    except (ValueError, TypeError, RecursionError, msgpack.UnpackException):
        raise WireError("malformed") from None


def _flatten(value: Any) -> list[Any]:
    codec = _BY_CLASS.get(type(value))
    if codec is None:
        raise UsageError(f"{type(value).__name__} is not a registered message")
    flat: list[Any] = [codec.code]
    for name, pack in zip(codec.names, codec.packs, strict=True):
        field = getattr(value, name)
        flat.append(field if pack is None or field is None else pack(field))
    return flat


def _restore(raw: Any) -> Any:
    if type(raw) is not tuple or not raw or type(raw[0]) is not int:
        raise WireError("malformed")
    codec = _BY_CODE.get(raw[0])
    if codec is None:
        raise WireError("unknown_type")
    if len(raw) != len(codec.names) + 1:
        raise WireError("wrong_fields")
    try:
        return codec.cls(*[check(item) for check, item in zip(codec.checks, raw[1:], strict=True)])
    except (UsageError, ValueError, TypeError, AttributeError, RecursionError):
        raise WireError("wrong_fields") from None


# Checkers turn an unpacked value into a field, or raise; packers turn a field into what msgpack knows.


def _checker(hint: Any) -> _Check:
    if hint is Data:
        return _check_data
    if hint in _SCALARS:
        return _SCALARS[hint]
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if (
        origin in (types.UnionType, typing.Union)
        and len(arguments) == 2
        and type(None) in arguments
    ):
        inner = _checker(next(a for a in arguments if a is not type(None)))
        return lambda value: None if value is None else inner(value)
    if origin is tuple:
        return _tuple_checker(arguments)
    if origin is dict:
        key, item = _checker(arguments[0]), _checker(arguments[1])
        return lambda value: {key(k): item(v) for k, v in _exactly(dict, value).items()}
    if dataclasses.is_dataclass(hint):
        return lambda value: _exact_message(typing.cast(type, hint), value)
    raise UsageError(f"a message cannot have a field of type {hint!r}")


def _tuple_checker(arguments: tuple[Any, ...]) -> _Check:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        item = _checker(arguments[0])
        return lambda value: tuple(item(v) for v in _exactly(tuple, value))
    items = [_checker(argument) for argument in arguments]
    return lambda value: tuple(c(v) for c, v in zip(items, _exactly(tuple, value), strict=True))


def _packer(hint: Any) -> _Pack | None:
    """None where msgpack takes the field as it is."""
    if hint is Contact or hint is Address:
        return lambda place: place.packed()
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        return _packer(next(a for a in arguments if a is not type(None)))
    if origin is tuple:
        return _tuple_packer(arguments)
    if origin is dict:
        key, value = (_packer(a) or (lambda same: same) for a in arguments)
        return lambda items: {key(k): value(v) for k, v in items.items()}
    if dataclasses.is_dataclass(hint):
        return _flatten
    return None


def _tuple_packer(arguments: tuple[Any, ...]) -> _Pack | None:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        item = _packer(arguments[0])
        return None if item is None else lambda values: [item(v) for v in values]
    packers = [_packer(a) or (lambda same: same) for a in arguments]
    return lambda values: [p(v) for p, v in zip(packers, values, strict=True)]


def _exactly(cls: type[T], value: Any) -> T:
    if type(value) is not cls:
        raise WireError("wrong_fields")
    return value


def _exact_message(cls: type, value: Any) -> Any:
    restored = _restore(value)
    if type(restored) is not cls:
        raise WireError("wrong_fields")
    return restored


def _check_float(value: Any) -> float:
    if type(value) is int:
        return float(value)
    return _exactly(float, value)


def _check_peer_id(value: Any) -> PeerId:
    if type(value) is not bytes or len(value) != ID_BYTES:
        raise WireError("wrong_fields")
    return PeerId(value)


def _check_data(value: Any, depth: int = 0) -> Any:
    if type(value) in (tuple, dict) and depth >= MAX_NESTING:
        raise WireError("too_deep")
    if type(value) is tuple:
        return [_check_data(item, depth + 1) for item in value]
    if type(value) is dict:
        return {key: _check_data(item, depth + 1) for key, item in value.items()}
    return value


_SCALARS: dict[Any, _Check] = {
    bool: lambda value: _exactly(bool, value),
    int: lambda value: _exactly(int, value),
    str: lambda value: _exactly(str, value),
    bytes: lambda value: _exactly(bytes, value),
    float: _check_float,
    PeerId: _check_peer_id,
    Address: lambda value: Address.unpack(_exactly(bytes, value)),
    Contact: lambda value: Contact.unpack(_exactly(bytes, value)),
}
