"""Typed messages: every field type survives, garbage raises WireError and nothing else."""

from __future__ import annotations

from dataclasses import FrozenInstanceError, dataclass, field
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.contact import Address, Contact, PeerId
from overlay.errors import UsageError
from overlay.limited_msgpack import pack
from overlay.wire import Data, WireError, code_in, code_of, decode, encode, is_message, message
from tests.overlay.test_contact import addresses, contacts, peer_ids
from tests.overlay.test_limited_msgpack import data

FREE_CODE = 0xFF00
"""Codes from here on are for tests."""


@message(FREE_CODE)
class Leaf:
    number: int
    place: Address | None


@message(FREE_CODE + 1)
class Tree:
    flag: bool
    number: int
    real: float
    text: str
    blob: bytes
    peer: PeerId
    contact: Contact | None
    leaf: Leaf
    leaves: tuple[Leaf, ...]
    pair: tuple[str, Leaf | None]
    perhaps: tuple[Contact | None, ...]
    by_number: dict[int, Leaf]
    by_contact: dict[Contact, float]
    data: Data


@message(FREE_CODE + 2)
class Bare:
    pass


@message(FREE_CODE + 3)
class Picky:
    """Divides by its field: a class may raise anything about fields of the right type."""

    divisor: int

    def __post_init__(self) -> None:
        _ = 1 // self.divisor


integers = st.integers(-(2**63), 2**64 - 1)
reals = st.floats(allow_nan=False, allow_infinity=False)
leaves = st.builds(Leaf, integers, st.none() | addresses)
trees = st.builds(
    Tree,
    st.booleans(),
    integers,
    reals,
    st.text(),
    st.binary(),
    peer_ids,
    st.none() | contacts,
    leaves,
    st.lists(leaves, max_size=4).map(tuple),
    st.tuples(st.text(), st.none() | leaves),
    st.lists(st.none() | contacts, max_size=4).map(tuple),
    st.dictionaries(integers, leaves, max_size=4),
    st.dictionaries(contacts, reals, max_size=4),
    data,
)


@given(trees)
def test_every_type_of_field_survives(tree: Tree) -> None:
    restored = decode(encode(tree))
    assert restored == tree
    assert type(restored.peer) is PeerId
    assert decode(memoryview(encode(tree))) == tree


@given(trees, st.data())
def test_a_mangled_message_is_refused_by_name_or_has_the_declared_types(
    tree: Tree, draw: st.DataObject
) -> None:
    packed = bytearray(encode(tree))
    for _ in range(draw.draw(st.integers(1, 3))):
        packed[draw.draw(st.integers(0, len(packed) - 1))] = draw.draw(st.integers(0, 255))
    decodes_or_is_refused(bytes(packed))


@given(st.binary(max_size=100))
def test_garbage_is_refused_by_name(garbage: bytes) -> None:
    decodes_or_is_refused(garbage)


@given(st.sampled_from([FREE_CODE, FREE_CODE + 1, FREE_CODE + 2, FREE_CODE + 3]), st.lists(data))
def test_any_fields_under_a_known_code_are_taken_or_refused_by_name(
    code: int, fields: list[Any]
) -> None:
    decodes_or_is_refused(pack([code, *fields]))


def decodes_or_is_refused(packed: bytes) -> None:
    try:
        decoded = decode(packed)
    except WireError as error:
        reason = error.reason
    else:
        # As bytes, because a NaN in an application's data does not equal itself.
        assert encode(decode(encode(decoded))) == encode(decoded)
        return
    assert reason in ("malformed", "oversized", "unknown_type", "wrong_fields", "too_deep")


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        ([], "malformed"),
        (FREE_CODE, "malformed"),
        ([True, 1, None], "malformed"),
        ([0xFFFF], "unknown_type"),
        ([FREE_CODE], "wrong_fields"),
        ([FREE_CODE, 1], "wrong_fields"),
        ([FREE_CODE, 1, None, 3], "wrong_fields"),
        ([FREE_CODE, True, None], "wrong_fields"),
        ([FREE_CODE, 1.0, None], "wrong_fields"),
        ([FREE_CODE, None, None], "wrong_fields"),
        ([FREE_CODE, 1, b"12345"], "wrong_fields"),
        ([FREE_CODE, 1, "123456"], "wrong_fields"),
        ([FREE_CODE + 3, 0], "wrong_fields"),
    ],
)
def test_what_is_no_message_has_a_reason(raw: Any, reason: str) -> None:
    with pytest.raises(WireError) as caught:
        decode(pack(raw))
    assert caught.value.reason == reason


def test_a_registered_class_is_a_message() -> None:
    assert is_message(Bare())
    assert not is_message(Bare)
    assert not is_message((FREE_CODE,))
    assert decode(encode(Bare())) == Bare()


@pytest.mark.parametrize("real", [float("nan"), float("inf"), float("-inf")])
def test_numbers_that_are_not_finite_neither_leave_nor_arrive(real: float) -> None:
    @message(FREE_CODE + 4)
    @dataclass(frozen=True)
    class Real:
        real: float

    try:
        with pytest.raises(UsageError, match="Real"):
            encode(Real(real))
        with pytest.raises(WireError):
            decode(pack([FREE_CODE + 4, real]))
        assert decode(pack([FREE_CODE + 4, 3])) == Real(3.0)
    finally:
        forget(FREE_CODE + 4)


def forget(code: int) -> None:
    from overlay import wire

    del wire._BY_CLASS[wire._BY_CODE.pop(code).cls]


def test_what_a_message_cannot_carry_is_the_callers_error() -> None:
    with pytest.raises(UsageError, match="Leaf"):
        encode(Leaf(2**64, None))
    with pytest.raises(UsageError, match="Leaf"):
        encode(Leaf(1, "127.0.0.1:1"))  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="object"):
        encode(object())


def test_only_frozen_dataclasses_with_positional_fields_of_known_types_register() -> None:
    @dataclass
    class Thawed:
        number: int

    @dataclass(frozen=True)
    class Keyword:
        number: int = field(kw_only=True)

    @dataclass(frozen=True)
    class Unknown:
        anything: object

    @dataclass(frozen=True)
    class Choice:
        choice: int | str

    @dataclass(frozen=True)
    class RealKeys:
        table: dict[float, int]

    for cls in (Thawed, Keyword, Unknown, Choice, RealKeys):
        with pytest.raises(UsageError):
            message(FREE_CODE + 5)(cls)
    for code in (-1, 65536, FREE_CODE):
        with pytest.raises(UsageError, match="code"):
            message(code)(Bare)


@given(st.integers(0, 65535), st.integers(0, 40))
def test_the_code_of_an_encoded_message_is_read_without_knowing_it(code: int, fields: int) -> None:
    assert code_in(pack((code, *range(fields)))) == code


@given(st.binary(max_size=6))
def test_no_code_is_read_from_garbage_but_nothing_raises(garbage: bytes) -> None:
    code = code_in(garbage)
    assert code is None or 0 <= code <= 65535


def test_a_message_cannot_be_changed_and_has_no_room_for_more() -> None:
    with pytest.raises(FrozenInstanceError):
        Leaf(1, None).number = 2  # type: ignore[misc]
    assert not hasattr(Leaf(1, None), "__dict__")


def test_a_message_type_knows_its_code() -> None:
    assert code_of(Leaf) == FREE_CODE == code_in(encode(Leaf(1, None)))
    assert code_of(int) is None
