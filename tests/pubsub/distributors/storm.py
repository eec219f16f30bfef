"""A random run: crashes, partitions, false suspicions, comings and goings while messages are published."""

from __future__ import annotations

from dataclasses import replace

from overlay.contact import Contact
from overlay.virtual.stage import StageConfig
from pubsub.distributors.config import ClientConfig, DistributorConfig
from tests.pubsub.distributors.theatre import DistributorActor, Theatre

STEPS = 24
LEAST_UP = 3
PEACE = 30.0
"""Virtual seconds without crashes and partitions before the properties are checked."""

QUIET = 15.0
"""Then without loss too, so that no suspicion is in the air at the end."""


class NeverAgreed(AssertionError):
    """The distributors came to no view of all that are up."""


class Storm:
    """One storm in one theatre; with odd seeds nothing is kept that is not needed, and with every other of
    those all subscribers accept gaps."""

    def __init__(self, seed: int, restarts: bool = False) -> None:
        """`restarts`: distributors also crash and come back at once, under their identity, in the middle of
        whatever goes on."""
        network = StageConfig(latency=(0.005, 0.08), loss=0.03, duplicate=0.03)
        recent = 0 if seed % 2 else 1024 * 1024
        self._some_without_gaps = seed % 4 != 1
        self.theatre = Theatre(
            seed,
            network,
            DistributorConfig(reform_after=None, recent_bytes=recent, no_gap_patience=60.0),
            ClientConfig(suspect_after=1.0, sign_of_life=1.0, connect_within=0.9),
        )
        self.random = self.theatre.random
        self._crashed_at = -100.0
        self._restarts = restarts

    def play(self) -> Theatre:
        """Play it, and leave the stage in peace."""
        theatre = self.theatre
        for _ in range(self.random.randrange(3, 6)):
            theatre.distributor()
        assert theatre.settled(), "the distributors never met"
        for _ in range(self.random.randrange(1, 4)):
            theatre.publisher()
        for number in range(self.random.randrange(3, 8)):
            theatre.subscriber(no_gap=number % 2 == 0 and self._some_without_gaps)
        theatre.run(2.0)
        for _ in range(STEPS):
            self._fault()
            self._publish_for(self.random.uniform(0.5, 2.0))
        theatre.heal()
        if not theatre.settled(60.0):
            raise NeverAgreed
        theatre.run(PEACE)
        theatre.stage.config = replace(theatre.stage.config, loss=0.0)
        theatre.run(QUIET)
        return theatre

    def _publish_for(self, seconds: float) -> None:
        end = self.theatre.stage.now + seconds
        while self.theatre.stage.now < end:
            self._publish()
            self.theatre.run(self.random.uniform(0.02, 0.3))

    def _publish(self) -> None:
        up = [one for one in self.theatre.publishers if self.theatre.is_up(one.contact)]
        if up:
            publisher = self.random.choice(up)
            size = 3000 if self.random.random() < 0.1 else 20
            publisher.core.publish(b"m" * size)

    def _fault(self) -> None:
        if self._restarts and self.random.random() < 0.25 and self._may_crash():
            # Not as a group of its own, which has all that it has when it crashes again.
            self.theatre.restart(self._victim(), may_found=False)
            return
        fault = self.random.choice(
            [
                self._crash_distributor,
                self._crash_distributor,
                self._crash_subscriber,
                self._crash_publisher,
                self._new_distributor,
                self._new_subscriber,
                self._partition,
                self._partition,
                self._heal,
                self._suspect_falsely,
                self._suspect_falsely,
                self._unsubscribe,
            ]
        )
        fault()

    def _crash_distributor(self) -> None:
        """Never a majority at once: the others have time to agree on a view without it."""
        up = self.theatre.up(self.theatre.distributors)
        if len(up) > LEAST_UP and self._may_crash() and self.theatre._is_settled():
            self.theatre.crash(self._victim().contact)

    def _may_crash(self) -> bool:
        return self.theatre.stage.now - self._crashed_at > 12.0

    def _victim(self) -> DistributorActor:
        self._crashed_at = self.theatre.stage.now
        return self.random.choice(self.theatre.up(self.theatre.distributors))

    def _crash_subscriber(self) -> None:
        if self.theatre.subscribers and self.random.random() < 0.5:
            self.theatre.crash(self.random.choice(self.theatre.subscribers).contact)

    def _crash_publisher(self) -> None:
        if self.random.random() < 0.3:
            self.theatre.crash(self.random.choice(self.theatre.publishers).contact)
            self.theatre.publisher()

    def _new_distributor(self) -> None:
        if len(self.theatre.distributors) < 8:
            self.theatre.distributor(may_found=False)

    def _new_subscriber(self) -> None:
        no_gap = self.random.random() < 0.5
        self.theatre.subscriber(no_gap=no_gap and self._some_without_gaps)

    def _partition(self) -> None:
        """Some distributors, with their clients or without, on a side of their own."""
        everyone: list[Contact] = [
            one.contact
            for actors in (
                self.theatre.distributors,
                self.theatre.subscribers,
                self.theatre.publishers,
            )
            for one in actors  # type: ignore[attr-defined]
        ]
        self.theatre.partition([one for one in everyone if self.random.random() < 0.35])

    def _heal(self) -> None:
        self.theatre.heal()

    def _suspect_falsely(self) -> None:
        up = self.theatre.up(self.theatre.distributors)
        who, whom = self.random.choice(up), self.random.choice(up)
        self.theatre.suspect_falsely(who.contact, whom.contact, self.random.uniform(0.5, 8.0))

    def _unsubscribe(self) -> None:
        subscriber = self.random.choice(self.theatre.subscribers)
        if self.theatre.is_up(subscriber.contact) and subscriber.unsubscribed is None:
            self.theatre.unsubscribe(subscriber)
