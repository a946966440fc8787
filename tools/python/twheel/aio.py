# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""Expirations for asyncio, on any event loop that has add_reader(), and for trio, and so for anyio.
Timeouts for asyncio.

There is no event loop with timers on the wheel: doc/replacing.md says why.

An iterator waits on a descriptor of its own, because a loop knows one reader for each. It keeps the
descriptor until its last reference is gone or the wheel is closed. So a server without a free
descriptor still learns which connections are idle.
"""

import asyncio
import contextlib
import os
import sys
import time
from collections.abc import Callable
from types import TracebackType
from typing import Any, Generic, TypeVar

from . import cell as cells
from .cell import Cell
from .records import Event
from .wheel import Wheel

T = TypeVar("T")

YIELD_AFTER = 16
"""Number of reads without a wait after which other tasks may run."""

MOST = 64
"""Number of timeouts that expire in one turn of the loop."""

BATCH = 256
"""Maximum number of cells that are made at once, or end in one turn of the loop."""

SPARE = 64
"""Number of idle cells up to which none ends."""

QUIET = 10
"""Seconds without use after which an idle cell ends, at the latest after twice as many."""

LONGEST = 9e9
"""Seconds on the clock. A timeout that is due later never expires."""


def _run_in(loop: asyncio.AbstractEventLoop, function: Callable[[], None]) -> None:
    """Run the function in the thread of the loop, or here if it does not run. Any thread may call
    this."""
    if loop.is_running() and asyncio._get_running_loop() is not loop:
        with contextlib.suppress(RuntimeError):     # it has been closed meanwhile
            loop.call_soon_threadsafe(function)
            return
    function()


class _Watch:
    """The waits of an iterator in asyncio. The loop refers to this object and not to the iterator,
    whose last reference closes it."""

    def __init__(self, wheel: Wheel) -> None:
        self._loop = asyncio.get_running_loop()
        self._waits: list[asyncio.Future[None]] = []
        self._woken = self._registered = self._stale = False
        self._fd = wheel._dup()

    async def rest(self) -> None:
        await asyncio.sleep(0)

    def wait(self) -> "asyncio.Future[None]":
        """Returns what ends when an event may be unread, or with close(). The descriptor stays
        registered until there is an event for which nobody waits.

        When a task has been woken and finds no further event, the loop has a call of _wake() left
        from before the read. It is ignored. If there was none, the next turn has another.
        """
        if self._woken:
            self._woken = False
            self._stale = self._registered
        if not self._registered:
            self._loop.add_reader(self._fd, self._wake)
            self._registered = True
        if self._waits:     # some may have been cancelled
            self._waits = [wait for wait in self._waits if not wait.done()]
        self._waits.append(self._loop.create_future())
        return self._waits[-1]

    def _wake(self) -> None:
        if self._stale:
            self._stale = False
            return
        self._end_waits(not self._woken)

    def _end_waits(self, registered: bool) -> None:
        if self._registered and not registered:
            self._loop.remove_reader(self._fd)
            self._registered = False
        self._woken = True
        for wait in self._waits:
            if not wait.done():
                wait.set_result(None)
        self._waits.clear()

    def close(self) -> None:
        """End all waits. Any thread may call this."""
        _run_in(self._loop, self._end)

    def _end(self) -> None:
        if self._fd >= 0:
            if not self._loop.is_closed():
                self._end_waits(False)
            os.close(self._fd)
            self._fd = -1


class _TrioWatch:
    """The same in trio, which waits for a descriptor once."""

    def __init__(self, wheel: Wheel, trio: Any) -> None:
        self._trio = trio
        self._token = trio.lowlevel.current_trio_token()
        self._fd = wheel._dup()
        self.rest = trio.lowlevel.checkpoint

    async def wait(self) -> None:
        if self._fd >= 0:
            with contextlib.suppress(self._trio.ClosedResourceError):
                await self._trio.lowlevel.wait_readable(self._fd)

    def close(self) -> None:
        try:
            self._token.run_sync_soon(self._end, True)
        except self._trio.RunFinishedError:
            self._end(False)

    def _end(self, running: bool) -> None:
        if self._fd >= 0:
            if running:
                self._trio.lowlevel.notify_closing(self._fd)
            os.close(self._fd)
            self._fd = -1


class Events(Generic[T]):
    """Iterator over what `given` makes of lists of up to `most` events, in one loop. Each list is
    read when the iterator is asked for it. A cancelled wait loses no event, and the iterator can be
    used further. It ends when the wheel is closed, which it keeps alive.
    """

    _watch: _Watch | _TrioWatch | None = None

    def __init__(self, wheel: Wheel, most: int, given: Callable[[list[Event]], T]) -> None:
        if most < 1:
            raise ValueError(f"room for {most} events")
        self._wheel = wheel
        self._most = most
        self._given = given
        self._reads = 0

    def __aiter__(self) -> "Events[T]":
        return self

    async def __anext__(self) -> T:
        try:
            watch = self._watch or self._start()
            while True:
                self._reads += 1
                if self._most > YIELD_AFTER or not self._reads % YIELD_AFTER:
                    await watch.rest()
                events = self._wheel._take(self._most)
                if events:
                    return self._given(events)
                if events is not None:
                    break
                await watch.wait()
                self._reads = 0
        except ValueError:      # the wheel is closed
            if not self._wheel.closed:
                raise
        raise StopAsyncIteration

    def _start(self) -> _Watch | _TrioWatch:
        trio, loop = sys.modules.get("trio"), asyncio._get_running_loop()
        # trio can be a guest in the thread of another loop.
        in_trio = trio and not (loop and asyncio.current_task(loop))
        self._watch = _TrioWatch(self._wheel, trio) if in_trio else _Watch(self._wheel)
        self._wheel._keep(self._watch, self._watch)
        return self._watch

    def __del__(self) -> None:
        if self._watch:
            self._wheel._drop(self._watch)


class _Timeouts:
    """The cells of the timeouts in one loop. They have a wheel of their own, so that nobody else
    reads their events.

    A burst leaves idle cells, which the next burst uses. Of the idle ones, _late are those that
    nobody has used since the last call of _rest(). They end in the next call.
    """

    def __init__(self, wheel: Wheel, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.wheel = wheel._another()
        self._clock = self.wheel._first.clock
        self._idle: list[Cell] = []
        self._late: list[Cell] = []
        self._timer: asyncio.TimerHandle | None = None
        self._used: dict[int, Timeout] = {}
        loop.add_reader(self.wheel.fileno(), self._expire)

    def now(self) -> float:
        return time.clock_gettime(self._clock)

    def take(self, timeout: "Timeout") -> Cell:
        """Lend a cell to the timeout."""
        if not self._idle and not self._late:
            self._idle = cells.create_many(self.wheel, min(len(self._used) + 1, BATCH))
        cell = (self._idle or self._late).pop()
        self._used[cell.id] = timeout
        return cell

    def give(self, cell: Cell) -> None:
        """Take it back."""
        del self._used[cell.id]
        if not self.wheel.closed:
            cell.cancel()
            self._idle.append(cell)
            if not self._timer and len(self._idle) > SPARE:
                self._timer = self.loop.call_later(QUIET, self._rest)

    def _rest(self) -> None:
        """End a batch of late cells. After the last one, all that are idle are late."""
        cells.close_many(self.wheel, self._late[-BATCH:])
        del self._late[-BATCH:]
        delay, self._timer = 0, None
        if not self._late:
            delay, self._late, self._idle = QUIET, self._idle, []
        if len(self._late) + len(self._idle) > SPARE:
            self._timer = self.loop.call_later(delay, self._rest)

    def _expire(self) -> None:
        for event in self.wheel._take(MOST) or ():
            self._used[event.id]._due_in(0)

    def close(self) -> None:
        """Leave the timeouts to the loop. Any thread may call this."""
        _run_in(self.loop, self._end)

    def _end(self) -> None:
        if not self.wheel.closed:
            if self._timer:
                self._timer.cancel()
            if not self.loop.is_closed():
                self.loop.remove_reader(self.wheel.fileno())
                self.loop.call_soon(self._leave)        # asyncio.timeout() needs a running loop
            self.wheel.close()

    def _leave(self) -> None:
        for timeout in self._used.values():
            if not timeout.expired():
                timeout.reschedule(timeout.when())


class Timeout:
    """Cancels what its block waits for, and raises TimeoutError, as asyncio.timeout() does, which
    counts the cancellations. That one has no deadline until the cell has fired.

    Wheel.timeout() makes one.
    """

    __slots__ = ("_wheel", "_timeouts", "_when", "_scope", "_cell")

    def __init__(self, wheel: Wheel, timeouts: _Timeouts, delay: float | None) -> None:
        self._wheel = wheel         # which would close the other one with its last reference
        self._timeouts = timeouts
        self._when = None if delay is None else timeouts.now() + delay
        self._scope = asyncio.timeout(None)
        self._cell: Cell | None = None

    def when(self) -> float | None:
        """The deadline, in seconds on the clock of the wheel, or None."""
        return self._when

    def reschedule(self, when: float | None) -> None:
        """Move the deadline. One that has passed is due at once, and None never.

        when: seconds on the clock of the wheel. By default that is time.monotonic(), as the time()
        of a loop. Raises RuntimeError outside of the block, or when it has expired.
        """
        self._due_in(None)
        self._when = when
        if self._cell:
            self._arm(self._cell)

    def _due_in(self, delay: float | None) -> None:
        self._scope.reschedule(None if delay is None else self._timeouts.loop.time() + delay)

    def _arm(self, cell: Cell) -> None:
        now = self._timeouts.now()
        if self._timeouts.wheel.closed:
            self._due_in(None if self._when is None else self._when - now)
        elif self._when is None or self._when >= LONGEST:
            cell.cancel()
        elif self._when > now:
            cell._arm_at(self._when)        # so equal times are equal deadlines
        else:                       # or not a number
            cell.cancel()
            self._due_in(0)

    def expired(self) -> bool:
        """It was due, and the block is cancelled."""
        return self._scope.expired()

    def __repr__(self) -> str:
        when = None if self._when is None else round(self._when, 3)
        return repr(self._scope).replace("when=None", f"when={when}")

    async def __aenter__(self) -> "Timeout":
        if self._cell:
            raise RuntimeError("Timeout has already been entered")
        await self._scope.__aenter__()
        self._cell = cell = self._timeouts.take(self)
        self._arm(cell)
        return self

    async def __aexit__(self, kind: type[BaseException] | None, error: BaseException | None,
                        traceback: TracebackType | None) -> None:
        if self._cell:
            self._timeouts.give(self._cell)
        await self._scope.__aexit__(kind, error, traceback)


def timeout(wheel: Wheel, delay: float | None) -> Timeout:
    """Make a timeout in the loop of this task."""
    loop = asyncio.get_running_loop()
    timeouts = wheel._watches.get(loop)
    if not timeouts:
        for old in [*wheel._watches]:
            if isinstance(old, asyncio.AbstractEventLoop) and old.is_closed():
                wheel._drop(old)
        timeouts = _Timeouts(wheel, loop)
        wheel._keep(loop, timeouts)
    return Timeout(wheel, timeouts, delay)
