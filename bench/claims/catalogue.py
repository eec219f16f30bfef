"""The claims, in the order of the paper."""

from __future__ import annotations

from bench.claims import implemented, simulated
from bench.claims.claim import Claim

CLAIMS: tuple[Claim, ...] = (
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
        implemented.reliable_with_seven_percent,
    ),
    Claim(
        "no-parasites",
        "No process ever receives an event of a community it is not part of.",
        "sections 1.3 and 6.1.2",
        "0",
        simulated.no_parasites,
    ),
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
        simulated.memory_is_two_tables,
    ),
    Claim(
        "upward",
        "Though almost half of the processes fail, at least one event goes up from each community.",
        "section 6.1.2, figure 14",
        "at least 1",
        simulated.upward_messages_at_half,
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
        "table 1",
        "8.91 / 8.83 / 13.08",
        simulated.rounds_of_table_1,
    ),
    Claim(
        "table-2",
        "Parasite events of gossip broadcast for an event of the root topic, within 1 %.",
        "table 2",
        "11216 / 1699 / 3739",
        simulated.parasites_of_table_2,
    ),
    Claim(
        "reliability",
        "An event reaches everyone in each community with the probability of the formula, or more.",
        "section 4.5",
        "the formula",
        implemented.reliable_as_the_formula,
    ),
    Claim(
        "converge",
        "All three modes converge to a reception probability of 100 %.",
        "section 6.2.2, figures 19 and 20",
        "100 %",
        implemented.every_mode_converges,
    ),
    Claim(
        "structured-first",
        "The structured mode converges first.",
        "section 6.2.2",
        "structured ahead",
        implemented.structured_converges_first,
    ),
    Claim(
        "latency",
        "Rounds fall as more processes forward upward.",
        "section 6.2.2, figures 25 and 26",
        "fewer rounds",
        implemented.latency_falls_with_links,
    ),
)
