"""The paper's sentences with a number in them, each beside what decides it; `claim.py` has the rules."""

from bench.claims import real, simulated
from bench.claims.claim import Claim, Decided, Part, Verdict, decide

__all__ = ["CLAIMS", "Claim", "Decided", "Part", "Verdict", "decide"]

CLAIMS: tuple[Claim, ...] = (
    # In short.
    simulated.degradation_at_thirty_percent,
    real.reliable_with_seven_percent,
    real.no_parasites,
    # The analysis (section 4) and the memberships (5.2).
    simulated.messages_grow_as_n_log_n,
    real.memory_is_two_tables,
    simulated.less_memory_than_multicast_and_clusters,
    real.reliable_as_the_formula,
    simulated.below_the_alternatives,
    simulated.worst_at_the_root,
    real.gossiped_tables_average_ln_n,
    real.structured_tables_are_alike,
    # The simulation (6.1).
    simulated.upward_messages_at_half,
    simulated.upward_in_every_event,
    simulated.weak_beats_stillborn,
    simulated.rounds_of_camcast,
    simulated.rounds_of_broadcast,
    simulated.rounds_of_pmcast,
    simulated.levels_cost_rounds,
    simulated.parasites_of_broadcast,
    simulated.parasites_of_pmcast,
    simulated.fewest_parasites,
    # The implementation (6.2).
    real.every_mode_converges,
    real.structured_converges_first,
    real.reliable_at_a_tenth,
    real.efficiency_falls_with_links,
    real.efficiency_by_mode,
    real.latency_falls_with_links,
    real.upward_messages_are_proportional,
)
"""The claims, in the order of the paper."""
