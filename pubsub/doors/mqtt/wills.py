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
    client_id: str = ""
    """Whose it is, where it is about to be kept."""


def kept_will(client_id: str, will: Will, expiry: float) -> KeptWill:
    """`expiry`: seconds that the client's session lasts without a connection."""
    given = will.properties
    properties = {name: given[name] for name in given if name != "will_delay_interval"}
    sender = sender_of(client_id)
    message = MqttMessage(will.topic, will.payload, will.qos, will.retain, sender, properties)
    return KeptWill(message, min(given.get("will_delay_interval", 0), expiry), client_id)


class _Waiting(NamedTuple):
    message: MqttMessage
    id: bytes
    timer: Timer
    instead_of: bytes = b""
    """The id of the one whose place it has taken for a client that has not been let in yet: it comes under
    that one's number, which may have been published in the same moment."""


class Wills:
    """A core: the wills whose time may come."""

    def __init__(
        self,
        clock: Clock,
        publish: Publish,
        due: Callable[[str], None],
        over: Callable[[bytes], None],
        look: Callable[[bytes, Callable[[], None]], None],
    ) -> None:
        """`due`: the delay of a client's will has passed, so `publish` is to be called. `over`: a will that
        is kept at an archive was published. `look`: call back when this door has heard all that the archive
        has of a will: its client may have come back elsewhere while the archive was out of reach."""
        self._clock = clock
        self._publish = publish
        self._due = due
        self._over = over
        self._look = look
        self._waiting: dict[str, _Waiting] = {}
        """By client: its connection has broken."""
        self._inherited: dict[bytes, _Waiting] = {}
        """By id: the client's door is gone, or the will's time has come."""
        self._unpublished: set[bytes] = set()
        """Ids of wills that could not be published so far."""

    def schedule(self, client_id: str, will: KeptWill, id: bytes) -> None:
        """The client's connection has broken; `id` is empty for a will that is not kept at an archive."""
        if will.delay <= 0:
            self._publish_it(will.message, id)
        else:
            self._wait(client_id, will, id)

    def stand_in(self, client_id: str, will: KeptWill, id: bytes, before: bytes) -> None:
        """This will has taken the place of one, `before`, that may wait, at whichever door; it is to come if
        the client is not let in after all, until `cancel`."""
        self.cancel(client_id)
        self._wait(client_id, will, id, before)

    def is_standing_in(self, client_id: str) -> bool:
        waiting = self._waiting.get(client_id)
        return waiting is not None and waiting.instead_of != b""

    def _wait(self, client_id: str, will: KeptWill, id: bytes, before: bytes = b"") -> None:
        timer = self._clock.call_later(will.delay, lambda: self._due(client_id))
        self._waiting[client_id] = _Waiting(will.message, id, timer, before)

    def publish(self, client_id: str) -> None:
        """Publish the client's will if it waits: its delay has passed, or its session has ended."""
        waiting = self._waiting.pop(client_id, None)
        if waiting is not None:
            waiting.timer.cancel()
            if waiting.id:
                self._inherited[waiting.id] = waiting
                self._publish_kept(waiting.id)
            else:
                self._publish_it(waiting.message, b"")

    def _publish_kept(self, id: bytes) -> None:
        """Publish a will, if no door has ended it."""

        def publish() -> None:
            waiting = self._inherited.pop(id, None)
            if waiting is not None:
                self._publish_it(waiting.message, id, waiting.instead_of)

        self._look(id, publish)

    def cancel(self, client_id: str) -> bytes:
        """The client is back; the id of a will that has waited for that, for the caller to end at the
        archive. Empty without one."""
        waiting = self._waiting.pop(client_id, None)
        if waiting is None:
            return b""
        waiting.timer.cancel()
        return waiting.id

    def inherit(self, id: bytes, will: KeptWill, before: bytes = b"") -> None:
        """The door of the client is gone; or this will has taken the place of `before`, and the client could
        not be let in."""
        if id not in self._inherited:
            timer = self._clock.call_later(will.delay, lambda: self._publish_kept(id))
            self._inherited[id] = _Waiting(will.message, id, timer, before)

    def leave(self, ids: Container[bytes]) -> None:
        """Another door has these wills now, or has noted that they are not to come, since their clients have
        come back there."""
        for client_id in [one for one, waiting in self._waiting.items() if waiting.id in ids]:
            self.cancel(client_id)
        for id in [one for one in self._inherited if one in ids]:
            self._inherited.pop(id).timer.cancel()

    def _publish_it(self, message: MqttMessage, id: bytes, instead_of: bytes = b"") -> None:
        """Publish, again and again while an archive that is to have the message does not answer."""
        if not id:
            self._publish(message, lambda reason: None, b"")
            return
        number = (instead_of or id)[SEGMENT_BYTES:]
        run = hashlib.blake2s(number, digest_size=_RUN_BYTES, person=b"mqtt-w").digest()

        def again() -> None:
            self._publish_it(message, id, instead_of)

        def published(reason: Reason) -> None:
            self._unpublished.discard(id)
            if reason < Reason.UNSPECIFIED or len(self._unpublished) >= MOST_UNPUBLISHED:
                self._over(id)
            else:
                self._unpublished.add(id)
                self._clock.call_later(AGAIN_SECONDS, again)

        self._publish(message, published, run + (1).to_bytes(8, "big"))
