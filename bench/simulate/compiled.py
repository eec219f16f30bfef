"""Machine code for the kernels, kept between runs.

numba looks for a change only in the file of the function that it compiled, not in those it calls. So
the code is kept under a digest of the whole folder: an edit anywhere in it compiles anew, and nothing
stale is ever run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])

FOLDER = Path(__file__).parent


def compiled(function: Function) -> Function:
    """Compile `function` on its first call, or load what an earlier process compiled.

    Where nothing can be kept (a read-only place, an archive on some versions), it compiles every time.
    """
    with _cache_directory():
        try:
            return cast(Function, numba.njit(cache=True, nogil=True, error_model="numpy")(function))
        except RuntimeError:
            return cast(Function, numba.njit(nogil=True, error_model="numpy")(function))


def _digest() -> str:
    digest = hashlib.sha256()
    for path in sorted(FOLDER.glob("*.py")):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _cache_directory() -> Iterator[None]:
    config: Any = numba.config
    chosen = config.CACHE_DIR
    if not FOLDER.is_dir():
        yield  # in an archive: numba has a place for what comes out of one
        return
    config.CACHE_DIR = str(Path(chosen or FOLDER / "__pycache__") / f"kernels-{_DIGEST}")
    try:
        yield
    finally:
        config.CACHE_DIR = chosen


_DIGEST = _digest() if FOLDER.is_dir() else ""
