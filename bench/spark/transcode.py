"""msgpack to JSON for whole pages of events at once, compiled: no Python object for a row.

What is common is done here: maps with text as keys, arrays, text of ASCII, integers, truth and inner null. A
value with anything else (floats, bytes, other text, extensions) is left to the caller, who decodes it in
Python. Both give the same text.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from bench.simulate.compiled import compiled

DEEPEST = 64
"""Levels of maps and arrays that are followed."""
GROWTH = 7
"""The most bytes that one byte of msgpack becomes: false and a comma are six."""
_CONTROL, _LAST_ASCII = 0x20, 0x7F


def to_json(data: bytes, ends: Any) -> tuple[bytes, Any, Any]:
    """The values that end at `ends` in `data`, as JSON: the texts one behind the other, where each ends, and
    which are left to the caller (these have no text)."""
    out = np.empty(GROWTH * len(data) + GROWTH, np.uint8)
    out_ends = np.empty(len(ends), np.int64)
    left = np.zeros(len(ends), np.bool_)
    size = _page(np.frombuffer(data, np.uint8), ends.astype(np.int64), out, out_ends, left)
    return out[:size].tobytes(), out_ends, left


@compiled
def _page(data: Any, ends: Any, out: Any, out_ends: Any, left: Any) -> int:
    at, put = 0, 0
    for index in range(len(ends)):
        is_null = ends[index] == at + 1 and data[at] == 0xC0  # no text, but nothing at all
        written = -1 if is_null else _value(data, at, ends[index], out, put)
        if written < 0:
            left[index] = True
        else:
            put = written
        out_ends[index] = put
        at = ends[index]
    return put


@compiled
def _value(data: Any, at: int, end: int, out: Any, put: int) -> int:
    """Write the value between two places; where it ends in `out`, or -1 for what is not done here."""
    waiting = np.empty(DEEPEST, np.int64)  # of each open container: items that are to come
    is_map = np.empty(DEEPEST, np.bool_)
    depth = 0
    while True:
        is_key = depth > 0 and is_map[depth - 1] and waiting[depth - 1] % 2 == 0
        kind, at, size = _head(data, at, end)
        if kind == OTHER or (is_key and kind != TEXT):
            return -1
        if kind == TEXT:
            length: Any = np.int64(size)
            put = _text(data, at, length, out, put)
            at += length
        elif kind in (ARRAY, MAP):
            if depth == DEEPEST:
                return -1
            out[put] = 0x7B if kind == MAP else 0x5B
            put += 1
            waiting[depth], is_map[depth] = np.int64(size), kind == MAP
            depth += 1
            if size:
                continue
            depth -= 1
            out[put] = 0x7D if kind == MAP else 0x5D
            put += 1
        else:
            put = _scalar(kind, size, out, put)
        if put < 0:
            return -1
        put, depth = _complete(waiting, is_map, depth, out, put)
        if depth == 0:
            return put if at == end else -1


@compiled
def _complete(waiting: Any, is_map: Any, depth: int, out: Any, put: int) -> tuple[int, int]:
    """A value is complete, and with it maybe the containers around it."""
    while depth:
        waiting[depth - 1] -= 1
        if waiting[depth - 1]:
            between = is_map[depth - 1] and waiting[depth - 1] % 2 == 1
            out[put] = 0x3A if between else 0x2C
            return put + 1, depth
        depth -= 1
        out[put] = 0x7D if is_map[depth] else 0x5D
        put += 1
    return put, depth


OTHER, NULL, FALSE, TRUE, NUMBER, MINUS, TEXT, ARRAY, MAP = range(9)
"""What a value is. A number without and with a sign, and the count of bytes or items, come with it."""


@compiled
def _head(data: Any, at: int, end: int) -> tuple[int, int, Any]:
    """What stands at a place, where the rest of it begins, and its number or size."""
    if at >= end:
        return OTHER, at, np.uint64(0)
    code: Any = np.int64(data[at])
    at += 1
    if code <= 0x7F:
        return NUMBER, at, np.uint64(code)
    if code >= 0xE0:
        return MINUS, at, np.uint64(256 - code)
    if code <= 0x8F:
        return MAP, at, np.uint64(2 * (code & 0x0F))
    if code <= 0x9F:
        return ARRAY, at, np.uint64(code & 0x0F)
    kind, width = OTHER, 0
    if code <= 0xBF:
        kind = TEXT
    elif code in (0xC0, 0xC2, 0xC3):
        kind = NULL if code == 0xC0 else FALSE if code == 0xC2 else TRUE
    elif 0xCC <= code <= 0xD3:
        kind, width = NUMBER, 1 << ((code - 0xCC) % 4)
    elif 0xD9 <= code <= 0xDB:
        kind, width = TEXT, 1 << (code - 0xD9)
    elif code >= 0xDC:
        kind, width = MAP if code >= 0xDE else ARRAY, 2 if code % 2 == 0 else 4
    if at + width > end:
        return OTHER, at, np.uint64(0)
    size = np.uint64(code & 0x1F) if code <= 0xBF else np.uint64(0)
    for _ in range(width):
        size = (size << np.uint64(8)) | np.uint64(data[at])
        at += 1
    if 0xD0 <= code <= 0xD3 and size >> np.uint64(8 * width - 1):
        return MINUS, at, (~size + np.uint64(1)) & _mask(width)
    if kind == MAP:
        size *= np.uint64(2)
    if kind >= TEXT and size > np.uint64(end - at):
        return OTHER, at, np.uint64(0)
    return kind, at, size


@compiled
def _scalar(kind: int, size: Any, out: Any, put: int) -> int:
    if kind in (NUMBER, MINUS):
        return _digits(size, kind == MINUS, out, put)
    word = b"null" if kind == NULL else b"false" if kind == FALSE else b"true"
    for one in word:
        out[put] = one
        put += 1
    return put


@compiled
def _mask(width: int) -> Any:
    if width == 8:
        return np.uint64(0xFFFFFFFFFFFFFFFF)
    return (np.uint64(1) << np.uint64(8 * width)) - np.uint64(1)


@compiled
def _digits(size: Any, negative: bool, out: Any, put: int) -> int:
    if negative:
        out[put] = 0x2D
        put += 1
    count, rest = 1, size // np.uint64(10)
    while rest:
        count += 1
        rest //= np.uint64(10)
    for place in range(count - 1, -1, -1):
        out[put + place] = np.uint8(0x30) + np.uint8(size % np.uint64(10))
        size //= np.uint64(10)
    return put + count


@compiled
def _text(data: Any, at: int, length: int, out: Any, put: int) -> int:
    out[put] = 0x22
    put += 1
    for index in range(at, at + length):
        one = data[index]
        if one > _LAST_ASCII:
            return -1
        short = 0
        if one == 0x22 or one == 0x5C:
            short = one
        elif one == 0x0A:
            short = 0x6E
        elif one == 0x0D:
            short = 0x72
        elif one == 0x09:
            short = 0x74
        elif one == 0x08:
            short = 0x62
        elif one == 0x0C:
            short = 0x66
        if short:
            out[put], out[put + 1] = 0x5C, short
            put += 2
        elif one < _CONTROL:
            for place, digit in enumerate((0x5C, 0x75, 0x30, 0x30)):
                out[put + place] = digit
            for place in range(2):
                half = (one >> (4 - 4 * place)) & 0x0F
                out[put + 4 + place] = half + (0x30 if half < 10 else 0x57)
            put += 6
        else:
            out[put] = one
            put += 1
    out[put] = 0x22
    return put + 1
