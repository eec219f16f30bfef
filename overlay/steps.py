"""Steps that wait for answers, written one after the other, in protocol cores that have no event loop.

A core is a synchronous object: it is called, and calls back. Where one question follows from the answer to
another, a chain of callbacks hides the order of things. So such a sequence is written as a coroutine, and
`Steps` runs it: up to the first answer that is missing, and on from there when the answer is given. Nothing
here knows of threads, tasks or clocks; the same steps run on a real node, on the virtual network and on the
Stage.

    async def greet() -> int:
        reply = await answer_to(partial(ask, peer, "who are you?"))
        ...
    Steps(greet(), done=print)
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Generator, Sequence
from functools import partial
from typing import Any, Generic, Protocol, TypeVar

from overlay.context import Context

T = TypeVar("T")
Work = Coroutine[Any, Any, T]


class Cancellable(Protocol):
    """Something under way; to cancel what is over does nothing."""

    def cancel(self) -> None: ...


class Answer(Generic[T]):
    """A value that may come later. The first one that is given counts; steps `await` it."""

    __slots__ = ("_error", "_given", "_resume")

    def __init__(self) -> None:
        self._given: list[T] = []
        self._error: Exception | None = None
        self._resume: Callable[[], None] | None = None

    def give(self, value: T) -> None:
        if not self._given and self._error is None:
            self._given.append(value)
            self._wake()

    def fail(self, error: Exception) -> None:
        """The steps that wait get this exception."""
        if not self._given and self._error is None:
            self._error = error
            self._wake()

    def then(self, resume: Callable[[], None] | None) -> None:
        """Have `resume` called when the value comes; one can wait at a time."""
        self._resume = resume

    def _wake(self) -> None:
        resume, self._resume = self._resume, None
        if resume is not None:
            resume()

    def __await__(self) -> Generator[Answer[Any], None, T]:
        if not self._given and self._error is None:
            yield self
        if self._error is not None:
            raise self._error
        return self._given[0]


class Steps(Generic[T]):
    """A coroutine under way: it has run up to its first missing answer when this object has been made.

    `done` is called with the result, unless the steps are cancelled. An exception of the steps goes to
    `failed`, or else to the code that gave the answer after which it was raised. The steps are a key of
    `among` until they are over, so that their owner can cancel all of its steps.
    """

    __slots__ = ("_among", "_done", "_failed", "_is_running", "_waits_for", "_work", "is_over")

    def __init__(
        self,
        work: Work[T],
        done: Callable[[T], None] | None = None,
        failed: Callable[[Exception], None] | None = None,
        among: dict[Steps[Any], None] | None = None,
    ) -> None:
        self._work = work
        self._done = done
        self._failed = failed
        self._among: dict[Steps[Any], None] = {} if among is None else among
        self._among[self] = None
        self._waits_for: Answer[Any] | None = None
        self._is_running = False
        self.is_over = False
        self._go_on()

    def cancel(self) -> None:
        """Stop where the steps are; their `finally` blocks run, and `done` is not called."""
        if not self.is_over:
            self._end()
            if self._waits_for is not None:
                self._waits_for.then(None)
            if not self._is_running:
                self._work.close()

    def _end(self) -> None:
        self.is_over = True
        self._among.pop(self, None)

    def _go_on(self) -> None:
        self._waits_for = None
        self._is_running = True
        try:
            waits_for = self._work.send(None)
        except StopIteration as end:
            if not self.is_over:
                self._end()
                if self._done is not None:
                    self._done(end.value)
            return
        except Exception as error:
            self._end()
            if self._failed is None:
                raise
            self._failed(error)
            return
        finally:
            self._is_running = False
        if self.is_over:  # cancelled by what the steps themselves caused
            self._work.close()
            return
        self._waits_for = waits_for
        waits_for.then(self._go_on)


async def answer_to(ask: Callable[[Callable[[T], None]], Cancellable | None]) -> T:
    """What `ask(give)` gives, now or later; what it started is cancelled with the steps."""
    answer: Answer[T] = Answer()
    pending = ask(answer.give)
    try:
        return await answer
    finally:
        if pending is not None:
            pending.cancel()


async def together(works: Sequence[Work[T]]) -> list[T]:
    """Run all at the same time; the results in the order of the works. All are cancelled together."""
    if len(works) == 1:  # most of all times
        return [await works[0]]
    results: dict[int, T] = {}
    all_done: Answer[None] = Answer()

    def keep(index: int, result: T) -> None:
        results[index] = result
        if len(results) == len(works):
            all_done.give(None)

    started: list[Steps[T]] = []
    try:
        for index, work in enumerate(works):
            started.append(Steps(work, partial(keep, index), all_done.fail))
        if works:
            await all_done
    finally:
        for steps in started:
            steps.cancel()
        for work in works[len(started) :]:
            work.close()
    return [results[index] for index in range(len(works))]


async def pause(context: Context, seconds: float) -> None:
    """Wait on the core's own clock."""
    over: Answer[None] = Answer()
    timer = context.call_later(seconds, lambda: over.give(None))
    try:
        await over
    finally:
        timer.cancel()


class Signal:
    """Something that happens once; any number of steps may wait for it."""

    def __init__(self) -> None:
        self.is_set = False
        self._waiting: dict[Answer[None], None] = {}

    def set(self) -> None:
        self.is_set = True
        waiting, self._waiting = self._waiting, {}
        for answer in waiting:
            answer.give(None)

    async def wait(self) -> None:
        if not self.is_set:
            answer: Answer[None] = Answer()
            self._waiting[answer] = None
            try:
                await answer
            finally:
                self._waiting.pop(answer, None)


class AtOnce:
    """At most `limit` pieces of work at the same time; further ones wait for their turn, in order."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._running = 0
        self._waiting: dict[Callable[[], None], None] = {}

    def enter(self, start: Callable[[], None]) -> None:
        """Call `start` when there is room; each one that was started calls `leave` at its end."""
        if self._running < self._limit:
            self._running += 1
            try:
                start()
            except BaseException:
                self.leave()
                raise
        else:
            self._waiting[start] = None

    def give_up(self, start: Callable[[], None]) -> bool:
        """Do not wait any more; False if it was started."""
        return self._waiting.pop(start, self) is None

    def leave(self) -> None:
        self._running -= 1
        while self._waiting and self._running < self._limit:
            start = next(iter(self._waiting))
            del self._waiting[start]
            self._running += 1
            start()
