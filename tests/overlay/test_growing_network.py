"""A topic is found at once though the network has grown since its members announced themselves.

The first node of all is no member here: when it announces itself it is the only witness, and a lone
voice is not believed until the next announcement has told others.
"""

from __future__ import annotations

from contextlib import AsyncExitStack

import pytest

from overlay import Overlay
from overlay.virtual import Network, nth_host

MEMBERS = 4
NODES = 20


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_newcomer_finds_the_members_that_announced_before_the_others_came(seed: int) -> None:
    async def main() -> None:
        async with AsyncExitStack() as stack:
            overlays: list[Overlay] = []
            for number in range(NODES):
                first = [overlays[0].contact.address] if overlays else []
                overlay = Overlay(f"{nth_host(number)}:0", first)
                overlays.append(await stack.enter_async_context(overlay))
                if 1 <= number <= MEMBERS:
                    await overlay.announce("/early")
            newcomer = overlays[-1]
            await newcomer.announce("/early")
            found = await newcomer.contacts("/early", MEMBERS)
            assert {c.id for c in found} == {o.contact.id for o in overlays[1 : MEMBERS + 1]}

    Network(seed).run(main())
