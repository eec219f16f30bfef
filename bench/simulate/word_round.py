"""One round of one group in 64 repetitions at once, over the same tables.

The rule is that of `gossip_round`; what differs between the repetitions is who publishes, who is
crashed, what appears crashed, what is lost, and who sends upward. Processes forward in the order of
their numbers, whenever they are new in at least one repetition.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

from bench.simulate.addressing import address
from bench.simulate.bits import (
    ALL,
    Planes,
    Words,
    chosen,
    draw_masks,
    tally,
    tally_row,
    tally_times,
)
from bench.simulate.compiled import compiled
from bench.simulate.randomness import (
    ENTRIES,
    LINKS,
    LOSSES,
    SUPER_TABLES,
    SUSPICIONS,
    UPWARD_LOSSES,
    UPWARD_SUSPICIONS,
    Keys,
    sequence,
    signed,
)
from bench.simulate.rows import Block, draw_row
from bench.simulate.tables import TopicTables

INBOX: Final = 0
ALIVE: Final = 1
REACHED: Final = 2
FRESH: Final = 3
WORDS: Final = 4
"""Columns of a group's words: reached in this round, alive, reached ever, reached in the last round."""

SENT: Final = 0
SENT_UPWARD: Final = 1
RECEIVED: Final = 2
RECEIVED_FROM_BELOW: Final = 3
COUNTS: Final = 4
"""Rows of a group's planes; RECEIVED counts what came from below, too."""

Group = npt.NDArray[np.uint64]
"""Four words for each process of a group, side by side for one look into memory."""
_NONE: Final = np.uint64(0)


@compiled
def crash_words(group: Group, key: np.uint64, chance: np.uint64) -> None:
    """Put every process at its start, crashed in each repetition with this chance."""
    for process in range(group.shape[0]):
        crashed, _ = chosen(ALL, sequence(key, np.uint64(process)), chance)
        group[process, INBOX] = _NONE
        group[process, ALIVE] = ~crashed
        group[process, REACHED] = _NONE
        group[process, FRESH] = _NONE


@compiled
def gossip_words(
    group: Group,
    fanout: int,
    keys: Keys,
    loss: np.uint64,
    suspicion: np.uint64,
    planes: npt.NDArray[np.uint64],
    row: Words,
    masks: Words,
    states: Words,
    block: Block,
    tables: TopicTables,
) -> None:
    """Everyone who is fresh forwards inside the group.

    `row`, `masks` and `states` have room for `fanout` words, padded. `loss` and `suspicion` are
    `mask_digits`.
    """
    size = group.shape[0]
    for who in range(size):
        fresh = group[who, FRESH]
        if fresh == _NONE:
            continue
        drawn = address(block, 0, fanout, keys, who, 0, size, tables)
        at = sequence(keys[SUSPICIONS] ^ fresh, np.uint64(who))
        _doubt(row, drawn, fresh, at, suspicion, planes[SENT], masks, states)
        draw_masks(masks, drawn, sequence(keys[LOSSES] ^ fresh, np.uint64(who)), loss, states)
        for entry in range(drawn):
            target = block[entry, 0]
            arrived = row[entry] & ~masks[entry] & group[target, ALIVE]
            group[target, INBOX] |= arrived
            row[entry] = arrived
        tally_row(planes[RECEIVED], row, drawn)


@compiled
def _doubt(
    row: Words,
    count: int,
    fresh: np.uint64,
    at: np.uint64,
    suspicion: np.uint64,
    sent: Planes,
    masks: Words,
    states: Words,
) -> None:
    """Fill the row with the repetitions in which each message is sent, and count them."""
    if suspicion > 0:
        draw_masks(masks, count, at, suspicion, states)
        for entry in range(count):
            row[entry] = fresh & ~masks[entry]
        tally_row(sent, row, count)
    else:
        for entry in range(count):
            row[entry] = fresh
        tally_times(sent, fresh, count)


@compiled
def climb_words(
    group: Group,
    above: Group,
    entries: int,
    keys: Keys,
    link_chance: np.uint64,
    entry_chance: np.uint64,
    loss: np.uint64,
    suspicion: np.uint64,
    planes: npt.NDArray[np.uint64],
    planes_above: npt.NDArray[np.uint64],
    block: Block,
) -> None:
    """Everyone who is fresh forwards to the super-community, in the repetitions that it is a link in."""
    size = above.shape[0]
    for process in range(group.shape[0]):
        fresh = group[process, FRESH]
        if fresh == _NONE:
            continue
        who = np.uint64(process)
        links, choice_at = chosen(fresh, sequence(keys[LINKS] ^ fresh, who), link_chance)
        if links == _NONE:
            continue
        choice_at = sequence(keys[ENTRIES], choice_at)
        doubt_at = sequence(keys[UPWARD_SUSPICIONS], choice_at)
        lost_at = sequence(keys[UPWARD_LOSSES], choice_at)
        for entry in range(draw_row(block, 0, entries, keys[SUPER_TABLES], process, 0, size, size)):
            picked, choice_at = chosen(links, choice_at, entry_chance)
            doubted, doubt_at = chosen(picked, doubt_at, suspicion)
            sent = picked & ~doubted
            lost, lost_at = chosen(sent, lost_at, loss)
            target = signed(block[entry, 0])
            arrived = sent & ~lost & above[target, ALIVE]
            above[target, INBOX] |= arrived
            tally(planes[SENT_UPWARD], sent)
            tally(planes_above[RECEIVED], arrived)
            tally(planes_above[RECEIVED_FROM_BELOW], arrived)


@compiled
def settle(group: Group, planes: Planes) -> np.uint64:
    """End the round: count who is new and let them forward next; where anyone is.

    To be called once everyone has forwarded.
    """
    anywhere = _NONE
    for process in range(group.shape[0]):
        new = group[process, INBOX] & ~group[process, REACHED]
        group[process, INBOX] = _NONE
        group[process, REACHED] |= new
        group[process, FRESH] = new
        anywhere |= new
        if new != _NONE:
            tally(planes, new)
    return anywhere


@compiled
def count_alive(group: Group, planes: Planes) -> None:
    """Count the live processes of each repetition."""
    for process in range(group.shape[0]):
        tally(planes, group[process, ALIVE])
