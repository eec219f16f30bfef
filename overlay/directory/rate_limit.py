"""What keeps floods out: a rate for each address."""

from __future__ import annotations

from overlay.contact import Address


class RateLimit:
    """So many requests a second from one address, after a burst; remembers a bounded number of addresses.

    An address that is forgotten starts anew with a full burst: a flooder cannot lock others out.
    """

    MAX_ADDRESSES = 4_096

    def __init__(self, rate: float, burst: int) -> None:
        self._rate = rate
        self._burst = float(burst)
        self._budgets: dict[Address, tuple[float, float]] = {}

    def allows(self, address: Address, now: float) -> bool:
        left, since = self._budgets.pop(address, (self._burst, now))
        left = min(self._burst, left + self._rate * (now - since))
        allowed = left >= 1
        self._budgets[address] = (left - 1 if allowed else left, now)
        if len(self._budgets) > self.MAX_ADDRESSES:
            del self._budgets[next(iter(self._budgets))]
        return allowed
