"""Gateways as a directory, and the one place where a service is chosen."""

from __future__ import annotations

from collections.abc import Callable
from typing import get_args

import pytest

from overlay.contact import Address, Contact
from overlay.errors import UsageError
from overlay.membership.config import (
    HyParViewConfig,
    MembershipConfig,
    ScampConfig,
    StructuredConfig,
)
from overlay.membership.gateways import Gateways
from overlay.membership.hyparview import HyParViewMembership
from overlay.membership.modes import MODES, ModeName, make_membership
from overlay.membership.scamp.service import ScampMembership
from overlay.membership.structured.service import StructuredMembership
from overlay.virtual.stage import Stage, numbered_contact
from tests.overlay.membership.community import (
    TOPIC,
    AllKnowing,
    Listener,
    ScampCommunity,
    is_strongly_connected,
)

A, B, C = (numbered_contact(number) for number in range(3))


class Lookups:
    """Resolves addresses when told to."""

    def __init__(self) -> None:
        self.asked: list[tuple[Address, Callable[[Contact | None], None]]] = []

    def __call__(self, address: Address, answer: Callable[[Contact | None], None]) -> None:
        self.asked.append((address, answer))

    def answer(self, *contacts: Contact | None) -> None:
        for (_, answer), contact in zip(self.asked, contacts, strict=True):
            answer(contact)


def gateways(lookups: Lookups) -> Gateways:
    addresses = [A.address, B.address, C.address]
    return Gateways(Stage(1).context(A), {TOPIC: addresses}, lookups)


def test_gateways_are_asked_who_they_are_and_a_process_does_not_find_itself() -> None:
    lookups, found = Lookups(), list[tuple[Contact, ...]]()
    gateways(lookups).contacts(TOPIC, 3, found.append)
    assert {address for address, _ in lookups.asked} == {B.address, C.address}
    assert found == []
    lookups.answer(None, C)
    assert found == [(C,)]


def test_the_answer_comes_once_as_soon_as_enough_gateways_answered() -> None:
    lookups, found = Lookups(), list[tuple[Contact, ...]]()
    gateways(lookups).sample(TOPIC, 1, found.append)
    lookups.answer(B, C)
    assert found == [(B,)]


def test_a_topic_without_gateways_has_no_contacts() -> None:
    lookups, found, sizes = Lookups(), list[tuple[Contact, ...]](), list[float]()
    gateways(lookups).contacts("/chess", 3, found.append)
    gateways(lookups).size(TOPIC, sizes.append)
    gateways(lookups).size("/chess", sizes.append)
    assert found == [()]
    assert sizes == [3.0, 1.0]


def test_gateways_of_what_is_no_topic_are_refused() -> None:
    with pytest.raises(UsageError, match="soccer"):
        Gateways(Stage(1).context(A), {"soccer": []}, Lookups())


def test_a_community_forms_around_gateways_and_outlives_one() -> None:
    community = ScampCommunity(51, gateways=2)
    community.grow(30, interval=0.2)
    community.crash(community.gateways[0])
    community.grow(10, interval=0.2)
    community.stage.run_for(90)
    assert is_strongly_connected(community.graph)
    assert len(community.members) == 39


@pytest.mark.parametrize(
    ("mode", "service"),
    [
        ("unstructured", ScampMembership),
        ("semi-structured", ScampMembership),
        ("structured", StructuredMembership),
        ("hyparview", HyParViewMembership),
    ],
)
def test_each_mode_has_its_service(mode: ModeName, service: type) -> None:
    config = MembershipConfig(ScampConfig(c=2), StructuredConfig(c=3), HyParViewConfig(c=4))
    member = make_membership(
        mode, TOPIC, Stage(1).context(A), AllKnowing(1).of(A), Listener(), config
    )
    assert type(member) is service
    assert member.topic == TOPIC
    assert member.table == ()
    assert member.size == 1
    assert MODES[mode].uses_dht(False) == (mode != "unstructured")
    assert MODES[mode].uses_dht(True) == (mode in ("semi-structured", "structured"))


def test_every_mode_that_has_a_name_is_in_the_list() -> None:
    assert set(MODES) == set(get_args(ModeName))
