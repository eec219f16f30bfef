"""The seal: who holds a key reads and writes; nobody alters, forges or repeats."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from overlay.contact import PeerId
from overlay.transport.frame import Dropped, PlainEnvelope, header
from overlay.transport.seal import (
    SEALED_HEADER_BYTES,
    TAG_BYTES,
    WINDOW,
    NetworkKeyError,
    SealedEnvelope,
    check_keys,
    new_key,
    parse_key,
)

OLD, NEW, FOREIGN = bytes(range(32)), bytes(range(32, 64)), bytes(range(64, 96))
ALICE, BOB, MALLORY = (PeerId(bytes([letter]) * 20) for letter in b"ABM")


def envelope(
    sender: PeerId = ALICE, keys: tuple[bytes, ...] = (OLD,), boot: int = 1, **more: int
) -> SealedEnvelope:
    return SealedEnvelope(keys, sender, boot, **more)


def opens(receiver: SealedEnvelope, datagram: bytes) -> bytes:
    _, buffer, start = receiver.unwrap(datagram)
    return buffer[start:]


def refused(receiver: SealedEnvelope, datagram: bytes) -> str:
    with pytest.raises(Dropped) as caught:
        receiver.unwrap(datagram)
    return caught.value.reason


@given(st.lists(st.binary(max_size=200), max_size=5), st.integers(0, 2**64 - 1))
def test_what_was_sealed_opens(parts: list[bytes], boot: int) -> None:
    sender, receiver = envelope(boot=boot), envelope(BOB)
    datagram = sender.wrap(parts)
    assert receiver.unwrap(datagram)[0] == ALICE
    assert len(datagram) == sender.overhead + len(b"".join(parts))
    assert opens(receiver, sender.wrap(parts)) == b"".join(parts)


def test_nothing_of_the_content_is_readable() -> None:
    secret = b"attack at dawn"
    assert secret not in envelope().wrap([secret])


def test_the_same_content_never_looks_the_same() -> None:
    one, other, rebooted = envelope(), envelope(BOB), envelope(boot=2)
    datagrams = [e.wrap([b"the same"]) for e in (one, one, other, rebooted)]
    assert len({datagram[SEALED_HEADER_BYTES:-TAG_BYTES] for datagram in datagrams}) == 4


def test_a_wrong_key_is_dropped() -> None:
    assert refused(envelope(BOB, (OLD,)), envelope(keys=(FOREIGN,)).wrap([b"x"])) == "not_authentic"


def test_a_replayed_datagram_is_dropped() -> None:
    sender, receiver = envelope(), envelope(BOB)
    first, second = sender.wrap([b"1"]), sender.wrap([b"2"])
    assert opens(receiver, second) == b"2"
    assert opens(receiver, first) == b"1"
    assert refused(receiver, first) == "replayed"
    assert refused(receiver, second) == "replayed"


def test_what_comes_later_than_the_window_reaches_is_dropped() -> None:
    sender, receiver = envelope(), envelope(BOB)
    late = sender.wrap([b"late"])
    for _ in range(WINDOW):
        opens(receiver, sender.wrap([b"x"]))
    assert refused(receiver, late) == "replayed"


def test_a_forged_sender_is_dropped() -> None:
    receiver, mallory = envelope(BOB), envelope(MALLORY)
    mallory.wrap([b"so that the counter is new in the name of Alice too"])
    genuine = mallory.wrap([b"x"])
    forged = genuine[:4] + ALICE + genuine[24:]
    assert refused(receiver, forged) == "not_authentic"
    opens(receiver, envelope(ALICE).wrap([b"I am known"]))
    assert refused(receiver, forged) == "not_authentic"


def test_any_flipped_bit_is_dropped_and_harms_nobody() -> None:
    sender, receiver = envelope(), envelope(BOB)
    opens(receiver, sender.wrap([b"I am known"]))
    datagram = sender.wrap([b"payload"])
    for place in range(8 * len(datagram)):
        flipped = bytearray(datagram)
        flipped[place // 8] ^= 1 << place % 8
        assert refused(receiver, bytes(flipped)) in (
            "unknown_version",
            "unknown_flags",
            "truncated",
            "unsealed",
            "not_authentic",
            "replayed",
            "old_boot",
        )
    assert opens(receiver, datagram) == b"payload"


@pytest.mark.parametrize("size", range(SEALED_HEADER_BYTES + TAG_BYTES))
def test_a_datagram_too_short_for_a_seal_is_dropped(size: int) -> None:
    assert refused(envelope(BOB), envelope().wrap([b"x"])[:size]) == "truncated"


def test_sealed_and_plain_nodes_say_why_they_do_not_understand_each_other() -> None:
    assert refused(envelope(BOB), PlainEnvelope(ALICE).wrap([b"x"])) == "unsealed"
    with pytest.raises(Dropped, match="sealed"):
        PlainEnvelope(BOB).unwrap(envelope().wrap([b"x"]))


def test_a_restarted_sender_is_heard_and_its_earlier_life_is_not() -> None:
    receiver, before, after = envelope(BOB), envelope(boot=7), envelope(boot=8)
    opens(receiver, before.wrap([b"x"]))
    held_back = before.wrap([b"held back"])
    assert opens(receiver, after.wrap([b"y"])) == b"y"
    assert refused(receiver, held_back) == "old_boot"
    assert opens(receiver, after.wrap([b"z"])) == b"z"


def test_a_forged_boot_number_does_not_silence_its_owner() -> None:
    receiver, sender = envelope(BOB), envelope(boot=7)
    opens(receiver, sender.wrap([b"x"]))
    forged = (
        header(1, SEALED_HEADER_BYTES + TAG_BYTES, ALICE)
        + (2**64 - 1).to_bytes(8, "big")
        + bytes(8 + TAG_BYTES)
    )
    assert refused(receiver, forged) == "not_authentic"
    assert opens(receiver, sender.wrap([b"y"])) == b"y"


def test_keys_rotate_without_a_stop() -> None:
    alice, bob = envelope(), envelope(BOB)
    stages: list[tuple[bytes, ...]] = [(OLD,), (OLD, NEW), (NEW, OLD), (NEW,)]
    for before, after in itertools.pairwise(stages):
        for alice_keys, bob_keys in ((after, before), (after, after)):
            alice.rekey(alice_keys)
            bob.rekey(bob_keys)
            for _ in range(2):
                assert opens(bob, alice.wrap([b"to bob"])) == b"to bob"
                assert opens(alice, bob.wrap([b"to alice"])) == b"to alice"


def test_a_key_that_was_taken_away_opens_nothing_more() -> None:
    alice, bob = envelope(keys=(OLD,)), envelope(BOB, (OLD, NEW))
    opens(bob, alice.wrap([b"x"]))
    bob.rekey((NEW,))
    assert refused(bob, alice.wrap([b"x"])) == "not_authentic"


def test_rotating_does_not_open_the_window_for_replays() -> None:
    alice, bob = envelope(keys=(OLD, NEW)), envelope(BOB, (OLD, NEW))
    datagram = alice.wrap([b"x"])
    opens(bob, datagram)
    bob.rekey((NEW, OLD))
    assert refused(bob, datagram) == "replayed"


def test_memory_is_bounded_by_the_peers_heard_last() -> None:
    receiver = envelope(BOB, peers=3)
    senders = [envelope(PeerId(bytes([number]) * 20)) for number in range(5)]
    early = senders[0].wrap([b"x"])
    opens(receiver, early)
    for sender in senders[1:]:
        opens(receiver, sender.wrap([b"x"]))
        opens(receiver, senders[0].wrap([b"kept by being heard"]))
    assert receiver.peers_known == 3
    assert refused(receiver, early) == "replayed"


def test_forgeries_take_no_memory() -> None:
    receiver = envelope(BOB)
    for number in range(100):
        forger = envelope(PeerId(bytes([number]) * 20), keys=(FOREIGN,))
        assert refused(receiver, forger.wrap([b"x"])) == "not_authentic"
    assert receiver.peers_known == 0


def test_keys_are_printed_and_read() -> None:
    key = new_key()
    assert parse_key(f" {key.hex()}\n") == key
    assert new_key() != key


@pytest.mark.parametrize("text", ["", "00" * 31, "00" * 33, "zz" * 32, "ключ"])
def test_what_is_no_key_is_refused(text: str) -> None:
    with pytest.raises(NetworkKeyError, match="camcast key new"):
        parse_key(text)


def test_a_ring_holds_keys_and_each_once() -> None:
    assert check_keys([OLD, NEW]) == (OLD, NEW)
    for ring in ([OLD[:31]], [OLD + b"x"], [OLD.hex()], [OLD, OLD]):
        with pytest.raises(NetworkKeyError):
            check_keys(ring)  # type: ignore[arg-type]
    with pytest.raises(NetworkKeyError):
        envelope(keys=())
