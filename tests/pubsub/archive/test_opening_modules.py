"""Each module of durable delivery can be the first that a program imports."""

from __future__ import annotations

import subprocess
import sys

import pytest


@pytest.mark.parametrize("module", ["client", "durability", "hand_over", "reader", "rules"])
def test_a_module_can_be_imported_first(module: str) -> None:
    command = [sys.executable, "-c", f"import pubsub.archive.{module}"]
    subprocess.run(command, check=True, timeout=60)
