"""With signatures on, an event is taken only from whom it says it is, and as it was published."""

from __future__ import annotations

import asyncio

import pytest

from overlay.identity import Identity
from pubsub.event import EventBody, Gossip, pack_body, pack_data
from pubsub.signing import sign_body
from tests.pubsub.playground import Playground, play, received


@pytest.mark.parametrize("forgery", ["altered", "another's", "no key", "unsigned", "foreign key"])
def test_with_signatures_an_altered_or_forged_event_is_dropped_and_counted(forgery: str) -> None:
    async def main(p: Playground) -> None:
        subscriber, events = await p.subscriber("/a")
        publisher = await p.node()
        await publisher.publish("/a", "true", wait="acked")
        (event,) = await received(events, 1)
        assert event.signed
        body = EventBody(bytes(16), "/a", (), publisher.id, 2, None, pack_data("lies"))
        lies = pack_body(body)
        true = pack_body(body._replace(data=pack_data("true")))
        signer = publisher.attachment.identity
        signatures = {
            "altered": sign_body(signer, true),
            "another's": signer.public_key + Identity(bytes(32)).sign(lies),
            "no key": bytes(96),
            "unsigned": b"",
            "foreign key": sign_body(Identity(bytes(32)), lies),
        }
        to = subscriber.attachment.contact
        publisher._link.send((to,), [Gossip(body.id, "/a", 1, False, lies, signatures[forgery])])
        await asyncio.sleep(1)
        assert len(events) == 0
        assert subscriber.metrics.family("events_dropped", "reason", "")["bad_signature"] == 1
        signed = Gossip(body.id, "/a", 1, False, lies, sign_body(signer, lies))
        publisher._link.send((to,), [signed])
        assert [event.data for event in await received(events, 1)] == ["lies"]

    play(10, main, signatures=True)
