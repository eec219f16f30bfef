"""Every element goes to exactly one of those who asked; and broken versions that are caught."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import pytest

from overlay.contact import PeerId
from pubsub.collections.messages import TakerAnswer
from pubsub.collections.one_of_n import Sharing, Taker
from pubsub.collections.one_of_n.sharing import Sent
from tests.pubsub.collections.model_topic import is_caught
from tests.pubsub.collections.taking import TakingRun


@pytest.mark.parametrize("seed", [*range(6), 73])
def test_each_is_taken_once_while_takers_crash_and_come(seed: int) -> None:
    run = TakingRun(seed)
    run.check_all_taken()
    run.check_taken_once()


@pytest.mark.parametrize("seed", range(6))
def test_each_is_taken_at_last_though_the_topic_was_split(seed: int) -> None:
    TakingRun(seed, partitions=True).check_all_taken()


@pytest.mark.sweep
def test_taking_over_many_schedules() -> None:
    for seed in range(6, 106):
        run = TakingRun(seed)
        run.check_all_taken()
        run.check_taken_once()
        TakingRun(seed, partitions=True).check_all_taken()


# Broken versions.


class ForgetsTheFallen(Sharing):
    """Does not hand on what a taker that is gone had in hand."""

    def participants_are(
        self, members: Mapping[PeerId, int], takers: Sequence[Taker], is_asked: bool
    ) -> None:
        held = [item for item in self.assigner._items.values() if item.holder is not None]
        holders = [item.holder for item in held]
        for item in held:
            item.holder = None
        super().participants_are(members, takers, is_asked)
        for item, holder in zip(held, holders, strict=True):
            item.holder = holder


class ReleasesTooEarly(Sharing):
    """Offers everything anew whenever the view changes."""

    def participants_are(
        self, members: Mapping[PeerId, int], takers: Sequence[Taker], is_asked: bool
    ) -> None:
        for item in self.assigner._items.values():
            self.assigner._release(item)
        super().participants_are(members, takers, is_asked)


class NeverForgivesAReturn(Sharing):
    """Keeps what was given back in the hands of who gave it back."""

    def direct(self, sender: PeerId, message: Sent) -> None:
        if not (isinstance(message, TakerAnswer) and not message.taken):
            super().direct(sender, message)


class RedeliversNothing(Sharing):
    """Lets what a publisher that is gone had not handed over be forgotten."""

    def stable(self, view: bytes, members: Mapping[PeerId, int]) -> None:
        pass


class InheritsWhatOthersHold(Sharing):
    """Adopts what is in somebody's hand."""

    def stable(self, view: bytes, members: Mapping[PeerId, int]) -> None:
        self.redelivery._claimed = list
        super().stable(view, members)


class AllRedeliver(Sharing):
    """Every one with a spare copy adopts the element."""

    def stable(self, view: bytes, members: Mapping[PeerId, int]) -> None:
        super().stable(view, members)
        for element_id, offer in list(self.redelivery._spares.items()):
            if members.get(element_id[0]) != element_id[1]:
                self._adopt(offer)


@pytest.mark.parametrize(
    ("broken", "seeds"),
    [
        (ForgetsTheFallen, range(4)),
        (ReleasesTooEarly, range(4)),
        (NeverForgivesAReturn, range(4)),
        (RedeliversNothing, range(4)),
        (InheritsWhatOthersHold, (8,)),
        (AllRedeliver, range(4)),
    ],
)
def test_broken_sharing_is_caught(broken: type[Sharing], seeds: Iterable[int]) -> None:
    runs = (TakingRun(seed, broken) for seed in seeds)
    assert any(is_caught(run.check_all_taken) or is_caught(run.check_taken_once) for run in runs)
