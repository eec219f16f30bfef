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

A right, or a grant in the middle of one with all that was granted on from it, can be taken back: a
*revocation* names the grants up to that one and is signed by an authority, or by the holder of a grant before
it. It spreads as an event of the topic `REVOCATIONS`, which everybody may publish and read, and which carries
nothing but valid revocations (see `pubsub.gate`); it is forgotten when the right would have ended anyway.

    revocation   who takes back: public key (32 bytes), signature (64), the grants up to the one taken back

Faults: clocks that differ by a minute are made good (`CLOCK_SLACK`). A network without an authority is open.
"""

from __future__ import annotations

import hashlib
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import IntFlag
from typing import NamedTuple

from overlay.bounded import remember
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
"""Rights whose signatures were checked and need not be checked again, the one asked for longest ago goes; and
beginnings of rights."""

REVOCATIONS = "/camcast/revocations"
"""The topic of revocations."""

MOST_REVOCATIONS = 4096
"""Revocations that are kept; those of holders go before those of authorities, and of these the oldest one in
the branch that has the most: of the rights that began with one grant of an authority."""

MOST_OF_HOLDER = 64
"""Revocations that are kept of one signer that is not an authority."""

NEWS_SECONDS = 60.0
"""How long a revocation is handed on to others as an event. Who missed it has it from others in time; and
nobody without a right can have one that all know sent through the network again and again."""

_HEAD = struct.Struct(f">{PUBLIC_KEY_BYTES}sBBQH")
_PURPOSE = b"camcast right 1"
_TAKEN_BACK = b"camcast revocation 1"
_REVOCATION_HEAD = PUBLIC_KEY_BYTES + SIGNATURE_BYTES


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

    def permits(self, action: Action, topic: str) -> bool:
        """Whether the holder may do this on this topic, as long as the grant counts.

        To publish is on the topic itself, all else on the topic and all below it."""
        if action not in self.actions:
            return False
        if action is Action.PUBLISH:
            return takes(self.pattern, topic)
        return covers(self.pattern, topic)

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


def revoke(right: Right, signer: Identity) -> bytes:
    """The revocation of a right and of all that was granted on from it, to be published."""
    signature = signer.sign(_TAKEN_BACK + right.packed)
    return signer.public_key + signature + right.packed


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


_LAST_DATE = 253_402_300_799
"""The end of the year 9999, after which Python has no dates."""


def describe(grant: Grant) -> str:
    until = onward = ""
    if grant.until < FOREVER:
        when = datetime.fromtimestamp(min(grant.until, _LAST_DATE), UTC)
        until = f" until {when:%Y-%m-%d %H:%M} UTC"
    if grant.passes:
        onward = f", and to grant it on, {grant.passes} deep"
    return f"to {grant.actions.words()} on {grant.pattern}{until}{onward}"


class _Revoked(NamedTuple):
    """Something that was taken back."""

    revocation: bytes
    until: int
    """When it would have ended."""
    branch: bytes
    """Who was given the right that it is a part of by an authority."""
    heard_at: float
    """When this node heard of it."""
    beginnings: tuple[bytes, ...]
    """The names of the right and of all that it is a part of."""
    by_authority: bool

    @property
    def signer(self) -> bytes:
        return self.revocation[:PUBLIC_KEY_BYTES]

    def includes(self, other: _Revoked) -> bool:
        """Whether the other one is of no use beside this one, which is kept for at least as long."""
        is_part = self.beginnings[-1] in other.beginnings
        return is_part and (self.by_authority or not other.by_authority)


class Authority:
    """The keys whose rights count in a network, a clock, and what was taken back."""

    def __init__(self, keys: Sequence[bytes], now: Callable[[], float]) -> None:
        if not keys or any(len(key) != PUBLIC_KEY_BYTES for key in keys):
            raise RightError(f"an authority has public keys of {PUBLIC_KEY_BYTES} bytes each")
        self.keys = tuple(keys)
        self._now = now
        self._checked: OrderedDict[bytes, tuple[Right, tuple[bytes, ...]]] = OrderedDict()
        """Rights whose signatures are good, with the names of all their beginnings."""
        self._good: dict[bytes, None] = {}
        """The names of beginnings whose signatures are good: many rights share them."""
        self._revoked: dict[bytes, _Revoked] = {}
        """What was taken back, by its name."""
        self._digest: bytes | None = None
        """Of what was taken back; None when it has changed. Peers have it told as often as they like."""
        self.revocations_changed: list[Callable[[], None]] = []
        """Called when a revocation was taken that was not known."""

    def check(self, packed: bytes) -> Right:
        """The right, if an authority's key begins it and each grant is a part of the one before.

        `RightError` otherwise, when its time is over, and when it was taken back. A right whose signatures
        were checked is remembered."""
        right, names = self._with_good_signatures(packed)
        if self._now() > right.last.until + CLOCK_SLACK:
            raise RightError("the right has expired")
        if self._revoked and any(name in self._revoked for name in names):
            raise RightError("the right was taken back")
        return right

    def _with_good_signatures(self, packed: bytes) -> tuple[Right, tuple[bytes, ...]]:
        known = self._checked.get(packed)
        if known is None:
            right = Right.unpack(packed)
            known = self._checked[packed] = (right, self._check_signatures(right))
            if len(self._checked) > REMEMBERED:
                self._checked.popitem(last=False)
        else:
            self._checked.move_to_end(packed)
        return known

    def _check_signatures(self, right: Right) -> tuple[bytes, ...]:
        before: Grant | None = None
        start = 0
        names: list[bytes] = []
        for grant in right.grants:
            body = grant.packed()
            end = start + len(body)
            name = _name(right.packed[: end + SIGNATURE_BYTES])
            if name not in self._good:
                signature = right.packed[end : end + SIGNATURE_BYTES]
                signers = self.keys if before is None else (before.holder,)
                signed = _to_sign(right.packed[:start], body)
                if not any(verify(key, signed, signature) for key in signers):
                    raise RightError("a signature in the right is not that of who granted it")
                if before is not None and not before.allows(grant):
                    raise RightError("a grant in the right is wider than the one before it")
                remember(self._good, name, None, REMEMBERED)
            before, start = grant, end + SIGNATURE_BYTES
            names.append(name)
        return tuple(names)

    def allows(self, packed: bytes, holder: PeerId, action: Action, topic: str) -> bool:
        """Whether `packed` is a right of `holder` to do this on this topic, now; False for any nonsense."""
        try:
            right = self.check(packed)
        except RightError:
            return False
        return right.holder == holder and right.last.permits(action, topic)

    # What was taken back.

    def take_back(self, revocation: bytes) -> bool:
        """Take note of a revocation, if there is room for it; False when it is not valid.

        One that is known, or that takes back a part of what is taken back already, is taken without any
        effect: whoever has lost a right cannot push that out by revocations of parts of it."""
        name = _name(revocation[_REVOCATION_HEAD:])
        known = self._revoked.get(name)
        if known is not None and known.revocation == revocation:
            return (
                True  # without a check of signatures, which anybody could ask for again and again
            )
        try:
            new = self._checked_revocation(revocation)
        except RightError:
            return False
        if self._now() > new.until + CLOCK_SLACK:
            return True  # it has ended without
        found = (self._revoked.get(beginning) for beginning in new.beginnings)
        if any(one is not None and one.includes(new) for one in found):
            return True
        self._digest = None
        parts = [one for one, old in self._revoked.items() if new.includes(old)]
        for part in parts:
            del self._revoked[part]
        if not parts and not self._make_room(new):
            return True
        self._revoked[name] = new
        for changed in self.revocations_changed:
            changed()
        return True

    def is_news(self, revocation: bytes) -> bool:
        """Whether a revocation was taken, and not long ago."""
        known = self._revoked.get(_name(revocation[_REVOCATION_HEAD:]))
        return known is not None and self._now() < known.heard_at + NEWS_SECONDS

    def _checked_revocation(self, revocation: bytes) -> _Revoked:
        signer = revocation[:PUBLIC_KEY_BYTES]
        packed = revocation[_REVOCATION_HEAD:]
        right, names = self._with_good_signatures(packed)
        by_authority = signer in self.keys
        if not by_authority and signer not in [grant.holder for grant in right.grants[:-1]]:
            raise RightError("who takes the right back has not granted it")
        signature = revocation[PUBLIC_KEY_BYTES:_REVOCATION_HEAD]
        if not verify(signer, _TAKEN_BACK + packed, signature):
            raise RightError("the signature of the revocation is not that of who takes it back")
        branch = right.grants[0].holder
        return _Revoked(revocation, right.last.until, branch, self._now(), names, by_authority)

    def _make_room(self, new: _Revoked) -> bool:
        now = self._now()
        for name in [n for n, one in self._revoked.items() if now > one.until + CLOCK_SLACK]:
            del self._revoked[name]
        of_holders = {n: one for n, one in self._revoked.items() if not one.by_authority}
        if not new.by_authority:
            of_signer = sum(one.signer == new.signer for one in of_holders.values())
            if of_signer >= MOST_OF_HOLDER:
                return False
        if len(self._revoked) < MOST_REVOCATIONS:
            return True
        if of_holders:
            # Who may grant on can make signers without end, but all in one branch.
            ((branch, _),) = Counter(one.branch for one in of_holders.values()).most_common(1)
            del self._revoked[next(n for n, one in of_holders.items() if one.branch == branch)]
        return bool(of_holders)

    def taken_back(self) -> list[Right]:
        """The rights that were taken back."""
        return [Right.unpack(one[_REVOCATION_HEAD:]) for one in self.revocations]

    @property
    def revocations(self) -> tuple[bytes, ...]:
        """All that is known to be taken back."""
        return tuple(one.revocation for one in self._revoked.values())

    def digest_revocations(self) -> bytes:
        """Eight bytes, the same for all nodes that know of the same revocations."""
        if self._digest is None:
            self._digest = hashlib.sha256(b"".join(sorted(self._revoked))).digest()[:8]
        return self._digest


def takes(pattern: str, topic: str) -> bool:
    """Whether an event of this very topic is one that the pattern stands for."""
    found = Pattern.of(pattern)
    return included(found.topic.name, topic, ()) and found.matches(topic)


class Holder:
    """The rights of one node: its own, or those that a peer has shown."""

    def __init__(self, rights: Sequence[bytes], authority: Authority, holder: PeerId) -> None:
        """`RightError` when one of them is not valid, or is another's."""
        for packed in rights:
            if authority.check(packed).holder != holder:
                raise RightError("a right that this node was given is for another key")
        self.rights = tuple(rights)
        self._authority = authority
        self.holder = holder
        self.longest: int = max(map(len, rights), default=0)
        """Bytes of the largest one."""
        self._lost: tuple[bytes, ...] = ()
        """Rights that the node had before it showed these, and did not show again, or that have ended."""

    def had(self, before: Holder, most: int) -> None:
        """Remember what was known of the node before it showed its rights again, up to `most` rights."""
        old = dict.fromkeys((*before.rights, *before._lost))
        self._lost = tuple(one for one in old if one not in self.rights)[:most]

    def may(self, action: Action, topic: str) -> bool:
        """Whether the node may do this on this topic, now."""
        if topic == REVOCATIONS:
            return action in (Action.PUBLISH, Action.SUBSCRIBE)
        return any(self._authority.allows(one, self.holder, action, topic) for one in self.rights)

    def has_lost(self, action: Action, topic: str) -> bool:
        """Whether the node had a right to this, which has ended or was taken back."""
        shown = (*self.rights, *self._lost)
        had = any(Right.unpack(one).last.permits(action, topic) for one in shown)
        return had and not self.may(action, topic)

    def may_publish_or_subscribe(self, topic: str) -> bool:
        """Whether the node may be in the topic's community."""
        return self.may(Action.SUBSCRIBE, topic) or self.may(Action.PUBLISH, topic)

    def is_near(self, topic: str) -> bool:
        """Whether the node has any right on the topic, on one below it, or on one above it: those who are in
        a subtopic have to find members of the topic, and are not sent its events."""
        if topic == REVOCATIONS:
            return True
        for packed in self.rights:
            try:
                pattern = self._authority.check(packed).last.pattern
            except RightError:
                continue
            if covers(pattern, topic) or covers(topic, pattern) or takes(pattern, topic):
                return True
        return False

    def check(self, action: Action, topic: str) -> None:
        """`RightError` unless the node may do this on this topic."""
        if not self.may(action, topic):
            raise RightError(_lacking(action, topic))

    def to_publish(self, names: Sequence[str]) -> bytes:
        """The right to publish on all of these topics; `RightError` when there is none."""
        if names[0] == REVOCATIONS:
            return b""
        for packed in self.rights:
            if all(
                self._authority.allows(packed, self.holder, Action.PUBLISH, name) for name in names
            ):
                return packed
        raise RightError(_lacking(Action.PUBLISH, names[0]))

    def describe(self) -> list[str]:
        """Each right, and whether it counts, for people to look at."""
        lines = []
        for packed in self.rights:
            right = Right.unpack(packed)
            try:
                self._authority.check(packed)
                state = ""
            except RightError as error:
                state = f" ({error})"
            lines.append(f"{right.name} {describe(right.last)}{state}")
        return lines


def _lacking(action: Action, topic: str) -> str:
    return (
        f"this node has no right to {action.words()} on {topic}: ask the network's authority for one "
        "(`camcast right new`) and give it to the node as rights=[...]"
    )


def covers(outer: str, inner: str) -> bool:
    """Whether every topic that `inner` stands for is one that `outer` stands for, by their paths.

    A plain topic stands for itself and all below it, as `**` behind it does."""
    if max(len(outer), len(inner)) > LONGEST_PATTERN:
        return False  # no topic is as long: a peer may name anything
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


def _name(packed: bytes) -> bytes:
    return hashlib.sha256(packed).digest()


def _to_sign(before: bytes, body: bytes) -> bytes:
    return _PURPOSE + hashlib.sha256(before).digest() + body
