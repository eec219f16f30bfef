"""How a community's parameters shape its membership service, whichever one runs."""

from __future__ import annotations

from overlay.membership.mode import MembershipConfig
from overlay.membership.scamp.config import ScampConfig
from overlay.membership.structured.config import StructuredConfig
from pubsub.camcast.parameters import Parameters


def membership_config(parameters: Parameters) -> MembershipConfig:
    """Topic tables of ln N + c members, as many as gossip goes to."""
    return MembershipConfig(ScampConfig(margin=parameters.c), StructuredConfig(c=parameters.c))
