"""The chain of communities that real nodes form, the same on the virtual network and on a real one.

The bottom community is in the longest topic, the last one in `/`. In the unstructured mode the first two
members of each community are its gateways; in the other modes everyone bootstraps from the first node.
"""

from __future__ import annotations

from typing import Any

from bench.experiment import Experiment
from overlay.membership.config import MembershipConfig
from pubsub import Node, Parameters

GATEWAYS = 2


def topics(levels: int) -> list[str]:
    """The topics of a chain of communities, bottom first: `/1/2`, `/1`, `/`."""
    names = ["/" + "/".join(str(n) for n in range(1, depth + 1)) for depth in range(levels)]
    return names[::-1]


def parameters(experiment: Experiment) -> Parameters:
    """The experiment's parameters."""
    return Parameters(
        c=experiment.c,
        g=experiment.g,
        a=experiment.a,
        z=experiment.z,
        sure_links=experiment.sure_links,
    )


def node_settings(experiment: Experiment) -> dict[str, Any]:
    """The settings of `Node` that an experiment asks for.

    With loss, eager events travel as plain datagrams, as in the paper's model; else over channels, as in its
    implementation and by default.
    """
    plain = experiment.loss and experiment.dissemination == "eager"
    return {
        "mode": experiment.mode,
        "links": "datagram" if plain else "channel",
        "dissemination": experiment.dissemination,
        "parameters": parameters(experiment),
        "membership": MembershipConfig(balance=experiment.balance),
    }


class Introductions:
    """Whom a newcomer is told of."""

    def __init__(self, mode: str) -> None:
        self._mode = mode
        self._first: list[str] = []
        self._gateways: dict[str, list[str]] = {}

    def settings(self) -> dict[str, Any]:
        """The settings of `Node` by which a newcomer finds the others."""
        if self._mode == "unstructured":
            return {"gateways": {topic: tuple(known) for topic, known in self._gateways.items()}}
        return {"bootstrap": tuple(self._first)}

    def names(self, address: str) -> bool:
        """Whether newcomers may be told of the process that listens there."""
        known = self._gateways.values()
        return address in self._first or any(address in gateways for gateways in known)

    def add(self, topic: str, address: str) -> None:
        """A member of `topic` listens at `address`."""
        if not self._first:
            self._first.append(address)
        gateways = self._gateways.setdefault(topic, [])
        if len(gateways) < GATEWAYS:
            gateways.append(address)


def tables_of(node: Node, topic: str) -> tuple[float, list[str], list[str]]:
    """What a member keeps for the topic: its estimate of the size, its topic table, its super-topic
    tables."""
    community = node.status()["communities"][topic]
    supers: list[list[str]] = list(community["super_tables"].values())
    return community["size"], community["table"], [one for table in supers for one in table]
