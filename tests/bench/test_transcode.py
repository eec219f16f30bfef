"""msgpack to JSON, compiled: the same text as Python's, or left to Python."""

from __future__ import annotations

import json
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as some

from bench.spark.transcode import to_json

pytestmark = pytest.mark.sweep  # it is compiled first

LEAVES = some.one_of(
    some.none(),
    some.booleans(),
    some.integers(-(2**63), 2**64 - 1),
    some.floats(allow_nan=False),
    some.text(),
    some.text(some.characters(max_codepoint=127), max_size=40),
    some.binary(max_size=5),
)
VALUES = some.recursive(
    LEAVES,
    lambda inner: (
        some.lists(inner, max_size=20) | some.dictionaries(some.text(), inner, max_size=20)
    ),
)


def texts(values: list[Any]) -> list[str | None]:
    packed = [msgpack.packb(value) for value in values]
    joined, ends, left = to_json(b"".join(packed), np.cumsum([len(one) for one in packed]))
    starts = [0, *ends[:-1].tolist()]
    return [
        None if out else joined[a:b].decode()
        for a, b, out in zip(starts, ends.tolist(), left.tolist(), strict=True)
    ]


def is_common(value: Any) -> bool:
    if isinstance(value, dict):
        return all(is_common(one) for pair in value.items() for one in pair)
    if isinstance(value, list):
        return all(map(is_common, value))
    return not isinstance(value, float | bytes) and (not isinstance(value, str) or value.isascii())


@settings(max_examples=300, deadline=None)
@given(some.lists(VALUES, min_size=1, max_size=6))
def test_the_text_is_that_of_python_or_the_value_is_left(values: list[Any]) -> None:
    for value, text in zip(values, texts(values), strict=True):
        if is_common(value) and value is not None:
            assert text == json.dumps(value, ensure_ascii=False, separators=(",", ":"))
        else:
            assert text is None


@settings(max_examples=300, deadline=None)
@given(some.binary(min_size=1, max_size=30))
def test_bytes_that_are_not_msgpack_are_left(data: bytes) -> None:
    joined, _, left = to_json(data, np.array([len(data)]))
    try:
        value = msgpack.unpackb(data, strict_map_key=False)
        json.dumps(value)
    except Exception:
        assert left[0]
        return
    if not left[0]:
        assert json.loads(joined) == json.loads(json.dumps(value))
