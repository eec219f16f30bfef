"""What the matrix of channel states costs against the number of participants."""

from __future__ import annotations

import time
from dataclasses import dataclass

from bench.topic_broadcast.company import NOTICE_SECONDS, Company

IDLE_SECONDS = 10.0
MOST_SECONDS = 60.0


@dataclass(frozen=True)
class MatrixCost:
    """Of one event, until the view is stable again, for each participant."""

    participants: int
    event: str
    messages: float
    kilobytes: float
    """Sent, without the headers of channels and datagrams."""
    milliseconds: float
    """Of work on this machine."""
    seconds: float
    """Of virtual time until all shared a stable view; that all notice a crash takes 2 of them."""


def measure_matrix(participants: int) -> list[MatrixCost]:
    """A second without any event, one that joins, one that crashes."""
    company = Company(participants)
    company.run_until_stable(MOST_SECONDS)
    company.stage.run_for(5.0)
    costs = []
    for event in ("a second of rest", "one joins", "one crashes"):
        company.messages = company.bytes = 0
        worked = time.process_time()
        share = 1.0
        if event == "a second of rest":
            company.stage.run_for(IDLE_SECONDS)
            seconds, share = 0.0, IDLE_SECONDS
        else:
            company.join() if event == "one joins" else company.crash()
            until_noticed = 0.2 if event == "one joins" else max(NOTICE_SECONDS)
            company.stage.run_for(until_noticed)
            seconds = until_noticed + company.run_until_stable(MOST_SECONDS)
        each = share * participants
        costs.append(
            MatrixCost(
                participants,
                event,
                company.messages / each,
                company.bytes / 1000 / each,
                (time.process_time() - worked) * 1000 / each,
                seconds,
            )
        )
        company.stage.run_for(5.0)
    return costs
