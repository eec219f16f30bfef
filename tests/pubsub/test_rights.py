"""Rights: chains that only become narrower, and that nobody can make but those who hold what they grant."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.errors import UsageError
from overlay.identity import Identity, verify
from pubsub import rights
from pubsub.rights import (
    CLOCK_SLACK,
    Action,
    Authority,
    Grant,
    Right,
    RightError,
    covers,
    grant_first,
    grant_on,
    revoke,
    takes,
)

ROOT, ALICE, BOB, MALLORY = (Identity(bytes([number]) * 32) for number in range(1, 5))
NOW = 1_000_000
BOTH = Action.PUBLISH | Action.SUBSCRIBE


def authority(now: float = NOW) -> Authority:
    return Authority([ROOT.public_key], lambda: now)


def to_alice(**changes: object) -> Right:
    fields = {"actions": BOTH, "pattern": "/soccer/**", "until": NOW + 100, "passes": 2}
    return grant_first(ROOT, Grant(ALICE.public_key, **(fields | changes)))  # type: ignore[arg-type]


def test_a_right_says_who_may_do_what_and_where_until_when() -> None:
    packed = to_alice().packed
    check = authority().allows
    assert check(packed, ALICE.id, Action.PUBLISH, "/soccer/italy")
    assert check(packed, ALICE.id, Action.SUBSCRIBE, "/soccer")
    assert not check(packed, ALICE.id, Action.ARCHIVE, "/soccer/italy")
    assert not check(packed, ALICE.id, Action.PUBLISH, "/tennis")
    assert not check(packed, BOB.id, Action.PUBLISH, "/soccer/italy")
    late = NOW + 100 + CLOCK_SLACK
    assert authority(late).allows(packed, ALICE.id, Action.PUBLISH, "/soccer")
    assert not authority(late + 1).allows(packed, ALICE.id, Action.PUBLISH, "/soccer")


def test_a_part_of_a_right_is_granted_on() -> None:
    right = grant_on(
        to_alice(), ALICE, Grant(BOB.public_key, Action.PUBLISH, "/soccer/italy", NOW + 50)
    )
    check = authority().allows
    assert check(right.packed, BOB.id, Action.PUBLISH, "/soccer/italy/serie-a")
    assert not check(right.packed, BOB.id, Action.SUBSCRIBE, "/soccer/italy")
    assert not check(right.packed, BOB.id, Action.PUBLISH, "/soccer/spain")
    assert not check(right.packed, ALICE.id, Action.PUBLISH, "/soccer/italy")
    with pytest.raises(RightError, match="only the holder"):
        grant_on(right, ALICE, Grant(MALLORY.public_key, Action.PUBLISH, "/soccer/italy", NOW))
    with pytest.raises(RightError, match="must be a part"):
        grant_on(right, BOB, Grant(MALLORY.public_key, Action.PUBLISH, "/soccer/italy", NOW))


WIDER = {
    "actions": BOTH | Action.ARCHIVE,
    "pattern": "/**",
    "until": NOW + 101,
    "passes": 2,
}


@pytest.mark.parametrize("what", WIDER)
def test_nothing_granted_on_is_wider(what: str) -> None:
    fields = {"actions": BOTH, "pattern": "/soccer/**", "until": NOW + 100, "passes": 1}
    wider = Grant(BOB.public_key, **(fields | {what: WIDER[what]}))  # type: ignore[arg-type]
    with pytest.raises(RightError, match="must be a part"):
        grant_on(to_alice(), ALICE, wider)
    # Alice puts the wider grant together herself.
    narrow = grant_first(ALICE, wider)
    body = wider.packed()
    before = to_alice().packed
    forged = before + body + ALICE.sign(rights._to_sign(before, body))
    with pytest.raises(RightError, match="wider"):
        authority().check(forged)
    with pytest.raises(RightError, match="signature"):
        authority().check(narrow.packed)


def test_a_grant_counts_only_behind_the_one_that_it_was_made_for() -> None:
    other = to_alice(pattern="/tennis/**")
    right = grant_on(to_alice(), ALICE, Grant(BOB.public_key, Action.PUBLISH, "/soccer", NOW))
    second = right.packed[len(to_alice().packed) :]
    with pytest.raises(RightError, match="signature"):
        authority().check(other.packed + second)
    with pytest.raises(RightError, match="signature"):
        authority().check(second)


@given(st.data())
def test_altered_bytes_are_never_a_right(draw: st.DataObject) -> None:
    right = grant_on(to_alice(), ALICE, Grant(BOB.public_key, Action.PUBLISH, "/soccer", NOW))
    altered = bytearray(right.packed)
    place = draw.draw(st.integers(0, len(altered) - 1))
    altered[place] ^= 1 << draw.draw(st.integers(0, 7))
    assert not authority().allows(bytes(altered), BOB.id, Action.PUBLISH, "/soccer")
    cut = draw.draw(st.integers(0, len(altered) - 1))
    assert not authority().allows(right.packed[:cut], BOB.id, Action.PUBLISH, "/soccer")


@given(st.binary(max_size=300))
def test_garbage_is_no_right(garbage: bytes) -> None:
    with pytest.raises(RightError):
        authority().check(garbage)


LEVEL = st.sampled_from(["a", "b", "*"])
PATTERNS = st.builds(
    lambda levels, deep: "/" + "/".join([*levels, *(["**"] if deep else [])]),
    st.lists(LEVEL, min_size=1, max_size=3),
    st.booleans(),
)
TOPICS = st.lists(st.sampled_from(["a", "b"]), min_size=1, max_size=4).map(
    lambda levels: "/" + "/".join(levels)
)


@given(PATTERNS, PATTERNS, TOPICS)
def test_what_a_narrower_pattern_takes_a_wider_one_takes(
    outer: str, inner: str, topic: str
) -> None:
    if covers(outer, inner) and takes(inner, topic):
        assert takes(outer, topic)


def test_one_level_below_may_be_published_on_and_no_more() -> None:
    packed = to_alice(pattern="/soccer/*").packed
    assert authority().allows(packed, ALICE.id, Action.PUBLISH, "/soccer/italy")
    assert not authority().allows(packed, ALICE.id, Action.PUBLISH, "/soccer/italy/serie-a")
    assert not authority().allows(packed, ALICE.id, Action.PUBLISH, "/soccer")
    assert not authority().allows(packed, ALICE.id, Action.SUBSCRIBE, "/soccer/italy")


@pytest.mark.parametrize(
    ("outer", "inner", "expected"),
    [
        ("/**", "/a/b", True),
        ("/a", "/a/b/**", True),
        ("/a/**", "/a", True),
        ("/a/*", "/a/b", False),
        ("/a/*", "/a/*", True),
        ("/a/*", "/a", False),
        ("/a/b", "/a/*", False),
        ("/a/*/**", "/a/b", True),
        ("/ab", "/a", False),
        ("/a", "/ab", False),
        ("/a", "/a" * 400, False),
        ("/a" * 400, "/a" * 400, False),
    ],
)
def test_which_pattern_is_a_part_of_which(outer: str, inner: str, expected: bool) -> None:
    assert covers(outer, inner) is expected


def parts_taken_back(right: Right, holder: Identity, count: int) -> list[bytes]:
    """Revocations by which the holder of a right takes parts of it back, each by a signer of its own."""
    revocations = []
    for number in range(count):
        signer = Identity(bytes([100 + number]) * 32)
        part = grant_on(right, holder, Grant(signer.public_key, BOTH, "/soccer/**", NOW + 50, 1))
        last = Grant(MALLORY.public_key, Action.PUBLISH, "/soccer/italy", NOW + 50)
        revocations.append(revoke(grant_on(part, signer, last), signer))
    return revocations


def test_who_grants_on_to_many_pushes_out_no_revocation_of_others(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Signers are made at will by one who may grant on, and each may take back what it granted."""
    monkeypatch.setattr(rights, "MOST_REVOCATIONS", 8)
    check = authority()
    to_bob = grant_first(ROOT, Grant(BOB.public_key, BOTH, "/tennis", NOW + 100, 1))
    taken = grant_on(to_bob, BOB, Grant(MALLORY.public_key, Action.PUBLISH, "/tennis", NOW + 50))
    assert check.take_back(revoke(taken, BOB))
    assert all(map(check.take_back, parts_taken_back(to_alice(), ALICE, 20)))
    assert len(check.revocations) == 8
    with pytest.raises(RightError, match="taken back"):
        check.check(taken.packed)


def test_who_has_lost_a_right_does_not_push_that_out_by_revocations_of_its_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All are of one branch, that of Alice, who has taken Bob's right back."""
    monkeypatch.setattr(rights, "MOST_REVOCATIONS", 8)
    to_bob = grant_on(
        to_alice(passes=4), ALICE, Grant(BOB.public_key, BOTH, "/soccer/**", NOW + 100, 3)
    )
    early, late = authority(), authority()
    taken, parts = revoke(to_bob, ALICE), parts_taken_back(to_bob, BOB, 12)
    for check, order in ((early, [taken, *parts]), (late, [*parts, taken, *parts])):
        assert all(map(check.take_back, order))
        with pytest.raises(RightError, match="taken back"):
            check.check(to_bob.packed)
        assert check.revocations == (taken,)
    assert early.digest_revocations() == late.digest_revocations()


@pytest.mark.parametrize("what", ["the same", "a part"])
def test_what_an_authority_takes_back_is_not_lost_though_a_holder_did_before(
    what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Alice is in league with Bob: she takes his right back, and then pushes that out."""
    monkeypatch.setattr(rights, "MOST_REVOCATIONS", 8)
    right = to_alice(passes=4)
    to_bob = grant_on(right, ALICE, Grant(BOB.public_key, BOTH, "/soccer/**", NOW + 100, 1))
    lost = to_bob
    if what == "a part":
        lost = grant_on(to_bob, BOB, Grant(MALLORY.public_key, BOTH, "/soccer/**", NOW + 50))
    now = float(NOW)
    check = Authority([ROOT.public_key], lambda: now)
    assert check.take_back(revoke(to_bob, ALICE))
    now += rights.NEWS_SECONDS + 1
    by_authority = revoke(lost, ROOT)
    assert check.take_back(by_authority)
    assert check.is_news(by_authority)
    assert all(map(check.take_back, parts_taken_back(right, ALICE, 12)))
    with pytest.raises(RightError, match="taken back"):
        check.check(lost.packed)


def test_a_revocation_that_is_known_costs_no_check_of_signatures(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    check = authority()
    taken = revoke(to_alice(), ROOT)
    assert check.take_back(taken)
    monkeypatch.setattr(rights, "verify", None)
    assert check.take_back(taken)


def test_of_rights_that_begin_alike_the_beginning_is_checked_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Who may grant on makes rights for as many keys as it likes, and each of them shows some."""
    check, right, holder = authority(), to_alice(passes=7), ALICE
    for number in range(6):
        following = Identity(bytes([200 + number]) * 32)
        right = grant_on(
            right, holder, Grant(following.public_key, BOTH, "/soccer", NOW + 90, 6 - number)
        )
        holder = following
    checks: list[bytes] = []

    def counted(key: bytes, data: bytes, signature: bytes) -> bool:
        checks.append(key)
        return verify(key, data, signature)

    monkeypatch.setattr(rights, "verify", counted)
    for number in range(1, 11):
        last = grant_on(right, holder, Grant(bytes([number]) * 32, BOTH, "/soccer", NOW + 50))
        check.check(last.packed)
    assert len(checks) == 7 + 10
    forged = last.packed[:-1] + bytes([last.packed[-1] ^ 1])
    with pytest.raises(RightError, match="not that of who granted it"):
        check.check(forged)


def test_mistakes_of_a_caller_are_named() -> None:
    with pytest.raises(RightError, match="publish, subscribe"):
        Action.of(["publsh"])
    assert Action.of(["publish", "replay"]) == Action.PUBLISH | Action.REPLAY
    for wrong in (
        {"holder": b"short"},
        {"actions": Action(0)},
        {"passes": 9},
        {"until": -1},
        {"pattern": "soccer"},
        {"pattern": "/" + "a/" * 300 + "a"},
    ):
        fields = {"holder": ALICE.public_key, "actions": BOTH, "pattern": "/a"}
        with pytest.raises(UsageError):
            Grant(**(fields | wrong))  # type: ignore[arg-type]
    with pytest.raises(RightError):
        Authority([], lambda: 0.0)


def test_the_digest_of_what_was_taken_back_follows_it_and_is_made_once(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Every peer can have it told as often as it likes."""
    check, other = authority(), authority()
    empty = check.digest_revocations()
    taken = [revoke(to_alice(passes=passes), ROOT) for passes in range(3)]
    for revocation in taken:
        assert check.take_back(revocation)
    for revocation in reversed(taken):
        assert other.digest_revocations() != check.digest_revocations()
        assert other.take_back(revocation)
    assert empty != other.digest_revocations() == check.digest_revocations()
    monkeypatch.setattr(rights, "sorted", None, raising=False)
    check.digest_revocations()
