"""An operator's side of `camcast hand-over`: asks an archive to hand a topic over, until that is done."""

from __future__ import annotations

import asyncio

from overlay.contact import ID_BYTES, Address, Contact, PeerId
from overlay.entropy import entropy
from overlay.runtime import Runtime
from pubsub.archive.errors import ArchiveError
from pubsub.archive.hand_over_messages import DONE, REFUSED, HandedOver, HandOver

REPEAT_SECONDS = 0.5
"""How often the archive is asked."""

PATIENCE = 10.0
"""Seconds in which an archive must answer at all; and for which its last word is waited for after the
deadline."""


async def request_hand_over(
    runtime: Runtime, topic: str, at: Address, to: Address, within: float
) -> None:
    """Return when the archive at one address has handed the topic to the one at another.

    `ArchiveError` when it refuses or fails, with its reason, or does not answer."""
    loop = asyncio.get_running_loop()
    request = HandOver(topic, str(to), within, entropy().getrandbits(63))
    ended: asyncio.Future[HandedOver] = loop.create_future()
    heard_at = began = loop.time()

    def receive(sender: Contact, answer: HandedOver) -> None:
        nonlocal heard_at
        if answer.nonce == request.nonce and sender.address == at:
            heard_at = loop.time()
            if answer.state in (DONE, REFUSED) and not ended.done():
                ended.set_result(answer)

    runtime.on(HandedOver, receive)
    try:
        archive = Contact(PeerId(bytes(ID_BYTES)), at.host, at.port)
        while not ended.done():
            silent = loop.time() - heard_at
            if silent > PATIENCE or loop.time() - began > within + PATIENCE:
                raise ArchiveError(f"no archive at {at} has answered for {silent:.0f} s")
            runtime.send_datagram(archive, request)
            await asyncio.wait([ended], timeout=REPEAT_SECONDS)
    finally:
        runtime.off(HandedOver)
    answer = ended.result()
    if answer.state == REFUSED:
        raise ArchiveError(f"the archive at {at} did not hand {topic} over: {answer.why}")
