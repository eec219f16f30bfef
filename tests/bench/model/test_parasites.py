"""The paper's table 2 follows from a formula."""

from __future__ import annotations

import pytest

from bench.model.formulas import broadcast_parasites, hierarchical_parasites
from bench.model.printed import TABLE_2, PublishedRow


@pytest.mark.parametrize("row", TABLE_2, ids=lambda row: "-".join(map(str, row.sizes)))
def test_gossip_broadcast_has_the_parasites_of_table_2(row: PublishedRow) -> None:
    found = broadcast_parasites(sum(row.sizes), interested=row.sizes[-1], c=5, success=0.85)
    assert found == pytest.approx(row.broadcast, rel=0.001)


def test_hierarchical_gossip_by_hand() -> None:
    # m = 111: floor(9.7095) = 9; C = 10: floor(7.3026) = 7; 16 x 0.85 x 1100
    assert hierarchical_parasites(10, 111, 10, 5, 5, 0.85) == pytest.approx(14960)


def test_nobody_uninterested_means_no_parasites() -> None:
    assert broadcast_parasites(100, interested=100, c=5, success=0.85) == 0
