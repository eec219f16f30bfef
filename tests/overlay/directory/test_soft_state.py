"""Members come and go: how soon the directory knows."""

from __future__ import annotations

from collections.abc import Callable

from overlay.contact import Contact
from overlay.directory.messages import AnnounceMember, AnnounceReply, Query, ShardReply
from overlay.directory.tree import Shard, point_of, shard_at, topic_key
from tests.overlay.directory.model_network import TOPIC, ModelNetwork, ModelPeer, Over, drive

KEY = topic_key(TOPIC)


def everyone(peer: ModelPeer) -> set[bytes]:
    return {contact.id for contact in peer.sample(500)}


def test_a_member_is_found_as_soon_as_its_announcement_returns() -> None:
    network = ModelNetwork(seed=1, nodes=40)
    for member in network.join(3):
        assert member.contact.id in everyone(network.peer())


def test_a_crashed_member_is_gone_after_one_time_to_live_for_old_readers_and_new() -> None:
    network = ModelNetwork(seed=2, nodes=40)
    members = network.join(300, over=5.0)
    network.run(network.config.ttl)
    reader = network.peer()
    assert len(everyone(reader)) == 300
    for member in members[:100]:
        network.kill(member)
    network.run(network.config.ttl)
    assert everyone(reader) == everyone(network.peer()) == set(network.members)
    assert reader.size().members == 200


def test_a_member_that_is_reported_as_silent_is_gone_if_it_is_and_stays_if_it_is_not() -> None:
    network = ModelNetwork(seed=12, nodes=40)
    members = network.join(300, over=5.0)
    network.run(network.config.ttl)
    reader = network.peer()
    everyone(reader)
    for member in members[:100]:
        network.kill(member)
    for member in members[:200]:
        reader.service.report(TOPIC, member.contact)
    assert everyone(network.peer()) == set(network.members)
    assert len(network.members) == 200


def test_members_follow_new_nodes_near_their_shard_without_looking_them_up() -> None:
    network = ModelNetwork(seed=13, nodes=40)
    members = network.join(30, over=5.0)
    network.run(network.config.ttl)
    lookups = [member.lookups for member in members]
    for _ in range(60):
        network.add_node()
    network.run(network.config.round_time)
    assert [member.lookups for member in members] == lookups
    assert everyone(network.peer()) == set(network.members)
    replicas = network.closest(Shard(KEY, 0, 0).key, network.config.replicas, 0)
    assert all(network.nodes[replica.id].server.records == 30 for replica in replicas)


def test_a_withdrawn_member_is_gone_at_once_despite_loss() -> None:
    network = ModelNetwork(seed=3, nodes=40, loss=0.2)
    members = network.join(150, over=5.0)
    network.run(network.config.ttl)
    for member in members[:20]:
        network.kill(member)
        member.withdraw()
    assert everyone(network.peer()) == set(network.members)


def test_an_announcement_that_arrives_after_the_withdrawal_does_not_bring_the_member_back() -> None:
    network = ModelNetwork(seed=4, nodes=40)
    member, other = network.join(2)
    sent: list[tuple[Contact, object]] = []
    ask = member.ask

    def recording(to: Contact, request: object, done: Callable[[object | None], None]) -> Over:
        sent.append((to, request))
        return ask(to, request, done)

    member.ask = recording  # type: ignore[method-assign]
    network.run(network.config.period)
    network.kill(member)
    member.withdraw()
    late = [(to, request) for to, request in sent if isinstance(request, AnnounceMember)]
    assert late
    for to, request in late:
        network.deliver(member, to, request)
    assert everyone(network.peer()) == {other.contact.id}
    member.announce()
    assert everyone(network.peer()) == {member.contact.id, other.contact.id}


def test_a_process_that_restarts_with_another_id_at_its_address_is_listed_once() -> None:
    network = ModelNetwork(seed=5, nodes=40)
    before = network.join(1)[0]
    network.kill(before)
    after = network.peer()
    after.contact = Contact(after.contact.id, before.contact.host, before.contact.port)
    after.announce()
    assert everyone(network.peer()) == {after.contact.id}


def test_after_a_partition_both_halves_find_each_other_within_one_time_to_live() -> None:
    network = ModelNetwork(seed=6, nodes=60)
    network.join(140, over=5.0)
    network.run(network.config.ttl)
    network.partition(lambda contact: contact.id[0] < 128)
    network.run(2 * network.config.ttl)
    halves = [{m.contact.id for m in network.members.values() if m.side == side} for side in (0, 1)]
    readers = [network.peer(), network.peer()]
    readers[1].side = 1
    for reader, half in zip(readers, halves, strict=True):
        assert everyone(reader) == half
    network.heal()
    network.run(network.config.ttl)
    for reader in (*readers, network.peer()):
        assert everyone(reader) == set(network.members)
        assert reader.size().members == 140


def test_a_reader_follows_when_a_shard_moves_to_other_nodes() -> None:
    network = ModelNetwork(seed=7, nodes=30)
    network.join(40, over=5.0)
    network.run(network.config.ttl)
    reader = network.peer()
    assert len(everyone(reader)) == 40
    for contact in network.closest(Shard(KEY, 0, 0).key, 5, 0):
        network.kill_node(network.nodes[contact.id])
        network.add_node()
        network.run(network.config.period)
        assert everyone(reader) == set(network.members)


def test_a_sample_never_holds_the_process_itself() -> None:
    network = ModelNetwork(seed=8, nodes=30)
    members = network.join(30)
    for member in members:
        assert member.contact.id not in everyone(member)
        assert len(everyone(member)) == 29
        found = member.contacts(29)
        assert len({c.id for c in found} - {member.contact.id}) == 29


def test_announcing_with_no_node_in_reach_is_tried_again_soon() -> None:
    network = ModelNetwork(seed=9, nodes=0)
    peer = network.peer()
    assert drive(peer.service._announcer.refresh(KEY)) < network.config.period / 4
    assert everyone(peer) == set()


def test_those_who_announced_to_the_first_node_are_found_by_those_who_join_at_once() -> None:
    network = ModelNetwork(seed=10, nodes=1)
    members = network.join(2)
    network.add_node()
    network.add_node()
    assert everyone(network.peer()) == {member.contact.id for member in members}


def test_a_member_that_few_replicas_have_heard_comes_again_soon_and_tells_the_new_ones() -> None:
    network = ModelNetwork(seed=11, nodes=1)
    members = network.join(2)
    for _ in range(30):
        network.add_node()
    network.run(network.config.period / 6)
    assert everyone(network.peer()) == {member.contact.id for member in members}
    assert all(len(node.server._store) <= 1 for node in network.nodes.values())


def test_a_node_that_begins_to_hold_a_shard_knows_all_of_its_members_at_once() -> None:
    network = ModelNetwork(seed=12, nodes=30)
    members = network.join(40, over=5.0)
    network.run(network.config.ttl)
    root = Shard(KEY, 0, 0)
    before = network.closest(root.key, 5, 0)
    for contact in before[:2]:
        network.kill_node(network.nodes[contact.id])
    network.kill(members[0])
    network.join(1)
    new = [contact for contact in network.closest(root.key, 5, 0) if contact not in before]
    assert len(new) == 2
    for contact in new:
        held = network.nodes[contact.id].server._store.held(root)
        assert held is not None
        assert len(held.members) == 41
        assert held.settled(network.clock)
    network.run(network.config.ttl)
    assert everyone(network.peer()) == set(network.members), "a copied record lives no longer"


def test_a_new_holder_that_finds_new_holders_only_asks_farther_away_for_the_members() -> None:
    network = ModelNetwork(seed=13, nodes=6)
    members = network.join(4)
    root = Shard(KEY, 0, 0)
    before = set(network.closest(root.key, 5, 0))
    while before & set(network.closest(root.key, 8, 0)):
        network.add_node()
        assert len(network.nodes) < 500
    assert before & set(network.closest(root.key, 20, 0)), "some are still around"
    members += network.join(1)
    for contact in network.closest(root.key, 5, 0):
        held = network.nodes[contact.id].server._store.held(root)
        assert held is not None
        assert set(held.members) == {member.contact.id for member in members}
        assert held.settled(network.clock)
    assert everyone(network.peer()) == {member.contact.id for member in members}


def test_a_holder_that_is_joining_does_not_take_silence_around_it_for_an_empty_topic() -> None:
    network = ModelNetwork(seed=14, nodes=6)
    root = Shard(KEY, 0, 0)
    for node in network.nodes.values():
        node.replication._is_joining = lambda: True
    member = network.join(1)[0]
    for contact in network.closest(root.key, 5, 0):
        held = network.nodes[contact.id].server._store.held(root)
        assert held is not None
        assert set(held.members) == {member.contact.id}
        assert not held.settled(network.clock)


def test_a_member_that_crashed_and_came_back_at_another_address_is_soon_found_there() -> None:
    network = ModelNetwork(seed=15, nodes=40)
    members = network.join(10, over=5.0)
    network.run(network.config.ttl)
    network.kill(members[0])
    back = ModelPeer(members[0].contact._replace(port=4001), network)
    back.announce()
    network.run(network.config.period / 6)
    found = network.peer().sample(500)
    assert back.contact in found
    assert members[0].contact not in found
    assert len(found) == 10


def test_a_shard_that_has_just_begun_is_complete_and_young_and_gives_no_settled_advice() -> None:
    network = ModelNetwork(seed=4, nodes=40)
    member = network.peer()
    shard = shard_at(KEY, 3, point_of(KEY, member.contact.id))
    holders = network.closest(shard.key, network.config.replicas, 0)
    query = Query(KEY, shard.depth, shard.prefix, 1, 0, 0, 0)
    for holder in holders:
        seen = network.deliver(member, holder, query)
        assert isinstance(seen, ShardReply)
        announcement = AnnounceMember(KEY, 3, 3, 7, seen.token, False)
        taken = network.deliver(member, holder, announcement)
        assert isinstance(taken, AnnounceReply)
        assert taken.refused == "", "a query brings the token for an announcement"
        assert not taken.settled
    for wait, is_young in ((0.0, True), (network.config.round_time, False)):
        network.clock += wait
        for holder in holders:
            seen = network.deliver(member, holder, query)
            assert isinstance(seen, ShardReply)
            assert seen.young == is_young
            assert seen.settled == is_young, "afterwards nobody has announced there for too long"
