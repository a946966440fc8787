# SPDX-License-Identifier: LGPL-2.1-or-later
"""asyncio on the wheel.

    twheel.aio.run(main())

runs main() on an event loop whose call_later() and call_at(), and so sleep(),
timeout() and wait_for(), are served by the wheel instead of a heap in the process:
O(1) to arm and to cancel, however many there are.

What a turn of the loop arms and cancels goes to the kernel in one call when the
turn is over, and what was both armed and cancelled in it does not go there at all.
A call is due on CLOCK_MONOTONIC, which is loop.time(), and is never early. What one
turn finds due is called in the order of the deadlines; two that share a tick may
come in different turns.

When the wheel takes no more, since a limit is reached, the heap takes the rest.
"""

import asyncio
import itertools
import os
import selectors
import time
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any, TypeVar

from .records import Event, Operation
from .times import MAX_NS, NSEC_PER_SEC, at_ns, seconds
from .wheel import Wheel

T = TypeVar("T")
Ready = list[tuple[selectors.SelectorKey, int]]

BATCH = 1024

YIELD_AFTER = 16
"""Events that an iterator hands out before others have their turn of the loop."""

if TYPE_CHECKING:
    class _Base(asyncio.SelectorEventLoop):
        """What BaseEventLoop shares with the loops that are derived from it."""

        def _check_closed(self) -> None: ...
        def _check_thread(self) -> None: ...
        def _check_callback(self, callback: object, method: str) -> None: ...
        def _process_events(self, event_list: Ready) -> None: ...
        def _add_callback(self, handle: asyncio.Handle) -> None: ...
        def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None: ...
else:
    _Base = asyncio.SelectorEventLoop


class _Timer(asyncio.TimerHandle):
    """A call that is to come."""

    __slots__ = ("expires_ns", "id", "on_heap")
    expires_ns: int
    id: int
    """Of its timeout; 0 until the kernel has it."""
    on_heap: asyncio.TimerHandle | None
    """What stands for it there, if the kernel has refused it."""


class _Selector(selectors.EpollSelector):
    """Tells the loop when a turn is over and it is about to wait."""

    def __init__(self, turn_is_over: Callable[[], bool]) -> None:
        """turn_is_over: true if there is no time to wait."""
        super().__init__()
        self._turn_is_over = turn_is_over

    def select(self, timeout: float | None = None) -> Ready:
        return super().select(0 if self._turn_is_over() else timeout)


def _expires_ns(when: float) -> int:
    """What is past is due, what is too far to be counted is never due."""
    if when >= MAX_NS / NSEC_PER_SEC:
        return MAX_NS
    return seconds(max(when, 0))


class WheelEventLoop(_Base):
    """An event loop whose timers are on a wheel."""

    def __init__(self, wheel: Wheel | None = None) -> None:
        """wheel: on CLOCK_MONOTONIC and for the loop alone, which closes it. Without, a
        new one with the default tick."""
        self._new: list[_Timer] = []
        self._cancelled: list[int] = []
        self._timers: dict[int, _Timer] = {}
        self._due: list[_Timer] = []
        selector = _Selector(self._turn_is_over)
        super().__init__(selector)
        try:
            self._wheel = wheel or Wheel()
        except OSError:
            super().close()
            raise
        self._wheel_fd = self._wheel.fileno()
        selector.register(self._wheel_fd, selectors.EVENT_READ)

    def close(self) -> None:
        super().close()
        self._wheel.close()

    def call_at(self, when: float, callback: Callable[..., object], *args: Any,
                context: Context | None = None) -> asyncio.TimerHandle:
        """As that of every loop. The handle's cancel() is O(1)."""
        self._check_closed()
        if self.get_debug():
            self._check_thread()
            self._check_callback(callback, "call_at")
        timer = _Timer(when, callback, args, self, context)
        timer.expires_ns = _expires_ns(when)
        timer.id = 0
        timer.on_heap = None
        self._new.append(timer)
        return timer

    def _timer_handle_cancelled(self, handle: asyncio.TimerHandle) -> None:
        if not isinstance(handle, _Timer):
            super()._timer_handle_cancelled(handle)
        elif self._timers.pop(handle.id, None):
            self._cancelled.append(handle.id)
        elif handle.on_heap:
            handle.on_heap.cancel()

    def _turn_is_over(self) -> bool:
        """Let the kernel know. True if something is due already."""
        now = time.monotonic_ns()
        arms = []
        for timer in self._new:
            if timer.expires_ns <= now:
                self._due.append(timer)
            elif not timer.cancelled():
                arms.append(timer)
        refused = self._submit(arms) if arms or self._cancelled else False
        self._new.clear()
        self._cancelled.clear()
        return refused or bool(self._due)

    def _submit(self, arms: list[_Timer]) -> bool:
        """Of cancels, what has fired meanwhile has no place any more: its event will
        find nobody. True if an arm was refused."""
        cancels = [Operation.cancel(id) for id in self._cancelled]
        ops = [Operation.arm(at_ns(timer.expires_ns)) for timer in arms]
        self._wheel.submit(cancels + ops)
        refused = False
        for timer, op in zip(arms, ops):
            if op.error:
                timer.on_heap = super().call_at(timer.when(), self._add_callback, timer)
                refused = True
            else:
                timer.id = op.id
                self._timers[op.id] = timer
        return refused

    def _process_events(self, event_list: Ready) -> None:
        """What is due comes after what can be read or written."""
        others = [ready for ready in event_list if ready[0].fd != self._wheel_fd]
        super()._process_events(others)
        if len(others) != len(event_list):
            self._collect()
        self._due.sort(key=lambda timer: timer.expires_ns)
        for timer in self._due:
            self._add_callback(timer)
        self._due.clear()

    def _collect(self) -> None:
        with suppress(TimeoutError):
            for event in self._wheel.read(BATCH, 0):
                timer = self._timers.pop(event.id, None)
                if timer:
                    self._due.append(timer)


def run(main: Coroutine[Any, Any, T], *, debug: bool | None = None) -> T:
    """As asyncio.run(), on a WheelEventLoop."""
    with asyncio.Runner(debug=debug, loop_factory=WheelEventLoop) as runner:
        return runner.run(main)


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)


async def expirations(wheel: Wheel) -> AsyncIterator[Event]:
    """Events of a wheel as they come, on any event loop that has add_reader().

    One is read at a time: what is cancelled before its turn is not seen. It ends when
    the wheel is stopped and empty. Each iteration has a descriptor of its own, since a
    loop knows one reader of each; the wheel lives at least as long.
    """
    fd = os.dup(wheel.fileno())
    try:
        for turn in itertools.count(1):
            if not turn % YIELD_AFTER:
                await asyncio.sleep(0)
            try:
                events = wheel.read(1, 0)
            except TimeoutError:
                await _readable(fd)
                continue
            if not events:
                return
            yield events[0]
    finally:
        os.close(fd)
