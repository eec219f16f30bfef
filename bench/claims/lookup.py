"""The rows that the paper's sentences are about: those with the paper's parameters."""

from __future__ import annotations

from bench.aggregate import WHOLE
from bench.aggregates import Aggregate, Aggregates
from bench.suites.settings import IMPLEMENTED, IMPLEMENTED_SIZES, MODES, SIMULATED

PARAMETERS = ("c", "a", "z", "loss")
LINKS = "figures-19-28"
SUPER_COMMUNITIES = (1, 2)
"""d and a, for which the paper shows figures 19 to 28: what happens in g does not depend on p_sel."""


def simulated(aggregates: Aggregates, **wanted: object) -> list[Aggregate]:
    """Simulated rows with uniform tables and the parameters of section 6.1.1, of any sizes."""
    shared = {name: SIMULATED[name] for name in (*PARAMETERS, "g")}
    return aggregates.select(**{"tier": "simulate", "mode": "uniform", **shared, **wanted})


def by_community(rows: list[Aggregate]) -> dict[int, Aggregate]:
    return {row.community: row for row in rows}


def by_sizes(rows: list[Aggregate]) -> dict[tuple[int, ...], Aggregate]:
    return {row.sizes: row for row in rows}


def real(aggregates: Aggregates, mode: str, metric: str, tier: str = "emulate") -> list[Aggregate]:
    """Real nodes with the parameters of section 6.2.1, and the mode's sizes there or the others'."""
    shared = {name: IMPLEMENTED[name] for name in PARAMETERS}
    rows = aggregates.select(
        figure=LINKS, tier=tier, protocol="camcast", mode=mode, metric=metric, failed=0.0, **shared
    )
    own = [row for row in rows if row.sizes == IMPLEMENTED_SIZES[mode]]
    return own or [row for row in rows if row.sizes in IMPLEMENTED_SIZES.values()]


def at_share(
    aggregates: Aggregates,
    mode: str,
    metric: str,
    p_sel: float,
    community: int = WHOLE,
    tier: str = "emulate",
) -> Aggregate | None:
    """One row of real nodes."""
    rows = real(aggregates, mode, metric, tier)
    return next((r for r in rows if r.p_sel == p_sel and r.community == community), None)


def over_shares(aggregates: Aggregates, metric: str) -> dict[str, list[Aggregate]]:
    """Each mode's rows in the super-communities, of the values of p_sel that all modes have.

    A metric may have no value where no event arrived: such a place is left out in all modes.
    """
    found = {
        mode: {
            (row.community, row.p_sel): row
            for row in real(aggregates, mode, metric)
            if row.community in SUPER_COMMUNITIES
        }
        for mode in MODES
    }
    shared = set.intersection(*(set(rows) for rows in found.values()))
    places = sorted(place for place in shared if place[1] is not None)
    return {mode: [rows[place] for place in places] for mode, rows in found.items()}
