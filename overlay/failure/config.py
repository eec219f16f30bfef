"""The times of the failure detector."""

from __future__ import annotations

from dataclasses import dataclass

from overlay.errors import UsageError


@dataclass(frozen=True)
class FailureConfig:
    """Times are seconds. A crash is noticed within 1.1 x interval + time-out, by default 4.2 s; that of a
    peer which is watched `in_turn`, and to which nothing is sent, within turn x peers + time-out."""

    interval: float = 1.5
    """A watched peer that was silent for so long is asked for a sign of life; any traffic is one. Of two that
    watch each other, the one with the smaller id waits a tenth longer, and so is asked and needs not ask."""

    turn: float = 4.0
    """Of the peers that are watched `in_turn`, one is asked every so many seconds, however many there are:
    the one that has been silent for longest."""

    least_retry: float = 0.1
    """It is asked again every max(least_retry, 1.25 x the shortest usual answer) until it answers."""

    threshold: float = 6.0
    """The suspicion level at which a peer is suspected: minus log10 of the chance that a live one would take
    so long to answer, given how long it took before."""

    least_timeout: float = 2.5
    """No peer is suspected sooner than so long after it was first asked: what a process may stand still."""

    most_timeout: float = 30.0
    """Every peer that has not answered for so long is suspected, however slow it was before."""

    probe_interval: float = 2.0
    """A suspected peer is asked again so often."""

    def __post_init__(self) -> None:
        for name in (
            "interval",
            "turn",
            "least_retry",
            "threshold",
            "least_timeout",
            "probe_interval",
        ):
            if not getattr(self, name) > 0:
                raise UsageError(f"{name}={getattr(self, name)} must be more than 0")
        if self.most_timeout < self.least_timeout:
            raise UsageError(
                f"most_timeout={self.most_timeout} is less than least_timeout={self.least_timeout}"
            )
