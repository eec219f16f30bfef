"""Events that are sent once and named elsewhere reach everyone, under the same faults as eager ones."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

import pytest

from overlay.contact import Contact, PeerId
from overlay.membership.modes import MODES, ModeName
from overlay.metrics import Metrics
from overlay.virtual.stage import Stage, StageConfig, numbered_contact
from pubsub.camcast.community import Community
from pubsub.camcast.gossip import Outlook
from pubsub.camcast.lazy import LazyGossip, _Route, _Run
from pubsub.camcast.messages import AnnounceBlocks, FetchBlocks, Prune
from pubsub.camcast.parameters import Parameters
from pubsub.camcast.repair import KeptBlocks
from pubsub.event import Gossip, Head, make_block
from tests.pubsub.camcast.measure import TOPICS, crash, hierarchy, is_at_least, measure, predicted
from tests.pubsub.camcast.troupe import Actor, Troupe

TOPIC = "/soccer"


def community(
    seed: int, size: int, factory: type[LazyGossip] = LazyGossip, duplicate: float = 0.0
) -> Troupe:
    """A community whose tables stay as they are once they are drawn."""
    troupe = Troupe(
        seed,
        StageConfig(check_wire=True, duplicate=duplicate),
        mode="structured",
        dissemination=factory,
    )
    for _ in range(size):
        troupe.add(TOPIC)
        troupe.stage.run_for(0.02)
    troupe.stage.run_for(40)
    return troupe


def publish_many(troupe: Troupe, publisher: Actor, count: int, pause: float = 0.05) -> list[bytes]:
    events = []
    for _ in range(count):
        events.append(publisher.publish(TOPIC))
        troupe.stage.run_for(pause)
    return events


def everyone_has(troupe: Troupe, events: list[bytes]) -> bool:
    live = troupe.members(TOPIC)
    return all(
        [actor.delivered[TOPIC].count(event) for actor in live] == [1] * len(live)
        for event in events
    )


@pytest.mark.parametrize(("seed", "size"), [(1, 5), (2, 12), (3, 60)])
def test_the_links_become_a_tree_that_carries_each_event_once(seed: int, size: int) -> None:
    troupe = community(seed, size)
    publisher = troupe.members(TOPIC)[size // 2]
    first = publisher.publish(TOPIC)
    troupe.stage.run_for(3)
    publish_many(troupe, publisher, 10, pause=1.0)
    later = publish_many(troupe, publisher, 20)
    troupe.stage.run_for(3)
    assert everyone_has(troupe, [first, *later])
    copies = sum(troupe.copies[event, TOPIC] for event in later) / len(later)
    assert copies <= 1.15 * (size - 1), f"seed {seed}: {copies} copies for {size - 1} receivers"
    assert troupe.copies[first, TOPIC] > copies or size <= 2
    assert troupe.announcements


def test_every_publisher_has_a_tree_of_its_own() -> None:
    troupe = community(4, 20)
    publishers = troupe.members(TOPIC)[:5]
    for _ in range(10):
        for publisher in publishers:
            publisher.publish(TOPIC)
            troupe.stage.run_for(0.3)
    later = [event for publisher in publishers for event in publish_many(troupe, publisher, 5)]
    troupe.stage.run_for(3)
    assert everyone_has(troupe, later)
    copies = sum(troupe.copies[event, TOPIC] for event in later) / len(later)
    assert copies <= 1.1 * 19


def linked_to(troupe: Troupe, publisher: Actor) -> list[Actor]:
    """The live members that are reached from the publisher by the tables of live members."""
    found = {publisher.contact.id: publisher}
    edge = [publisher]
    while edge:
        for contact in edge.pop().process.communities[TOPIC].table:
            if contact.id not in found and troupe.stage.is_up(contact):
                found[contact.id] = troupe.actors[contact.id]
                edge.append(found[contact.id])
    return list(found.values())


@pytest.mark.parametrize("seed", range(3))
def test_crashes_within_the_tree_cost_nobody_an_event_who_is_linked_at_all(seed: int) -> None:
    troupe = community(seed, 30)
    publisher, *others = troupe.members(TOPIC)
    publish_many(troupe, publisher, 10, pause=0.5)
    expected: list[tuple[bytes, list[Actor]]] = []
    for victim in others[5:15]:
        troupe.crash(victim)
        for _ in range(5):
            expected.append((publisher.publish(TOPIC), linked_to(troupe, publisher)))
            troupe.stage.run_for(0.05)
    live = troupe.members(TOPIC)
    troupe.stage.run_for(10)
    for event, actors in expected:
        for actor in actors:
            assert actor.delivered[TOPIC].count(event) == 1 or actor not in live


def test_without_crashes_everyone_gets_everything_though_events_are_lost_on_the_way() -> None:
    troupe = Troupe(5, mode="structured", event_loss=0.3, dissemination=LazyGossip)
    troupe.add_many(25, TOPIC)
    troupe.stage.run_for(40)
    events = publish_many(troupe, troupe.members(TOPIC)[3], 60)
    troupe.stage.run_for(15)
    assert everyone_has(troupe, events)


def test_duplicated_and_reordered_messages_change_nothing() -> None:
    troupe = community(6, 20, duplicate=0.2)
    events = publish_many(troupe, troupe.members(TOPIC)[7], 60, pause=0.01)
    troupe.stage.run_for(10)
    assert everyone_has(troupe, events)


def test_after_a_partition_heals_events_reach_everyone_at_once_again() -> None:
    troupe = community(7, 24)
    members = troupe.members(TOPIC)
    publish_many(troupe, members[0], 10)
    contacts = [actor.contact for actor in members]
    troupe.stage.partition(contacts[:12], contacts[12:])
    publish_many(troupe, members[0], 20, pause=0.5)
    troupe.stage.heal()
    troupe.stage.run_for(60)
    events = publish_many(troupe, members[0], 10)
    troupe.stage.run_for(10)
    assert everyone_has(troupe, events)


def test_an_event_goes_up_and_is_gossiped_eagerly_in_the_super_community() -> None:
    troupe = Troupe(8, StageConfig(check_wire=True), dissemination=LazyGossip)
    for size, topic in ((6, "/"), (10, "/soccer"), (20, "/soccer/italy")):
        troupe.add_many(size, topic)
    troupe.stage.run_for(10)
    publisher = troupe.members("/soccer/italy")[0]
    for _ in range(10):
        event = publisher.publish("/soccer/italy")
        troupe.stage.run_for(3)
        received = [len(troupe.receivers(event, topic)) for topic in ("/", TOPIC, "/soccer/italy")]
        assert received == [6, 10, 20]
    assert troupe.copies[event, TOPIC] > 10


def test_an_event_whose_publisher_wants_it_goes_to_everyone_whole() -> None:
    troupe = community(9, 12)
    publisher = troupe.members(TOPIC)[0]
    publish_many(troupe, publisher, 10, pause=0.5)
    lazy = publisher.publish(TOPIC)
    troupe.lazily = False
    eager = publisher.publish(TOPIC)
    troupe.stage.run_for(3)
    assert everyone_has(troupe, [lazy, eager])
    assert troupe.copies[eager, TOPIC] > 3 * troupe.copies[lazy, TOPIC]


def test_a_publisher_may_leave_as_soon_as_another_has_its_event() -> None:
    troupe = community(10, 20)
    publisher = troupe.members(TOPIC)[4]
    publish_many(troupe, publisher, 10)
    event = publisher.publish(TOPIC)
    troupe.wait(lambda: len(troupe.receivers(event, TOPIC)) > 1)
    publisher.process.close()
    troupe.stage.run_for(5)
    assert len(troupe.receivers(event, TOPIC)) == 20


def test_under_churn_nobody_outside_is_told_of_an_event() -> None:
    troupe = Troupe(
        11,
        StageConfig(check_wire=True),
        Parameters(lease=3),
        mode="structured",
        dissemination=LazyGossip,
    )
    troupe.add_many(12, TOPIC)
    troupe.stage.run_for(20)
    publisher = troupe.members(TOPIC)[0]
    for number in range(25):
        leaver = troupe.members(TOPIC)[1 + number % 5]
        leaver.process.leave(TOPIC)
        publish_many(troupe, publisher, 4, pause=0.2)
        leaver.join(TOPIC)
        publish_many(troupe, publisher, 4, pause=0.2)
    assert troupe.announcements > 100


def test_what_a_peer_invents_is_counted_and_dropped() -> None:
    troupe = community(12, 3)
    one, other, _ = troupe.members(TOPIC)
    source = bytes(28)
    for message in (
        AnnounceBlocks(TOPIC, b"short", (1, 1)),
        AnnounceBlocks(TOPIC, source, (1,)),
        AnnounceBlocks(TOPIC, source, (1, 10**9)),
        AnnounceBlocks(TOPIC, source, (1, 1) * 1000),
        FetchBlocks(TOPIC, source, (-1, 2), True),
        FetchBlocks(TOPIC, source, (2**63 - 1, 2), True),
    ):
        one.process.receive(other.contact, message)
    assert one.drops("malformed_event") == 6
    one.process.receive(other.contact, AnnounceBlocks(TOPIC, source, (1, 10)))
    one.process.receive(other.contact, Prune(TOPIC, source))
    one.process.receive(other.contact, FetchBlocks(TOPIC, source, (1, 10), True))
    troupe.stage.run_for(10)
    assert one.drops("not_fetched") == 10
    assert other.metrics.counter("events_not_kept", "").value == 30


@pytest.mark.parametrize("mode", [*MODES])
def test_every_community_is_as_reliable_as_predicted_for_eager_gossip(mode: ModeName) -> None:
    sizes, parameters = (4, 10, 30), Parameters()
    troupe = hierarchy(13, mode, sizes, parameters, 0.15, LazyGossip)
    check(troupe, sizes, parameters, events=15)


@pytest.mark.sweep
@pytest.mark.parametrize("mode", [*MODES])
@pytest.mark.parametrize("crashed", [0.0, 0.3, 0.5])
def test_larger_communities_are_as_reliable_too_and_recover(mode: ModeName, crashed: float) -> None:
    sizes, parameters = (7, 27, 84), Parameters()
    troupe = hierarchy(14, mode, sizes, parameters, 0.15, LazyGossip)
    crash(troupe, crashed, repaired=True)
    live = tuple(len(troupe.members(topic)) for topic in TOPICS)
    check(troupe, live, parameters, events=40)


def check(troupe: Troupe, sizes: tuple[int, ...], parameters: Parameters, events: int) -> None:
    result = measure(troupe, events)
    for complete, probability in zip(
        result.complete, predicted(sizes, parameters, 0.15), strict=True
    ):
        assert is_at_least(complete, events, probability), (
            f"{result.complete} of {events}, predicted {probability:.3f} (seed {troupe.stage.seed})"
        )


@pytest.mark.parametrize("loss", [0.0, 0.1])
def test_who_is_sent_events_by_a_sure_way_is_not_told_of_them_too(loss: float) -> None:
    troupe = Troupe(6, mode="structured", event_loss=loss, dissemination=LazyGossip)
    troupe.add_many(5, TOPIC)
    troupe.stage.run_for(40)
    publisher = troupe.members(TOPIC)[0]
    assert len(publisher.process.communities[TOPIC].table) == 4
    events = publish_many(troupe, publisher, 20)
    troupe.stage.run_for(3)
    assert everyone_has(troupe, events)
    told = publisher.metrics.counter("events_announced", "").value
    assert (
        told >= 4 * len(events) if loss else told < len(events)
    )  # a lease may have to be asked for


# Broken versions, each of which one of the properties above must catch.


class NeverFetches(LazyGossip):
    def receive(self, sender: Contact, message: AnnounceBlocks | FetchBlocks | Prune) -> None:
        if not isinstance(message, AnnounceBlocks):
            super().receive(sender, message)


class NeverAnnounces(LazyGossip):
    def _announce(self) -> None:
        self._news.clear()


class PrunesItsParent(LazyGossip):
    def heard_again(self, source: bytes, hops: int, sender: Contact) -> None:
        run = self._runs.get(source)
        if run is not None:
            run.parent = None
        super().heard_again(source, 2, sender)


class KeepsNothing(LazyGossip):
    def __init__(self, community: Community) -> None:
        super().__init__(community)
        self._kept = KeptBlocks(0, 0.0)

    def receive(self, sender: Contact, message: AnnounceBlocks | FetchBlocks | Prune) -> None:
        self._kept = KeptBlocks(0, 0.0)
        super().receive(sender, message)


class NeverPrunes(LazyGossip):
    def heard_again(self, source: bytes, hops: int, sender: Contact) -> None: ...


class AnnouncesToAnyone(LazyGossip):
    """Announces to whoever is in the table, whether or not it promises to be a member."""

    def _announce(self) -> None:
        def to_anyone(to: Sequence[Contact], announcement: AnnounceBlocks) -> None:
            for member in to:
                self._context.send(member, announcement)

        self._community.announce = to_anyone  # type: ignore[method-assign]
        super()._announce()


@pytest.mark.parametrize("mutant", [LazyGossip, NeverFetches, NeverAnnounces, KeepsNothing])
def test_only_a_version_that_cannot_repair_the_tree_is_caught(mutant: type[LazyGossip]) -> None:
    """With half of the members gone, somebody is left without a living holder in one of ten networks: this is
    another one."""
    troupe = community(101, 30, mutant)
    members = troupe.members(TOPIC)
    publish_many(troupe, members[0], 10, pause=0.5)
    troupe.crash(*members[5:20])
    events = publish_many(troupe, members[0], 1)  # none follows from which a gap could be seen
    troupe.stage.run_for(2)
    assert everyone_has(troupe, events) == (mutant is LazyGossip)


@pytest.mark.parametrize("mutant", [LazyGossip, PrunesItsParent])
def test_only_a_version_that_prunes_its_parent_has_to_fetch_without_faults(
    mutant: type[LazyGossip],
) -> None:
    troupe = community(16, 30, mutant)
    publish_many(troupe, troupe.members(TOPIC)[0], 40)
    troupe.stage.run_for(5)
    fetched = sum(a.metrics.counter("events_fetched", "").value for a in troupe.actors.values())
    assert (fetched > 40) == (mutant is PrunesItsParent), fetched


class DrawsAnew(LazyGossip):
    """Sends to whoever is in the table, and drops those who are not, or are not drawn."""

    def _draw_route(
        self, run: _Run, outlook: Outlook, publisher: PeerId, known_to: PeerId | None
    ) -> _Route:
        run.children.clear()
        return super()._draw_route(run, outlook, publisher, known_to)


@pytest.mark.parametrize("factory", [LazyGossip, DrawsAnew])
def test_members_go_on_getting_events_at_once_while_others_join(factory: type[LazyGossip]) -> None:
    late = 0
    for seed in (20, 21):
        troupe = community(seed, 30, factory)
        settled = troupe.members(TOPIC)
        publish_many(troupe, settled[0], 20, pause=0.3)
        for _ in range(20):
            troupe.add(TOPIC)
            first, *_ = publish_many(troupe, settled[0], 5)
            late += sum(first not in actor.delivered[TOPIC] for actor in settled[1:])
    assert (late > 30) == (factory is DrawsAnew), late


class Narrow:
    """A community in which each process sends to three of the many in its table."""

    def __init__(self, community: Community) -> None:
        self._community = community
        self._outlook = Outlook((), 3)

    def outlook(self, now: float) -> Outlook:
        table = self._community.outlook(now).table
        if table != self._outlook.table:
            self._outlook = Outlook(table, 3)
        return self._outlook

    def __getattr__(self, name: str) -> Any:
        return getattr(self._community, name)


class SendsToFew(LazyGossip):
    def __init__(self, community: Community) -> None:
        super().__init__(cast(Community, Narrow(community)))


class ReplacesThoseWhoPrune(SendsToFew):
    def _draw_route(
        self, run: _Run, outlook: Outlook, publisher: PeerId, known_to: PeerId | None
    ) -> _Route:
        run.seen = set()
        return super()._draw_route(run, outlook, publisher, known_to)


@pytest.mark.parametrize("factory", [SendsToFew, ReplacesThoseWhoPrune])
def test_the_first_event_finds_the_tree_though_tables_are_larger_than_the_fanout(
    factory: type[LazyGossip],
) -> None:
    troupe = community(24, 20, factory)
    events = publish_many(troupe, troupe.members(TOPIC)[0], 5, pause=0.4)
    troupe.stage.run_for(5)
    assert everyone_has(troupe, events)
    later = sum(troupe.copies[event, TOPIC] for event in events[1:])
    assert (later > 1.3 * 4 * 19) == (factory is ReplacesThoseWhoPrune), later


def test_a_version_that_never_prunes_sends_as_much_as_eager_gossip() -> None:
    troupe = community(17, 12, NeverPrunes)
    events = publish_many(troupe, troupe.members(TOPIC)[0], 10, pause=0.5)
    assert troupe.copies[events[-1], TOPIC] > 3 * 11


@pytest.mark.parametrize("mutant", [LazyGossip, AnnouncesToAnyone])
def test_only_a_version_that_announces_to_anyone_tells_those_who_left(
    mutant: type[LazyGossip],
) -> None:
    troupe = community(18, 6, mutant)
    publisher, leaver, *others = troupe.members(TOPIC)
    publish_many(troupe, publisher, 10, pause=0.5)
    contacts = [actor.contact for actor in (publisher, *others)]
    troupe.stage.partition([leaver.contact], contacts)  # nobody hears its goodbyes
    for actor in (publisher, *others):
        actor.process.leases.revoke(leaver.contact.id)  # and nobody counts on it any longer
    leaver.process.leases._granted.clear()
    leaver.process.leave(TOPIC)
    assert not leaver.process.is_in(TOPIC)
    troupe.stage.heal()

    def go_on() -> None:
        publish_many(troupe, publisher, 5, pause=0.5)

    if mutant is LazyGossip:
        go_on()
    else:
        with pytest.raises(AssertionError, match="announced outside it"):
            go_on()


class Noted:
    """A neighbourhood of three members, which notes what is asked of it."""

    name = TOPIC
    parameters = Parameters()

    def __init__(self) -> None:
        self.members = [numbered_contact(number) for number in range(3)]
        self.context = Stage(1).context(numbered_contact(3))
        self.random = self.context.random
        self.metrics = Metrics()
        self.sent: list[list[Contact]] = []
        self.withdrawn: list[Contact] = []
        self.heard: set[int] = set()
        self.told: list[tuple[Contact, tuple[int, ...]]] = []
        self._outlook = Outlook(tuple(self.members), 3)

    def outlook(self, now: float) -> Outlook:
        return self._outlook

    def forward(self, to: Sequence[Contact], gossip: Gossip) -> bool:
        self.sent.append(list(to))
        return True

    def missing(self, source: bytes, numbers: range) -> list[range]:
        return [range(number, number + 1) for number in numbers if number not in self.heard]

    def withdraw(self, to: Contact, source: bytes) -> list[range]:
        self.withdrawn.append(to)
        return [range(2, 4), range(1, 2)]

    def announce(self, to: Sequence[Contact], announcement: AnnounceBlocks) -> None:
        self.told += [(one, announcement.ranges) for one in to]


def test_who_needs_a_run_no_longer_is_told_what_has_not_left_for_it() -> None:
    around, source = Noted(), bytes(28)
    lazy = LazyGossip(cast(Any, around))
    parent, served, pruning = around.members

    def hear(number: int) -> None:
        block = make_block(source, number, Head(TOPIC, eager=False), [b"\xc0"])
        lazy.spread(Gossip(block, TOPIC, 4), parent)

    hear(1)
    lazy.heard_again(source, 3, pruning)  # it may have nobody else to have the events from
    assert (around.sent, around.withdrawn) == ([[served, pruning]], [])
    lazy.heard_again(source, 2, served)  # it has them from the publisher itself
    hear(2)
    assert around.sent[1:] == [[pruning]]
    for _ in range(2):
        lazy.receive(pruning, Prune(TOPIC, source))
    hear(3)
    assert around.sent[2:] == []
    assert around.withdrawn == [served, pruning]
    assert around.told == [(served, (1, 3)), (pruning, (1, 3))]
    lazy.stop()


def test_who_sends_one_event_that_was_asked_for_does_not_become_the_parent() -> None:
    """Else the parent, which goes on sending, would be asked to stop when its own copy comes."""
    stage, around, source = Stage(1), Noted(), bytes(28)
    around.context = stage.context(numbered_contact(3))
    parent, announcer, _ = around.members
    said: list[tuple[Contact, object]] = []
    stage.observe(lambda _, __, to, message: said.append((to, message)))
    lazy = LazyGossip(cast(Any, around))

    def hear(number: int, sender: Contact) -> None:
        around.heard.add(number)
        block = make_block(source, number, Head(TOPIC, eager=False), [b"\xc0"])
        lazy.spread(Gossip(block, TOPIC, 4), sender)

    hear(1, parent)
    lazy.receive(announcer, AnnounceBlocks(TOPIC, source, (2, 1)))
    stage.run_for(0.2)
    for number in range(3, 8):
        hear(number, parent)
        stage.run_for(0.1)
    fetches = [(announcer, FetchBlocks(TOPIC, source, (2, 1), False))]
    assert said == fetches
    hear(2, announcer)
    lazy.heard_again(source, 3, parent)
    assert said == fetches
    lazy.stop()
