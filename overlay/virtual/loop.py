"""An asyncio event loop whose time is virtual.

Nothing is waited for: when no callback is ready, the clock jumps to the next event. An event is a timer, or
an action on its way through the network, which the loop runs without knowing what it is. Equal times run
in the order in which they were scheduled, so the run is a function of the program and the seed. A run that
cannot go on is reported as a `Deadlock`, with the tasks that wait and where they wait.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from contextvars import Context, copy_context
from heapq import heapify, heappop, heappush
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, TypeVarTuple
from weakref import WeakKeyDictionary

from overlay.errors import CamcastError
from overlay.virtual.hosts import RUNNING_ON, Incarnation
from overlay.virtual.world import Collector

if TYPE_CHECKING:
    from overlay.virtual.medium import Medium
    from overlay.virtual.transport import VirtualTransport


_MOST_TASKS = 20


class Deadlock(CamcastError):
    """The run cannot come to its end: the text names the tasks that wait and where they wait."""


def describe_waiting(tasks: Sequence[asyncio.Task[Any]]) -> str:
    """One clause for each of the first tasks, and how many more there are."""
    if not tasks:
        return "no task is left"
    lines = [_describe(task) for task in tasks[:_MOST_TASKS]]
    if len(tasks) > _MOST_TASKS:
        lines.append(f"and {len(tasks) - _MOST_TASKS} more")
    return f"{len(tasks)} task(s) wait\n  " + "\n  ".join(lines)


def _describe(task: asyncio.Task[Any]) -> str:
    incarnation = getattr(task, "incarnation", None)
    place = "" if incarnation is None else f" on {incarnation.host.address}"
    return f"{task.get_name()}{place}: {' > '.join(_frames(task.get_coro()))}"


def _frames(awaited: Any) -> list[str]:
    """Where a coroutine is suspended, from its own line to the innermost that it awaits."""
    frames: list[str] = []
    while awaited is not None:
        frame = _first(awaited, "cr_frame", "gi_frame", "ag_frame")
        if frame is not None:
            code = frame.f_code
            frames.append(f"{code.co_name} ({Path(code.co_filename).name}:{frame.f_lineno})")
        awaited = _first(awaited, "cr_await", "gi_yieldfrom", "ag_await")
    return frames or ["not started"]


def _first(holder: object, *names: str) -> Any:
    for name in names:
        if hasattr(holder, name):
            return getattr(holder, name)
    return None


class Soon(asyncio.Handle):
    """A callback of this turn of the loop; made by `VirtualLoop.call_soon` alone, attribute by
    attribute, because the base class's constructor would be a third of a turn's cost."""

    __slots__ = ()
    _callback: Callable[..., object] | None
    _args: tuple[Any, ...]
    _cancelled: bool
    _context: Context

    def cancel(self) -> None:
        self._cancelled = True
        self._callback = None
        self._args = ()

    def cancelled(self) -> bool:
        return self._cancelled

    def __repr__(self) -> str:
        return f"<Soon {'cancelled' if self._cancelled else self._callback}>"


class VirtualTimer(asyncio.TimerHandle):
    """A callback of a later time; `when` is in the clock of the host that set it."""

    __slots__ = ()
    _callback: Callable[..., object] | None
    _args: tuple[Any, ...]
    _cancelled: bool
    _context: Context
    _loop: VirtualLoop
    _scheduled: bool
    _when: float

    def cancel(self) -> None:
        if not self._cancelled:
            self._cancelled = True
            self._callback = None
            self._args = ()
            if self._scheduled:
                self._loop.timer_cancelled()

    def cancelled(self) -> bool:
        return self._cancelled

    def when(self) -> float:
        return self._when

    def __repr__(self) -> str:
        return (
            f"<VirtualTimer at {self._when} {'cancelled' if self._cancelled else self._callback}>"
        )


def _living(events: list[tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """The events among `events` that are no cancelled timers."""
    return [event for event in events if len(event) > 3 or not event[2]._cancelled]


class VirtualTask(asyncio.Task[Any]):
    """A task that knows its host, and whose hash is its number and not its place in memory, so that a
    set of tasks (in `asyncio.TaskGroup`, for one) is walked in the same order in every process."""

    number: int
    incarnation: Incarnation | None

    def __init__(
        self, coro: Any, loop: VirtualLoop, name: str | None, context: Context | None, number: int
    ) -> None:
        self.number = number
        super().__init__(coro, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.number


T = TypeVar("T")
Ts = TypeVarTuple("Ts")

MAX_TURNS_PER_INSTANT = 2_000_000
"""Turns of the loop without any time passing, after which the program is taken for a busy wait."""
_MIN_PURGE = 1000
_SLOTS_A_SECOND = 128
"""A power of two, so that the bounds of slots are exact."""
_NEVER = 2.0**40
"""Seconds: what is farther away than any run lasts shares the last slot."""
_LAST_SLOT = int(_NEVER) * _SLOTS_A_SECOND

_new_soon = Soon.__new__
_new_timer = VirtualTimer.__new__


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module; made by `overlay.virtual.Network`."""

    _closed: bool
    _stopping: bool
    medium: Medium

    def __init__(self) -> None:
        super().__init__()
        self.now = 0.0
        """The true virtual time, whatever the clocks of the hosts show."""
        self.time_limit = float("inf")
        self.unhandled: list[dict[str, Any]] = []
        """What the loop's exception handler was told."""
        self.skewed = False
        """Whether any host's clock differs from the true time; and whether any host is slow or has died:
        nobody pays for what does not occur."""
        self.slowed = False
        self.mortal = False
        self._failure: BaseException | None = None
        self._soon: deque[Soon] = deque()
        # A heap of the events up to the end of the current slot, and unordered lists of those of later slots:
        # most timers are cancelled, and most of these never enter the heap.
        self._events: list[tuple[Any, ...]] = []
        self._slot_end = 1 / _SLOTS_A_SECOND
        self._later: dict[int, list[tuple[Any, ...]]] = {}
        self._slots: list[int] = []
        """A heap of the keys of `_later`."""
        self._event_count = 0
        self._cancelled_timers = 0
        self._purge_at = _MIN_PURGE
        self._collector = Collector()
        self._task_count = 0
        self._generators: WeakKeyDictionary[Any, Incarnation | None] = WeakKeyDictionary()

    # -- the clock --

    def time(self) -> float:
        """The virtual time, as the clock of the host shows it on which the caller runs."""
        if self.skewed:
            incarnation = RUNNING_ON.get()
            if incarnation is not None and (host := incarnation.host).is_skewed:
                return host.clock(self.now)
        return self.now

    # -- scheduling --

    def call_soon(
        self, callback: Callable[[*Ts], object], *args: *Ts, context: Context | None = None
    ) -> Soon:
        if self._closed:
            self._refuse()
        handle = _new_soon(Soon)
        handle._callback = callback
        handle._args = args
        handle._cancelled = False
        handle._context = copy_context() if context is None else context
        self._soon.append(handle)
        return handle

    call_soon_threadsafe = call_soon

    def call_later(
        self,
        delay: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> VirtualTimer:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> VirtualTimer:
        if self._closed:
            self._refuse()
        timer = _new_timer(VirtualTimer)
        timer._callback = callback
        timer._args = args
        timer._cancelled = False
        timer._context = copy_context() if context is None else context
        timer._loop = self
        timer._when = when
        timer._scheduled = True
        if self.skewed:
            incarnation = RUNNING_ON.get()
            if incarnation is not None and (host := incarnation.host).is_skewed:
                when = host.true_time(when)
        self._event_count = number = self._event_count + 1
        if when < self._slot_end:
            heappush(self._events, (when, number, timer))
        else:
            self._put_off(when, (when, number, timer))
        return timer

    def post(self, when: float, action: Callable[[*Ts], None], *args: *Ts) -> None:
        """Run an action of the network at a true time; it cannot be cancelled and belongs to no host."""
        self._event_count = number = self._event_count + 1
        if when < self._slot_end:
            heappush(self._events, (when, number, action, args))
        else:
            self._put_off(when, (when, number, action, args))

    def _put_off(self, when: float, event: tuple[Any, ...]) -> None:
        slot = int(when * _SLOTS_A_SECOND) if when < _NEVER else _LAST_SLOT
        events = self._later.get(slot)
        if events is None:
            self._later[slot] = [event]
            heappush(self._slots, slot)
        else:
            events.append(event)

    def _next_slot(self) -> bool:
        """Go on to the next slot with events in it; False if there is none."""
        while self._slots:
            slot = heappop(self._slots)
            self._slot_end = (slot + 1) / _SLOTS_A_SECOND
            events = self._later.pop(slot)
            living = _living(events)
            self._cancelled_timers -= len(events) - len(living)
            if living:
                heapify(living)
                self._events[:] = living
                return True
        return False

    @property
    def scheduled(self) -> int:
        """Timers, cancelled ones among them, and actions of the network whose time has not come."""
        return len(self._events) + sum(map(len, self._later.values()))

    def timer_cancelled(self) -> None:
        """Count cancelled timers, and clear them out when they were as many as all others were last time."""
        self._cancelled_timers += 1
        if self._cancelled_timers > self._purge_at:
            self._events[:] = _living(self._events)
            heapify(self._events)
            left = {slot: _living(events) for slot, events in self._later.items()}
            self._later = {slot: events for slot, events in left.items() if events}
            self._slots = sorted(self._later)
            self._cancelled_timers = 0
            self._purge_at = max(_MIN_PURGE, self.scheduled)

    def _refuse(self) -> NoReturn:
        raise RuntimeError("Event loop is closed")

    # -- tasks --

    def create_task(  # type: ignore[override]
        self, coro: Any, *, name: str | None = None, context: Context | None = None
    ) -> VirtualTask:
        if self._closed:
            self._refuse()
        self._task_count = number = self._task_count + 1
        task = VirtualTask(coro, self, name or f"task-{number}", context, number)
        task.incarnation = RUNNING_ON.get() if context is None else context.get(RUNNING_ON)
        return task

    def tasks(self) -> list[VirtualTask]:
        """The tasks that are not done, in the order in which they were made."""
        tasks = (task for task in asyncio.all_tasks(self) if isinstance(task, VirtualTask))
        return sorted(tasks, key=lambda task: task.number)

    def run_in_executor(
        self, executor: Any, func: Callable[[*Ts], T], *args: *Ts
    ) -> asyncio.Future[T]:
        """Runs the function at once: a thread would bring its own timing into the run."""
        future: asyncio.Future[T] = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as failure:
            future.set_exception(failure)
        return future

    # -- running --

    def run_until_complete(self, future: Any) -> Any:
        """Run until a future or coroutine is done, and return or raise what it did."""
        awaited = asyncio.ensure_future(future, loop=self)
        awaited.add_done_callback(self._stop_after)
        try:
            self.run_forever()
        finally:
            awaited.remove_done_callback(self._stop_after)
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        return awaited.result()

    def _stop_after(self, _: object) -> None:
        self.stop()

    def fail(self, failure: BaseException) -> None:
        """End the run with an exception, whatever the running code catches."""
        self._failure = self._failure or failure
        self.stop()

    def _run_once(self) -> None:
        """Run until stopped; the base class would come back for every turn."""
        soon = self._soon
        events = self._events
        turns = 0
        while not self._stopping:
            for _ in range(len(soon)):
                handle = soon.popleft()
                if handle._cancelled or (self.mortal and self._is_dead(handle)):
                    continue
                try:  # as `_run` does, without a call: most of all callbacks come this way
                    handle._context.run(handle._callback, *handle._args)  # type: ignore[arg-type]
                except (SystemExit, KeyboardInterrupt):
                    raise
                except BaseException as failure:
                    self.report(failure, f"Exception in callback {handle}")
                if self._stopping:
                    return
            if events and (not soon or events[0][0] <= self.now):
                event = heappop(events)
                when = event[0]
                if when > self.now:
                    if when > self.time_limit:
                        self._refuse_to_go_on()
                    self.now = when
                    if self._event_count >= self._collector.due_at:
                        self._collector.collect()
                    turns = 0
                if len(event) > 3:
                    event[2](*event[3])
                elif event[2]._cancelled:
                    self._cancelled_timers -= 1
                elif self.slowed:
                    self._run_in_its_turn(event[2])
                else:
                    self._run(event[2])
            elif not soon and not self._next_slot():
                raise Deadlock(f"nothing will ever happen again: {describe_waiting(self.tasks())}")
            turns += 1
            if turns > MAX_TURNS_PER_INSTANT:
                raise Deadlock(
                    f"time stands still at {self.now} s: {describe_waiting(self.tasks())}"
                )

    def _refuse_to_go_on(self) -> NoReturn:
        raise Deadlock(
            f"not done at {self.time_limit} s of virtual time, the limit of this run: "
            f"{describe_waiting(self.tasks())}"
        )

    def _run_in_its_turn(self, timer: VirtualTimer) -> None:
        """Run a timer when its host, which may be slow, gets round to it."""
        incarnation = timer._context.get(RUNNING_ON)
        if incarnation is not None and incarnation.host.slowness > 1:
            timer._scheduled = False
            self.post(incarnation.host.turn(self.now), self._run_late, timer)
        else:
            self._run(timer)

    def _run_late(self, timer: VirtualTimer) -> None:
        if not timer._cancelled:
            self._run(timer)

    def _run(self, timer: VirtualTimer) -> None:
        timer._scheduled = False
        if self.mortal and self._is_dead(timer):
            return
        try:
            timer._context.run(timer._callback, *timer._args)  # type: ignore[arg-type]
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as failure:
            self.report(failure, f"Exception in callback {timer}")

    def _is_dead(self, handle: Soon | VirtualTimer) -> bool:
        """Whether the host on which it was to run has crashed."""
        incarnation = handle._context.get(RUNNING_ON)
        return incarnation is not None and not incarnation.alive

    # -- exceptions that nobody caught --

    def report(self, failure: BaseException, message: str) -> None:
        self.call_exception_handler({"message": message, "exception": failure})

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.unhandled.append(context)
        super().call_exception_handler(context)

    # -- datagrams --

    async def create_datagram_endpoint(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], Any],
        local_addr: tuple[str, int] | None = None,
        remote_addr: tuple[str, int] | None = None,
        **options: Any,
    ) -> tuple[VirtualTransport, Any]:
        """As asyncio's for IPv4. Sockets of the operating system cannot be brought along."""
        if options.get("sock") is not None:
            raise ValueError("the virtual network opens its own sockets: pass local_addr")
        transport = self.medium.open(local_addr, remote_addr)
        transport.protocol = protocol = protocol_factory()
        transport.context.run(protocol.connection_made, transport)
        return transport, protocol

    # -- asynchronous generators: those of a dead host are not closed, the others in order --

    def _asyncgen_firstiter_hook(self, generator: Any) -> None:
        self._generators[generator] = RUNNING_ON.get()

    def _asyncgen_finalizer_hook(self, generator: Any) -> None:
        if self._is_living(self._generators.pop(generator, None)) and not self._closed:
            self.create_task(generator.aclose())

    async def shutdown_asyncgens(self) -> None:
        for generator, incarnation in list(self._generators.items()):
            if self._is_living(incarnation):
                try:
                    await generator.aclose()
                except Exception as failure:
                    self.report(failure, f"Exception while closing {generator}")

    def _is_living(self, incarnation: Incarnation | None) -> bool:
        return incarnation is None or incarnation.alive

    def _write_to_self(self) -> None:
        """There is no selector to wake."""

    def __del__(self) -> None:
        """There is nothing of the operating system to give back, so no loop is left unclosed."""

    def close(self) -> None:
        super().close()
        self._soon.clear()
        self._events.clear()
        self._later.clear()
