"""Whether draws are uniform: chi-square, corrected for samples without replacement."""

from __future__ import annotations

from collections.abc import Iterable

from scipy.stats import chi2

from overlay.contact import PeerId
from tests.overlay.directory.model_network import ModelPeer


def count_draws(
    readers: list[ModelPeer], among: Iterable[PeerId], draws: int, at_once: int
) -> dict[PeerId, int]:
    """How often each was drawn, by several readers, in samples of `at_once` members."""
    counts = dict.fromkeys(among, 0)
    made = 0
    while made < draws:
        for reader in readers:
            sample = reader.sample(at_once)
            assert len({contact.id for contact in sample}) == at_once, "a sample is distinct"
            made += at_once
            for contact in sample:
                if contact.id in counts:
                    counts[contact.id] += 1
    return counts


def p_value(counts: dict[PeerId, int], at_once: int, population: int) -> float:
    """How likely counts as uneven as these are, if everyone is equally likely.

    Members of one sample are distinct, which makes counts more even by 1 - at_once / population.
    """
    mean = sum(counts.values()) / len(counts)
    spread = sum((count - mean) ** 2 for count in counts.values()) / mean
    return float(chi2.sf(spread / (1 - at_once / population), len(counts) - 1))
