"""What a serving node takes, refuses and answers."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from overlay.contact import Contact, PeerId
from overlay.directory import DirectoryConfig, DirectoryServer
from overlay.directory.messages import (
    AnnounceMember,
    AnnounceReply,
    FetchShard,
    Query,
    ShardReply,
    Withdraw,
)
from overlay.directory.server import REPLY_BYTES
from overlay.directory.tree import Shard, fingerprint, point_of, shard_at, topic_key
from overlay.errors import UsageError
from overlay.metrics import Metrics
from overlay.wire import encode
from tests.overlay.directory.model_network import contact_of

TOPIC = topic_key("/soccer/italy")
TOKEN = b"goodgood"


class Fixture:
    """One server, a clock, and peers that talk to it."""

    def __init__(self, config: DirectoryConfig | None = None) -> None:
        self.config = config or DirectoryConfig()
        self.metrics = Metrics()
        self.clock = 0.0
        self.random = Random(1)
        self.server = DirectoryServer(
            self.config, lambda: self.clock, lambda sender, token: token == TOKEN, self.metrics
        )

    def peers(self, count: int) -> list[Contact]:
        return [contact_of(self.random, index + 1) for index in range(count)]

    def announce(
        self, peer: Contact, depth: int = 0, leaf: int | None = None, token: bytes = TOKEN
    ) -> AnnounceReply:
        reply = self.server.handle(
            peer, AnnounceMember(TOPIC, depth, depth if leaf is None else leaf, 7, token, False)
        )
        assert isinstance(reply, AnnounceReply)
        return reply

    def query(self, shard: Shard | None = None, want: int = 50, skip: int = 0) -> ShardReply:
        shard = shard or Shard(TOPIC, 0, 0)
        query = Query(shard.topic, shard.depth, shard.prefix, 5, skip, want, 0)
        reply = self.server.handle(self.peers(1)[0], query)
        assert isinstance(reply, ShardReply)
        return reply

    def refused(self, reason: str) -> int:
        refusals = self.metrics.as_dict()["directory_refused"]
        assert isinstance(refusals, dict)
        return refusals.get(reason, 0)


def count(reply: ShardReply) -> int:
    return len(reply.fingerprints) // 4


def test_an_announcement_without_a_token_is_refused_and_counted() -> None:
    fixture = Fixture()
    peer = fixture.peers(1)[0]
    assert fixture.announce(peer, token=b"").refused == "token"
    assert fixture.announce(peer, token=b"x" * 8).refused == "token"
    assert count(fixture.query()) == 0
    assert fixture.refused("token") == 2


def test_an_announcement_is_for_its_sender_only() -> None:
    """The message has no field for anybody else, and the shard follows from the sender's id."""
    fixture = Fixture()
    for peer in fixture.peers(20):
        fixture.announce(peer, depth=3)
        shard = shard_at(TOPIC, 3, point_of(TOPIC, peer.id))
        assert peer in fixture.query(shard).contacts


def test_nobody_takes_the_place_of_a_member_at_another_address() -> None:
    fixture = Fixture()
    peer = fixture.peers(1)[0]
    thief = Contact(peer.id, "10.9.9.9", 666)
    fixture.announce(peer)
    assert fixture.announce(thief).refused == "held_elsewhere"
    fixture.server.handle(thief, Withdraw(TOPIC, 0, 7, TOKEN))
    assert fixture.query().contacts == (peer,)
    fixture.clock += fixture.config.record_life
    assert fixture.announce(thief).refused == ""


def test_a_flood_from_one_address_is_one_record_a_shard_and_limited_in_rate() -> None:
    fixture = Fixture()
    honest = fixture.peers(10)
    for peer in honest:
        fixture.announce(peer)
    replies = [
        fixture.announce(Contact(PeerId(fixture.random.randbytes(20)), "10.6.6.6", 666))
        for _ in range(5_000)
    ]
    assert count(fixture.query()) == 11
    assert fixture.server.records == 11
    taken = sum(reply.refused == "" for reply in replies)
    assert taken == fixture.config.announcement_burst
    assert fixture.refused("flood") == 5_000 - taken
    assert all(peer in fixture.query().contacts for peer in honest)


def test_a_flood_over_many_topics_is_bounded_for_an_address_and_in_all() -> None:
    config = DirectoryConfig(max_records=300, max_records_per_address=50, announcement_burst=10_000)
    fixture = Fixture(config)
    for peer in fixture.peers(10):
        for _ in range(60):
            topic = PeerId(fixture.random.randbytes(20))
            fixture.server.handle(peer, AnnounceMember(topic, 0, 0, 7, TOKEN, False))
    assert fixture.server.records == 300
    assert fixture.refused("address_full") == 50
    assert fixture.refused("store_full") == 250
    fixture.clock += config.record_life + config.period
    fixture.query()
    assert fixture.server.records == 0


def test_a_host_with_many_ports_does_not_have_all_the_room() -> None:
    config = DirectoryConfig(max_records=300, max_records_per_address=50, announcement_burst=10_000)
    fixture = Fixture(config)

    def announce(host: str, port: int) -> str:
        peer = Contact(PeerId(fixture.random.randbytes(20)), host, port)
        topic = PeerId(fixture.random.randbytes(20))
        reply = fixture.server.handle(peer, AnnounceMember(topic, 0, 0, 7, TOKEN, False))
        assert isinstance(reply, AnnounceReply)
        return reply.refused

    honest = fixture.peers(20)
    for peer in honest[:10]:
        fixture.announce(peer)
    flood = [announce("10.6.6.6", port) for port in range(1, 401)]
    assert flood.count("store_full") == 400 - 290
    for peer in honest[10:]:
        assert fixture.announce(peer).refused == ""
    assert set(fixture.query().contacts) == set(honest)
    assert all(announce(f"10.7.{n}.1", 1) == "" for n in range(200))
    store = fixture.server._store
    assert store.records == sum(len(held) for held in store._shards.values()) <= 300
    assert store.records == sum(store._in_block.values()) == sum(store._per_address.values())


def test_withdrawals_are_remembered_within_a_bound() -> None:
    config = DirectoryConfig(max_records=400, announcement_burst=10_000)
    fixture = Fixture(config)
    for peer in fixture.peers(1_000):
        fixture.server.handle(peer, Withdraw(TOPIC, 0, 7, TOKEN))
    assert len(fixture.server._store._withdrawn) <= 100


def test_a_full_shard_says_so_and_sends_newcomers_deeper() -> None:
    fixture = Fixture()
    replies = [fixture.announce(peer) for peer in fixture.peers(300)]
    assert not replies[fixture.config.split - 1].interior
    assert replies[fixture.config.split].interior
    assert count(fixture.query()) == fixture.config.capacity
    assert replies[-1].refused == "shard_full"


def test_replies_fit_one_datagram_whatever_is_asked() -> None:
    fixture = Fixture()
    for peer in fixture.peers(300):
        fixture.announce(Contact(peer.id, f"2001:db8::{peer.id[:2].hex()}", peer.port))
    for want in (0, 1, 12, 40, 10**9):
        assert len(encode(fixture.query(want=want))) <= REPLY_BYTES


def test_pages_follow_each_other_in_the_order_of_the_salt() -> None:
    fixture = Fixture()
    peers = fixture.peers(100)
    for peer in peers:
        fixture.announce(peer)
    found: list[Contact] = []
    while len(found) < 100:
        page = fixture.query(skip=len(found)).contacts
        assert page
        found += page
    assert len(set(found)) == 100
    assert set(found) == set(peers)


def test_traces_tell_the_depth_and_make_room_for_newer_ones() -> None:
    fixture = Fixture()
    for peer in fixture.peers(400):
        fixture.announce(peer, depth=0, leaf=6)
    reply = fixture.query()
    assert (reply.below, reply.hint, reply.interior) == (fixture.config.capacity, 6, True)
    assert count(reply) == 0
    assert reply.contacts == ()


def test_a_member_that_moves_deeper_turns_into_a_trace_and_back() -> None:
    fixture = Fixture()
    peer = fixture.peers(1)[0]
    fixture.announce(peer)
    fixture.announce(peer, depth=0, leaf=2)
    assert (count(fixture.query()), fixture.query().below) == (0, 1)
    fixture.announce(peer)
    assert (count(fixture.query()), fixture.query().below) == (1, 0)
    assert fixture.server.records == 1


def test_a_replica_is_settled_after_a_round_of_announcements_and_until_announcements_cease() -> (
    None
):
    fixture = Fixture()
    peer = fixture.peers(1)[0]
    while fixture.clock < fixture.config.round_time:
        fixture.announce(peer)
        assert not fixture.query().settled
        fixture.clock += fixture.config.period
    fixture.announce(peer)
    assert fixture.query().settled
    fixture.clock += 1.4 * fixture.config.period
    assert not fixture.query().settled


@pytest.mark.parametrize(
    "request_",
    [
        Query(TOPIC, -1, 0, 0, 0, 1, 0),
        Query(TOPIC, 33, 0, 0, 0, 1, 0),
        Query(TOPIC, 2, 4, 0, 0, 1, 0),
        Query(TOPIC, 2, -1, 0, 0, 1, 0),
        Query(TOPIC, 0, 0, -1, 0, 1, 0),
        Query(TOPIC, 0, 0, 1 << 32, 0, 1, 0),
        Query(TOPIC, 0, 0, 0, -1, 1, 0),
        Query(TOPIC, 0, 0, 0, 0, -1, 0),
        Query(TOPIC, 0, 0, 0, 0, 1, -1),
        FetchShard(TOPIC, 2, 4, 0),
        FetchShard(TOPIC, 0, 0, -1),
        AnnounceMember(TOPIC, 5, 4, 0, TOKEN, False),
        AnnounceMember(TOPIC, 0, 33, 0, TOKEN, False),
        AnnounceMember(TOPIC, -1, 0, 0, TOKEN, False),
        Withdraw(TOPIC, 33, 0, TOKEN),
        ShardReply(False, False, 0, 0, b"", (), False, ()),
        "text",
        None,
    ],
)
def test_nonsense_gets_no_answer_and_is_counted(request_: object) -> None:
    fixture = Fixture()
    assert fixture.server.handle(fixture.peers(1)[0], request_) is None
    assert sum(fixture.refused(r) for r in ("bad_query", "bad_depth", "not_a_request")) == 1
    assert fixture.server.records == 0


def test_datagrams_too_small_for_the_configured_shards_are_refused_at_the_start() -> None:
    with pytest.raises(UsageError, match="capacity=224"):
        DirectoryServer(DirectoryConfig(), lambda: 0.0, lambda s, t: True, Metrics(), 500)


WAITS = [("wait", 23, 0), ("wait", 30, 0), ("wait", 30, 0)]


@settings(max_examples=60, deadline=None)
@example([("trace", 0, 1), *WAITS, ("announce", 0, 0), ("wait", 7, 0)])
@example([("announce", 0, 1), *WAITS, ("announce", 0, 0), ("wait", 7, 0)])
@given(
    st.lists(
        st.tuples(
            st.sampled_from(["announce", "trace", "withdraw", "wait"]),
            st.integers(0, 30),
            st.integers(0, 3),
        ),
        max_size=120,
    )
)
def test_what_is_counted_is_what_is_held(actions: list[tuple[str, int, int]]) -> None:
    fixture = Fixture(DirectoryConfig(split=8, merge=3, capacity=12, max_records=40))
    peers = fixture.peers(31)
    for action, index, depth in actions:
        if action == "wait":
            fixture.clock += index
        elif action == "withdraw":
            fixture.server.handle(peers[index], Withdraw(TOPIC, depth, 7, TOKEN))
        else:
            leaf = depth + (action == "trace")
            request = AnnounceMember(
                TOPIC, depth, leaf, fixture.random.getrandbits(32), TOKEN, False
            )
            fixture.server.handle(peers[index], request)
    store = fixture.server._store
    fixture.clock += 0.001
    fixture.query()
    assert store.records == sum(len(held) for held in store._shards.values())
    assert store.records == sum(store._per_address.values()) <= 40
    assert store.records == sum(store._in_block.values())
    for shard in list(store._shards):
        reply = fixture.query(
            shard
        )  # forgets what has expired since the last look at the whole store
        held = store._shards.get(shard)
        if held is None:
            assert count(reply) == 0
            continue
        assert len(held.members) <= 12
        assert len(held.traces) <= 12
        marks = {fingerprint(TOPIC, record.contact) for record in held.members.values()}
        assert len(marks) == count(reply)
        standing = sum(held._stands_for(trace) for trace in held.traces.values())
        assert held._stand_for == pytest.approx(standing)
