"""One channel by hand: opening, restarting, moving, dissolving, closing and healing."""

from __future__ import annotations

import itertools
from dataclasses import replace

import pytest

from overlay.channel.buffer import MessageTooLarge
from overlay.channel.config import ChannelConfig
from overlay.channel.machine import ChannelState, PeerRestarted, Phase
from overlay.channel.packet import (
    BUNDLE,
    FRAGMENT,
    OPEN,
    PACKET_HEAD,
    PLACE,
    PROGRESS,
    ChannelRefused,
    PacketType,
    encode_bundle,
)
from overlay.channel.table import ChannelTable, TooManyChannels
from overlay.contact import Contact, PeerId
from overlay.errors import UsageError
from tests.overlay.channel.faulty_wire import SMALL, Faults, Node, Wire


def pair(**changes: float) -> tuple[Wire, Node, Node]:
    wire = Wire(1, config=replace(SMALL, **changes))  # type: ignore[arg-type]
    return wire, *wire.nodes


def contact(number: int) -> Contact:
    return Contact(PeerId(number.to_bytes(20, "big")), "127.0.0.9", 4_000 + number)


def opening(session: int) -> bytes:
    return OPEN.pack(PacketType.OPEN, session, 0, 1000)


def test_a_message_waits_for_the_peer_to_be_heard_and_is_acknowledged() -> None:
    wire, a, b = pair()
    a.write(b, b"hello")
    assert a.table.to(b.contact, 0).phase is Phase.OPENING
    wire.run(1)
    assert b.delivered == [b"hello"]
    assert a.outcomes == {b"hello": True}
    assert a.events == b.events == [ChannelState.OPEN]


def test_the_handshake_is_the_first_round_trip_of_both_sides() -> None:
    wire, a, b = pair()
    a.write(b, b"hello")
    wire.run(0.0301)
    for one, other in ((a, b), (b, a)):
        rtt = one.table.to(other.contact, wire.now).transmitter.rtt
        assert rtt.smoothed == pytest.approx(0.02)


@pytest.mark.parametrize("openings", [1, 2])
def test_an_acceptance_that_was_repeated_does_not_say_how_long_a_round_trip_is(
    openings: int,
) -> None:
    wire, a, b = pair()
    wire.partition(0, 1)
    for number in range(openings):
        b.receive(a.contact, opening(7))
        wire.run(0.01 * (number + 1))
    core = b.table.cores[a.contact.id]
    b.receive(a.contact, PROGRESS.pack(PacketType.ACK, 7, core.session, 0, 1000))
    assert core.phase is Phase.ESTABLISHED
    assert (core.transmitter.rtt.smoothed is None) == (openings > 1)


def test_who_is_asked_to_open_knows_at_once_how_much_it_may_send() -> None:
    """Though what answers an ACCEPT is lost, and what comes next is a segment, which names no limit."""
    _, a, b = pair()
    b.receive(a.contact, opening(7))
    core = b.table.cores[a.contact.id]
    core.packets(0.0)
    segment = BUNDLE.pack(PacketType.BUNDLE, 7, core.session, 0, 0) + b"".join(
        encode_bundle([b"?"])
    )
    assert core.receive(segment, 0.4) == [b"?"]
    core.write(b"answer", None)
    assert [packet[0][0] for packet in core.packets(0.4)] == [PacketType.BUNDLE]
    assert core.transmitter.rtt.smoothed is None, "nobody knows whether the segment was sent again"
    assert core.transmitter.rtt.timeout == SMALL.initial_rto


def test_the_back_off_ends_with_the_answer_to_a_probe() -> None:
    """What is sent again is answered, and nobody knows which copy; the probe's number says it."""
    wire, a, b = pair()
    a.write(b, b"before")
    wire.run(1)
    a.table.to(b.contact, wire.now).transmitter.rtt.sample(0.02)
    wire.partition(0, 1)
    a.write(b, b"sent again")
    wire.run(1.31)  # after 0.1 and 0.3 s
    wire.cut.clear()
    wire.run(2.0)
    rtt = a.table.to(b.contact, wire.now).transmitter.rtt
    assert a.outcomes[b"sent again"]
    assert rtt.timeout == SMALL.min_rto


def test_once_a_full_receiver_takes_more_a_lost_segment_is_sent_again_as_soon_as_ever() -> None:
    wire, a, b = pair()
    a.write(b, b"before")
    wire.run(1)
    b.pause()
    for number in range(100):
        a.write(b, b"%2d" % number + bytes(997))
        wire.run(1 + number / 10)
    wire.run(30)
    core, other = (one.table.to(two.contact, 30.0) for one, two in ((a, b), (b, a)))
    assert core.transmitter.is_limited
    other.resume()
    for packet in other.packets(30.0):
        core.receive(b"".join(packet), 30.0)
    assert core.packets(30.0)
    assert core.patience.retry_at == 30.0 + SMALL.min_rto


def test_an_open_that_is_lost_is_soon_repeated_and_then_ever_more_rarely() -> None:
    wire, a, b = pair()
    wire.partition(0, 1)
    a.write(b, b"hello")
    wire.run(0.76)
    assert wire.carried == 4  # after 0, 0.25, 0.5 and 0.75 s
    wire.run(4.26)
    assert wire.carried == 7  # and after 1.25, 2.25 and 4.25 s


def test_both_may_open_at_once() -> None:
    wire, a, b = pair()
    a.write(b, b"to b")
    b.write(a, b"to a")
    wire.run(1)
    assert (a.delivered, b.delivered) == ([b"to a"], [b"to b"])


def test_messages_written_in_one_turn_leave_in_one_segment() -> None:
    wire, a, b = pair()
    a.write(b, b"first")
    wire.run(1)
    core = a.table.to(b.contact, wire.now)
    for number in range(10):
        core.write(b"%d" % number, None)
    assert len(core.packets(wire.now)) == 1


def test_an_answer_carries_the_acknowledgement() -> None:
    wire, a, b = pair()
    a.write(b, b"question")
    wire.run(0.0301)
    assert b.delivered == [b"question"]
    carried = wire.carried
    b.write(a, b"answer")
    wire.run(0.0401)
    assert a.outcomes == {b"question": True}
    assert wire.carried == carried + 1


@pytest.mark.parametrize("who", [0, 1], ids=["the sender", "the receiver"])
def test_a_restart_is_noticed_and_reported_to_the_other_side(who: int) -> None:
    wire, *nodes = pair()
    a, b = nodes
    a.write(b, b"before")
    wire.run(1)
    crashed, other = nodes[who], nodes[1 - who]
    crashed.begin()
    crashed.write(other, b"after")
    wire.run(3)
    assert PeerRestarted(lost=0) in other.events
    assert other.delivered[-1:] == [b"after"]


def test_what_was_sent_to_a_crashed_peer_is_reported_lost_and_what_was_not_sent_yet_arrives() -> (
    None
):
    wire, a, b = pair()
    a.write(b, b"first")
    wire.run(1)
    b.begin()
    a.write(b, b"sent")
    core = a.table.to(b.contact, wire.now)
    wire.run(wire.now + 0.0101)
    core.write(b"not sent yet", None)
    wire.run(3)
    assert a.events == [
        ChannelState.OPEN,
        PeerRestarted(lost=1),
        ChannelState.OPENING,
        ChannelState.OPEN,
    ]
    assert a.outcomes[b"sent"] is False
    assert b.delivered == [b"first", b"not sent yet"]


def test_a_repeated_opening_from_the_past_does_not_disturb_the_session() -> None:
    wire, a, b = pair()
    a.write(b, b"one")
    wire.run(1)
    b.receive(a.contact, opening(12_345))
    wire.run(2)
    a.write(b, b"two")
    wire.run(3)
    assert b.delivered == [b"one", b"two"]
    assert not any(isinstance(event, PeerRestarted) for event in a.events + b.events)


def test_a_ghost_of_an_opening_leaves_no_channel_behind() -> None:
    wire, a, b = pair()
    b.receive(a.contact, opening(12_345))
    assert len(b.table) == 1
    wire.run(1)
    assert len(a.table) == len(b.table) == 0


def test_a_peer_that_restarted_elsewhere_is_believed_once_its_old_session_is_gone() -> None:
    wire, a, b = pair()
    a.write(b, b"before")
    wire.run(1)
    b.begin()
    b.contact = Contact(b.contact.id, "127.0.0.77", 5_000)
    b.write(a, b"after")
    wire.run(3)
    assert a.delivered == [b"after"]
    a.write(b, b"answer")
    wire.run(4)
    assert b.delivered == [b"before", b"answer"]


def test_a_peer_that_moves_is_followed_once_it_has_shown_that_it_receives_there() -> None:
    wire, a, b = pair()
    a.write(b, b"before")
    wire.run(1)
    b.contact = Contact(b.contact.id, "127.0.0.77", 5_000)
    b.write(a, b"from elsewhere")
    wire.run(2)
    assert a.delivered == [b"from elsewhere"]
    assert a.table.cores[b.contact.id].contact == b.contact
    a.write(b, b"to elsewhere")
    wire.run(3)
    assert b.delivered == [b"before", b"to elsewhere"]


def test_who_repeats_a_packet_from_elsewhere_is_asked_and_not_followed() -> None:
    """Or a short packet that was seen would have a node send its events to another address."""
    wire, a, b = pair()
    a.write(b, b"first")
    wire.run(1)
    core = a.table.cores[b.contact.id]
    seen = core.challenge()  # as the peer's own packets, with the sessions the other way round
    kind, mine, theirs, *rest = PROGRESS.unpack(seen)
    repeated = PROGRESS.pack(kind, theirs, mine, *rest)
    thief = Contact(b.contact.id, "127.0.0.66", 666)
    a.table.receive(thief, repeated, wire.now)
    assert core.contact == b.contact
    ((to, question),) = a.table.replies
    a.table.replies.clear()
    assert to == thief
    assert question[0] == PacketType.WHERE
    assert len(question) <= len(repeated)
    guess = PLACE.pack(PacketType.HERE, theirs, mine, 12_345)
    a.table.receive(thief, guess, wire.now)
    assert core.contact == b.contact


def test_a_partition_closes_the_channel_and_healing_opens_it_and_sends_again() -> None:
    wire, a, b = pair()
    a.write(b, b"before")
    wire.run(1)
    wire.partition(0, 1)
    a.write(b, b"within")
    wire.run(20)
    assert a.events == [ChannelState.OPEN, ChannelState.CLOSED]
    wire.cut.clear()
    wire.run(20 + SMALL.max_rto + 0.1)
    assert a.events == [ChannelState.OPEN, ChannelState.CLOSED, ChannelState.OPEN]
    assert b.delivered == [b"before", b"within"]


def test_one_direction_is_enough_to_close_the_channel_on_both_sides() -> None:
    wire, a, b = pair(idle_after=1e6)
    a.write(b, b"before")
    wire.run(1)
    wire.partition(0, 1, both=False)
    a.write(b, b"never arrives")
    b.write(a, b"arrives, and that is never known")
    wire.run(20)
    assert a.table.to(b.contact, wire.now).state is ChannelState.CLOSED
    assert b.table.to(a.contact, wire.now).state is ChannelState.CLOSED


def test_a_peer_silent_for_too_long_is_given_up_and_its_messages_are_lost() -> None:
    wire, a, b = pair(forget_after=30.0)
    a.write(b, b"before")
    wire.run(1)
    wire.partition(0, 1)
    a.write(b, b"sent")
    wire.run(40)
    assert a.events[-2:] == [ChannelState.CLOSED, ChannelState.IDLE]
    assert a.outcomes == {b"before": True, b"sent": False}
    assert len(a.table) == 0


def test_an_idle_channel_is_dissolved_by_agreement_and_opens_again() -> None:
    wire, a, b = pair(idle_after=5.0)
    a.write(b, b"one")
    wire.run(12)
    assert len(a.table) == len(b.table) == 0
    assert a.events == b.events == [ChannelState.OPEN, ChannelState.IDLE]
    a.write(b, b"two")
    wire.run(13)
    assert b.delivered == [b"one", b"two"]


def test_a_large_message_is_finished_before_the_channel_is_dissolved() -> None:
    wire, a, b = pair()
    a.write(b, b"first")
    wire.run(1)
    large = bytes(SMALL.max_message)
    a.write(b, large)
    assert a.table.to(b.contact, 1).transmitter.buffer.cutting
    core = b.table.to(a.contact, 1)
    core.patience.active_at = core.patience.idle_at = -SMALL.idle_after
    core.handle_timer(1)
    b.flush(core)
    assert core.phase is Phase.CLOSING
    wire.run(10)
    assert b.delivered == [b"first", large]
    assert a.outcomes[large]
    assert len(a.table) == len(b.table) == 0


def test_pings_keep_a_channel_from_becoming_idle() -> None:
    wire, a, b = pair(idle_after=5.0)
    a.write(b, b"one")
    for second in range(1, 30):
        wire.run(second)
        core = a.table.to(b.contact, wire.now)
        core.ping(wire.now)
        a.flush(core)
    assert a.events == b.events == [ChannelState.OPEN]
    assert core.patience.heard_at is not None
    assert core.patience.heard_at > 27.5


def test_a_paused_receiver_holds_its_sender_back_and_loses_nothing() -> None:
    wire, a, b = pair()
    b.pause()
    accepted = 0
    for step in range(400):
        accepted += a.write(b, b"%3d" % step + bytes(997))
        wire.run(wire.now + 0.1)
    assert b.delivered == []
    assert accepted < 170, "two buffers of 80,000 bytes hold no more"
    b.resume()
    wire.run(wire.now + 10)
    assert len(b.delivered) == accepted
    assert len(a.outcomes) == accepted


def test_the_largest_message_passes_and_a_larger_one_names_the_limit() -> None:
    wire, a, b = pair()
    message = bytes(SMALL.max_message)
    a.write(b, message)
    wire.run(5)
    assert b.delivered == [message]
    with pytest.raises(MessageTooLarge, match=f"max_message, {SMALL.max_message}"):
        a.write(b, message + b"!")


def test_peers_that_only_begin_to_open_cannot_fill_the_table() -> None:
    _, _, b = pair()
    for number in range(100):
        b.receive(contact(number), opening(number + 1))
    assert len(b.table) == SMALL.max_half_open
    assert b.refused == {"too_many_half_open": 100 - SMALL.max_half_open}


def test_peers_that_only_begin_to_open_make_way_for_those_of_other_hosts() -> None:
    _, _, b = pair()
    for number in range(100):
        b.receive(contact(number), opening(number + 1))
    others = [contact(200 + number)._replace(host=f"127.0.1.{number + 1}") for number in range(3)]
    for number, other in enumerate(others):
        b.receive(other, opening(1000 + number))
        assert b.table.cores.get(other.id)
    assert len(b.table) == SMALL.max_half_open
    b.receive(contact(150), opening(2000))
    assert not b.table.cores.get(contact(150).id)
    assert all(b.table.cores.get(other.id) for other in others)


def test_a_host_with_most_channels_loses_one_that_was_not_used_to_a_peer_of_another_host() -> None:
    wire = Wire(1)
    table = ChannelTable(wire.config, 300, wire.random)
    used = [contact(number) for number in range(2)]
    for peer in used:
        table.to(peer, 0.0).write(b"message", None)
    for number in range(2, wire.config.max_channels):
        table.receive(contact(number), opening(number), 0.0)
        table._opened_by_peers.clear()  # as if each had finished opening
    other = contact(99)._replace(host="127.0.1.1")
    table.receive(other, opening(99), 0.0)
    assert table.cores.get(other.id)
    assert [core.contact for core in table.dropped] == [contact(2)]
    assert all(table.cores.get(peer.id) for peer in used)


def test_where_peers_show_rights_a_host_whose_peers_have_none_keeps_nobody_out() -> None:
    """A node asks each of them for its rights in the channel that it opened, so all channels were used."""
    wire = Wire(1)
    table = ChannelTable(wire.config, 300, wire.random)
    own, member = contact(0), contact(2)
    table.has_rights = lambda peer: peer == member.id
    table.to(own, 0.0).write(b"message", None)
    for number in range(2, wire.config.max_channels + 1):
        table.receive(contact(number), opening(number), 0.0)
        table._opened_by_peers.clear()  # as if each had finished opening
        table.to(contact(number), 0.0).write(b"show your rights", None)
    other = contact(99)._replace(host="127.0.1.1")
    table.receive(other, opening(99), 0.0)
    assert table.cores.get(other.id)
    assert [core.contact for core in table.dropped] == [contact(3)]
    assert table.cores.get(own.id)
    assert table.cores.get(member.id)


def test_a_host_with_most_channels_makes_way_for_what_this_node_wants_to_say_too() -> None:
    """A node asks a newcomer for its rights in a channel of its own: without a place it hears of none."""
    wire = Wire(1)
    table = ChannelTable(wire.config, 300, wire.random)
    for number in range(wire.config.max_channels):
        table.receive(contact(number), opening(number + 1), 0.0)
        table._opened_by_peers.clear()  # as if each had finished opening
    newcomer = contact(99)._replace(host="127.0.1.1")
    table.to(newcomer, 0.0).write(b"show your rights", None)
    assert table.cores.get(newcomer.id)
    assert [core.contact for core in table.dropped] == [contact(0)]


def test_a_peer_that_never_finished_opening_makes_way_after_a_while() -> None:
    wire, _, b = pair()
    for number in range(SMALL.max_half_open):
        b.receive(contact(number), opening(number + 1))
    wire.run(SMALL.close_after)
    b.receive(contact(99), opening(99))
    assert len(b.table) == SMALL.max_half_open
    assert b.table.cores.get(contact(99).id)
    assert not b.table.cores.get(contact(0).id)


def test_one_channel_too_many_is_refused_with_the_limit() -> None:
    wire = Wire(1)
    table = ChannelTable(wire.config, 300, wire.random)
    for number in range(wire.config.max_channels):
        table.to(contact(number), 0.0).write(b"message", None)
    with pytest.raises(TooManyChannels, match="8 peers"):
        table.to(contact(99), 0.0)
    with pytest.raises(ChannelRefused, match="too_many_channels"):
        table.receive(contact(99), opening(1), 0.0)


def test_a_message_that_takes_too_many_datagrams_is_refused_when_the_node_begins() -> None:
    wire = Wire(1)
    with pytest.raises(UsageError, match="set a larger datagram_size"):
        ChannelTable(ChannelConfig(), 50, wire.random)
    ChannelTable(ChannelConfig(), 60, wire.random)


def test_a_peer_that_begins_many_messages_and_finishes_none_takes_bounded_memory() -> None:
    wire, a, b = pair()
    a.write(b, b"hello")
    wire.run(1)
    core = a.table.to(b.contact, wire.now)
    for number in range(1, 200):
        head = (PacketType.FRAGMENT, core._peer, core.session, 1, number)
        a.receive(b.contact, FRAGMENT.pack(*head, SMALL.max_message, 0) + b"x")
    assert a.table.budget.used <= SMALL.receive_buffer + SMALL.max_message
    assert a.refused["receive_memory_full"] > 150
    core.abandon()
    assert a.table.budget.used == 0


def test_an_acknowledgement_of_what_was_never_sent_is_refused() -> None:
    wire, a, b = pair()
    a.write(b, b"hello")
    wire.run(1)
    core = a.table.to(b.contact, wire.now)
    forged = PROGRESS.pack(PacketType.ACK, core._peer, core.session, 77, 1_000_000)
    with pytest.raises(ChannelRefused, match="malformed"):
        a.table.receive(b.contact, forged, wire.now)


def test_reordering_within_its_usual_spread_costs_no_retransmission() -> None:
    wire = Wire(1, Faults(delay=(0.040, 0.060)))
    a, b = wire.nodes
    for number in range(300):
        a.write(b, b"%d" % number + bytes(150))
        wire.run(wire.now + 0.01)
    wire.run(wire.now + 2)
    assert len(b.delivered) == 300
    assert b.refused.get("duplicate", 0) <= 3


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("max_message", 0),
        ("receive_buffer", 2**31),
        ("send_buffer", 1_000),
        ("receive_buffer", 1_000),
        ("receive_memory", 1_000),
        ("max_channels", 0),
        ("max_half_open", 0),
        ("initial_rto", 0.0),
        ("idle_after", -1.0),
        ("ack_delay", 1.0),
        ("max_rto", 0.01),
        ("forget_after", 1.0),
    ],
)
def test_a_configuration_that_cannot_work_names_the_field(field: str, value: float) -> None:
    with pytest.raises(UsageError, match=field):
        ChannelConfig(**{field: value})  # type: ignore[arg-type]


@pytest.mark.parametrize("flying", [False, True], ids=["nothing under way", "messages under way"])
def test_a_process_that_took_a_crashed_peers_address_is_not_sent_what_was_meant_for_the_peer(
    flying: bool,
) -> None:
    wire, a, b = pair()
    a.write(b, b"first")
    wire.run(1)
    if flying:
        wire.partition(0, 1)
        for number in range(20):
            a.write(b, b"%d" % number * 100)
        wire.run(3)
        wire.cut.clear()
    peer, b.contact = b.contact, Contact(PeerId(b"another id, same box"), *b.contact.address)
    b.begin()
    carried: list[bytes] = []
    taken = b.receive
    b.receive = lambda sender, packet: (carried.append(packet), taken(sender, packet))[1]  # type: ignore[method-assign]
    if not flying:
        core = a.table.to(peer, wire.now)
        core.write(b"the first of many", None)
        a.flush(core)
        wire.run(1.03)
        carried.clear()
        for number in range(20):
            core = a.table.to(peer, wire.now)
            core.write(b"%d" % number * 100, None)
            a.flush(core)
            wire.run(wire.now + 0.05)
    wire.run(700)
    segments = [p for p in carried if p[0] in (PacketType.BUNDLE, PacketType.FRAGMENT)]
    assert segments == []
    assert any(isinstance(event, PeerRestarted) for event in a.events)
    assert a.table.cores.get(peer.id) is None
    if flying:
        assert [a.outcomes[b"%d" % number * 100] for number in range(20)] == [False] * 20
        assert wire.now == 700
        assert len(carried) < 5


def test_a_stranger_elsewhere_who_names_a_session_ends_no_channel() -> None:
    wire, a, b = pair()
    a.write(b, b"first")
    wire.run(1)
    core = a.table.to(b.contact, wire.now)
    reset = PACKET_HEAD.pack(PacketType.RESET, core._peer, core.session)
    a.receive(contact(3), reset)
    assert a.table.cores.get(b.contact.id) is core
    a.receive(Contact(contact(3).id, *b.contact.address), reset)
    assert a.table.cores.get(b.contact.id) is None


def test_a_silent_peer_is_only_asked_until_it_answers() -> None:
    wire, a, b = pair()
    a.write(b, b"first")
    wire.run(1)
    wire.partition(0, 1)
    a.write(b, b"second")
    sent: list[bytes] = []
    carry = wire.carry
    wire.carry = lambda source, to, packet: (sent.append(packet), carry(source, to, packet))[1]  # type: ignore[method-assign]
    wire.run(1.25)
    assert [packet[0] for packet in sent] == [PacketType.BUNDLE, PacketType.WHERE]
    wire.run(60)
    assert {packet[0] for packet in sent[2:]} == {PacketType.PING, PacketType.WHERE}
    wire.cut.clear()
    wire.run(70)
    assert b.delivered == [b"first", b"second"]
    assert a.outcomes[b"second"]


def test_a_peer_that_does_not_answer_is_asked_a_few_times_soon_and_then_ever_more_rarely() -> None:
    wire, a, b = pair()
    a.write(b, b"first")
    wire.run(1)
    a.table.to(b.contact, 1.0).transmitter.rtt.sample(0.02)
    wire.partition(0, 1)
    a.write(b, b"second")
    asked: list[float] = []
    carry = wire.carry

    def see(source: Node, to: Contact, packet: bytes) -> None:
        if packet[0] == PacketType.PING:
            asked.append(wire.now)
        carry(source, to, packet)

    wire.carry = see  # type: ignore[method-assign]
    wire.run(5)
    assert asked == pytest.approx([1.3, 1.5, 1.7, 1.9, 2.3, 3.1, 4.7])


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize("sign", ["heard elsewhere", "a message"])
def test_a_silent_peer_is_asked_at_once_when_it_is_heard_elsewhere_or_a_message_waits(
    sign: str, is_known: bool
) -> None:
    wire, a, b = pair()
    if is_known:
        a.write(b, b"first")
        wire.run(1)
    wire.partition(0, 1)
    a.write(b, b"second")
    core = a.table.cores[b.contact.id]
    wire.run(30)
    retry_at = core.patience.retry_at
    assert retry_at is not None
    wire.run(retry_at + 1)
    assert core.patience.retry_at == pytest.approx(retry_at + SMALL.max_rto)
    wire.cut.clear()
    if sign == "a message":
        a.write(b, b"third")
    else:
        assert core.heard_elsewhere(wire.now)
        wire.wake(a, core)
    wire.run(retry_at + 1.1)
    assert b"second" in b.delivered


def test_whatever_is_heard_or_waits_a_silent_peer_is_asked_five_times_a_second_at_most() -> None:
    wire, a, b = pair(send_buffer=800_000)
    a.write(b, b"first")
    wire.run(1)
    wire.partition(0, 1)
    a.write(b, b"second")
    wire.run(30)
    before, core = wire.carried, a.table.cores[b.contact.id]
    for number in range(1000):
        core.heard_elsewhere(wire.now)
        a.write(b, b"%d" % number)
        wire.run(30 + number / 100)
    assert 15 <= (wire.carried - before) / 2 <= 50, "a PING and a WHERE"


def test_a_crashed_peer_is_asked_to_dissolve_an_unused_channel_ever_more_rarely() -> None:
    wire, a, b = pair()
    a.write(b, b"first")
    wire.run(1)
    wire.partition(0, 1)
    closes: list[float] = []
    carry = wire.carry

    def count(source: Node, to: Contact, packet: bytes) -> None:
        if source is a:
            assert packet[0] == PacketType.CLOSE
            closes.append(wire.now)
        carry(source, to, packet)

    wire.carry = count  # type: ignore[method-assign]
    wire.run(SMALL.idle_after + SMALL.forget_after + 10)
    assert a.table.cores.get(b.contact.id) is None
    assert 5 <= len(closes) <= 15
    gaps = [after - before for before, after in itertools.pairwise(closes)]
    assert gaps == sorted(gaps)


def test_a_peer_that_comes_back_while_an_unused_channel_is_dissolved_is_heard_at_once() -> None:
    wire, a, b = pair()
    a.write(b, b"first")
    wire.run(1)
    wire.partition(0, 1)
    wire.run(300)
    wire.cut.clear()
    b.write(a, b"second")
    wire.run(302)
    assert a.delivered == [b"second"]
    assert b.outcomes[b"second"]
