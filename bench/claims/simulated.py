"""The parts of claims that formulas and simulations decide (sections 4, 6.1 and tables 1 and 2)."""

from __future__ import annotations

import math

from bench.aggregates import Aggregate, Aggregates
from bench.claims.claim import (
    EXPLAINED,
    FITTED,
    IN_PART,
    NOT_COMPARABLE,
    NOT_MEASURED,
    SHARE_MARGIN,
    Part,
    Verdict,
    all_hold,
    at_least,
    at_most,
    claim,
    equals,
    exceeds,
)
from bench.intervals import Interval
from bench.model.printed import TABLE_1, TABLE_2
from bench.results import WHOLE
from bench.suites.settings import SIMULATED, TOPOLOGIES

Rows = dict[tuple[int, ...], Aggregate]

STILLBORN = {"figure": "figures-13-16", "sizes": SIMULATED["sizes"]}
WEAK = {"figure": "figures-17-18", "sizes": SIMULATED["sizes"]}
ALMOST_HALF = (0.4, 0.5)
ALWAYS = 0.99
"""What a share that is always 1 is held against."""
STEADY = 1.25
"""The most that the ratio to N (ln N + c) may vary from size to size."""
WITHIN = 0.01
"""Table 2 is a number of messages, the same up to what is drawn."""
ASSUMED = (
    "the paper gives neither PMcast's equations nor its parameters; assumed here are two levels, two "
    "delegates and a fanout of five"
)


def simulated(aggregates: Aggregates, **wanted: object) -> list[Aggregate]:
    """Simulated rows with uniform tables and the parameters of section 6.1.1, of any sizes."""
    shared = {name: SIMULATED[name] for name in ("c", "a", "z", "loss", "g")}
    return aggregates.select(**{"tier": "simulate", "mode": "uniform", **shared, **wanted})


def by_community(rows: list[Aggregate]) -> dict[int, Aggregate]:
    return {row.community: row for row in rows}


def _sizes(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes))


# Crashes and weakly consistent views.


@claim(
    "degradation",
    "Reception is degraded by only 5 % against gossip broadcast despite the crash of 30 %.",
    "section 1.4",
    "5 points",
)
def degradation_at_thirty_percent(aggregates: Aggregates) -> Verdict:
    """Reception of CAMCAST against gossip broadcast with 30 % crashed, in each community and together."""
    shared = {**STILLBORN, "metric": "reception", "failed": 0.3}
    ours = by_community(simulated(aggregates, protocol="camcast", **shared))
    other = by_community(simulated(aggregates, protocol="broadcast", **shared))
    if set(ours) != set(other) or len(ours) < len(SIMULATED["sizes"]) + 1:
        return NOT_MEASURED
    parts = {}
    for level in sorted(ours):
        lost = other[level].minus(ours[level])
        rows = (ours[level], other[level])
        label = f"points lost in {ours[level].place}"
        parts[level] = Part(label, lost, -1.0, SHARE_MARGIN, rows, is_share=True)
    listed_parts = tuple(parts.values())
    if parts[WHOLE].outcome is False:
        because = "over all processes, more than five points are lost"
        return Verdict(False, listed_parts, because)
    more = [ours[level].place for level in parts if parts[level].outcome is False]
    if parts[WHOLE].outcome and more:
        because = (
            f"five points or fewer over all processes, of whom most are in {ours[0].place}; more in "
            f"{' and '.join(more)}: an event has to be passed on to get there"
        )
        return Verdict(None, listed_parts, because, IN_PART)
    return all_hold(listed_parts)


@claim(
    "upward",
    "Though almost half of the processes fail, at least one event goes up from each community.",
    "section 6.1.2, figure 14",
    "at least 1",
)
def upward_messages_at_half(aggregates: Aggregates) -> Verdict:
    """The mean number of messages that leave a community upward with almost half crashed."""
    rows = _leaving(aggregates, "messages_upward")
    parts = [at_least(_where(row), row, 1.0) for row in rows]
    true = "on average, which is what figure 14 shows"
    return all_hold(parts, true, "fewer than one on average") if parts else NOT_MEASURED


@claim(
    "upward-always",
    "Then the event is passed on to the upper communities.",
    "section 6.1.2",
    "in every event",
)
def upward_in_every_event(aggregates: Aggregates) -> Verdict:
    """The share of events of which at least one message leaves a community upward."""
    rows = _leaving(aggregates, "climbing")
    parts = [at_least(_where(row), row, ALWAYS) for row in rows]
    false = "the mean is above one, but often nobody is drawn to be a link"
    return all_hold(parts, "", false) if parts else NOT_MEASURED


def _leaving(aggregates: Aggregates, metric: str) -> list[Aggregate]:
    """The rows of the communities below the root at 40 and 50 %; none where one is missing."""
    rows = []
    for failed in ALMOST_HALF:
        shared = {"protocol": "camcast", "metric": metric, "failed": failed, **STILLBORN}
        found = by_community(simulated(aggregates, **shared))
        rows += [found[level] for level in (0, 1) if level in found]
    return rows if len(rows) == 2 * len(ALMOST_HALF) else []


def _where(row: Aggregate) -> str:
    return f"{row.place} at {100 * row.failed:.0f} %"


@claim(
    "weak-views",
    "Reliability is much better with weakly consistent views than with stillborn processes.",
    "section 6.1.2, figures 16 and 18",
    "better",
)
def weak_beats_stillborn(aggregates: Aggregates) -> Verdict:
    """Reliability with 30 % failed, weakly consistent views against stillborn processes."""
    shared = {"protocol": "camcast", "metric": "reliability", "failed": 0.3}
    weak = by_community(simulated(aggregates, **WEAK, **shared))
    still = by_community(simulated(aggregates, **STILLBORN, **shared))
    levels = range(len(SIMULATED["sizes"]))
    if not all(level in weak and level in still for level in levels):
        return NOT_MEASURED
    parts = [exceeds(f"gain in {weak[level].place}", weak[level], still[level]) for level in levels]
    outcomes = [part.outcome for part in parts]
    if False in outcomes and True in outcomes:
        worse = [weak[level].place for level in levels if outcomes[level] is False]
        because = f"not better in {' and '.join(worse)}, where nobody is down and so more are to be reached"
        return Verdict(None, tuple(parts), because, IN_PART)
    return all_hold(parts, "", "not better")


# Messages and memory.


@claim(
    "messages",
    "Messages in a community are of the order of N ln N, at most N (ln N + c).",
    "sections 4.3 and 6.1.2",
    "at most 1 of the bound",
)
def messages_grow_as_n_log_n(aggregates: Aggregates) -> Verdict:
    """Messages inside a community over N (ln N + c): at most 1, and as large at any size.

    That is said of any c.
    """
    shared = {"figure": "scale", "tier": "simulate", "mode": "uniform", "protocol": "camcast"}
    rows = aggregates.select(**shared, metric="messages_inside", community=0)
    if len(rows) < 2:
        return NOT_MEASURED
    shares = [row.interval.scaled(1 / (row.size * (math.log(row.size) + row.c))) for row in rows]
    parts = [
        at_most(f"of the bound at N = {row.size:,}", share, 1.0, row)
        for row, share in zip(rows, shares, strict=True)
    ]
    values = [share.value for share in shares]
    steady = max(values) / min(values)
    parts.append(at_most("largest over smallest", Interval(steady, steady, steady), STEADY, *rows))
    return all_hold(parts, "", "more than N (ln N + c), or not the same at all sizes")


@claim(
    "memory-smaller",
    "A process always keeps less than with gossip multicast or hierarchical gossip broadcast.",
    "section 4.4.2",
    "less than (b) and (c)",
)
def less_memory_than_multicast_and_clusters(aggregates: Aggregates) -> Verdict:
    """Contacts of a process, in every community, against alternatives (b) and (c)."""
    shared = {"figure": "alternatives", "metric": "table_entries", "publish_level": 0}
    rows = [row for row in simulated(aggregates, **shared) if row.community != WHOLE]
    of = {(row.protocol, row.sizes, row.community): row for row in rows}
    parts = []
    others = ("multicast", "hierarchical")
    for row in rows:
        for protocol in others if row.protocol == "camcast" else ():
            other = of.get((protocol, row.sizes, row.community))
            if other is not None:
                where = f"{protocol}, {row.place} of {_sizes(row.sizes)}"
                parts.append(exceeds(f"saved against {where}", other, row))
    if {row.protocol for row in rows} < {"camcast", *others}:
        return NOT_MEASURED
    because = "a process at the bottom keeps one table in multicast, too"
    return all_hold(parts, "", because)


# Against the alternatives.


@claim(
    "below-alternatives",
    "That every process has an event is less likely than with the alternatives.",
    "section 4.5.2",
    "below (a), (b) and (c)",
)
def below_the_alternatives(aggregates: Aggregates) -> Verdict:
    """The probability that everyone everywhere has an event of the bottom topic, in each topology."""
    shared = {"figure": "alternatives", "metric": "reliability", "publish_level": 0}
    rows = simulated(aggregates, community=WHOLE, failed=0.0, **shared)
    of = {(row.sizes, row.protocol): row for row in rows}
    topologies = list(dict.fromkeys(row.sizes for row in rows))
    others = ("broadcast", "multicast", "hierarchical")
    if not topologies or not all((s, p) in of for s in topologies for p in ("camcast", *others)):
        return NOT_MEASURED
    parts = [
        exceeds(f"{other} over CAMCAST, {_sizes(s)}", of[s, other], of[s, "camcast"])
        for s in topologies
        for other in others
    ]
    return all_hold(parts, "", "not below")


@claim(
    "worst-at-root",
    "Reliability is least for the processes interested in the root topic.",
    "section 4.5.2",
    "least in the root",
)
def worst_at_the_root(aggregates: Aggregates) -> Verdict:
    """CAMCAST's reliability in the root community against that in those below it."""
    shared = {"figure": "alternatives", "metric": "reliability", "publish_level": 0}
    rows = simulated(aggregates, protocol="camcast", failed=0.0, **shared)
    by_topology: dict[tuple[int, ...], dict[int, Aggregate]] = {}
    for row in rows:
        by_topology.setdefault(row.sizes, {})[row.community] = row
    if not by_topology:
        return NOT_MEASURED
    parts = [
        exceeds(f"{found[level].place} over root, {_sizes(s)}", found[level], found[len(s) - 1])
        for s, found in by_topology.items()
        for level in range(len(s) - 1)
    ]
    return all_hold(parts, "", "the root is not below")


# Tables 1 and 2.


def _of_table(aggregates: Aggregates, figure: str, metric: str, protocol: str) -> Rows | None:
    """Simulated rows by topology; None where one of the paper's is missing."""
    rows = simulated(aggregates, figure=figure, metric=metric, protocol=protocol, community=WHOLE)
    found = {row.sizes: row for row in rows}
    return found if all(sizes in found for sizes in TOPOLOGIES) else None


@claim(
    "table-1",
    "Mean rounds to all communities: (1000, 100, 10), three times 100, five times 100.",
    "table 1, row 1",
    "8.91 / 8.83 / 13.08",
)
def rounds_of_camcast(aggregates: Aggregates) -> Verdict:
    """Table 1, row 1, by simulation, as it was by the paper."""
    printed = {row.sizes: row.camcast for row in TABLE_1}
    verdict = _rounds(aggregates, "camcast", printed)
    complete = _of_table(aggregates, "table-1", "complete_rounds", "camcast")
    if verdict.holds or complete is None:
        return verdict
    taken = " / ".join(f"{complete[sizes].value:.2f}" for sizes in TOPOLOGIES)
    because = f"{verdict.because}. Events that reach everyone take {taken}"
    return Verdict(verdict.holds, verdict.parts, because, verdict.word)


@claim(
    "table-1-broadcast",
    "Mean rounds of gossip broadcast in the same three topologies.",
    "table 1, row 2",
    "4.63 / 4.39 / 4.31",
)
def rounds_of_broadcast(aggregates: Aggregates) -> Verdict:
    """Table 1, row 2, by simulation, where the paper has computed it."""
    verdict = _rounds(aggregates, "broadcast", {row.sizes: row.broadcast for row in TABLE_1})
    if verdict.holds is not False:
        return verdict
    computed = "the paper computed its values by an equation whose constant it does not give"
    return Verdict(False, verdict.parts, f"{verdict.because}; {computed}")


def _rounds(
    aggregates: Aggregates, protocol: str, printed: dict[tuple[int, ...], float]
) -> Verdict:
    """Rounds until the event is everywhere, within 10 % of the paper's.

    The paper does not say when it stops to count: at the last reception, or one round later, in which the
    last receivers forward in vain.
    """
    found = _of_table(aggregates, "table-1", "rounds", protocol)
    if found is None:
        return NOT_MEASURED
    parts = [equals(_sizes(s), found[s].interval, printed[s], found[s]) for s in TOPOLOGIES]
    verdict = all_hold(parts, "", "not within 10 % of the paper's")
    if verdict.holds:
        return verdict
    later = []
    for sizes in TOPOLOGIES:
        own = found[sizes].interval
        shifted = Interval(own.low + 1, own.value + 1, own.high + 1)
        later.append(equals(_sizes(sizes), shifted, printed[sizes], found[sizes]))
    # Each topology as it is, or with the round in which nobody is left to reach.
    either = [one.outcome or other.outcome for one, other in zip(parts, later, strict=True)]
    if not all(either):
        return verdict
    taken = " / ".join(f"{part.interval.value:.2f}" for part in later)
    because = f"how a round is counted: with the round after the last reception it is {taken}"
    return Verdict(None, tuple(parts), because, EXPLAINED)


@claim(
    "table-1-order",
    "Levels cost rounds: more than gossip broadcast, and more with five levels than with three.",
    "table 1",
    "8.91 / 8.83 / 13.08 against 4.63 / 4.39 / 4.31",
)
def levels_cost_rounds(aggregates: Aggregates) -> Verdict:
    """Table 1's order: CAMCAST takes more rounds than gossip broadcast, and more with more levels."""
    ours = _of_table(aggregates, "table-1", "rounds", "camcast")
    other = _of_table(aggregates, "table-1", "rounds", "broadcast")
    if ours is None or other is None:
        return NOT_MEASURED
    three, five = TOPOLOGIES[1:]
    parts = [exceeds(f"over broadcast, {_sizes(s)}", ours[s], other[s]) for s in TOPOLOGIES]
    parts.append(exceeds("five levels over three", ours[five], ours[three]))
    return all_hold(parts, "", "not in this order")


@claim(
    "table-2",
    "Parasite events of gossip broadcast for an event of the root topic, within 1 %.",
    "table 2, row 2",
    "11216 / 1699 / 3739",
)
def parasites_of_broadcast(aggregates: Aggregates) -> Verdict:
    """Table 2, row 2: an event of the root topic, all communities together."""
    found = _of_table(aggregates, "table-2", "parasites", "broadcast")
    if found is None:
        return NOT_MEASURED
    parts = []
    for row in TABLE_2:
        own, value = found[row.sizes], row.broadcast
        low, high = value * (1 - WITHIN), value * (1 + WITHIN)
        parts.append(Part(_sizes(row.sizes), own.interval, low, high, (own,)))
    return all_hold(parts, "", "more than 1 % from the paper's")


@claim(
    "table-2-order",
    "CAMCAST causes no parasite event, PMcast fewer than gossip broadcast.",
    "table 2",
    "0, then PMcast, then broadcast",
)
def fewest_parasites(aggregates: Aggregates) -> Verdict:
    """Table 2's order: none of CAMCAST, some of PMcast, most of gossip broadcast."""
    ours = _of_table(aggregates, "table-2", "parasites", "camcast")
    most = _of_table(aggregates, "table-2", "parasites", "broadcast")
    some = _pmcast(aggregates, "parasites", from_root=True)
    if ours is None or most is None or some is None:
        return NOT_MEASURED
    parts = [at_most(f"CAMCAST's, {_sizes(s)}", ours[s].interval, 0.0, ours[s]) for s in TOPOLOGIES]
    parts += [exceeds(f"PMcast over CAMCAST, {_sizes(s)}", some[s], ours[s]) for s in TOPOLOGIES]
    parts += [exceeds(f"broadcast over PMcast, {_sizes(s)}", most[s], some[s]) for s in TOPOLOGIES]
    return all_hold(parts, ASSUMED, "not in this order")


@claim(
    "table-1-pmcast",
    "Mean rounds of PMcast in the same three topologies.",
    "table 1, row 3",
    "6.61 / 5.44 / 5.89",
)
def rounds_of_pmcast(aggregates: Aggregates) -> Verdict:
    """Table 1, row 3, by formula, as it was by the paper."""
    printed = {row.sizes: row.pmcast for row in TABLE_1}
    found = _pmcast(aggregates, "rounds", from_root=False)
    if found is None:
        return NOT_MEASURED
    parts = [equals(_sizes(s), found[s].interval, printed[s], found[s]) for s in TOPOLOGIES]
    if all(part.outcome for part in parts):
        # That they agree with what they were chosen by proves nothing.
        because = f"{ASSUMED}, which were chosen because these rounds come near the paper's"
        return Verdict(None, tuple(parts), because, FITTED)
    return Verdict(None, tuple(parts), ASSUMED, NOT_COMPARABLE)


@claim(
    "table-2-pmcast",
    "Parasite events of PMcast for an event of the root topic.",
    "table 2, row 3",
    "453 / 369 / 615",
)
def parasites_of_pmcast(aggregates: Aggregates) -> Verdict:
    """Table 2, row 3, by formula; agreement says that the assumptions fit, a difference says nothing."""
    printed = {row.sizes: row.pmcast for row in TABLE_2}
    found = _pmcast(aggregates, "parasites", from_root=True)
    if found is None:
        return NOT_MEASURED
    parts = [equals(_sizes(s), found[s].interval, printed[s], found[s]) for s in TOPOLOGIES]
    because = f"{ASSUMED}; counted here are processes that handle the event for others"
    if all(part.outcome for part in parts):
        return Verdict(None, tuple(parts), because, FITTED)
    return Verdict(None, tuple(parts), f"cannot be decided: {because}")


def _pmcast(aggregates: Aggregates, metric: str, from_root: bool) -> Rows | None:
    shared = {name: SIMULATED[name] for name in ("c", "loss")}
    rows = aggregates.select(
        tier="model", protocol="pmcast", metric=metric, community=WHOLE, failed=0.0, **shared
    )
    found = {
        row.sizes: row
        for row in rows
        if row.publish_level == (len(row.sizes) - 1 if from_root else 0)
    }
    return found if all(sizes in found for sizes in TOPOLOGIES) else None
