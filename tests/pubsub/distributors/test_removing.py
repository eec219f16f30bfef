"""Removing a service: what its publisher is told is so at all distributors."""

from __future__ import annotations

import pytest

from tests.pubsub.distributors.theatre import Theatre


@pytest.mark.parametrize("how", ["restart", "crash"])
def test_a_service_is_removed_when_its_publisher_is_told_so(how: str) -> None:
    theatre = Theatre(seed=1)
    for _ in range(3):
        theatre.distributor()
    assert theatre.settled()
    core = theatre.publisher().core
    theatre.run(3.0)
    primary = next(one for one in theatre.distributors if one.contact == core.keeper.primary)
    if how == "restart":  # one that has just come back serves nobody yet
        theatre.restart(primary, services=())
    else:
        theatre.crash(primary.contact)
    told: list[float] = []
    core.remove(lambda: told.append(theatre.stage.now))
    for _ in range(60):
        theatre.run(0.5)
        if told:
            break
    core.stop()
    theatre.run(5.0)
    assert told
    for one in theatre.up(theatre.distributors):
        assert "news" not in one.core.services
