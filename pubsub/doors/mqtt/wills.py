"""Wills (section 3.1.2.5): messages that are published for clients whose connections broke.

A will is published when the connection has ended without a goodbye and the will's delay has passed, or the
session has ended before that; not if the client has come back meanwhile. Where sessions are kept at an
archive, wills are too, for the case that this door is killed: another door *inherits* them, and publishes
them after their delay unless the client has come back, to whichever door.

A will that is kept has an id: the segment that holds it (`pubsub.doors.mqtt.will_log`), and a number of its
own. The number stays when the will is written to another segment, and the event's id is made of the number:
where an archive has the will's topic, the message is there once, though two doors may have published it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Container
from typing import NamedTuple

from overlay.context import Timer
from pubsub.doors.mqtt.message import MqttMessage, sender_of
from pubsub.doors.mqtt.other_doors import Clock
from pubsub.doors.mqtt.packets import Reason, Will

AGAIN_SECONDS = 2.0
"""How long a will that could not be published waits for the next attempt."""

MOST_UNPUBLISHED = 10_000
"""Wills that wait so; further ones are given up, as the door counts."""

SEGMENT_BYTES = 8
"""A will's id begins with its segment's."""

_RUN_BYTES = 8

Publish = Callable[[MqttMessage, Callable[[Reason], None], bytes], None]


class KeptWill(NamedTuple):
    """A will for another door, should this one be killed."""

    message: MqttMessage
    delay: float
    """Seconds that it waits for the client to come back."""


def kept_will(client_id: str, will: Will, expiry: float) -> KeptWill:
    """`expiry`: seconds that the client's session lasts without a connection."""
    given = will.properties
    properties = {name: given[name] for name in given if name != "will_delay_interval"}
    sender = sender_of(client_id)
    message = MqttMessage(will.topic, will.payload, will.qos, will.retain, sender, properties)
    return KeptWill(message, min(given.get("will_delay_interval", 0), expiry))


class _Waiting(NamedTuple):
    message: MqttMessage
    id: bytes
    timer: Timer
    stands_in: bool = False
    """The client is about to be let in."""


class Wills:
    """A core: the wills whose time may come."""

    def __init__(
        self,
        clock: Clock,
        publish: Publish,
        due: Callable[[str], None],
        over: Callable[[bytes], None],
    ) -> None:
        """`due`: the delay of a client's will has passed, so `publish` is to be called. `over`: a will that
        is kept at an archive was published."""
        self._clock = clock
        self._publish = publish
        self._due = due
        self._over = over
        self._waiting: dict[str, _Waiting] = {}
        """By client: its connection has broken."""
        self._inherited: dict[bytes, _Waiting] = {}
        """By id: the client's door is gone."""
        self._unpublished: set[bytes] = set()
        """Ids of wills that could not be published so far."""

    def schedule(self, client_id: str, will: KeptWill, id: bytes) -> None:
        """The client's connection has broken; `id` is empty for a will that is not kept at an archive."""
        if will.delay <= 0:
            self._publish_it(will.message, id)
        else:
            self._wait(client_id, will, id)

    def stand_in(self, client_id: str, will: KeptWill, id: bytes) -> None:
        """This will has taken the place of one that may wait, at whichever door; it is to come if the client
        is not let in after all, until `cancel`."""
        self.cancel(client_id)
        self._wait(client_id, will, id, stands_in=True)

    def is_standing_in(self, client_id: str) -> bool:
        waiting = self._waiting.get(client_id)
        return waiting is not None and waiting.stands_in

    def _wait(self, client_id: str, will: KeptWill, id: bytes, stands_in: bool = False) -> None:
        timer = self._clock.call_later(will.delay, lambda: self._due(client_id))
        self._waiting[client_id] = _Waiting(will.message, id, timer, stands_in)

    def publish(self, client_id: str) -> None:
        """Publish the client's will if it waits: its delay has passed, or its session has ended."""
        waiting = self._waiting.pop(client_id, None)
        if waiting is not None:
            waiting.timer.cancel()
            self._publish_it(waiting.message, waiting.id)

    def cancel(self, client_id: str) -> bytes:
        """The client is back; the id of a will that has waited for that, for the caller to end at the
        archive. Empty without one."""
        waiting = self._waiting.pop(client_id, None)
        if waiting is None:
            return b""
        waiting.timer.cancel()
        return waiting.id

    def inherit(self, id: bytes, will: KeptWill) -> None:
        """The door of the client is gone."""

        def publish() -> None:
            if self._inherited.pop(id, None) is not None:
                self._publish_it(will.message, id)

        if id not in self._inherited:
            timer = self._clock.call_later(will.delay, publish)
            self._inherited[id] = _Waiting(will.message, id, timer)

    def leave(self, ids: Container[bytes]) -> None:
        """Another door has these wills now, or has noted that they are not to come, since their clients have
        come back there."""
        for client_id in [one for one, waiting in self._waiting.items() if waiting.id in ids]:
            self.cancel(client_id)
        for id in [one for one in self._inherited if one in ids]:
            self._inherited.pop(id).timer.cancel()

    def _publish_it(self, message: MqttMessage, id: bytes) -> None:
        """Publish, again and again while an archive that is to have the message does not answer."""
        if not id:
            self._publish(message, lambda reason: None, b"")
            return
        number = id[SEGMENT_BYTES:]
        run = hashlib.blake2s(number, digest_size=_RUN_BYTES, person=b"mqtt-w").digest()

        def published(reason: Reason) -> None:
            self._unpublished.discard(id)
            if reason < Reason.UNSPECIFIED or len(self._unpublished) >= MOST_UNPUBLISHED:
                self._over(id)
            else:
                self._unpublished.add(id)
                self._clock.call_later(AGAIN_SECONDS, lambda: self._publish_it(message, id))

        self._publish(message, published, run + (1).to_bytes(8, "big"))
