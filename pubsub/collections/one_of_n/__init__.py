"""One-of-n delivery: every element goes to exactly one of those who asked.

The publisher of an element *assigns* it: it offers the element to one of the *takers*, the participants who
asked, whose filter matches (`assigning`). The taker holds a *lease* of the element until its application is
done with it, and then answers that the element is *taken*; or it gives the element back (`leases`). When a
taker leaves the view before it has answered, its elements are offered to others. A few takers have a *spare*
copy of each element until all have heard that it is taken; when a stable view is reached that the publisher
is not in, they agree on which of them assigns the element instead (`redelivery`). `sharing` is the whole.

What is promised: an element that is added while somebody asks is taken exactly once, as long as its
publisher or one of those with a spare copy lives, and nobody who lives is taken for gone; a taker that
crashes with a lease may have worked on the element. Across a partition an element may be taken on both sides.
Elements wait while all takers have as many leases as they may have, or are away; when `most_waiting` of a
publisher's elements are not taken, its `add` waits. None is given that is added while nobody asks. One that
was given back `most_attempts` times is dropped and counted.
"""

from pubsub.collections.config import OneOfNConfig
from pubsub.collections.one_of_n.assigning import Taker
from pubsub.collections.one_of_n.sharing import Presence, Sharing

__all__ = ["OneOfNConfig", "Presence", "Sharing", "Taker"]
