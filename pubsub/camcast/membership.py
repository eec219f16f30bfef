"""How a community's parameters shape its membership service, whichever one runs."""

from __future__ import annotations

import math

from overlay.membership.mode import MembershipConfig
from overlay.membership.scamp.config import ScampConfig
from overlay.membership.structured.config import StructuredConfig
from pubsub.camcast.parameters import Parameters

SCAMP_COPIES_UNIT = 3.0
"""A SCAMP view has (k + 1) ln N members for k extra copies. Gossip needs ln N + c of them, so k ln N >= c,
where ln N = 3 (20 processes) is taken for the smallest community in which this matters."""


def membership_config(parameters: Parameters) -> MembershipConfig:
    """Topic tables large enough for a fanout of ln N + c."""
    copies = min(16, math.ceil(parameters.c / SCAMP_COPIES_UNIT))
    return MembershipConfig(ScampConfig(c=copies), StructuredConfig(c=parameters.c))
