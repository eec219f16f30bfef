"""Machine code for the kernels, kept between runs.

numba looks for a change only in the file of the function that it compiled, not in those it calls. So
the code is kept under a digest of the whole folder: an edit anywhere in it compiles anew, and nothing
stale is ever run.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from importlib import resources
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., object])


def compiled(function: Function) -> Function:
    """Compile `function` on its first call, or load what an earlier process compiled.

    Where nothing can be kept (a read-only place), it compiles every time.
    """
    function.__qualname__ += f"_{_DIGEST}"  # numba names its files after it
    try:
        return _jit(function, cache=True)
    except RuntimeError:
        return _jit(function, cache=False)


def _jit(function: Function, cache: bool) -> Function:
    jit: Any = numba.njit(cache=cache, nogil=True, error_model="numpy")
    return cast(Function, jit(function))


def _digest() -> str:
    """A digest of all files of this package, be it a folder or in an archive."""
    digest = hashlib.sha256()
    files = resources.files("bench.simulate").iterdir()
    for file in sorted(files, key=lambda file: file.name):
        if file.name.endswith(".py"):
            digest.update(file.read_bytes())
    return digest.hexdigest()[:12]


_DIGEST = _digest()
