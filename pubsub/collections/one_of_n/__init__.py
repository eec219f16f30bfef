"""One-of-n delivery: every element goes to exactly one of those who asked.

An element that is to be taken once is a *gift*. Its publisher gives it away: it *offers* it to one of the
*takers*, the participants who asked, whose filter matches (`giver`). The taker has it in hand until its
application is done with it, and then answers that it is *taken*; or it gives it back (`hands`). When a
taker leaves the view before it has answered, what it had in hand is offered to others. A few takers have
a *spare* copy of each gift until all have heard that it is taken; when a stable view is reached that its
publisher is not in, they agree on which of them gives it away instead (`heirs`).

What is promised: an element that is added while somebody asks is taken exactly once, as long as its
publisher or one of those with a spare copy lives, and nobody who lives is taken for gone; whoever crashes
with it in hand may have worked on it. Across a partition an element may be taken on both sides. Elements
wait while all takers have their hands full or are away; when `most_waiting` of a giver's are not taken,
its publisher waits. None is given that is added while nobody asks. One that was given back `most_attempts`
times is dropped and counted.
"""

from pubsub.collections.one_of_n.config import OneOfNConfig
from pubsub.collections.one_of_n.presence import Presence
from pubsub.collections.one_of_n.sharing import Sharing
from pubsub.collections.one_of_n.taker import Taker

__all__ = ["OneOfNConfig", "Presence", "Sharing", "Taker"]
