"""With signatures on, an event is taken only from whom it says it is, and as it was published."""

from __future__ import annotations

import asyncio

import pytest

from overlay.channel import Until
from overlay.identity import Identity
from pubsub.data import pack_data
from pubsub.event import Gossip, Head, make_block
from pubsub.validation import sign_block
from tests.pubsub.playground import Playground, play, received


@pytest.mark.parametrize("forgery", ["altered", "another's", "no key", "unsigned", "foreign key"])
def test_with_signatures_an_altered_or_forged_event_is_dropped_and_counted(forgery: str) -> None:
    async def main(p: Playground) -> None:
        subscriber, events = await p.subscriber("/a")
        publisher = await p.node()
        await publisher.publish("/a", "true", wait="acked")
        (event,) = await received(events, 1)
        assert event.signed
        source = publisher.id + b"some run"
        lies = make_block(source, 2, Head("/a"), [pack_data("lies"), pack_data("more lies")])
        true = make_block(source, 2, Head("/a"), [pack_data("true")])
        signer = publisher.attachment.identity
        lies.signature = {
            "altered": sign_block(signer, true.encoded),
            "another's": signer.public_key + Identity(bytes(32)).sign(lies.encoded),
            "no key": bytes(96),
            "unsigned": b"",
            "foreign key": sign_block(Identity(bytes(32)), lies.encoded),
        }[forgery]
        to = subscriber.attachment.contact
        publisher._carrier.send((to,), Gossip(lies, "/a", 1), {to.id: Until(float("inf"))})
        await asyncio.sleep(1)
        assert len(events) == 0
        assert subscriber.metrics.family("events_dropped", "reason", "")["bad_signature"] == 2
        lies.signature = sign_block(signer, lies.encoded)
        publisher._carrier.send((to,), Gossip(lies, "/a", 1), {to.id: Until(float("inf"))})
        assert [event.data for event in await received(events, 2)] == ["lies", "more lies"]

    play(10, main, signatures=True)
