"""Which peers did not answer, and which answered nonsense.

A peer that failed a request is avoided: not asked by lookups and not named to others. Anything heard from
it clears it. After repeated failures it is dead and leaves the routing table (`protocol`); it stays avoided
for a while, so that those who still name it do not cost every lookup a time-out. A peer that sent a
malformed reply is distrusted: it leaves at once, and hearing from it does not help.
"""

from __future__ import annotations

from collections import OrderedDict

from overlay.contact import Contact

REMEMBERED = 4096
"""Contacts; the one marked longest ago is forgotten first."""

LONGEST_DISTRUST = 3600.0
"""Seconds: distrust doubles with every malformed reply, up to this."""


class _Mark:
    __slots__ = ("failures", "offences", "until")

    def __init__(self) -> None:
        self.failures = 0
        self.offences = 0
        self.until = 0.0


class FailureMemory:
    """The bad marks of one node's peers; a contact at another address is another peer."""

    def __init__(self, dead_for: float, distrusted_for: float) -> None:
        self._dead_for = dead_for
        self._distrusted_for = distrusted_for
        self._marks: OrderedDict[Contact, _Mark] = OrderedDict()

    def __len__(self) -> int:
        return len(self._marks)

    def failed(self, contact: Contact, now: float) -> int:
        """A request to `contact` got no answer; returns how many in a row did not."""
        mark = self._mark(contact)
        mark.failures += 1
        mark.until = max(mark.until, now + self._dead_for)
        return mark.failures

    def offended(self, contact: Contact, now: float) -> None:
        """`contact` answered with something malformed."""
        mark = self._mark(contact)
        distrust = min(self._distrusted_for * 2**mark.offences, LONGEST_DISTRUST)
        mark.offences = min(mark.offences + 1, 32)
        mark.until = max(mark.until, now + distrust)

    def heard(self, contact: Contact) -> None:
        """`contact` gave a sign of life: failures are forgiven, offences are not."""
        if self._marks:
            mark = self._marks.get(contact)
            if mark is not None:
                mark.failures = 0
                if not mark.offences:
                    del self._marks[contact]

    def avoids(self, contact: Contact, now: float) -> bool:
        """Whether `contact` is neither to be asked nor to be named at this time."""
        mark = self._marks.get(contact)
        return mark is not None and now < mark.until

    def _mark(self, contact: Contact) -> _Mark:
        mark = self._marks.pop(contact, None) or _Mark()
        if len(self._marks) >= REMEMBERED:
            self._marks.popitem(last=False)
        self._marks[contact] = mark
        return mark
