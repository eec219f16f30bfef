"""Profiles: constraints that an event's data must satisfy, all of them (section 3.1).

An entity may have several profiles on a topic; an event is for it when it satisfies one. On the wire and in
a store a profile is its canonical bytes: equal profiles have equal bytes, in whatever order their
constraints were written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgpack

from overlay.errors import UsageError
from overlay.wire import WireError
from pubsub.archive.profiles.constraints import Equals, ProfileError, Selector, Tag
from pubsub.archive.profiles.xpath import XPath

CONSTRAINT_LIMIT = 16
"""Constraints of a profile."""
PACKED_LIMIT = 16 * 1024
"""Bytes of a profile on the wire."""

Constraint = Equals | Tag | Selector | XPath

_EQUALS, _TAG, _SELECTOR, _XPATH = 1, 2, 3, 4
"""Kinds on the wire."""


@dataclass(frozen=True, slots=True)
class Profile:
    """Satisfied by everything when it has no constraints."""

    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self) -> None:
        for constraint in self.constraints:
            if not isinstance(constraint, Constraint):
                raise ProfileError(f"{constraint!r:.60} is not a constraint of a profile")
        ordered = {_packed(constraint): constraint for constraint in self.constraints}
        if len(ordered) > CONSTRAINT_LIMIT:
            raise ProfileError(
                f"a profile has {len(ordered)} constraints, and {CONSTRAINT_LIMIT} is the limit"
            )
        object.__setattr__(self, "constraints", tuple(ordered[key] for key in sorted(ordered)))
        if len(self.packed()) > PACKED_LIMIT:
            raise ProfileError(f"a profile has more than {PACKED_LIMIT} bytes")

    @classmethod
    def of(cls, *constraints: Constraint | str) -> Profile:
        """A profile of these constraints; a string is a selector."""
        return cls(tuple(Selector(one) if isinstance(one, str) else one for one in constraints))

    def matches(self, data: Any) -> bool:
        """Whether the data satisfies every constraint; nothing that it is given makes it raise."""
        return all(constraint.matches(data) for constraint in self.constraints)

    def packed(self) -> bytes:
        packed: bytes = msgpack.packb([_flat(constraint) for constraint in self.constraints])
        return packed

    @classmethod
    def unpack(cls, packed: bytes) -> Profile:
        """The profile that `packed` gave; `WireError` for any other bytes."""
        if len(packed) > PACKED_LIMIT:
            raise WireError("malformed_profile")
        try:
            return cls(tuple(_constraint(raw) for raw in msgpack.unpackb(packed, use_list=False)))
        except (UsageError, ValueError, TypeError, KeyError, msgpack.UnpackException):
            raise WireError("malformed_profile") from None


def _flat(constraint: Constraint) -> list[Any]:
    match constraint:
        case Equals(value):
            return [_EQUALS, value]
        case Tag(tag, value):
            return [_TAG, tag, value]
        case Selector(text):
            return [_SELECTOR, text]
        case XPath(path, field, namespaces):
            return [_XPATH, path, field, namespaces]


def _packed(constraint: Constraint) -> bytes:
    packed: bytes = msgpack.packb(_flat(constraint))
    return packed


def _constraint(raw: Any) -> Constraint:
    kind, *fields = raw
    classes: dict[int, Any] = {_EQUALS: Equals, _TAG: Tag, _SELECTOR: Selector, _XPATH: XPath}
    constraint: Constraint = classes[kind](*fields)
    return constraint
