"""The composition kernel: layers, sessions, events, channels, and the stack that they make.

The broadcast tutorial for Appia (Carvalho and Rodrigues, section 3). A *layer* declares what it requires of
those below it and what it provides; a *stack* of layers (Appia's quality of service) refuses layers that miss
something. A *session* is a layer's state on one process, a *channel* is a stack of sessions, and one session
may stand in several channels. *Events* travel up (to the application) and down (to the network). Their types
are open: a session passes on what it does not know. Two events are the kernel's own: `ChannelClose` goes down
a channel that is being closed, and `TimeOut` comes to the session that asked for it.

Promised: of the events that one session passes to its neighbour in a channel, none overtakes another; and no
session is entered while it, or any other of its process, is at work.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from overlay.context import Timer
from overlay.errors import UsageError

if TYPE_CHECKING:
    from pubsub.broadcast.process import GroupProcess


class CompositionError(UsageError):
    """Layers that do not make a stack; the text names the layer and what it misses."""


class BadMessage(Exception):
    """A peer sent what the layer cannot read; the scheduler counts it under the reason and drops it."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


class LayerEvent:
    """Whatever travels in a channel; any subclass may be made by anybody."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class ChannelClose(LayerEvent):
    """Down: the channel is being closed. What a session sends before it passes this on still leaves; then the
    session gets no event of this channel any more."""


@dataclass(frozen=True, slots=True)
class TimeOut(LayerEvent):
    """To the session that asked for it with `LayerChannel.after`, on its way up."""

    what: object = None
    """What the session wants to be reminded of."""


class Layer:
    """What a protocol is called, needs and gives; it makes the sessions that do the work."""

    name: ClassVar[str]
    requires: ClassVar[tuple[str, ...]] = ()
    provides: ClassVar[tuple[str, ...]] = ()

    def needs(self) -> tuple[str, ...]:
        """What this layer requires, where that depends on how it was set up."""
        return self.requires

    def session(self, process: GroupProcess) -> LayerSession:
        raise NotImplementedError


class LayerSession:
    """A protocol's state on one process; subclasses take the events they know and pass on the others."""

    sent: int | None = None
    """How many broadcasts of this process the session has numbered, where it numbers them."""

    def __init__(self, process: GroupProcess) -> None:
        self.process = process

    def opened(self, channel: LayerChannel) -> None:
        """A channel that holds this session was opened."""

    def closed(self, channel: LayerChannel) -> None:
        """A channel that held this session was closed."""

    def on_up(self, channel: LayerChannel, event: LayerEvent) -> None:
        channel.up(self, event)

    def on_down(self, channel: LayerChannel, event: LayerEvent) -> None:
        channel.down(self, event)


class Stack:
    """Layers from the top down that fit together; `CompositionError` where one misses something."""

    def __init__(self, layers: Sequence[Layer], name: str = "stack") -> None:
        """`name`: what the stack's channels are called among the members, unless they have other names."""
        self.name = name
        self.layers = tuple(layers)
        self._check()

    def _check(self) -> None:
        if not self.layers:
            raise CompositionError(
                f"the stack {self.name!r} has no layer: give it at least its links"
            )
        provided: dict[str, None] = {}
        names: dict[str, None] = {}
        for layer in reversed(self.layers):
            if not isinstance(layer, Layer):
                raise CompositionError(f"in the stack {self.name!r} {layer!r} is not a layer")
            missing = [need for need in layer.needs() if need not in provided]
            if missing:
                raise CompositionError(
                    f"in the stack {self.name!r} the layer {layer.name!r} requires {missing[0]!r}, "
                    "which no layer below it provides"
                )
            if layer.name in names:
                raise CompositionError(
                    f"the stack {self.name!r} holds the layer {layer.name!r} twice"
                )
            names[layer.name] = None
            provided.update(dict.fromkeys(layer.provides))

    def provides(self, what: str) -> bool:
        """Whether one of the layers provides this."""
        return any(what in layer.provides for layer in self.layers)

    def open(
        self,
        process: GroupProcess,
        deliver: Callable[[LayerEvent], None],
        *,
        channel: str = "",
        sessions: Mapping[str, LayerSession] | None = None,
    ) -> LayerChannel:
        """Open a channel of this stack.

        `deliver` gets the events that leave the stack at its top. `channel` is the name under which the
        members of the group know it (by default the stack's). `sessions`, by the name of their layer,
        are shared with other channels; the other sessions are new.
        """
        shared = sessions or {}
        names = [layer.name for layer in self.layers]
        for name in shared:
            if name not in names:
                raise CompositionError(f"the stack {self.name!r} has no layer {name!r} to share")
        stacked = [shared.get(layer.name) or layer.session(process) for layer in self.layers]
        opened = LayerChannel(channel or self.name, process, self, stacked, deliver)
        process.add(opened)
        for session in reversed(stacked):
            session.opened(opened)
        process.take_early(opened)
        return opened


class LayerChannel:
    """A stack of sessions on one process. Events enter at the top by `push`, and at the bottom by `rise`.

    A channel that is closed takes no event any more, and its timers do not ring."""

    def __init__(
        self,
        name: str,
        process: GroupProcess,
        stack: Stack,
        sessions: list[LayerSession],
        deliver: Callable[[LayerEvent], None],
    ) -> None:
        self.name = name
        self.stack = stack
        self.deliver = deliver
        self._process = process
        self._sessions = sessions
        self._place = {id(session): place for place, session in enumerate(sessions)}
        self._scheduler = process.scheduler
        self._timers: dict[Timer, None] = {}
        self._is_closed = False

    @property
    def sent(self) -> int:
        """The number of this process's latest broadcast, as `Deliver` tells it; 0 where no layer counts."""
        return next((one.sent for one in self._sessions if one.sent is not None), 0)

    def session(self, layer: str) -> LayerSession:
        """The session of the layer with this name, to share it with another channel or to look at it."""
        for place, one in enumerate(self.stack.layers):
            if one.name == layer:
                return self._sessions[place]
        raise UsageError(f"the stack {self.stack.name!r} has no layer {layer!r}")

    def after(self, session: LayerSession, seconds: float, what: object = None) -> Timer:
        """Have `TimeOut(what)` come to the session after this time, unless the channel is closed before."""
        place = self._place[id(session)]

        def ring() -> None:
            self._timers.pop(timer, None)
            self._scheduler.post(self, place, True, TimeOut(what))

        timer = self._process.perfect.call_later(seconds, ring)
        self._timers[timer] = None
        return timer

    def close(self) -> None:
        """Send `ChannelClose` down the stack, and then take no event any more; more than once is fine.

        Sessions that other channels share go on there."""
        self._scheduler.post(self, 0, False, ChannelClose())

    def push(self, event: LayerEvent) -> None:
        """Give an event to the top of the stack, on its way down."""
        self._scheduler.post(self, 0, False, event)

    def rise(self, event: LayerEvent) -> None:
        """Give an event to the bottom of the stack, on its way up."""
        self._scheduler.post(self, len(self._sessions) - 1, True, event)

    def up(self, session: LayerSession, event: LayerEvent) -> None:
        """Pass an event from a session to the one above it, or to the application."""
        self._scheduler.post(self, self._place[id(session)] - 1, True, event)

    def down(self, session: LayerSession, event: LayerEvent) -> None:
        """Pass an event from a session to the one below it; below the last one it ends."""
        self._scheduler.post(self, self._place[id(session)] + 1, False, event)

    def handle(self, place: int, upwards: bool, event: LayerEvent) -> None:
        """Have the session at this place take an event; the concern of the scheduler alone."""
        if self._is_closed:
            return
        if place < 0:
            self.deliver(event)
        elif place < len(self._sessions):
            session = self._sessions[place]
            (session.on_up if upwards else session.on_down)(self, event)
        elif isinstance(event, ChannelClose):
            self._end()

    def _end(self) -> None:
        """The close has been through the whole stack, and whatever the sessions sent on its occasion too."""
        self._is_closed = True
        for timer in self._timers:
            timer.cancel()
        self._timers.clear()
        self._process.remove(self)
        for session in self._sessions:
            session.closed(self)


class Scheduler:
    """The events of one process, of all its channels, one after another in the order they were passed."""

    def __init__(self, count: Callable[[str], None]) -> None:
        self._queue: deque[tuple[LayerChannel, int, bool, LayerEvent]] = deque()
        self._running = False
        self._count = count

    def post(self, channel: LayerChannel, place: int, upwards: bool, event: LayerEvent) -> None:
        self._queue.append((channel, place, upwards, event))
        if not self._running:
            self._drain()

    def _drain(self) -> None:
        self._running = True
        try:
            while self._queue:
                channel, place, upwards, event = self._queue.popleft()
                try:
                    channel.handle(place, upwards, event)
                except BadMessage as problem:
                    self._count(problem.reason)
        finally:
            self._running = False
