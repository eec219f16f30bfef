"""An asyncio event loop whose time is virtual.

Nothing is waited for: when no callback is ready, the clock jumps to the next event. An event is a timer, or
an action on its way through the network, which the loop runs without knowing what it is. Equal times run
in the order in which they were scheduled, so the run is a function of the program and the seed.
"""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from contextvars import Context, copy_context
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING, Any, NoReturn, TypeVar, TypeVarTuple
from weakref import WeakKeyDictionary

from overlay.virtual.deadlock import Deadlock, describe_waiting
from overlay.virtual.handles import Soon, Timer, VirtualTask
from overlay.virtual.host import RUNNING_ON, HostCrashed, Incarnation

if TYPE_CHECKING:
    from overlay.virtual.medium import Medium
    from overlay.virtual.transport import VirtualTransport

T = TypeVar("T")
Ts = TypeVarTuple("Ts")

WIND_UP_SECONDS = 60.0
MAX_TURNS_PER_INSTANT = 2_000_000
_MIN_PURGE = 1000

_new_soon = Soon.__new__
_new_timer = Timer.__new__


class VirtualLoop(asyncio.BaseEventLoop):
    """See the module. `entropy` is where code on this loop takes its randomness (`overlay.entropy`)."""

    _closed: bool
    _stopping: bool
    medium: Medium

    def __init__(self, entropy: random.Random) -> None:
        super().__init__()
        self.entropy = entropy
        self.now = 0.0
        self.time_limit = float("inf")
        self.skewed = False
        self.mortal = False
        self.failure: BaseException | None = None
        self._soon: deque[Soon] = deque()
        self._events: list[tuple[Any, ...]] = []
        self._scheduled_count = 0
        self._cancelled_timers = 0
        self._task_count = 0
        self._graves: list[Any] = []
        self._generators: WeakKeyDictionary[Any, Incarnation | None] = WeakKeyDictionary()

    # -- the clock --

    def time(self) -> float:
        """The virtual time; on a host with a skewed clock, what that clock shows."""
        if self.skewed:
            incarnation = RUNNING_ON.get()
            if incarnation is not None:
                return incarnation.host.clock(self.now)
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
    ) -> Timer:
        return self.call_at(self.time() + delay, callback, *args, context=context)

    def call_at(
        self,
        when: float,
        callback: Callable[[*Ts], object],
        *args: *Ts,
        context: Context | None = None,
    ) -> Timer:
        if self._closed:
            self._refuse()
        if context is None:
            context = copy_context()
        timer = _new_timer(Timer)
        timer._callback = callback
        timer._args = args
        timer._cancelled = False
        timer._context = context
        timer._loop = self
        timer._when = when
        timer._scheduled = True
        if self.skewed:
            incarnation = context.get(RUNNING_ON)
            if incarnation is not None:
                when = incarnation.host.true_time(when)
        self._scheduled_count = number = self._scheduled_count + 1
        heappush(self._events, (when, number, timer))
        return timer

    def post(
        self, when: float, action: Callable[[Any, Any], None], first: Any, second: Any
    ) -> None:
        """Run `action(first, second)` at a true time; it cannot be cancelled and belongs to no host."""
        self._scheduled_count = number = self._scheduled_count + 1
        heappush(self._events, (when, number, action, first, second))

    def timer_cancelled(self) -> None:
        """Counts cancelled timers, and clears them out when they are half of all that is scheduled."""
        self._cancelled_timers += 1
        if self._cancelled_timers > _MIN_PURGE and self._cancelled_timers * 2 > len(self._events):
            self._events[:] = [
                event for event in self._events if len(event) > 3 or not event[2]._cancelled
            ]
            heapify(self._events)
            self._cancelled_timers = 0

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
        if self.failure is not None:
            raise self.failure
        return awaited.result()

    def _stop_after(self, _: object) -> None:
        self.stop()

    def fail(self, failure: BaseException) -> None:
        """End the run with an exception, whatever the running code catches."""
        self.failure = self.failure or failure
        self.stop()

    def _run_once(self) -> None:
        """Run until stopped; the base class would come back for every turn."""
        soon = self._soon
        events = self._events
        turns = 0
        while not self._stopping:
            for _ in range(len(soon)):
                handle = soon.popleft()
                if not handle._cancelled:
                    self._run(handle)
                    if self._stopping:
                        return
            turns += 1
            if events and (not soon or events[0][0] <= self.now):
                event = heappop(events)
                when = event[0]
                if when > self.now:
                    if when > self.time_limit:
                        self._time_is_up()
                    self.now = when
                    turns = 0
                if len(event) > 3:
                    event[2](event[3], event[4])
                else:
                    timer = event[2]
                    timer._scheduled = False
                    if timer._cancelled:
                        self._cancelled_timers -= 1
                    else:
                        self._run(timer)
            elif not soon:
                raise Deadlock(f"nothing will ever happen again: {describe_waiting(self.tasks())}")
            if turns > MAX_TURNS_PER_INSTANT:
                raise Deadlock(
                    f"time stands still at {self.now} s, always something ready to run: "
                    f"{describe_waiting(self.tasks())}"
                )

    def _run(self, handle: Soon | Timer) -> None:
        context = handle._context
        if self.mortal:
            incarnation = context.get(RUNNING_ON)
            if incarnation is not None and not incarnation.alive:
                return
        try:
            context.run(handle._callback, *handle._args)  # type: ignore[arg-type]
        except (SystemExit, KeyboardInterrupt):
            raise
        except BaseException as failure:
            self.report(failure, f"Exception in callback {handle}")

    def report(self, failure: BaseException, message: str) -> None:
        """Hand an exception that nobody caught to the loop's exception handler."""
        self.call_exception_handler({"message": message, "exception": failure})

    def _time_is_up(self) -> NoReturn:
        raise Deadlock(
            f"not done after {self.time_limit} virtual seconds (the limit of the run): "
            f"{describe_waiting(self.tasks())}"
        )

    # -- datagrams --

    async def create_datagram_endpoint(  # type: ignore[override]
        self,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        local_addr: tuple[str, int] | None = None,
        remote_addr: tuple[str, int] | None = None,
        **options: Any,
    ) -> tuple[VirtualTransport, Any]:
        """As asyncio's, for IPv4; of the options, those of a socket that exists already are refused."""
        if options.get("sock") is not None:
            raise ValueError(
                "the virtual network opens its own sockets: pass local_addr or remote_addr"
            )
        transport = self.medium.open(local_addr, remote_addr)
        transport.protocol = protocol = protocol_factory()
        transport.context.run(protocol.connection_made, transport)
        return transport, protocol

    # -- the end --

    def kill(self, incarnation: Incarnation) -> None:
        """Stop a host where it stands: nothing of it runs again, not even a `finally`.

        Its coroutines are kept as they are for as long as this loop is, because letting one go would
        run its `finally` clauses. Whoever waits for one of its tasks gets `HostCrashed`.
        """
        incarnation.alive = False
        self.mortal = True
        for task in self.tasks():
            if task.incarnation is incarnation:
                self._graves.append(task.get_coro())
                self._end(task)

    def _end(self, task: VirtualTask) -> None:
        """Mark a task as failed, from outside; the running one when it comes to its next await."""
        if task is asyncio.current_task():
            self.call_soon(self._end, task, context=Context())
        elif not task.done():
            assert task.incarnation is not None
            crashed = HostCrashed(
                f"{task.get_name()} ran on {task.incarnation.host.address}, which crashed"
            )
            asyncio.Future.set_exception(task, crashed)
            task.exception()  # so that nobody is told that it was never retrieved

    def wind_up(self) -> None:
        """Cancel what still runs, wait for its end, and close the loop."""
        self.failure = None
        self.time_limit = self.now + WIND_UP_SECONDS
        try:
            for task in self.tasks():
                task.cancel()
            for task in self.tasks():
                with suppress(Exception, asyncio.CancelledError):
                    self.run_until_complete(task)
            self.run_until_complete(self.shutdown_asyncgens())
        finally:
            self.medium.vanish()
            self.close()

    # -- what BaseEventLoop expects of a loop with a selector --

    def _write_to_self(self) -> None:
        """There is no selector to wake."""

    def close(self) -> None:
        super().close()
        self._soon.clear()
        self._events.clear()
