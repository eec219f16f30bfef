"""How long publishers wait for members that do not keep up, so that none of them holds the others back."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from overlay.channel import Channel, Channels, ChannelState
from overlay.contact import Contact, PeerId

CREDIT_PART = 0.05
"""The part of the time that publishers wait for one member that is slow and goes on, while others keep up."""

MOST_CREDIT = 0.25
"""Seconds that they may wait for it in one go."""

LEAST_CREDIT = 0.001
"""Seconds: to wait for less is not worth it."""

MOST_CREDITS = 4096
"""Members whose credit is remembered; then all have it in full."""

SILENT_SECONDS = 0.05
LEAST_SILENT_SECONDS = 0.01
"""A member that was not heard of for twice as long as it may take to answer, by its round trips so far and
within these bounds, is not waited for while others keep up."""

ALONE_SECONDS = 0.25
"""When none of the members was heard of for this long, publishers do not wait for them."""


class Pace:
    """How long publishers wait for the members whose channels are not writable.

    While no member that was published to keeps up, publishers wait for the first that does, unless none of
    them was heard of for `ALONE_SECONDS`. As soon as one keeps up, the others are waited for as follows: one
    that is silent (stopped, crashed, cut off) not at all, and one that goes on out of its *credit*: at most
    `MOST_CREDIT` seconds in one go, and `CREDIT_PART` of the time. So a process that only waited for a
    processor is not left behind, and one that is slow for good costs publishers next to nothing. A member
    that was silent, or has no credit left, is not waited for again before it has caught up: one that goes on
    after it was stopped has much to take, and nobody waits for that.
    """

    def __init__(self, channels: Channels) -> None:
        self._channels = channels
        self._loop = asyncio.get_running_loop()
        self._credits: dict[PeerId, tuple[float, float]] = {}
        """Members that were waited for: the seconds of credit that each had left, and when that was."""
        self._given_up: set[PeerId] = set()
        """Members that are not waited for until they have caught up."""
        self._waiter: asyncio.Future[None] | None = None
        channels.on_writable(lambda contact: self._wake())
        channels.on_state(lambda contact, state: self._wake())

    async def wait(self, contacts: Sequence[Contact]) -> None:
        """Wait while publishers to these members have to."""
        channels = [self._channels.to(contact) for contact in contacts]
        began = self._loop.time()
        while True:
            full = [channel for channel in channels if is_full(channel)]
            if self._given_up:
                still_full = {channel.contact.id for channel in full}
                self._given_up -= {c.contact.id for c in channels} - still_full
            if not full:
                return
            now = self._loop.time()
            if len(full) == len(channels):
                heard_at = max(channel.heard_at or began for channel in full)
                if max(heard_at, began) + ALONE_SECONDS <= now:
                    return
                await self._change(ALONE_SECONDS)
            elif not await self._wait_for_others(full, began, now):
                return

    async def _wait_for_others(self, full: Sequence[Channel], began: float, now: float) -> bool:
        """Wait for a change, out of the credit of those that are full; False when none has any."""
        awaited: dict[PeerId, float] = {}
        longest = 0.0
        for channel in full:
            peer = channel.contact.id
            if peer in self._given_up:
                continue
            silent_in = (channel.heard_at or began) + silence(channel) - now
            if silent_in > 0 and (credit := self._credit(peer, now)) >= LEAST_CREDIT:
                awaited[peer] = credit
                longest = max(longest, min(credit, silent_in))
            else:
                self._given_up.add(peer)
        if not awaited:
            return False
        await self._change(longest)
        ended = self._loop.time()
        if len(self._credits) > MOST_CREDITS:
            self._credits.clear()
            self._given_up.clear()
        for peer, credit in awaited.items():
            self._credits[peer] = (credit - (ended - now), ended)
        return True

    def _credit(self, peer: PeerId, now: float) -> float:
        left, at = self._credits.get(peer, (MOST_CREDIT, now))
        return min(left + CREDIT_PART * (now - at), MOST_CREDIT)

    async def _change(self, within: float) -> None:
        """Wait until a channel may have room, or its state has changed."""
        if self._waiter is None:
            self._waiter = self._loop.create_future()
        alarm = self._loop.call_later(within, self._wake)
        try:
            await asyncio.shield(self._waiter)
        finally:
            alarm.cancel()

    def _wake(self) -> None:
        waiter, self._waiter = self._waiter, None
        if waiter is not None and not waiter.done():
            waiter.set_result(None)


def is_full(channel: Channel) -> bool:
    """Whether publishers wait for the channel; a closed one's peer does not answer, and may never again."""
    return not channel.is_writable and channel.state is not ChannelState.CLOSED


def silence(channel: Channel) -> float:
    """After how many seconds in which nothing was heard a member counts as silent."""
    return min(max(2 * channel.patience, LEAST_SILENT_SECONDS), SILENT_SECONDS)
