"""The three packages as one zip, for executors that do not have them installed."""

from __future__ import annotations

import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
PACKAGES = ("overlay", "pubsub", "bench")


def code_archive(workdir: Path) -> Path:
    """Write `camcast-code.zip` below `workdir`; the same sources give the same bytes."""
    path = workdir / "camcast-code.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for package in PACKAGES:
            for source in sorted((ROOT / package).rglob("*")):
                if source.is_file() and "__pycache__" not in source.parts:
                    entry = zipfile.ZipInfo(str(source.relative_to(ROOT)))
                    archive.writestr(entry, source.read_bytes(), zipfile.ZIP_DEFLATED)
    return path
