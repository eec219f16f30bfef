"""What a participant knows again when it comes back with its log."""

from __future__ import annotations

from pubsub.reliable.numbers import Numbers
from pubsub.topic_broadcast.held_messages import Held
from pubsub.topic_broadcast.state import BroadcastState
from pubsub.topic_broadcast.topic_log import Restored


def restore(state: BroadcastState, restored: Restored) -> int:
    """Take what the log holds; the number of the last message that was published."""
    for source, mark, ranges in restored.received:
        state.taken_of(source).update(mark, ranges)
    for item in (*restored.held, *restored.unfinished):
        state.taken_of(item.source).add(item.number)
    for item in restored.held:
        state.sources[item.source] = (item.publisher, item.life)
        state.held.add(Held(item, state.context.now(), {item.publisher: None}))
    _restore_garbage(state, restored)
    own = state.taken.get(state.own_source)
    return own.highest if own is not None else 0


def _restore_garbage(state: BroadcastState, restored: Restored) -> None:
    """What was taken and is not held any more, everybody had; save what was there before it began: of that,
    others may hold something for somebody."""
    mine = next((entry for entry in restored.entries if entry.id == state.me), None)
    if mine is None:
        return
    before = {source: (mark, ranges) for source, mark, ranges in mine.before}
    for source, taken in state.taken.items():
        kept = Numbers(0, ((number, number) for number in sorted(state.held.of(source))))
        if source in before and source != state.own_source:
            kept.update(*before[source])
        state.garbage_of(source).update(0, taken.without(kept).spans())
