"""How members of a group meet, with a member of the network among them that makes up where it sends from."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from overlay.contact import ANYONE, Address, Contact
from overlay.identity import Identity
from pubsub.broadcast.events import GroupPacket
from pubsub.broadcast.process import GroupHello, GroupProcess, GroupRefusal, Meeting

ADDRESSES = [Address(f"10.0.0.{number}", 4000) for number in range(3)]
ME, BOB, CAROL, BOB_AGAIN = (
    Contact(Identity(bytes([10 + number]) * 32).id, *ADDRESSES[rank])
    for number, rank in enumerate((0, 1, 2, 1))
)
MALLORY = Identity(b"m" * 32).id
GROUP = bytes(16)


class World:
    """A context that keeps what is sent, and whose timers ring when they are told to."""

    def __init__(self) -> None:
        self.contact = ME
        self.random = Random(1)
        self.sent: list[tuple[Contact, Any]] = []
        self.timers: list[Any] = []

    def now(self) -> float:
        return 0.0

    def send(self, to: Contact, message: object) -> None:
        self.sent.append((to, message))

    def call_later(self, delay: float, action: object) -> Any:
        self.timers.append(action)

    def asked(self, rank: int) -> int:
        """With what the process that is at a rank's address was asked last."""
        there = Contact(ANYONE, *ADDRESSES[rank])
        return next(hello.nonce for to, hello in reversed(self.sent) if to == there)


class Party:
    def __init__(self, *, may_return: bool = False) -> None:
        self.world = World()
        self.process = GroupProcess(0, [ME, None, None], self.world)
        self.refused: list[int] = []
        self.meeting = Meeting(
            self.process,
            ADDRESSES,
            GROUP,
            may_return=may_return,
            on_met=lambda rank: None,
            on_refused=self.refused.append,
        )
        self.meeting.start()

    def answer(self, member: Contact, rank: int) -> None:
        self.meeting.hello(member, GroupHello(GROUP, rank, self.world.asked(rank), True))


def test_nobody_gets_a_rank_by_a_made_up_address() -> None:
    party = Party()
    posing = BOB._replace(id=MALLORY)
    for is_answer in (False, True):
        party.meeting.hello(posing, GroupHello(GROUP, 1, 12345, is_answer))
    assert party.meeting.missing == [1, 2]
    party.answer(BOB, 1)
    assert party.process.members[1] == BOB
    party.meeting.hello(posing, GroupHello(GROUP, 1, 12345, False))
    assert party.process.members[1] == BOB
    assert party.world.sent[-1] == (posing, GroupRefusal(GROUP, 12345))


def test_nobody_is_refused_by_a_made_up_address() -> None:
    party = Party()
    party.meeting.refusal(BOB._replace(id=MALLORY), GroupRefusal(GROUP, 12345))
    assert party.refused == []
    party.meeting.refusal(BOB, GroupRefusal(GROUP, party.world.asked(1)))
    assert party.refused == [1]


def test_a_member_that_returns_is_asked_at_its_address_before_it_has_its_rank_again() -> None:
    party = Party(may_return=True)
    for member, rank in ((BOB, 1), (CAROL, 2)):
        party.answer(member, rank)
    party.world.timers.pop()()
    assert not party.world.timers
    party.meeting.hello(BOB._replace(id=MALLORY), GroupHello(GROUP, 1, 12345, False))
    assert party.process.members[1] == BOB
    party.world.timers.pop()()
    party.answer(BOB, 1)
    assert party.process.members[1] == BOB
    party.world.timers.pop()()
    assert not party.world.timers, "it is there, and has not come back"
    party.meeting.hello(BOB_AGAIN, GroupHello(GROUP, 1, 12345, False))
    party.answer(BOB_AGAIN, 1)
    assert party.process.members[1] == BOB_AGAIN
    assert party.process.rank_of(BOB) is None


@pytest.mark.parametrize("is_met", [True, False])
def test_what_one_sends_that_says_to_be_a_member_waits_until_it_is_met(is_met: bool) -> None:
    party = Party()
    came: list[int] = []
    party.process.count = came.append  # type: ignore[method-assign, assignment]
    party.process._keep_early = lambda source, packet: came.append(source)  # type: ignore[method-assign]
    packet = GroupPacket("channel", (), None)
    party.process.receive(BOB, packet)
    assert came == ["not_a_member"]
    party.meeting.hello(BOB, GroupHello(GROUP, 1, 12345, False))
    for _ in range(3):
        party.process.receive(BOB, packet)
    assert came == ["not_a_member"]
    party.answer(BOB if is_met else BOB_AGAIN, 1)
    assert came[1:] == ([1, 1, 1] if is_met else [])
