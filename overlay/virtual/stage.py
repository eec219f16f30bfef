"""A stage for protocol cores: thousands of them in one process, on virtual time, without asyncio.

A core is a synchronous object that acts through its `overlay.context.Context`. The stage hands out such
contexts and runs whatever they ask for in order of virtual time. It stands below the virtual event loop,
which runs whole nodes: here are no datagrams, no channels and no codec, so it is some twenty times as fast,
and it says nothing about them.

Faults: messages may be lost, duplicated and reordered (each draws its own latency); the network may be
partitioned; an actor may crash, losing its timers and all that is on its way to it, and be restarted.
The same seed gives the same run, whatever PYTHONHASHSEED. An exception of an actor ends the run and
carries the seed and the virtual time as a note.
"""

from __future__ import annotations

import hashlib
import heapq
import random
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from overlay import wire
from overlay.contact import Contact, PeerId
from overlay.errors import UsageError

Receive = Callable[[Contact, object], None]
Observer = Callable[[float, Contact, Contact, object], None]


def numbered_contact(number: int) -> Contact:
    """The contact of actor `number`: an id that looks random and an address of its own."""
    digest = hashlib.sha1(f"actor {number}".encode(), usedforsecurity=False).digest()
    host = f"10.{number >> 16 & 255}.{number >> 8 & 255}.{number & 255}"
    return Contact(PeerId(digest), host, 4000)


@dataclass(frozen=True, slots=True)
class StageConfig:
    """The network between the actors."""

    latency: tuple[float, float] = (0.01, 0.05)
    """Least and most seconds that a message takes; uniform between them, drawn for each message."""

    loss: float = 0.0
    """Probability that a message is lost, 0 to 1."""

    duplicate: float = 0.0
    """Probability that a message that is not lost arrives twice, 0 to 1."""

    check_wire: bool = False
    """Send each message through `wire.encode` and `wire.decode`, and fail when it does not survive."""

    def __post_init__(self) -> None:
        low, high = self.latency
        if not 0 <= low <= high:
            raise UsageError(f"latency must be two seconds in order, 0 or more, not {self.latency}")
        for name in ("loss", "duplicate"):
            if not 0 <= getattr(self, name) <= 1:
                raise UsageError(f"{name} is a probability, 0 to 1, not {getattr(self, name)}")


class Stage:
    """One heap of timers and messages, and the actors that they belong to."""

    def __init__(self, seed: int, config: StageConfig | None = None) -> None:
        self.seed = seed
        self.config = config or StageConfig()
        self.now = 0.0
        self.sent = 0
        self.delivered = 0
        self.dropped: dict[str, int] = {"lost": 0, "partitioned": 0, "crashed": 0, "nobody": 0}
        """Messages that did not arrive, by reason."""
        self._network = random.Random(f"{seed} network")
        self._heap: list[tuple[float, int, Callable[[], None] | _Delivery]] = []
        self._scheduled = 0
        self._actors: dict[PeerId, _Actor] = {}
        self._sides: dict[PeerId, int] | None = None
        self._observers: list[Observer] = []

    def context(self, contact: Contact, stream: str = "") -> StageContext:
        """A context for a core of `contact`, with a stream of randomness of its own.

        Cores of one actor that should not share randomness take different `stream` names.
        """
        actor = self._actor(contact)
        return StageContext(
            self, actor, random.Random(f"{self.seed} {actor.number} {actor.life} {stream}")
        )

    def attach(self, contact: Contact, receive: Receive) -> None:
        """Have `receive(sender, message)` called for what is sent to `contact` from now on."""
        self._actor(contact).receive = receive

    def observe(self, observer: Observer) -> None:
        """Have `observer(time, sender, receiver, message)` see every message when it is sent."""
        self._observers.append(observer)

    def crash(self, contact: Contact) -> None:
        """Stop an actor: none of its timers fires again and nothing is delivered to it."""
        actor = self._actor(contact)
        actor.up = False
        actor.receive = None
        actor.life += 1

    def restart(self, contact: Contact) -> None:
        """Bring a crashed actor back with nothing: give it a new context and attach it anew."""
        self._actor(contact).up = True

    def is_up(self, contact: Contact) -> bool:
        return self._actor(contact).up

    def partition(self, *sides: Iterable[Contact]) -> None:
        """Let messages pass within a side only; actors that no side names form one more side."""
        self._sides = {peer.id: number for number, side in enumerate(sides, 1) for peer in side}

    def heal(self) -> None:
        """End the partition."""
        self._sides = None

    def call_at(self, time: float, action: Callable[[], None]) -> None:
        """Run a step of the test's own script at a virtual time; no crash stops it."""
        self._push(max(time, self.now), action)

    def run(self, until: float) -> None:
        """Run everything that is due until the virtual time `until`, and leave the clock there."""
        heap = self._heap
        try:
            while heap and heap[0][0] <= until:
                self.now, _, action = heapq.heappop(heap)
                action()
        except Exception as error:
            error.add_note(f"on the stage with seed {self.seed}, at {self.now:.6f} s")
            raise
        self.now = max(self.now, until)

    def run_for(self, seconds: float) -> None:
        """Run for some virtual seconds from now."""
        self.run(self.now + seconds)

    def _actor(self, contact: Contact) -> _Actor:
        actor = self._actors.get(contact.id)
        if actor is None:
            actor = self._actors[contact.id] = _Actor(contact, len(self._actors))
        return actor

    def _push(self, time: float, action: Callable[[], None] | _Delivery) -> None:
        self._scheduled += 1
        heapq.heappush(self._heap, (time, self._scheduled, action))

    def _send(self, sender: _Actor, to: Contact, message: object) -> None:
        self.sent += 1
        for observer in self._observers:
            observer(self.now, sender.contact, to, message)
        config, network = self.config, self._network
        if config.check_wire:
            message = _through_the_wire(message)
        if config.loss and network.random() < config.loss:
            self.dropped["lost"] += 1
            return
        receiver = self._actor(to)
        copies = 2 if config.duplicate and network.random() < config.duplicate else 1
        low, high = config.latency
        for _ in range(copies):
            arrival = self.now + low + (high - low) * network.random()
            self._push(arrival, _Delivery(self, sender.contact, receiver, receiver.life, message))

    def _deliver(self, delivery: _Delivery) -> None:
        receiver = delivery.receiver
        if not receiver.up or receiver.life != delivery.life:
            self.dropped["crashed"] += 1
        elif self._sides is not None and not self._same_side(delivery.sender, receiver.contact):
            self.dropped["partitioned"] += 1
        elif receiver.receive is None:
            self.dropped["nobody"] += 1
        else:
            self.delivered += 1
            receiver.receive(delivery.sender, delivery.message)

    def _same_side(self, one: Contact, other: Contact) -> bool:
        assert self._sides is not None
        return self._sides.get(one.id, 0) == self._sides.get(other.id, 0)


class StageContext:
    """A `Context` on the stage; it is dead once its actor has crashed, and then does nothing."""

    __slots__ = ("_actor", "_life", "_stage", "contact", "random")

    def __init__(self, stage: Stage, actor: _Actor, randomness: random.Random) -> None:
        self.contact = actor.contact
        self.random = randomness
        self._stage = stage
        self._actor = actor
        self._life = actor.life

    def now(self) -> float:
        return self._stage.now

    def send(self, to: Contact, message: object) -> None:
        if self._actor.life == self._life:
            self._stage._send(self._actor, to, message)

    def call_later(self, delay: float, action: Callable[[], None]) -> StageTimer:
        timer = StageTimer(self._actor, self._life, action)
        self._stage._push(self._stage.now + max(delay, 0.0), timer)
        return timer


class StageTimer:
    """A timer on the stage; it waits in the heap until its time, cancelled or not."""

    __slots__ = ("_action", "_actor", "_life")

    def __init__(self, actor: _Actor, life: int, action: Callable[[], None]) -> None:
        self._actor = actor
        self._life = life
        self._action: Callable[[], None] | None = action

    def cancel(self) -> None:
        self._action = None

    def __call__(self) -> None:
        action, self._action = self._action, None
        if action is not None and self._actor.life == self._life:
            action()


class _Actor:
    """What the stage knows of one actor; `life` counts its crashes."""

    __slots__ = ("contact", "life", "number", "receive", "up")

    def __init__(self, contact: Contact, number: int) -> None:
        self.contact = contact
        self.number = number
        self.receive: Receive | None = None
        self.life = 0
        self.up = True


class _Delivery:
    """One message on its way."""

    __slots__ = ("life", "message", "receiver", "sender", "stage")

    def __init__(
        self, stage: Stage, sender: Contact, receiver: _Actor, life: int, message: object
    ) -> None:
        self.stage = stage
        self.sender = sender
        self.receiver = receiver
        self.life = life
        self.message = message

    def __call__(self) -> None:
        self.stage._deliver(self)


def _through_the_wire(message: object) -> object:
    restored: object = wire.decode(wire.encode(message))
    if restored != message:
        raise AssertionError(f"{message!r} arrived as {restored!r}")
    return restored
