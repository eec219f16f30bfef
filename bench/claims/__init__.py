"""The paper's sentences with a number in them, each with what decides it; `claim.py` has the rules."""

from functools import partial
from itertools import pairwise

from bench.claims import real, simulated
from bench.claims.claim import Claim, Decided, Part, Verdict, decide
from bench.suites.built_in import MODES

__all__ = ["CLAIMS", "Claim", "Decided", "Part", "Verdict", "decide"]

CLAIMS = (
    # In short.
    Claim(
        "degradation",
        "Reception is degraded by only 5 % against gossip broadcast despite the crash of 30 %.",
        "section 1.4",
        "5 points",
        simulated.degradation_at_thirty_percent,
    ),
    Claim(
        "seven-percent",
        "100 % reliability in three communities with 7 % of the processes forwarding upward.",
        "sections 1.4 and 7",
        "100 %",
        real.reliable_with_seven_percent,
    ),
    Claim(
        "no-parasites",
        "No process ever receives an event of a community it is not part of.",
        "sections 1.3 and 6.1.2",
        "0",
        real.no_parasites,
    ),
    # The analysis (section 4) and the memberships (5.2).
    Claim(
        "messages",
        "Messages in a community are of the order of N ln N, at most N (ln N + c).",
        "sections 4.3 and 6.1.2",
        "at most 1 of the bound",
        simulated.messages_grow_as_n_log_n,
    ),
    Claim(
        "memory",
        "A process keeps at most ln N + c + z contacts, however many subtopics there are.",
        "section 4.4",
        "ln N + c + z",
        real.memory_is_two_tables,
    ),
    Claim(
        "memory-smaller",
        "A process always keeps less than with gossip multicast or hierarchical gossip broadcast.",
        "section 4.4.2",
        "less than (b) and (c)",
        simulated.less_memory_than_multicast_and_clusters,
    ),
    Claim(
        "reliability",
        "An event reaches everyone in each community with the probability of the formula (every draw made).",
        "section 4.5",
        "the formula, within 5 points",
        real.reliable_as_the_formula,
    ),
    Claim(
        "below-alternatives",
        "That every process has an event is less likely than with the alternatives.",
        "section 4.5.2",
        "below (a), (b) and (c)",
        simulated.below_the_alternatives,
    ),
    Claim(
        "worst-at-root",
        "Reliability is least for the processes interested in the root topic.",
        "section 4.5.2",
        "least in the root",
        simulated.worst_at_the_root,
    ),
    Claim(
        "gossiped-tables",
        "Topic tables of the gossiped membership average ln N entries.",
        "section 5.2.1",
        "ln N (with c = 0)",
        real.gossiped_tables_average_ln_n,
    ),
    Claim(
        "structured-tables",
        "Structured tables all have the same size, ln N + c (and z above).",
        "section 5.2.3",
        "ln N + c",
        real.structured_tables_are_alike,
    ),
    # The simulation (6.1).
    Claim(
        "upward",
        "Though almost half of the processes fail, at least one event goes up from each community.",
        "section 6.1.2, figure 14",
        "at least 1",
        partial(
            simulated.leaves_communities,
            metric="messages_upward",
            least=1.0,
            true="on average, which is what figure 14 shows",
            false="fewer than one on average",
        ),
    ),
    Claim(
        "upward-always",
        "Then the event is passed on to the upper communities.",
        "section 6.1.2",
        "in every event",
        partial(
            simulated.leaves_communities,
            metric="climbing",
            least=0.99,  # what a share that is always 1 is held against
            true="",
            false="the mean is above one, but often nobody is drawn to be a link",
        ),
    ),
    Claim(
        "weak-views",
        "Reliability is much better with weakly consistent views than with stillborn processes.",
        "section 6.1.2, figures 16 and 18",
        "better",
        simulated.weak_beats_stillborn,
    ),
    Claim(
        "table-1",
        "Mean rounds to all communities: (1000, 100, 10), three times 100, five times 100.",
        "table 1, row 1",
        "8.91 / 8.83 / 13.08",
        simulated.rounds_of_camcast,
    ),
    Claim(
        "table-1-broadcast",
        "Mean rounds of gossip broadcast in the same three topologies.",
        "table 1, row 2",
        "4.63 / 4.39 / 4.31",
        simulated.rounds_of_broadcast,
    ),
    Claim(
        "table-1-pmcast",
        "Mean rounds of PMcast in the same three topologies.",
        "table 1, row 3",
        "6.61 / 5.44 / 5.89",
        simulated.rounds_of_pmcast,
    ),
    Claim(
        "table-1-order",
        "Levels cost rounds: more than gossip broadcast, and more with five levels than with three.",
        "table 1",
        "8.91 / 8.83 / 13.08 against 4.63 / 4.39 / 4.31",
        simulated.levels_cost_rounds,
    ),
    Claim(
        "table-2",
        "Parasite events of gossip broadcast for an event of the root topic, within 1 %.",
        "table 2, row 2",
        "11216 / 1699 / 3739",
        simulated.parasites_of_broadcast,
    ),
    Claim(
        "table-2-pmcast",
        "Parasite events of PMcast for an event of the root topic.",
        "table 2, row 3",
        "453 / 369 / 615",
        simulated.parasites_of_pmcast,
    ),
    Claim(
        "table-2-order",
        "CAMCAST causes no parasite event, PMcast fewer than gossip broadcast.",
        "table 2",
        "0, then PMcast, then broadcast",
        simulated.fewest_parasites,
    ),
    # The implementation (6.2).
    Claim(
        "converge",
        "All three modes converge to a reception probability of 100 %.",
        "section 6.2.2, figures 19 and 20",
        "100 %",
        partial(
            real.everywhere,
            metric="reception",
            p_sel=1.0,
            bound=real.EVERYONE,
            short="stays below 95 %",
        ),
    ),
    Claim(
        "structured-first",
        "The structured mode converges first.",
        "section 6.2.2, figures 19 and 20",
        "structured ahead",
        partial(  # who rises earlier has more
            real.in_order,
            metric="reception",
            pairs=[(mode, "structured") for mode in MODES if mode != "structured"],
        ),
    ),
    Claim(
        "tenth",
        "Reliability is very high in all modes, even with p_sel = 0.1.",
        "section 6.2.2, figures 21 and 22",
        "very high",
        partial(
            real.everywhere,
            metric="reliability",
            p_sel=0.1,
            bound=real.VERY_HIGH,
            short="below 90 %, what very high is taken for",
        ),
    ),
    Claim(
        "efficiency-falls",
        "More links make more duplicates: efficiency falls.",
        "section 6.2.2, figures 23 and 24",
        "falls with p_sel",
        partial(real.falls_with_links, metric="efficiency"),
    ),
    Claim(
        "efficiency-order",
        "The more structured the mode, the more efficient.",
        "section 6.2.2, figures 23 and 24",
        "unstructured, semi-structured, structured",
        partial(real.in_order, metric="efficiency", pairs=list(pairwise(MODES))),
    ),
    Claim(
        "latency",
        "Rounds fall as more processes forward upward.",
        "section 6.2.2, figures 25 and 26",
        "fewer rounds",
        partial(real.falls_with_links, metric="rounds"),
    ),
    Claim(
        "upward-proportional",
        "Upward messages grow in proportion to p_sel (1 is in proportion to p_sel = 1).",
        "section 6.2.2, figures 27 and 28",
        "in proportion",
        real.upward_messages_are_proportional,
    ),
)
"""The claims, in the order of the paper."""
