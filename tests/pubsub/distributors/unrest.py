"""A random run of the view agreement alone: coordinators are suspected and crash in the middle of it."""

from __future__ import annotations

from overlay.virtual.stage import StageConfig
from pubsub.distributors.config import DistributorConfig
from tests.pubsub.distributors.theatre import Theatre

STEPS = 60


class Unrest:
    """Slow and lossy messages, and somebody suspects somebody all the time.

    With odd seeds there are crashes too, perhaps of the majority of a view that suspicions have made small:
    then it is not promised that there will be another view.
    """

    def __init__(self, seed: int, restarts: bool = False) -> None:
        """`restarts`: distributors crash and come back at once, under their identity."""
        network = StageConfig(latency=(0.01, 0.6), loss=0.15, duplicate=0.05)
        config = DistributorConfig(tick=0.3, reform_after=None)
        self.theatre = Theatre(seed, network, config)
        self.random = self.theatre.random
        self._restarts = restarts

    def play(self) -> Theatre:
        """Play it, and leave the stage in peace; with even seeds until there is one view of all."""
        theatre = self.theatre
        for _ in range(5):
            theatre.distributor(services=())
        assert theatre.settled(60.0), "the distributors never met"
        may_crash = theatre.stage.seed % 2 or self._restarts
        for step in range(STEPS):
            for _ in range(2):
                self._suspect()
            theatre.run(self.random.uniform(0.1, 0.8))
            if may_crash and not self._restarts and step in (20, 40):
                theatre.crash(self.random.choice(theatre.up(theatre.distributors)).contact)
            if self._restarts and self.random.random() < 0.3:
                theatre.restart(self.random.choice(theatre.up(theatre.distributors)), ())
            if step % 15 == 7:
                side = [d.contact for d in theatre.distributors if self.random.random() < 0.4]
                theatre.partition(side)
            if step % 15 == 12:
                theatre.heal()
        theatre.heal()
        settled = theatre.settled(120.0)
        assert settled or may_crash, "the distributors never agreed again"
        return theatre

    def _suspect(self) -> None:
        up = self.theatre.up(self.theatre.distributors)
        who, whom = self.random.choice(up), self.random.choice(up)
        view = who.core.view
        if view and self.random.random() < 0.5:
            seniors = [one for one in up if one.contact.id == view.members[0].id]
            whom = seniors[0] if seniors else whom
        if who is not whom:
            self.theatre.suspect_falsely(who.contact, whom.contact, self.random.uniform(0.3, 2.5))
