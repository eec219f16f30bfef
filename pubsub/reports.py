"""What nodes tell each other of themselves, so that one of them can show the whole network.

Every node answers a question of a peer with a report: the communities it is in, what it has counted, the
archive or distributor on it, how some events came to it, and some nodes that it knows (`NodeConfig.reports`
turns that off). A *census* asks the nodes that it knows every few seconds, and those that their reports name.
Only who can open a channel can ask: in a network with a key, holders of the key; in one with an authority,
who may subscribe to `/`.

All of it is bounded: communities, neighbours and bytes of a report, nodes of a census, questions a second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from overlay.contact import Contact, PeerId
from overlay.context import Context, Timer
from overlay.errors import UsageError
from overlay.wire import Data, message
from pubsub.event import event_id
from pubsub.rights import Action, Holder

if TYPE_CHECKING:
    from pubsub.node import Node

MOST_COMMUNITIES = 200
"""Communities in one report; the others are only counted."""

MOST_NEIGHBOURS = 32
"""Nodes that one report names, and entries of one table in it."""

MOST_ROUTED = 20
"""Communities in one report that say how events came."""

MOST_ROUTES = 64
"""Events of one community of which another node's report says how they came."""

COUNTED = ("events_delivered", "events_received", "events_sent", "events_duplicate", "mqtt_clients")
"""Counters that travel; and the reasons of `events_dropped`."""


LARGEST = 2.0**64
"""Of the numbers in another node's report. One `inf`, or the difference of two numbers that is one, would end
the whole page that shows the network."""


@message(0xC4)
class AskReport:
    nonce: int


@message(0xC5)
class Report:
    """What a node says of itself."""

    nonce: int
    neighbours: tuple[Contact, ...]
    data: Data


def may_ask(peer: Holder, question: AskReport) -> bool:
    """The rule of a network with an authority."""
    return peer.may(Action.SUBSCRIBE, "/")


def report_of(node: Node) -> dict[str, Any]:
    """What the node says of itself, within the bounds of a report."""
    status = node.status()
    counters = status["counters"]
    communities = list(status["communities"].items())
    now = node.attachment.control.now()
    routed = {name for name, _ in communities[:MOST_ROUTED]}
    return {
        "at": now,
        "mode": status["mode"],
        "sealed": status["protection"]["sealed"],
        "communities": {
            name: {
                **{key: one[key] for key in ("size", "subscriptions", "publishing", "events")},
                "table": one["table"][:MOST_NEIGHBOURS],
                "above": {
                    topic: entries[:MOST_NEIGHBOURS]
                    for topic, entries in list(one["super_tables"].items())[:MOST_NEIGHBOURS]
                },
                "routes": _routes(node, name, now) if name in routed else {},
            }
            for name, one in communities[:MOST_COMMUNITIES]
        },
        "more_communities": max(0, len(communities) - MOST_COMMUNITIES),
        "counters": {name: counters[name] for name in COUNTED if name in counters},
        "dropped": dict(counters["events_dropped"]),
        "archive": {
            name: {
                "failure": kept["failure"],
                **{key: kept[key] for key in ("events", "bytes", "last") if key in kept},
                "behind": _behind(kept),
            }
            for name, kept in list(status.get("archive", {}).items())[:MOST_COMMUNITIES]
        },
        "services": {name: describe() for name, describe in node.reporting.items()},
    }


def _routes(node: Node, topic: str, now: float) -> dict[str, list[Any]]:
    """By the ids of some events: who sent it here, empty for nobody, after how many hops, how long ago."""
    return {
        event_id(one.source, one.first).hex(): [
            "" if one.sender is None else str(one.sender),
            one.hops,
            now - one.at,
        ]
        for one in node.attachment.routes(topic)
    }


def _behind(kept: Mapping[str, Any]) -> int:
    """How many events the durable subscriber that is furthest behind has not had."""
    subscribers = list(kept.get("subscribers", {}).values())
    return max([kept["last"] - one["sync"] for one in subscribers], default=0)


class Answering:
    """Answers questions for reports; a core."""

    def __init__(
        self,
        context: Context,
        report: Callable[[], dict[str, Any]],
        neighbours: Callable[[], Sequence[Contact]],
    ) -> None:
        self._context = context
        self._report = report
        self._neighbours = neighbours
        self._latest: tuple[float, dict[str, Any]] | None = None

    def ignore(self, sender: Contact, question: AskReport) -> None:
        """The answer of a node that does not report."""

    def receive(self, sender: Contact, question: AskReport) -> None:
        now = self._context.now()
        if self._latest is None or now >= self._latest[0] + 1.0:
            self._latest = (now, self._report())  # however many ask, it is made once a second
        known = list(self._neighbours())
        if len(known) > MOST_NEIGHBOURS:
            known = self._context.random.sample(known, MOST_NEIGHBOURS)
        self._context.send(sender, Report(question.nonce, tuple(known), Data(self._latest[1])))


@dataclass(frozen=True)
class CensusConfig:
    """How much of a network is asked, and how often."""

    refresh: float = 2.0
    """Seconds between two questions to one node."""
    most_nodes: int = 500
    """Nodes that are asked; others are not shown."""
    patience: float = 7.0
    """Seconds without an answer after which a node counts as gone."""

    def __post_init__(self) -> None:
        if not (self.refresh > 0 and self.most_nodes > 0 and self.patience > self.refresh):
            raise UsageError(
                "a census needs a refresh above 0 s, one node or more, and more patience than refresh"
            )


class Known:
    """One node, as a census knows it."""

    def __init__(self, contact: Contact, now: float) -> None:
        self.contact = contact
        self.heard = now
        self.report: dict[str, Any] | None = None
        self._before: dict[str, Any] | None = None
        """The report before: rates are differences."""
        self.nonce = 0

    def update(self, report: dict[str, Any]) -> None:
        """Take a report; one that was made within a second of the last one tells nothing new of rates."""
        if self.report is None or report["at"] > self.report["at"] + 0.5:
            self._before, self.report = self.report, report

    def rate(self, *path: str) -> float:
        """How much a count has grown a second between the last two reports."""
        if self.report is None or self._before is None:
            return 0.0
        grown = _count(self.report, path) - _count(self._before, path)
        seconds: float = self.report["at"] - self._before["at"]
        return max(0.0, grown) / seconds


def _count(report: dict[str, Any], path: Sequence[str]) -> float:
    found: Any = report
    for name in path:
        found = found.get(name, {})
    return found or 0.0


class Census:
    """Asks the nodes of a network what they say of themselves; a core."""

    def __init__(
        self,
        context: Context,
        first: Callable[[], Sequence[Contact]],
        config: CensusConfig | None = None,
    ) -> None:
        """`first`: the nodes that this one knows itself."""
        self._context = context
        self._first = first
        self._config = config or CensusConfig()
        self.own = Known(context.contact, context.now())
        self.nodes: dict[PeerId, Known] = {}
        self.lost: dict[PeerId, tuple[Contact, float]] = {}
        """Nodes that stopped answering, and when; the latest hundred."""
        self._timer: Timer | None = None

    def start(self) -> None:
        self._meet(self._first())
        now, patience = self._context.now(), self._config.patience
        for peer, known in list(self.nodes.items()):
            if now - known.heard > patience:
                del self.nodes[peer]
                if known.report is not None:
                    self.lost[peer] = (known.contact, now)
                    while len(self.lost) > 100:
                        del self.lost[next(iter(self.lost))]
            else:
                self._ask(known)
        self._timer = self._context.call_later(self._config.refresh, self.start)

    def silences(self) -> list[str]:
        """Who has stopped to answer within the last minute, in words."""
        recent = self._context.now() - 60.0
        return [
            f"{contact} does not answer any more"
            for contact, at in self.lost.values()
            if at > recent
        ]

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()

    def receive(self, sender: Contact, report: Report) -> None:
        known = self.nodes.get(sender.id)
        data: Any = report.data
        if known is None or known.nonce != report.nonce or not is_report(data):
            return
        known.update(data)
        known.heard, known.nonce = self._context.now(), 0
        self.lost.pop(sender.id, None)
        for met in self._meet(report.neighbours[:MOST_NEIGHBOURS]):
            self._ask(met)

    def _meet(self, contacts: Sequence[Contact]) -> list[Known]:
        new: list[Known] = []
        for contact in contacts:
            if len(self.nodes) >= self._config.most_nodes:
                break
            if contact.id not in self.nodes and contact.id != self._context.contact.id:
                known = self.nodes[contact.id] = Known(contact, self._context.now())
                new.append(known)
        return new

    def _ask(self, known: Known) -> None:
        known.nonce = self._context.random.getrandbits(62) | 1
        self._context.send(known.contact, AskReport(known.nonce))


@contextmanager
def census_of(node: Node, config: CensusConfig | None = None) -> Iterator[Census]:
    """The census of the network of a running node, which is taken while it is entered."""
    runtime = node.attachment.runtime
    census = Census(runtime.context("channel"), node.attachment.known_nodes, config)
    runtime.on(Report, census.receive)
    census.start()
    try:
        yield census
    finally:
        census.stop()
        if node.is_running:
            runtime.off(Report)


def is_report(data: Any) -> bool:
    """Whether a peer's report has the form of `report_of`; whatever is shown was looked at here."""
    if not (
        isinstance(data, dict)
        and isinstance(data.get("mode"), str)
        and isinstance(at := data.get("at"), float)
        and _is_number(at)
    ):
        return False
    wanted: Mapping[str, Callable[[Any], bool]] = {
        "communities": _is_community,
        "counters": _is_number,
        "dropped": _is_number,
        "archive": _is_archive,
        "services": lambda one: isinstance(one, dict),
    }
    return all(
        isinstance(part := data.get(name), dict)
        and len(part) <= 1000
        and all(isinstance(key, str) for key in part)
        and all(map(good, part.values()))
        for name, good in wanted.items()
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= LARGEST


def _is_community(one: Any) -> bool:
    return (
        isinstance(one, dict)
        and all(_is_number(one.get(name)) for name in ("size", "subscriptions", "events"))
        and isinstance(one.get("publishing"), bool)
        and _are_texts(one.get("table"))
        and isinstance(one.get("above"), dict)
        and all(isinstance(key, str) and _are_texts(value) for key, value in one["above"].items())
        and isinstance(one.get("routes"), dict)
        and len(one["routes"]) <= MOST_ROUTES
        and all(isinstance(key, str) and _is_route(value) for key, value in one["routes"].items())
    )


def _is_route(value: Any) -> bool:
    return (
        isinstance(value, list)
        and len(value) == 3
        and isinstance(value[0], str)
        and all(map(_is_number, value[1:]))
    )


def _are_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(one, str) for one in value)


def _is_archive(one: Any) -> bool:
    return (
        isinstance(one, dict)
        and isinstance(one.get("failure"), str)
        and all(_is_number(value) for key, value in one.items() if key != "failure")
    )


def picture(node: Node, census: Census) -> dict[str, Any]:
    """The network as it is known now: communities with their members, nodes, losses, alerts. JSON."""
    me = census.own
    me.update(report_of(node))
    known = [
        (str(one.contact), one, one.report)
        for one in (me, *census.nodes.values())
        if one.report is not None
    ]
    communities: dict[str, dict[str, Any]] = {}
    dropped: dict[str, float] = {}
    for name, one, report in known:
        for topic in report["communities"]:
            _add_member(communities, topic, name, one, report["communities"][topic])
        for reason, count in report["dropped"].items():
            dropped[reason] = dropped.get(reason, 0) + count
    for community in communities.values():
        community["route"] = _best_known(community.pop("routes"))
    return {
        "me": str(me.contact),
        "communities": dict(sorted(communities.items())),
        "nodes": sorted(
            (_node_shown(*row, is_me=row[1] is me) for row in known), key=lambda one: one["node"]
        ),
        "dropped": dropped,
        "alerts": [alert for row in known for alert in _alerts(*row)] + census.silences(),
    }


def _add_member(
    communities: dict[str, dict[str, Any]],
    topic: str,
    name: str,
    one: Known,
    part: dict[str, Any],
) -> None:
    shown = communities.setdefault(
        topic, {"members": [], "size": 0.0, "rate": 0.0, "tables": {}, "above": {}, "routes": {}}
    )
    member = {"node": name, **{key: part[key] for key in ("subscriptions", "publishing")}}
    shown["members"].append(member)
    shown["size"] = max(shown["size"], part["size"])
    shown["rate"] = max(shown["rate"], one.rate("communities", topic, "events"))
    shown["tables"][name] = part["table"]
    shown["above"][name] = part["above"]
    for event, (sender, hops, age) in part["routes"].items():
        hop = {"from": sender, "to": name, "hops": hops, "seconds": age}
        shown["routes"].setdefault(event, []).append(hop)


def _best_known(routes: dict[str, list[dict[str, Any]]]) -> dict[str, Any] | None:
    """Of the events that most nodes tell of, the youngest: each way from node to node that brought it."""
    if not routes:
        return None
    ages = {event: min(one["seconds"] for one in hops) for event, hops in routes.items()}
    event = max(routes, key=lambda one: (len(routes[one]), -ages[one]))
    hops = sorted(routes[event], key=lambda one: (one["hops"], one["to"]))
    return {"event": event, "seconds": ages[event], "hops": hops}


def _node_shown(name: str, one: Known, report: dict[str, Any], is_me: bool) -> dict[str, Any]:
    return {
        "node": name,
        "me": is_me,
        "mode": report["mode"],
        "communities": len(report["communities"]),
        "delivered": one.rate("counters", "events_delivered"),
        "sent": one.rate("counters", "events_sent"),
        "dropped": sum(report["dropped"].values()),
        "mqtt_clients": report["counters"].get("mqtt_clients", 0),
        "archive": report["archive"],
        "services": report["services"],
    }


def _alerts(name: str, one: Known, report: dict[str, Any]) -> list[str]:
    failed = [
        f"the archive of {topic} on {name} has failed: {archive['failure']}"
        for topic, archive in report["archive"].items()
        if archive["failure"]
    ]
    rates = {reason: one.rate("dropped", reason) for reason in report["dropped"]}
    drops = [
        f"{name} drops {rate:.1f} events/s: {reason}" for reason, rate in rates.items() if rate > 0
    ]
    return failed + drops
