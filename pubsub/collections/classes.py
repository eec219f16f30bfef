"""The classes of collections (DACE, figure 5): what each promises.

    class              reaches subscribers     duplicates     order of delivery
    DAWeakBag          best effort             may come       none
    DAWeakSet          best effort             none           none
    DAWeakSequence     best effort             may come       FIFO: each publisher's as it added them
    DAStrongBag        every one, once         of equal data  none
    DAStrongSet        every one, once         none           none
    DAStrongSequence   every one, once         of equal data  FIFO
    DASortedBag        every one, once         of equal data  total: one for all within a stable view
    DASortedSet        every one, once         none           total

Strong classes of one topic see the same elements: what is added through one is delivered by the others.
Weak ones share theirs with plain subscriptions (`Node.subscribe`), and not with the strong ones.
"""

from __future__ import annotations

from typing import ClassVar

from pubsub.collections.dac import DAC, Order
from pubsub.collections.strong import StrongCollection
from pubsub.collections.weak import WeakCollection


class DABag(DAC):
    """Every element that is added, equal ones included."""

    is_unique: ClassVar[bool] = False
    order: ClassVar[Order] = "none"


class DASet(DAC):
    """No element twice."""

    is_unique: ClassVar[bool] = True
    order: ClassVar[Order] = "none"


class DASequence(DABag):
    """A bag with an order."""

    order: ClassVar[Order] = "fifo"


class DAWeakBag(DABag, WeakCollection):
    pass


class DAWeakSet(DASet, WeakCollection):
    pass


class DAWeakSequence(DASequence, WeakCollection):
    pass


class DAStrongBag(DABag, StrongCollection):
    pass


class DAStrongSet(DASet, StrongCollection):
    pass


class DAStrongSequence(DASequence, StrongCollection):
    pass


class DASortedBag(DASequence, StrongCollection):
    order: ClassVar[Order] = "total"


class DASortedSet(DASet, StrongCollection):
    order: ClassVar[Order] = "total"
