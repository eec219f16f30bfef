"""PMcast, which CAMCAST's tables name without formulas: a regular tree of delegates (its reference [22]).

n = a^d processes stand in a tree of depth d whose subgroups have a members each; R delegates of a
subgroup stand for it one level up. An event is gossiped from the root down, at each depth only among
delegates that have somebody interested below them. So processes that are not interested handle events
only as delegates.
"""

from __future__ import annotations

import math
from dataclasses import dataclass


@dataclass(frozen=True)
class DelegateTree:
    """The shape of the tree and how it gossips."""

    arity: int
    """a, members of a subgroup."""
    depth: int
    """d, levels of subgroups."""
    delegates: int
    """R, delegates of a subgroup."""
    fanout: float
    """F, processes that one gossips to in a round."""

    @property
    def processes(self) -> int:
        """n = a^d."""
        return int(self.arity**self.depth)

    def interested_share(self, depth: int, interested: float) -> float:
        """p_i = 1 - (1 - p)^(a^(d - i)): a subtree at depth i has somebody interested."""
        return float(1 - (1 - interested) ** (self.arity ** (self.depth - depth)))

    def view_size(self, depth: int) -> int:
        """R a delegates at an inner depth, a processes at the last."""
        return self.arity if depth == self.depth else self.delegates * self.arity


def pmcast_memory(tree: DelegateTree) -> int:
    """R a (d - 1) + a: the processes that one knows."""
    return sum(tree.view_size(depth) for depth in range(1, tree.depth + 1))


def pushed_rounds(processes: float, fanout: float) -> float:
    """Pittel: ln n (1 / F + 1 / ln(F + 1)), without its O(1), where everyone keeps gossiping to F a round."""
    return math.log(processes) * (1 / fanout + 1 / math.log(fanout + 1))


def pmcast_rounds(tree: DelegateTree, interested: float, success: float) -> float:
    """The sum over the depths of Pittel's rounds among those interested.

    At depth i they are a share p_i of the view, and of the fanout F p_i p_succ takes effect.
    """
    total = 0.0
    for depth in range(1, tree.depth + 1):
        share = tree.interested_share(depth, interested)
        concerned, effective = tree.view_size(depth) * share, tree.fanout * share * success
        if concerned > 1 and effective > 0:
            total += pushed_rounds(concerned, effective)
    return total


def pmcast_uninterested(tree: DelegateTree, interested: float) -> float:
    """Processes that handle the event as delegates alone: a^(d - 1) p_(d - 1) R (1 - p).

    The delegates of the lowest subgroups; those of higher ones are taken from among them.
    """
    if tree.depth == 1:
        return 0.0
    subgroups = tree.arity ** (tree.depth - 1)
    share = tree.interested_share(tree.depth - 1, interested)
    return float(subgroups * share * tree.delegates * (1 - interested))


ASSUMED_DEPTH, ASSUMED_DELEGATES, ASSUMED_FANOUT = 2, 2, 5.0
"""CAMCAST's paper prints PMcast's numbers without its parameters; with these, rounds come near table 1's."""


def assumed_tree(processes: int) -> DelegateTree:
    """The smallest tree of two levels that holds this many processes, with two delegates and a fanout of
    five."""
    arity = max(ASSUMED_DELEGATES, math.ceil(processes ** (1 / ASSUMED_DEPTH)))
    return DelegateTree(arity, ASSUMED_DEPTH, ASSUMED_DELEGATES, ASSUMED_FANOUT)
