"""Every failure of a test on a virtual network shows the seed and the line that replays it.

`CAMCAST_SEED=7 python -m pytest <test>` gives every virtual network of the run the seed 7.
"""

from __future__ import annotations

import gc
import os
import signal
import zlib
from collections.abc import Generator

import pytest
from hypothesis import HealthCheck, settings

from overlay.virtual import world
from tests.memory import keep_files_in_memory

SEED_VARIABLE = "CAMCAST_SEED"

# A busy machine is slow, and no fault of the code: nothing here is judged by its time.
settings.register_profile("camcast", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("camcast")


def pytest_configure() -> None:
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        # A shell's job in the background ignores the keyboard, and would have its children do so too.
        signal.signal(signal.SIGINT, signal.default_int_handler)
    forced = os.environ.get(SEED_VARIABLE)
    world.force_seed(int(forced) if forced else None)
    keep_files_in_memory()


def pytest_runtest_setup() -> None:
    world.recent_seeds.clear()
    # Thousands of collected tests and their modules are no garbage: looking at them again and again while a
    # test makes objects took a quarter of the suite's processor time.
    gc.freeze()


def pytest_runtest_teardown() -> None:
    gc.unfreeze()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    if report.failed and world.recent_seeds:
        report.sections.append(("virtual network", how_to_replay(item.nodeid)))
    return report


def how_to_replay(test: str) -> str:
    *earlier, seed = world.recent_seeds
    others = f"networks before it had the seeds {earlier}\n" if earlier else ""
    return (
        f"the last network of this test had the seed {seed}\n{others}"
        f"replay: {SEED_VARIABLE}={seed} python -m pytest '{test}'"
    )


@pytest.fixture
def seed(request: pytest.FixtureRequest) -> int:
    """The seed to replay, or one of the test's own that is the same in every run."""
    forced = os.environ.get(SEED_VARIABLE)
    return int(forced) if forced else zlib.crc32(request.node.nodeid.encode())
