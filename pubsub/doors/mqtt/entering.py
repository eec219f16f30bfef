"""How clients enter: from CONNECT to CONNACK.

The session is found at this door, or fetched from the archive where sessions are kept; the client's will is
kept there too; and the client is let in when the archive knows that the session is this door's. A client that
connects once more meanwhile takes the place of its earlier connection.
"""

from __future__ import annotations

from collections.abc import Callable, Container
from functools import partial
from typing import TYPE_CHECKING

from pubsub.doors.mqtt.connection import Connection
from pubsub.doors.mqtt.filters import TopicFilter
from pubsub.doors.mqtt.kept import Keeper, Keeping, KeptSubscription, Record
from pubsub.doors.mqtt.message import topic_of
from pubsub.doors.mqtt.packets import Asked, Connect, MqttError, Reason
from pubsub.doors.mqtt.session import Session
from pubsub.doors.mqtt.subscribing import name_at_archive
from pubsub.doors.mqtt.wills import AGAIN_SECONDS, kept_will

if TYPE_CHECKING:
    from pubsub.doors.mqtt.hub import Hub

Entered = Callable[[Session, bool, str], None]


class _Entry:
    """A client that has said CONNECT, until it is let in: the opener of its session."""

    def __init__(
        self,
        entering: Entering,
        client_id: str,
        connection: Connection,
        connect: Connect,
        expiry: float,
        entered: Callable[[Session, bool], None],
    ) -> None:
        self._entering = entering
        self.client_id = client_id
        self.connection = connection
        self.connect = connect
        self.afresh = connect.clean_start
        self.expiry = expiry
        self.entered = entered
        self.session: Session | None = None

    def opened(self, keeping: Keeping, record: Record | None, is_over: bool, will: bytes) -> None:
        self._entering.fetched(self, keeping, record, is_over, will)

    def will_kept(self, id: bytes) -> None:
        self._entering.hub.network.end_elsewhere(id)

    def failed(self) -> None:
        if self.session is not None:
            self._entering.hub.archive_lost(self.session)
        else:
            self._entering.not_fetched(self)

    def displaced(self, afresh: bool) -> None:
        if self.session is not None:
            self._entering.hub.moved(self.session, afresh)
        else:
            self._entering.went_elsewhere(self)


class Entering:
    """Lets the clients of one door in."""

    def __init__(self, hub: Hub, name: str) -> None:
        """`name`: the beginning of the client ids that the door gives to clients that bring none."""
        self.hub = hub
        self._name = name
        self._named = 0
        self._entering: dict[str, _Entry] = {}
        """By client id: whose session is being fetched."""

    def enter(
        self, connection: Connection, connect: Connect, expiry: float, entered: Entered
    ) -> None:
        """Find or make the client's session: `entered` is told of it, whether it was there before, and the id
        that the door gave the client, if any. `expiry`: seconds that it is to last without a connection.

        A connection that the client still has is ended (section 3.1.4)."""
        given = ""
        client_id = connect.client_id
        if not client_id:
            self._named += 1
            client_id = given = f"{self._name}-{self._named}"
        if not connection.is_authenticated and not self.hub.access.connect(
            client_id, connect.username, connect.password
        ):
            raise MqttError(Reason.NOT_AUTHORIZED, "the user name or the password is not right")
        if connect.will is not None and not self.hub.may_publish(client_id, connect.will.topic):
            raise MqttError(Reason.NOT_AUTHORIZED, "the client may not publish its will")
        before = self.hub.connections.pop(client_id, None)
        if before is not None:
            before.taken_over()
        elif len(self.hub.connections) + len(self._entering) >= self.hub.config.most_clients:
            raise MqttError(Reason.SERVER_BUSY, "the door has no room for another client")
        if timer := self.hub.endings.pop(client_id, None):
            timer.cancel()
        session = self.hub.sessions.get(client_id)
        if connect.clean_start:
            if session is not None:
                self.hub.end(session)
            self.hub.wills.publish(client_id)  # it is not delayed beyond the session
            session = None
        entry = _Entry(
            self,
            client_id,
            connection,
            connect,
            expiry,
            lambda session, present: entered(session, present, given),
        )
        if session is None and self.hub.network.keeps_sessions and not given:
            earlier = self._entering.get(client_id)
            self._entering[client_id] = entry
            if earlier is not None:
                earlier.connection.taken_over()
            self.hub.network.open_session(client_id, entry)
            return
        present = session is not None
        if session is None:
            session = self.hub.new_session(client_id, connect)
        self._have(entry, session)
        self._keep_will(entry, session, present, session.will)

    def _have(self, entry: _Entry, session: Session) -> None:
        entry.session = session
        session.expiry = entry.expiry
        self.hub.connections[entry.client_id] = entry.connection

    def fetched(
        self, entry: _Entry, keeping: Keeping, record: Record | None, is_over: bool, will: bytes
    ) -> None:
        """What is kept of the session of a client that wants to enter is there; `is_over`: it has ended.
        `will`: the id of the one that was kept last."""
        if self._entering.get(entry.client_id) is not entry or not entry.connection.is_open:
            keeping.end(forget=False)  # the client has gone, or has connected once more
            if self._entering.get(entry.client_id) is entry:
                del self._entering[entry.client_id]
            return
        del self._entering[entry.client_id]
        try:
            session = self.hub.new_session(entry.client_id, entry.connect)
        except MqttError as error:
            keeping.end(forget=False)
            entry.connection.fail(error)
            return
        self._have(entry, session)
        session.incarnation = keeping.token
        present = record is not None and not entry.connect.clean_start and not is_over
        if record is None and entry.expiry <= 0 and entry.connect.will is None:
            keeping.end(forget=True)  # there was nothing, and there will be nothing
        else:
            session.keeper = Keeper(
                keeping, session.record, partial(self.hub.archive_lost, session)
            )
        if record is not None and present:
            session.recall(record)
            self._subscribe_again(session, record.subscriptions)
        elif record is not None:
            self._forget_kept(entry.client_id, record.subscriptions)
        self._keep_will(entry, session, present, will if present or record is None else b"")

    def _forget_kept(self, client_id: str, kept: list[KeptSubscription]) -> None:
        """Have archives forget what they keep for a session that has ended."""
        for one in kept:
            try:
                asked = Asked.of(one.filter, one.options)
                parsed = TopicFilter.parse(one.filter)
                topic = topic_of(parsed.base)
            except MqttError:
                self.hub.drop("not_a_record")
                continue
            if asked.qos and parsed.group is None and self.hub.network.keeps(topic):
                self.hub.network.forget(name_at_archive(client_id, one.filter), topic)

    def _keep_will(
        self, entry: _Entry, session: Session, present: bool, before: bytes = b""
    ) -> None:
        """Have the client's will kept where sessions are, in place of the one that was kept before, and let
        the client in.

        The one before goes on waiting, at whichever door, until the archive has what ends it. From there
        on the new one waits in its place until the client is in; without a new one, nothing but CONNACK is
        left to do then."""
        will = entry.connect.will
        enter = partial(self._enter, entry, session, present)
        if not self.hub.network.keeps_sessions or (will is None and not before):
            self._own(session, enter)
            return
        kept = None if will is None else kept_will(entry.client_id, will, entry.expiry)

        def written(id: bytes | None) -> None:
            if id is None:
                self.hub.archive_lost(session)
            elif self.hub.connections.get(entry.client_id) is not entry.connection:
                if id:
                    self.hub.network.will_over(id)  # the client has connected once more
            else:
                session.will = id
                if kept is None:
                    enter()
                    return
                if before and kept.delay > 0:
                    self.hub.wills.stand_in(entry.client_id, kept, id, before)
                self._own(session, enter)

        keep = partial(self.hub.network.keep_will, kept, before, written)
        if kept is None:
            session.will = before
            self._own(session, keep)
        else:
            keep()

    def _own(self, session: Session, then: Callable[[], None]) -> None:
        """`then` is called when the archive knows that the session is this door's."""
        if session.keeper is not None:
            session.keeper.changed(then)
        else:
            then()

    def _enter(self, entry: _Entry, session: Session, present: bool) -> None:
        if self.hub.connections.get(entry.client_id) is not entry.connection:
            return  # the client has connected once more
        is_standing_in = self.hub.wills.is_standing_in(entry.client_id)
        waiting = self.hub.wills.cancel(entry.client_id)
        if waiting not in (b"", session.will):
            self.hub.network.will_over(waiting)
        if entry.connection.is_open:
            entry.entered(session, present)
        else:
            will = entry.connect.will if is_standing_in else None
            self.hub.leave(entry.connection, session, will)

    def not_fetched(self, entry: _Entry) -> None:
        if self._entering.get(entry.client_id) is entry:
            del self._entering[entry.client_id]
            what = "the archive of the sessions does not answer"
            entry.connection.fail(MqttError(Reason.SERVER_UNAVAILABLE, what))

    def went_elsewhere(self, entry: _Entry) -> None:
        """The client has connected to another door before its session was fetched for this one."""
        if self._entering.get(entry.client_id) is entry:
            del self._entering[entry.client_id]
            entry.connection.taken_over()

    def _subscribe_again(self, session: Session, kept: list[KeptSubscription]) -> None:
        """Make the subscriptions of a session that another door had."""
        for one in kept:
            try:
                asked = Asked.of(one.filter, one.options)
                self.hub.subscribe(session, asked, one.identifier or None, lambda reason: None, one)
            except MqttError:
                self.hub.drop("not_a_record")

    def wills_lost(self, ids: Container[bytes]) -> None:
        """Another door has taken these wills over, though this one is there: clients that are connected keep
        theirs anew."""
        self.hub.wills.leave(ids)
        for session in list(self.hub.sessions.values()):
            connection = self.hub.connections.get(session.client_id)
            if session.will and session.will in ids and connection is not None:
                self._keep_again(session, connection)

    def _keep_again(self, session: Session, connection: Connection) -> None:
        """Until the archive has it, or the client has left."""
        before = session.will
        if connection.will is None:
            return

        def is_there() -> bool:
            is_connected = self.hub.connections.get(session.client_id) is connection
            return is_connected and session.will == before

        def written(id: bytes | None) -> None:
            if id is None:
                self.hub.clock.call_later(AGAIN_SECONDS, again)
            elif not is_there():
                self.hub.network.will_over(id)
            else:
                session.will = id
                if session.keeper is not None:
                    session.keeper.changed()

        def again() -> None:
            if is_there():
                self.hub.network.keep_will(will, before, written, is_same=True)

        will = kept_will(session.client_id, connection.will, session.expiry)
        again()
