"""What the paper's own equations give for a row's setting, to be drawn beside what was measured."""

from __future__ import annotations

from bench.aggregate import WHOLE
from bench.aggregates import Aggregate
from bench.experiment import CLUSTERS
from bench.model.printed import PrintedSetting

SMALLEST = 3
"""The equation of rounds knows no smaller community."""


def printed_setting(row: Aggregate) -> PrintedSetting:
    """The row's setting in the paper's symbols, from the community of the event's topic up."""
    sizes, failed, pi = row.sizes, row.failed, 1.0
    if row.failure == "repaired":
        # Where tables hold the living alone, these are the whole system.
        sizes, failed = tuple(max(1, n - round(failed * n)) for n in sizes), 0.0
    elif row.failure == "stillborn":
        pi = 1 - failed
    return PrintedSetting(
        sizes=sizes[row.publish_level :],
        c=row.c,
        g=row.g,
        p_sel=row.p_sel,
        a=row.a,
        z=row.z,
        loss=row.loss,
        failed=failed,
        pi=pi,
    )


def printed_value(row: Aggregate) -> float | None:
    """The paper's value of the row's metric in its community; None where it has no equation."""
    setting = printed_setting(row)
    if row.community == WHOLE:
        return printed_whole(row).get(row.metric)
    level = row.community - row.publish_level
    return None if level < 0 else setting.in_community(row.metric, level)


def printed_whole(row: Aggregate) -> dict[str, float]:
    """The paper's values for all communities together, by metric; none for small communities or PMcast."""
    setting, system = printed_setting(row), sum(row.sizes)
    if min(setting.sizes) < SMALLEST or system // CLUSTERS < SMALLEST or row.protocol == "pmcast":
        return {}
    return setting.all_together(row.protocol, system, min(CLUSTERS, system))
