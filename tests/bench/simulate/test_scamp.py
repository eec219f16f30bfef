"""SCAMP's views: their sizes as a distribution, which a wrong rule gets wrong even with a right mean."""

from __future__ import annotations

import math

import numpy as np
import pytest

from bench.simulate.randomness import VIEWS
from bench.simulate.runs import CommunityRun
from bench.simulate.tables import TopicTables, scamp_views
from tests.bench.simulate.asked import asked


def sizes(processes: int, copies: int, seed: int = 5) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    starts, _ = scamp_views(processes, copies, np.uint64(seed))
    return np.diff(starts)


@pytest.mark.parametrize(
    ("copies", "low", "high"), [(0, 8.0, 10.5), (1, 16.0, 20.0), (4, 36.0, 42.0)]
)
def test_views_come_out_at_c_plus_one_times_ln_n(copies: int, low: float, high: float) -> None:
    # ln 10^4 = 9.2; duplicates keep large c below 5 x 9.2
    assert low < sizes(10_000, copies).mean() < high


def test_view_sizes_spread_as_they_should() -> None:
    # Keeping with a fixed probability of 0.4 has the same mean of 38 and a spread of 29.
    assert 7 < sizes(10_000, 4).std() < 11


def test_views_name_others_once() -> None:
    starts, views = scamp_views(500, 1, np.uint64(3))
    for process in range(500):
        view = views[starts[process] : starts[process + 1]].tolist()
        assert view, f"process {process} knows nobody"
        assert process not in view
        assert len(view) == len(set(view))


@pytest.mark.parametrize("processes", [1, 2, 3])
def test_tiny_groups_know_each_other(processes: int) -> None:
    assert sizes(processes, 0).tolist() == [min(1, processes - 1)] * processes or processes == 3


def test_the_same_key_gives_the_same_views() -> None:
    one, other = scamp_views(300, 1, np.uint64(9)), scamp_views(300, 1, np.uint64(9))
    assert (one[0] == other[0]).all()
    assert (one[1] == other[1]).all()


def coverage(copies: int | None, fanout: int, failed: float = 0.0) -> float:
    """The share of the live that is reached, over SCAMP's views or uniform tables; all send to `fanout`."""
    c = fanout - math.log(10_000) + 0.5
    experiment = asked(sizes=(10_000,), c=c, loss=0.0, failed=failed)
    shares = []
    for seed in range(3):
        run = CommunityRun(experiment, experiment.sizes, 0, seed)
        if copies is not None:
            starts, views = scamp_views(10_000, copies, run.keys[VIEWS])
            room = np.empty(int(np.diff(starts).max()), np.uint32)
            run.tables = TopicTables(starts, views, room, np.full(10_000, fanout))
        run.publish()
        while run.begin_round():
            run.gossip()
        shares.append(sum(run.infections) / run.alive)
    return float(np.mean(shares))


def test_scamp_covers_less_than_a_uniform_graph_and_as_much_as_known() -> None:
    # Known for 10^4 processes at fanout 4: .962 over SCAMP's views, .980 over uniform ones.
    assert coverage(4, 4) == pytest.approx(0.962, abs=0.01)
    assert coverage(None, 4) == pytest.approx(0.980, abs=0.004)


@pytest.mark.sweep
def test_coverage_over_stale_views_falls_as_known() -> None:
    for failed, scamp, uniform in ((0.1, 0.948, 0.970), (0.3, 0.886, 0.925), (0.5, 0.713, 0.797)):
        assert coverage(4, 4, failed) == pytest.approx(scamp, abs=0.03)
        assert coverage(None, 4, failed) == pytest.approx(uniform, abs=0.01)
