"""No event is sent to a process that has left: the lease runs out before the membership does."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from overlay.contact import Contact, PeerId
from overlay.metrics import Metrics
from overlay.virtual.stage import Stage, numbered_contact
from pubsub.camcast.leases import HELD_OF_OTHERS, Leases
from pubsub.camcast.messages import AnnounceBlocks, CheckAnswer
from pubsub.camcast.observer import EventDrops
from pubsub.camcast.parameters import Parameters
from pubsub.event import Copy, Gossip, Head, make_block
from tests.pubsub.camcast.troupe import Troupe


def test_a_leaver_counts_as_a_member_until_its_last_lease_has_run_out() -> None:
    troupe = Troupe(1, parameters=Parameters(lease=10))
    leaver, *_ = troupe.add_many(5, "/soccer")
    troupe.stage.run_for(5)
    leaver.process.leave("/soccer")
    assert leaver.process.is_in("/soccer")
    troupe.stage.run_for(11.1)
    assert not leaver.process.is_in("/soccer")


def test_a_leaver_that_said_goodbye_is_sent_nothing_more() -> None:
    troupe = Troupe(6)
    leaver, *others = troupe.add_many(6, "/soccer")
    troupe.stage.run_for(5)
    leaver.process.leave("/soccer")
    troupe.stage.run_for(1)
    for _ in range(5):
        others[0].publish("/soccer")
        troupe.stage.run_for(1)
    assert leaver.drops("leaving") == 0


def test_nothing_is_sent_to_a_leaver_whose_goodbyes_were_lost_in_a_partition() -> None:
    for seed in range(5):
        troupe = Troupe(seed, parameters=Parameters(lease=6))
        leavers = troupe.add_many(3, "/soccer")
        stayers = troupe.add_many(3, "/soccer")
        italians = troupe.add_many(5, "/soccer/italy")
        troupe.stage.run_for(5)
        troupe.stage.partition([actor.contact for actor in leavers])
        for actor in leavers:
            actor.process.leave("/soccer")
            actor.join("/chess")
        for _ in range(40):  # the watch of the troupe fails at the first parasite
            italians[0].publish("/soccer/italy")
            stayers[0].publish("/soccer")
            troupe.stage.run_for(0.5)
        troupe.stage.heal()
        event = italians[1].publish("/soccer/italy")
        troupe.stage.run_for(5)
        assert troupe.receivers(event, "/soccer") == stayers


def test_the_watch_fails_when_leases_are_not_honoured() -> None:
    troupe = Troupe(2, parameters=Parameters(lease=30))
    leaver, stayer = troupe.add("/soccer"), troupe.add("/soccer")
    troupe.stage.run_for(5)
    troupe.stage.partition([leaver.contact])
    leaver.process.leave("/soccer")
    leaver.process.leases.has_left("/soccer")  # forgets its promises, though it goes on running
    leaver.join("/chess")
    with pytest.raises(AssertionError, match="parasite"):
        stayer.publish("/soccer")


@pytest.mark.parametrize("leaves_first", [True, False])
@pytest.mark.parametrize("is_announced", [True, False])
def test_what_was_sent_under_a_lease_is_no_parasite_at_a_process_that_closes(
    leaves_first: bool, is_announced: bool
) -> None:
    troupe = Troupe(7, parameters=Parameters(lease=10))
    closing, sender = troupe.add("/soccer"), troupe.add("/soccer")
    troupe.stage.run_for(5)
    block = make_block(sender.contact.id + bytes(8), 1, Head("/soccer"), [b"\xc0"])
    message: object = Copy("/soccer", False, 1, block.encoded, b"")
    if is_announced:
        message = AnnounceBlocks("/soccer", block.source, (1, 1))
    assert sender.process.leases.holds(closing.contact.id, "/soccer")
    if leaves_first:
        closing.process.leave("/soccer")
    closing.process.close()
    closing.process.receive(sender.contact, message)
    assert (closing.drops("leaving"), closing.drops("parasite")) == (1, 0)
    troupe.stage.run_for(11.1)  # the last lease has run out
    closing.process.receive(sender.contact, message)
    assert (closing.drops("leaving"), closing.drops("parasite")) == (1, 1)


def test_a_stale_copy_is_rejected_counted_and_answered() -> None:
    troupe = Troupe(3)
    stranger, sender = troupe.add("/chess"), troupe.add("/soccer")
    troupe.stage.run_for(2)
    block = make_block(sender.contact.id + bytes(8), 1, Head("/soccer"), [b"\xc0"])
    goodbyes: list[object] = []
    troupe.stage.observe(lambda _, __, to, message: goodbyes.append((to, message)))
    stranger.process.receive(sender.contact, Copy("/soccer", False, 1, block.encoded, b""))
    assert stranger.drops("parasite") == 1
    assert len(goodbyes) == 1
    troupe.stage.run_for(1)
    assert not sender.process.leases.holds(stranger.contact.id, "/soccer")


def test_events_wait_for_an_answer_and_are_dropped_and_counted_without_one() -> None:
    troupe = Troupe(4, parameters=Parameters(lease=1))
    one, other = troupe.add("/soccer"), troupe.add("/soccer")
    troupe.stage.run_for(2.9)  # the leases have run out
    assert not one.process.leases.holds(other.contact.id, "/soccer")
    event = one.publish("/soccer")
    troupe.stage.run_for(1)
    assert troupe.receivers(event, "/soccer") == [one, other]
    troupe.stage.run_for(2)
    troupe.crash(other)
    one.process.communities["/soccer"].membership._table[other.contact.id] = other.contact  # type: ignore[attr-defined]
    one.publish("/soccer")
    troupe.stage.run_for(5)
    assert one.drops("no_answer") == 1


def test_rejoining_while_leaving_keeps_the_membership() -> None:
    troupe = Troupe(5, parameters=Parameters(lease=5))
    actors = troupe.add_many(3, "/soccer")
    troupe.stage.run_for(5)
    actors[0].process.leave("/soccer")
    actors[0].join("/soccer")
    troupe.stage.run_for(20)
    event = actors[1].publish("/soccer")
    troupe.stage.run_for(2)
    assert len(troupe.receivers(event, "/soccer")) == 3


class Noting:
    """A carrier that notes what it is given."""

    is_sure = True

    def __init__(self) -> None:
        self.sent: list[int] = []
        self.refusals = 0

    def accepted(self, gossip: Gossip, copies: int) -> None: ...

    def send(self, to: Sequence[Contact], gossip: Gossip, untils: object) -> int:
        self.sent.append(gossip.block.first)
        return len(to)

    def tell(self, to: Contact, message: object, until: object) -> None: ...

    def refused(self, gossip: Gossip) -> None:
        self.refusals += 1

    def suspect(self, peer: PeerId) -> None: ...

    def withdraw(self, to: Contact, community: str, source: bytes) -> list[range]:
        return []


@pytest.mark.parametrize(
    ("hops", "eager", "asked_for", "held"),
    [
        (2, False, False, HELD_OF_OTHERS),
        (1, False, False, 20),
        (2, True, False, 20),
        (2, False, True, 20),
    ],
    ids=["of others", "own", "eager", "asked for"],
)
def test_few_blocks_wait_for_an_answer_that_the_member_is_told_of_too(
    hops: int, eager: bool, asked_for: bool, held: int
) -> None:
    carrier, metrics, member = Noting(), Metrics(), numbered_contact(1)
    leases = Leases(
        Stage(0).context(numbered_contact(0)),
        carrier,
        promise=lambda topic: 10.0,
        gone=lambda contact, topic: None,
        parameters=lambda topic: Parameters(),
        metrics=metrics,
        drops=EventDrops(metrics),
    )
    for number in range(1, 21):
        block = make_block(bytes(28), number, Head("/a", eager=eager), [b"\xc0"])
        is_sure = leases.send((member,), Gossip(block, "/a", hops, asked_for=asked_for))
        assert not is_sure, "its process is to be told"
    nonce = leases._questions[member.id, "/a"].nonce
    leases.receive_answer(member, CheckAnswer("/a", nonce, 10.0))
    assert carrier.sent == [*range(1, held + 1)]
    assert carrier.refusals == metrics.counter("events_withheld", "").value == 20 - held
