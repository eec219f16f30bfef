"""Rights on topics: who may publish, subscribe, archive, distribute or replay, said by an authority.

A network may have an authority: one or several Ed25519 keys that every node is told. A *right* is a chain of
grants. The authority signs the first one: "key K may publish on /soccer/** until T". K may grant a part of it
to another key, if it was allowed to, and so on; each grant is at most as wide as the one before, in what may
be done, on which topics, until when, and in how often it may be granted on. A right is checked without
asking anybody: it needs the authority's public keys and a clock.

    grant    holder's public key (32 bytes), what (1), how often it may be granted on (1), until (8: seconds
             since 1970), length of the pattern (2), pattern, signature (64) by the holder of the grant before

A signature covers the grants before it, so no grant can be put behind another one. A node that is shown a
right must know that the other side has the holder's key: by a session, or by a signature.

Faults: clocks that differ by a minute are made good (`CLOCK_SLACK`). A network without an authority is open.
"""

from __future__ import annotations

import hashlib
import struct
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import IntFlag

from overlay.contact import PeerId
from overlay.errors import UsageError
from overlay.identity import PUBLIC_KEY_BYTES, SIGNATURE_BYTES, Identity, peer_id_of, verify
from pubsub.topic import Pattern, included

CLOCK_SLACK = 60.0
"""Seconds that a right is honoured longer than it says."""

LONGEST_CHAIN = 8
"""Grants in one right."""

LONGEST_PATTERN = 512
"""Bytes of a pattern."""

FOREVER = 2**63
REMEMBERED = 1024
"""Rights whose signatures were checked and need not be checked again; the one asked for longest ago goes."""

_HEAD = struct.Struct(f">{PUBLIC_KEY_BYTES}sBBQH")
_PURPOSE = b"camcast right 1"


class RightError(UsageError):
    """A right is not valid, or does not allow what is asked."""


class Action(IntFlag):
    """What a right allows."""

    PUBLISH = 1
    SUBSCRIBE = 2
    ARCHIVE = 4
    DISTRIBUTE = 8
    REPLAY = 16

    @staticmethod
    def of(names: Iterable[str]) -> Action:
        """The actions of these names, such as `publish`; `RightError` for a name that is not one."""
        found = Action(0)
        for name in names:
            if name.upper() not in Action.__members__:
                known = ", ".join(member.lower() for member in Action.__members__)
                raise RightError(f"{name!r} is not something to be allowed; there are {known}")
            found |= Action[name.upper()]
        return found

    def words(self) -> str:
        return ", ".join(str(action.name).lower() for action in Action if action in self)


@dataclass(frozen=True, slots=True)
class Grant:
    """One link of a right."""

    holder: bytes
    """The public key of the one who may."""
    actions: Action
    pattern: str
    """The topics, as in `/soccer/**`."""
    until: int = FOREVER
    """Seconds since 1970."""
    passes: int = 0
    """How often the grant may be granted on: 0 is for the holder alone."""

    def __post_init__(self) -> None:
        if len(self.holder) != PUBLIC_KEY_BYTES:
            raise RightError(f"a holder is a public key of {PUBLIC_KEY_BYTES} bytes")
        if not self.actions:
            raise RightError("a right allows at least one action")
        if not 0 <= self.passes < LONGEST_CHAIN:
            raise RightError(f"passes={self.passes} is not within 0..{LONGEST_CHAIN - 1}")
        if not 0 <= self.until <= FOREVER:
            raise RightError(f"until={self.until} is not a time in seconds since 1970")
        Pattern.of(self.pattern)
        if len(self.pattern.encode()) > LONGEST_PATTERN:
            raise RightError(f"a pattern of a right has at most {LONGEST_PATTERN} bytes")

    def allows(self, other: Grant) -> bool:
        """Whether this grant may be granted on as `other`: nothing in it is wider."""
        return (
            self.passes > other.passes
            and other.until <= self.until
            and other.actions & ~self.actions == 0
            and covers(self.pattern, other.pattern)
        )

    def packed(self) -> bytes:
        pattern = self.pattern.encode()
        return (
            _HEAD.pack(self.holder, self.actions, self.passes, self.until, len(pattern)) + pattern
        )


@dataclass(frozen=True, slots=True)
class Right:
    """A chain of grants with their signatures; valid or not, which `Authority.check` says."""

    grants: tuple[Grant, ...]
    packed: bytes

    @property
    def last(self) -> Grant:
        """What the right comes to: nothing before it is narrower."""
        return self.grants[-1]

    @property
    def holder(self) -> PeerId:
        return peer_id_of(self.last.holder)

    @property
    def name(self) -> str:
        """16 hexadecimal digits that stand for this very right."""
        return hashlib.sha256(self.packed).hexdigest()[:16]

    @staticmethod
    def unpack(packed: bytes) -> Right:
        """The right that `packed` is; `RightError` for any other bytes."""
        grants: list[Grant] = []
        rest = packed
        try:
            while rest:
                holder, actions, passes, until, length = _HEAD.unpack_from(rest)
                end = _HEAD.size + length
                grant = Grant(
                    holder, Action(actions), rest[_HEAD.size : end].decode(), until, passes
                )
                if len(rest) < end + SIGNATURE_BYTES or len(grants) == LONGEST_CHAIN:
                    raise ValueError
                grants.append(grant)
                rest = rest[end + SIGNATURE_BYTES :]
        except (ValueError, struct.error, UsageError):
            raise RightError("these bytes are not a right") from None
        if not grants:
            raise RightError("these bytes are not a right")
        return Right(tuple(grants), packed)


def grant_first(authority: Identity, grant: Grant) -> Right:
    """The right that an authority gives."""
    return Right((grant,), _signed(b"", authority, grant))


def grant_on(right: Right, holder: Identity, grant: Grant) -> Right:
    """A part of a right for another one; `RightError` when it is wider, or not the holder's to give."""
    if holder.public_key != right.last.holder:
        raise RightError("only the holder of a right can grant a part of it to others")
    if not right.last.allows(grant):
        raise RightError(
            f"the right allows {describe(right.last)}; what is granted on must be a part of that, and may "
            "be granted on fewer times"
        )
    return Right((*right.grants, grant), right.packed + _signed(right.packed, holder, grant))


def describe(grant: Grant) -> str:
    until = "" if grant.until >= FOREVER else f" until {grant.until}"
    onward = "" if not grant.passes else f", and to grant it on {grant.passes} times"
    return f"to {grant.actions.words()} on {grant.pattern}{until}{onward}"


class Authority:
    """The keys whose rights count in a network, and a clock."""

    def __init__(self, keys: Sequence[bytes], now: Callable[[], float]) -> None:
        if not keys or any(len(key) != PUBLIC_KEY_BYTES for key in keys):
            raise RightError(f"an authority has public keys of {PUBLIC_KEY_BYTES} bytes each")
        self._keys = tuple(keys)
        self._now = now
        self._checked: OrderedDict[bytes, Right] = OrderedDict()

    def check(self, packed: bytes) -> Right:
        """The right, if an authority's key begins it and each grant is a part of the one before.

        `RightError` otherwise, and when its time is over. A right that was checked is remembered."""
        right = self._checked.get(packed)
        if right is None:
            right = Right.unpack(packed)
            self._check_signatures(right)
            self._checked[packed] = right
            if len(self._checked) > REMEMBERED:
                self._checked.popitem(last=False)
        else:
            self._checked.move_to_end(packed)
        if self._now() > right.last.until + CLOCK_SLACK:
            raise RightError("the right has expired")
        return right

    def _check_signatures(self, right: Right) -> None:
        before: Grant | None = None
        start = 0
        for grant in right.grants:
            body = grant.packed()
            end = start + len(body)
            signature = right.packed[end : end + SIGNATURE_BYTES]
            signers = self._keys if before is None else (before.holder,)
            signed = _to_sign(right.packed[:start], body)
            if not any(verify(key, signed, signature) for key in signers):
                raise RightError("a signature in the right is not that of who granted it")
            if before is not None and not before.allows(grant):
                raise RightError("a grant in the right is wider than the one before it")
            before, start = grant, end + SIGNATURE_BYTES

    def allows(self, packed: bytes, holder: PeerId, action: Action, topic: str) -> bool:
        """Whether `packed` is a right of `holder` to do this on this topic, now; False for any nonsense.

        To publish is on the topic itself, all else on the topic and all below it."""
        try:
            right = self.check(packed)
        except RightError:
            return False
        last = right.last
        if right.holder != holder or action not in last.actions:
            return False
        return (
            takes(last.pattern, topic) if action is Action.PUBLISH else covers(last.pattern, topic)
        )


def takes(pattern: str, topic: str) -> bool:
    """Whether an event of this very topic is one that the pattern stands for."""
    found = Pattern.of(pattern)
    return included(found.topic.name, topic, ()) and found.matches(topic)


class OwnRights:
    """The rights that one node holds."""

    def __init__(self, rights: Sequence[bytes], authority: Authority, holder: PeerId) -> None:
        """`RightError` when one of them is not valid, or is another's."""
        for packed in rights:
            if authority.check(packed).holder != holder:
                raise RightError("a right that this node was given is for another key")
        self._rights = tuple(rights)
        self._authority = authority
        self._holder = holder
        self.longest: int = max(map(len, rights), default=0)
        """Bytes of the largest one."""

    def to_publish(self, names: Sequence[str]) -> bytes:
        """The right to publish on all of these topics; `RightError` when there is none."""
        for packed in self._rights:
            if all(
                self._authority.allows(packed, self._holder, Action.PUBLISH, name) for name in names
            ):
                return packed
        raise RightError(
            f"this node has no right to publish on {names[0]}: ask the network's authority for one "
            "(`camcast right new`) and give it to the node as rights=[...]"
        )


def covers(outer: str, inner: str) -> bool:
    """Whether every topic that `inner` stands for is one that `outer` stands for, by their paths.

    A plain topic stands for itself and all below it, as `**` behind it does."""
    wide, narrow = _levels(outer), _levels(inner)
    deep_outer, deep_inner = _is_deep(outer), _is_deep(inner)
    if len(narrow) < len(wide):
        return False
    if not deep_outer and (deep_inner or len(narrow) > len(wide)):
        return False
    return all(level in ("*", other) for level, other in zip(wide, narrow, strict=False))


def _levels(pattern: str) -> list[str]:
    path = pattern.removesuffix("**").strip("/")
    return path.split("/") if path else []


def _is_deep(pattern: str) -> bool:
    return pattern.endswith("**") or "*" not in pattern


def _signed(before: bytes, grantor: Identity, grant: Grant) -> bytes:
    body = grant.packed()
    return body + grantor.sign(_to_sign(before, body))


def _to_sign(before: bytes, body: bytes) -> bytes:
    return _PURPOSE + hashlib.sha256(before).digest() + body
