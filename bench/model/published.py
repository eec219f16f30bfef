"""The numbers printed in the paper's tables, to set ours beside (section 6.1.2).

PMcast appears there by its results alone: the paper gives neither its formulas nor its parameters (see
`pmcast`).
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class PublishedRow:
    """One topology and what the paper prints for it."""

    sizes: tuple[int, ...]
    """N_t of each community, from the lowest topic to the root."""
    camcast: float
    broadcast: float
    pmcast: float


TABLE_1 = (
    PublishedRow((1000, 100, 10), camcast=8.91, broadcast=4.63, pmcast=6.61),
    PublishedRow((100,) * 3, camcast=8.83, broadcast=4.39, pmcast=5.44),
    PublishedRow((100,) * 5, camcast=13.08, broadcast=4.31, pmcast=5.89),
)
"""Mean rounds to disseminate an event in all communities; CAMCAST's simulated, the others computed."""

TABLE_2 = (
    PublishedRow((1000, 100, 10), camcast=0, broadcast=11216, pmcast=453),
    PublishedRow((100,) * 3, camcast=0, broadcast=1699, pmcast=369),
    PublishedRow((100,) * 5, camcast=0, broadcast=3739, pmcast=615),
)
"""Parasite events of one event of the root topic; PMcast's computed, the others simulated."""
