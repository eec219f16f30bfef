"""How a community's parameters shape its membership service, whichever one runs."""

from __future__ import annotations

from dataclasses import replace

from overlay.membership.modes import MembershipConfig
from pubsub.camcast.parameters import Parameters


def membership_config(
    parameters: Parameters, usual: MembershipConfig | None = None
) -> MembershipConfig:
    """Topic tables of ln N + c members, as many as gossip goes to; the rest as `usual` says."""
    usual = usual or MembershipConfig()
    return replace(
        usual,
        scamp=replace(usual.scamp, margin=parameters.c),
        structured=replace(usual.structured, c=parameters.c),
        hyparview=replace(usual.hyparview, c=parameters.c),
    )
