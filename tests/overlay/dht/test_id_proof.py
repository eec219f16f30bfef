"""An id is proved by its key, to the asker, at its own address."""

from __future__ import annotations

from overlay.contact import Contact
from overlay.dht.trust import IdProofs
from overlay.identity import Identity

CHALLENGE = bytes(range(16))


class Somebody:
    def __init__(self, number: int, host: str) -> None:
        self.identity = Identity(bytes([number]) * 32)
        self.contact = Contact(self.identity.id, host, 4000)
        self.proofs = IdProofs(self.identity, self.contact, lifetime=100.0)


ALICE, BOB, EVE = Somebody(1, "127.0.0.1"), Somebody(2, "127.0.0.2"), Somebody(3, "127.0.0.3")


def test_a_proof_is_accepted_and_remembered_for_its_lifetime() -> None:
    proof = BOB.proofs.prove(CHALLENGE, ALICE.contact.id)
    assert not ALICE.proofs.is_verified(BOB.contact, 0.0)
    assert ALICE.proofs.check(BOB.contact, CHALLENGE, proof, 0.0)
    assert ALICE.proofs.is_verified(BOB.contact, 99.0)
    assert not ALICE.proofs.is_verified(BOB.contact, 101.0)


def test_nobody_proves_an_id_that_is_not_theirs() -> None:
    proof = EVE.proofs.prove(CHALLENGE, ALICE.contact.id)
    posing = Contact(BOB.contact.id, "127.0.0.3", 4000)
    assert not ALICE.proofs.check(posing, CHALLENGE, proof, 0.0)
    assert not ALICE.proofs.check(posing, CHALLENGE, None, 0.0)
    signed_by_eve = IdProofs(EVE.identity, posing, 100.0).prove(CHALLENGE, ALICE.contact.id)
    assert not ALICE.proofs.check(posing, CHALLENGE, signed_by_eve, 0.0)
    own_key = BOB.identity.public_key + proof[32:]
    assert not ALICE.proofs.check(posing, CHALLENGE, own_key, 0.0)


def test_a_proof_cannot_be_passed_on() -> None:
    for_eve = BOB.proofs.prove(CHALLENGE, EVE.contact.id)
    assert not ALICE.proofs.check(BOB.contact, CHALLENGE, for_eve, 0.0), (
        "it was given to another asker"
    )
    for_alice = BOB.proofs.prove(CHALLENGE, ALICE.contact.id)
    relayed = Contact(BOB.contact.id, "127.0.0.3", 4000)
    assert not ALICE.proofs.check(relayed, CHALLENGE, for_alice, 0.0), "it is not at that address"


def test_a_proof_answers_one_challenge() -> None:
    proof = BOB.proofs.prove(CHALLENGE, ALICE.contact.id)
    assert not ALICE.proofs.check(BOB.contact, bytes(16), proof, 0.0)
