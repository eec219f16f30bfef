"""Durable names that a door has at archives: clients' subscriptions that archives keep messages for, and
sessions.

A name has one door at a time, but for those that a group shares. A door takes a name over from the door that
has it, which the archive tells: of several, the one that the archive hears last has the name. So a client has
one session where an archive keeps it, also while it is connected to two doors.

Two doors may use two replicas of an archive, of which neither knows that the other one has a subscriber of
the name. There sessions are told apart by their records (`pubsub.doors.mqtt.session_log`); where no sessions
are kept, a door tells the others of the names that it takes, once and as well as it can.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from overlay.errors import CamcastError
from pubsub.archive.errors import Displaced
from pubsub.doors.mqtt.kept import KeptSubscription
from pubsub.doors.mqtt.message import MqttMessage, message_in
from pubsub.doors.mqtt.network import Follower, Opener
from pubsub.doors.mqtt.packets import Reason
from pubsub.doors.mqtt.session_log import AFRESH, FIND_SECONDS, MOVED, SessionLog, log_name
from pubsub.node import Node

if TYPE_CHECKING:
    from pubsub.archive.durable_event import DurableEvent
    from pubsub.archive.durable_subscription import DurableSubscription
    from pubsub.doors.mqtt.hub import Hub

MOST_HELD = 64
"""Messages that a door takes from an archive for one subscription before the client has them."""

MOST_RUNS = 4 * MOST_HELD
"""Publishers' runs whose place is in a session's record, those last heard of: about 72 bytes each, and each
client that publishes with QoS 2 is one. A message comes twice to a client that moves if the archive had not
noted that the client has it, and the client has had messages of more other publishers since."""

DOORS = "/mqtt-doors"
"""The topic on which doors tell each other who has members of which shared subscriptions, who has which
wills, and where no sessions are kept which names they have taken over."""


class Names:
    """The names that one door has."""

    hub: Hub

    def __init__(
        self,
        node: Node,
        door: bytes,
        keeps_sessions: bool,
        start: Callable[[Any], asyncio.Task[Any]],
    ) -> None:
        """`door`: tells this door from others. `start`: run something as a task of the door's."""
        self._node = node
        self._keeps_sessions = keeps_sessions
        self._door = door
        self._start = start
        self._named: dict[str, _Named] = {}

    def elsewhere(self, name: Any) -> None:
        """Another door has taken a name over. Anything else than a name is ignored."""
        named = self._named.get(name) if isinstance(name, str) else None
        if named is not None:
            named.displaced()

    def _take(
        self, name: str, displaced: Callable[[], None] = lambda: None, shared: bool = False
    ) -> _Named:
        """Note that this door is to have a durable name, behind what it had under the name before."""
        named = _Named(displaced, self._named.get(name), shared)
        self._named[name] = named
        return named

    async def _have(self, name: str, named: _Named) -> None:
        """Wait until nobody of this door has the name, and tell other doors to let it go."""
        if named.before is not None:
            await named.before.wait()
        if not named.shared and not self._keeps_sessions:
            await self._node.publish(DOORS, {"door": self._door, "name": name})

    def _let_go(self, name: str, named: _Named) -> None:
        named.over.set()
        if self._named.get(name) is named:
            del self._named[name]

    def follow(
        self,
        name: str,
        topic: str,
        follower: Follower,
        afresh: bool,
        before: KeptSubscription | None = None,
        shared: bool = False,
    ) -> _Followed:
        followed = _Followed(follower, before)
        named = self._take(name, follower.displaced, shared)
        resume = followed.position or None
        events = self._node.subscribe(
            topic, durable=name, within=FIND_SECONDS, resume=resume, share=shared
        )
        if not shared:
            events.take_over(MOVED)
        followed.task = self._start(self._follow(events, followed, named, afresh))
        return followed

    async def _follow(
        self, events: DurableSubscription, followed: _Followed, named: _Named, afresh: bool
    ) -> None:
        """Bring what an archive keeps for a client, a few messages at a time, until the client has them."""
        follower = followed.follower
        is_ready = False
        try:
            await self._have(events.name, named)
            await events.__aenter__()
            if afresh:
                await events.seek("now")
            followed.events = events
            is_ready = True
            follower.ready(Reason.SUCCESS)
            while True:
                await followed.room.wait()
                for event in await events.fetch(followed.left, keep=True):
                    followed.give(event)
        except Displaced:
            follower.displaced()
        except CamcastError:
            self.hub.drop("archive_lost")
            if is_ready:
                follower.displaced()  # the client begins anew, here or elsewhere
            else:
                follower.ready(Reason.UNSPECIFIED)
        finally:
            await asyncio.shield(self._start(self._end_following(events, followed, named)))

    async def _end_following(
        self, events: DurableSubscription, followed: _Followed, named: _Named
    ) -> None:
        followed.events = None
        with suppress(CamcastError):
            await (events.leave() if followed.forget else events.close())
        self._let_go(events.name, named)

    def forget(self, name: str, topic: str) -> None:
        self._start(self._forget(name, topic, self._take(name)))

    async def _forget(self, name: str, topic: str, named: _Named) -> None:
        events = self._node.subscribe(topic, durable=name, within=FIND_SECONDS).take_over(AFRESH)
        try:
            await self._have(name, named)
            await events.__aenter__()
            await events.leave()
        except CamcastError:
            self.hub.drop("archive_lost")
        finally:
            self._let_go(name, named)

    # -- sessions --

    def open_session(self, client_id: str, opener: Opener) -> None:
        named = self._take(log_name(client_id))
        self._start(self._keep_session(client_id, opener, named))

    async def _keep_session(self, client_id: str, opener: Opener, named: _Named) -> None:
        name = log_name(client_id)
        log: SessionLog | None = None
        try:
            try:
                await self._have(name, named)
                log = SessionLog(self._node, client_id, AFRESH if opener.afresh else MOVED)
                record, is_over, will = await log.open()
            except Displaced:
                raise
            except CamcastError:
                self.hub.drop("archive_lost")
                opener.failed()
                return
            opener.opened(log, record, is_over, will)
            await log.run(opener.will_kept)
        except Displaced as displaced:
            opener.displaced(displaced.word == AFRESH)
        except CamcastError:
            opener.failed()
        finally:
            await asyncio.shield(self._start(self._end_session(log, name, named)))

    async def _end_session(self, log: SessionLog | None, name: str, named: _Named) -> None:
        if log is not None:
            await log.close()
        self._let_go(name, named)


class _Named:
    """A durable name that this door has, or waits for."""

    def __init__(self, displaced: Callable[[], None], before: _Named | None, shared: bool) -> None:
        self.displaced = displaced
        self.shared = shared
        """Other doors have it too."""
        self.over = asyncio.Event()
        """This door has the name no more."""
        self.before = None if before is None else before.over


class _Followed:
    """What an archive keeps for one subscription of a client: a `Following` of the hub."""

    task: asyncio.Task[Any]
    """Takes messages from the archive."""

    def __init__(self, follower: Follower, before: KeptSubscription | None) -> None:
        self.follower = follower
        self.events: DurableSubscription | None = None
        """Set while the archive brings messages."""
        self.left = MOST_HELD
        """How many more messages may be brought."""
        self.room = asyncio.Event()
        self.room.set()
        self.forget = False
        self._given: dict[bytes, bool] = {}
        """The keys of messages from the first one on that the client has not, in order: True for those that
        it has."""
        self._position = b"" if before is None else before.position

    @property
    def position(self) -> bytes:
        if self.events is not None and not self.events.is_ended:
            self._position = self.events.done_position(MOST_RUNS)
        return self._position

    @property
    def finished(self) -> tuple[bytes, ...]:
        return tuple(key for key, is_done in self._given.items() if is_done)

    def give(self, event: DurableEvent) -> None:
        key = event.id

        def done() -> None:
            event.ack()
            self._given[key] = True
            while self._given and self._given[first := next(iter(self._given))]:
                del self._given[first]
            self.left += 1
            self.room.set()

        self._given[key] = False
        self.left -= 1
        if not self.left:
            self.room.clear()
        message = aged_since(message_in(event.topic, event.data))
        if message is None:
            done()
        else:
            self.follower.take(message, key, done)

    def end(self, forget: bool) -> None:
        self.forget = forget
        self.task.cancel()


def aged_since(message: MqttMessage | None) -> MqttMessage | None:
    """A message that was kept for a while, by its door's clock and this one's; None once it has expired."""
    if message is None or not message.published_at:
        return message
    return message.aged(max(0.0, time.time() - message.published_at))
