"""Indirection: whomever newcomers ask, contacts are near-uniform over the members."""

from __future__ import annotations

from dataclasses import replace

import pytest

from overlay.contact import Contact
from overlay.membership.config import ScampConfig
from overlay.membership.scamp import published
from overlay.membership.scamp.messages import (
    ScampSubscribe,
    ScampSubscription,
    SubscriptionWalk,
    Welcome,
)
from overlay.membership.scamp.published import Indirection
from overlay.virtual.stage import numbered_contact
from tests.overlay.membership.community import TOPIC, ScampCommunity, in_degrees

MEMBERS = 100
WALKS = 4000
NEVER = 80_000.0


@pytest.fixture(autouse=True)
def _length_for_a_hundred(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without heartbeats there is no census, and the gateway would take the community for a small one."""
    steps = published.walk_length(MEMBERS)
    assert steps == 10
    monkeypatch.setattr(published, "walk_length", lambda size: steps)


def community_with_one_gateway(seed: int) -> ScampCommunity:
    """Views as newcomers make them, without the upkeep that evens them out."""
    config = ScampConfig(heartbeat_seconds=NEVER, lease_seconds=NEVER, shortest_lease_seconds=NEVER)
    community = ScampCommunity(seed, config, gateways=1)
    community.grow(MEMBERS, interval=2.0)
    return community


def contacts_chosen(community: ScampCommunity) -> dict[Contact, int]:
    """How often each member is the contact when strangers ask the gateway; copies are not followed."""
    chosen = dict.fromkeys(community.members, 0)
    stranger = numbered_contact(10**6)
    context = community.stage.context(stranger)
    community.stage.attach(stranger, lambda sender, message: None)
    for term in range(WALKS):
        subscription = ScampSubscription(stranger, term, 1e-3)
        context.send(community.gateways[0], ScampSubscribe(TOPIC, subscription, 1, indirect=True))

    def count(time: float, sender: Contact, to: Contact, message: object) -> None:
        if to == stranger and isinstance(message, Welcome):
            chosen[sender] += 1

    community.stage.observe(count)
    community.stage.run_for(3)
    return chosen


def variation(chosen: dict[Contact, int]) -> float:
    """The total variation distance from a uniform choice."""
    total = sum(chosen.values())
    return sum(abs(count / total - 1 / len(chosen)) for count in chosen.values()) / 2


def test_contacts_are_near_uniform_though_everyone_asks_the_same_gateway() -> None:
    chosen = contacts_chosen(community_with_one_gateway(41))
    assert sum(chosen.values()) > 0.95 * WALKS
    # Of 4,000 uniform choices among 100 members, the distance is 0.063 by chance alone.
    assert variation(chosen) < 0.11
    assert min(chosen.values()) > 0.3 * WALKS / MEMBERS
    assert max(chosen.values()) < 2.5 * WALKS / MEMBERS


def test_a_walk_that_does_not_weigh_its_steps_is_found_out(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Accepting every proposed step prefers members with many neighbours."""
    community = community_with_one_gateway(41)
    weigh = Indirection.walk

    def accept(self: Indirection, sender: Contact, walk: SubscriptionWalk) -> None:
        weigh(self, sender, replace(walk, degree=10**6))

    monkeypatch.setattr(Indirection, "walk", accept)
    assert variation(contacts_chosen(community)) > 0.11


def test_gateways_are_held_by_no_more_members_than_others() -> None:
    community = community_with_one_gateway(42)
    degrees = dict(zip(community.members, in_degrees(community.graph), strict=True))
    assert degrees[community.gateways[0]] <= max(list(degrees.values())[1:])


def test_without_walks_a_gateway_serves_everyone(monkeypatch: pytest.MonkeyPatch) -> None:
    community = community_with_one_gateway(41)
    monkeypatch.setattr(published, "walk_length", lambda size: 0)
    chosen = contacts_chosen(community)
    assert variation(chosen) > 0.9
