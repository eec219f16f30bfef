"""A test of an override runs twice: our class must hold, and the stock class must fail it."""

from __future__ import annotations

from contextlib import nullcontext
from typing import Any

import pytest


def on_both(ours: Any, stock: Any, fails_with: type[Exception] = AssertionError) -> Any:
    """Parametrise over `subject` and the context `verdict` in which the test's body runs."""
    return pytest.mark.parametrize(
        ("subject", "verdict"),
        [
            pytest.param(ours, nullcontext(), id="ours"),
            pytest.param(stock, pytest.raises(fails_with), id="stock_fails"),
        ],
    )
