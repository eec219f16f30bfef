"""A source is a publisher and its run; a gap says which events of it are missing, and why."""

from __future__ import annotations

import pytest

from overlay.contact import PeerId
from overlay.errors import UsageError
from pubsub.reliable.runs import (
    RUN_BYTES,
    Gap,
    GapError,
    is_source,
    publisher_of,
    run_of,
    source_of,
)

PUBLISHER, RUN = PeerId(b"p" * 20), b"r" * RUN_BYTES


def test_a_source_is_its_publisher_and_its_run() -> None:
    source = source_of(PUBLISHER, RUN)
    assert is_source(source)
    assert (publisher_of(source), run_of(source)) == (PUBLISHER, RUN)
    assert not is_source(source[:-1])
    with pytest.raises(UsageError):
        source_of(PUBLISHER, RUN[:4])


def test_a_gap_says_what_is_missing_and_why() -> None:
    gap = Gap.of(source_of(PUBLISHER, RUN), 3, 7, "forgotten")
    assert gap == Gap(PUBLISHER, RUN, 3, 7, "forgotten")
    assert gap.count == 5
    assert str(gap) == "3 to 7 of 70707070 are missing (forgotten)"
    assert str(Gap(None, b"", 1, 1, "lost")) == "1 to 1 are missing (lost)"
    error = GapError(gap, "read faster")
    assert error.gap is gap
    assert str(error) == "events 3 to 7 of 70707070 are missing (forgotten): read faster"
