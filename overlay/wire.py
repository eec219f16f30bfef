"""Typed messages as msgpack: frozen dataclasses, each registered once under a code.

A message travels as the msgpack array `[code, field, field, ...]`, its fields in the order of the class.
Fields may be `bool`, `int`, `float` (finite), `str`, `bytes`, `PeerId`, `Contact`, `Address`, a
registered message, `X | None`, `tuple[X, ...]`, `tuple[X, Y]`, `dict[X, Y]`, or `Data` for what an
application passes through.

`decode` promises: it returns a message whose every field has its declared type, or raises `WireError` with
a reason, whatever the bytes; sizes and nesting are checked before memory is spent, within the limits of
`overlay.limited_msgpack`. Reasons: `malformed`, `oversized`, `unknown_type`, `wrong_fields`, `too_deep`.

Codes are grouped: 0x00 DHT and directory, 0x20 channels and failure detection, 0x30 membership,
0x40 CAMCAST, 0x50 broadcast, 0x60 topic membership and collections, 0x70 archive, 0x80 distributors,
0x90 hand-over of archives, 0xA0 HyParView, 0xB0 distributors again, 0xC0 requests and last
values, 0xD0 rights.
"""

from __future__ import annotations

import dataclasses
import functools
import math
import operator
import types
import typing
from collections.abc import Callable
from typing import Any, TypeVar

from overlay.contact import ID_BYTES, Address, Contact, PeerId, pack_contact, unpack_contact
from overlay.errors import UsageError
from overlay.limited_msgpack import (
    MAX_ARRAY,
    MAX_MAP,
    MAX_MESSAGE,
    MAX_NESTING,
    MAX_STRING,
    WireError,
    check_data_in,
    check_data_out,
    pack,
    unpack,
)

__all__ = [
    "MAX_ARRAY",
    "MAX_MAP",
    "MAX_MESSAGE",
    "MAX_NESTING",
    "MAX_STRING",
    "Data",
    "WireError",
    "decode",
    "encode",
    "is_message",
    "message",
]

Data = typing.NewType("Data", object)
"""A field that carries what the application gave: None, bool, int, float, str, bytes, list, dict."""

T = TypeVar("T")
_Check = Callable[[Any], Any]
_Pack = Callable[[Any], Any]


class Form(typing.NamedTuple):
    """How a message is written and read that has a form of its own, because it is large or frequent.

    Its bytes are msgpack all the same, and begin with an array of at most 15 fields and the code."""

    write: Callable[[Any], bytes]
    read: Callable[[bytes | memoryview], Any]
    """`WireError` for bytes that are not of this form."""


@dataclasses.dataclass(frozen=True, slots=True)
class _Codec:
    code: int
    cls: type
    fields: Callable[[Any], tuple[Any, ...]]
    """All fields of a message, in order."""
    length: int
    """The length of the array: the code, and the fields."""
    plain: tuple[tuple[int, type], ...]
    """The places in the array whose field is exactly what msgpack gives, and its type."""
    checks: tuple[tuple[int, _Check], ...]
    """The other places, and what makes their field of it."""
    packs: tuple[tuple[int, _Pack], ...]
    """The places whose field msgpack does not take as it is, and what it takes instead."""
    form: Form | None
    """The message's own form, where it has one."""


_BY_CODE: dict[int, _Codec] = {}
_BY_CLASS: dict[type, _Codec] = {}
_FORMS: dict[int, Form] = {}


@typing.dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def message(code: int, form: Form | None = None) -> Callable[[type[T]], type[T]]:
    """Class decorator: makes a frozen dataclass with slots of a class that is not a dataclass yet, and
    registers it under `code` (0 to 65535; with a `form` to 127)."""

    def register(cls: type[T]) -> type[T]:
        if not dataclasses.is_dataclass(cls):
            # A frequent one is frozen for mypy alone: a frozen object takes three times as long to make.
            cls = dataclasses.dataclass(frozen=form is None, slots=True)(cls)
        if not 0 <= code < 65536 or code in _BY_CODE:
            raise UsageError(f"code {code:#x} of {cls.__name__} is taken or not in 0..65535")
        names = _field_names(cls, form)
        hints = typing.get_type_hints(cls)
        places = [(place, hints[name]) for place, name in enumerate(names, start=1)]
        packs = [(place, _packer(hint)) for place, hint in places]
        _BY_CODE[code] = _BY_CLASS[cls] = _Codec(
            code,
            cls,
            _fields_getter(names),
            len(names) + 1,
            tuple((place, hint) for place, hint in places if hint in _PLAIN),
            tuple((place, _checker(hint)) for place, hint in places if hint not in _PLAIN),
            tuple((place, pack) for place, pack in packs if pack is not None),
            form,
        )
        if form is not None:
            _FORMS[code] = form
        return cls

    return register


def is_message_type(cls: type) -> bool:
    return cls in _BY_CLASS


def is_message(value: object) -> bool:
    return type(value) in _BY_CLASS


def encode(value: object) -> bytes:
    """The bytes of a registered message; `UsageError` when a field cannot travel or is too large."""
    codec = _BY_CLASS.get(type(value))
    try:
        if codec is not None and codec.form is not None:
            return codec.form.write(value)
        return pack(_flatten(value))
    except (UsageError, TypeError, AttributeError, ValueError) as error:
        raise UsageError(f"{type(value).__name__} cannot be sent: {error}") from None


def decode(data: bytes | memoryview) -> Any:
    """The message in `data`; `WireError` for anything else."""
    form = _FORMS.get(data[1]) if len(data) > 1 else None
    return _restore(unpack(data)) if form is None else form.read(data)


def _field_names(cls: type, form: Form | None) -> list[str]:
    if form is None and not cls.__dataclass_params__.frozen:  # type: ignore[attr-defined]
        raise UsageError(f"{cls.__name__} must be a frozen dataclass to be a message")
    fields = dataclasses.fields(cls)
    if any(field.kw_only or not field.init for field in fields):
        raise UsageError(f"the fields of {cls.__name__} must be positional to be a message")
    return [field.name for field in fields]


def _fields_getter(names: list[str]) -> Callable[[Any], tuple[Any, ...]]:
    if not names:
        return lambda value: ()
    getter = operator.attrgetter(*names)
    return getter if len(names) > 1 else lambda value: (getter(value),)


def _flatten(value: Any) -> list[Any]:
    codec = _BY_CLASS.get(type(value))
    if codec is None:
        raise UsageError(f"{type(value).__name__} is not a registered message")
    flat = [codec.code, *codec.fields(value)]
    for place, pack_field in codec.packs:
        flat[place] = pack_field(flat[place])
    return flat


def code_of(kind: type) -> int | None:
    """The code that messages of this type travel under; None for what is not a message."""
    codec = _BY_CLASS.get(kind)
    return None if codec is None else codec.code


def code_in(data: bytes | memoryview) -> int | None:
    """The code that an encoded message begins with, registered or not; None where there is none."""
    if not data:
        return None
    start = 1 if 0x90 <= data[0] <= 0x9F else 3 if data[0] == _ARRAY_16 else len(data)
    head = data[start : start + 3]
    if head and head[0] < 0x80:
        return head[0]
    if len(head) >= 2 and head[0] == _UINT_8:
        return head[1]
    if len(head) == 3 and head[0] == _UINT_16:
        return int.from_bytes(head[1:], "big")
    return None


_ARRAY_16, _UINT_8, _UINT_16 = 0xDC, 0xCC, 0xCD
"""How msgpack begins an array of 16 fields or more, and numbers up to 255 and up to 65,535."""


def _restore(raw: Any) -> Any:
    if type(raw) is not tuple or not raw or type(raw[0]) is not int:
        raise WireError("malformed")
    codec = _BY_CODE.get(raw[0])
    if codec is None:
        raise WireError("unknown_type")
    if len(raw) != codec.length:
        raise WireError("wrong_fields")
    for place, exact in codec.plain:
        if type(raw[place]) is not exact:
            raise WireError("wrong_fields")
    fields = list(raw)
    try:
        for place, check in codec.checks:
            fields[place] = check(fields[place])
        return codec.cls(*fields[1:])
    except WireError:
        raise
    except Exception:  # whatever the class itself says against these fields
        raise WireError("wrong_fields") from None


# Checkers turn an unpacked value into a field, or raise; packers turn a field into what msgpack knows.


def _checker(hint: Any) -> _Check:
    if hint is Data:
        return check_data_in
    if hint in _PLAIN:
        return lambda value: _exactly(hint, value)
    if hint in _CHECKS:
        return _CHECKS[hint]
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
    if origin is dict and arguments[0] in _KEYS:
        key, item = _checker(arguments[0]), _checker(arguments[1])
        return lambda value: {key(k): item(v) for k, v in _exactly(dict, value).items()}
    if dataclasses.is_dataclass(hint):
        return lambda value: _exact_message(typing.cast(type, hint), value)
    raise UsageError(f"a message cannot have a field of type {hint!r}")


def _tuple_checker(arguments: tuple[Any, ...]) -> _Check:
    if len(arguments) == 2 and arguments[1] is Ellipsis:
        if arguments[0] in _PLAIN:
            return functools.partial(_all_exactly, {arguments[0]})
        if (kinds := _plain_row(arguments[0])) is not None:
            return functools.partial(_all_rows, kinds)
        item = _checker(arguments[0])
        return lambda value: tuple(map(item, _exactly(tuple, value)))
    items = [_checker(argument) for argument in arguments]
    return lambda value: tuple(c(v) for c, v in zip(items, _exactly(tuple, value), strict=True))


def _packer(hint: Any) -> _Pack | None:
    """None where msgpack takes the field as it is."""
    if hint is Data:
        return check_data_out
    if hint is float:
        return _finite
    if hint is Contact:
        return pack_contact
    if hint is Address:
        return Address.packed
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        inner = _packer(next(a for a in arguments if a is not type(None)))
        return inner and (lambda value: None if value is None else inner(value))
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
        return None if item is None else lambda values: list(map(item, values))
    if all(argument in _PLAIN for argument in arguments):
        return None
    packers = [_packer(a) or (lambda same: same) for a in arguments]
    return lambda values: [p(v) for p, v in zip(packers, values, strict=True)]


def _plain_row(hint: Any) -> tuple[type, ...] | None:
    """The types of the fields of a fixed-length tuple whose fields are what msgpack gives; None for anything
    else. Messages have many such rows, which are checked at once and packed as they are."""
    arguments = typing.get_args(hint)
    is_row = typing.get_origin(hint) is tuple and all(one in _PLAIN for one in arguments)
    return arguments if is_row else None


def _exactly(cls: type[T], value: Any) -> T:
    if type(value) is not cls:
        raise WireError("wrong_fields")
    return value


def _all_exactly(kinds: set[type], value: Any) -> tuple[Any, ...]:
    if type(value) is not tuple or not set(map(type, value)) <= kinds:
        raise WireError("wrong_fields")
    return value


def _all_rows(kinds: tuple[type, ...], value: Any) -> tuple[Any, ...]:
    if type(value) is not tuple or not set(map(type, value)) <= {tuple}:
        raise WireError("wrong_fields")
    for row in value:
        if (*map(type, row),) != kinds:
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
    if not math.isfinite(_exactly(float, value)):
        raise WireError("wrong_fields")
    return value  # type: ignore[no-any-return]


def _finite(value: float) -> float:
    """Infinities and NaN stay at home: they would pass every comparison that guards a protocol."""
    if not math.isfinite(value):
        raise UsageError(f"{value} is not a finite number")
    return value


def _check_peer_id(value: Any) -> PeerId:
    if type(value) is not bytes or len(value) != ID_BYTES:
        raise WireError("wrong_fields")
    return PeerId(value)


def _check_contact(value: Any) -> Contact:
    if type(value) is not bytes:
        raise WireError("wrong_fields")
    return unpack_contact(value)


_PLAIN = (bool, int, str, bytes)

_CHECKS: dict[Any, _Check] = {
    float: _check_float,
    PeerId: _check_peer_id,
    Address: lambda value: Address.unpack(_exactly(bytes, value)),
    Contact: _check_contact,
}

_KEYS = (int, str, bytes, PeerId, Address, Contact)
"""What a map's keys may be."""
