"""Files of tests in memory: stores and logs sync thousands of times.

What a power cut loses is tested on virtual disks, so no test has to wait for a real one."""

from __future__ import annotations

import os
import shutil
import tempfile

MEMORY = "/dev/shm"
ROOM = 4 << 30
"""Bytes that must be free there."""


def keep_files_in_memory() -> None:
    """Have temporary files made in memory, unless the environment says where they go."""
    if (
        "TMPDIR" not in os.environ
        and os.path.isdir(MEMORY)
        and shutil.disk_usage(MEMORY).free > ROOM
    ):
        os.environ["TMPDIR"] = MEMORY
        tempfile.tempdir = None
