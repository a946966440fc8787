# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""A context of /dev/twheel, or of a wheel in the process, as an object.

The C library owns the memory of a context. Each call holds a reference to it, and the last
reference frees it. So close() in one thread does not disturb a call in another thread.
"""

import ctypes
import errno
import os
import threading
import time
import warnings
import weakref
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, NoReturn

from . import _lib, cell as cells
from ._lib import lib, waiting
from .cell import Cell
from .errors import check, open_error
from .records import Event, Found, Info, Operation, Outcome, Stats, Timeout, slack_us
from .times import MAX_NS, NSEC_PER_SEC, Deadline, Repeat, after, check_unsigned, seconds

if TYPE_CHECKING:
    from .aio import Timeout as AsyncTimeout

PAGE = 256

Backend = Literal["kernel", "process"]
_BACKENDS = {None: 0, "kernel": _lib.KERNEL, "process": _lib.PROCESS}

_aio: Any = None
"""The module aio, when it has been needed: asyncio takes long to import."""

_wheels: "weakref.WeakSet[Wheel]" = weakref.WeakSet()


def _leave() -> None:
    """A child cannot use wheels in the process. It leaves loops alone, because it shares their
    epoll with the parent."""
    for wheel in _wheels:
        if wheel._first.process:
            wheel._gate.usable = False
        wheel._watches = {}
        wheel._making = threading.RLock()       # another thread may have held it


os.register_at_fork(after_in_child=_leave)


class _Context:
    """Owns a struct twheel_ctx."""

    __slots__ = ("pointer", "gate", "_close")

    def __init__(self) -> None:
        self.pointer = ctypes.c_void_p()
        self.gate = _lib.Gate(usable=True)
        self._close = waiting.twheel_close

    def __del__(self) -> None:
        """In a garbage collection, this can come before the last use of the wheel and its cells."""
        self.gate.usable = False
        self._close(self.pointer)
        self.pointer.value = None


def _patiently(call: Callable[[int], Any], timeout: float | None) -> int:
    """Make the call with the time that is left, and again after a signal."""
    end = None if timeout is None else time.monotonic_ns() + seconds(timeout)
    result: int = -errno.EINTR
    while result == -errno.EINTR:
        result = call(_lib.FOREVER if end is None else max(0, end - time.monotonic_ns()))
    return result


class Wheel:
    """Timeouts by the million behind one file descriptor.

    A wheel is one open of the device: its timeouts, its queue of events, its limits. Without
    the module, or without permission, it is a wheel in the process, which needs neither.
    Arming a timeout returns its id, which is never 0 and never used again. The event of
    the timeout is read from the same wheel. A cancelled timeout has none.

    Any thread may call any method. Signal handlers of Python run while a method
    blocks; an exception of a handler ends the call. No handler or finalizer may wait
    for a thread that makes or finds cells, or calls cancel_all(). Errors of the device
    are OSErrors with their errno: see twheel.errors. An argument out of range and a
    closed wheel raise ValueError.
    """

    _warns = True

    def __init__(self, path: str | None = None, *, backend: Backend | None = None,
                 clock: int | None = None, tick_ns: int = 0, slots: int = 0, levels: int = 0,
                 max_timeouts: int = 0, slack_ns: int = 0, inherit: bool = False) -> None:
        """Open a new context.

        path: another device than /dev/twheel. backend: "kernel" for the device or an error,
        "process" for a wheel in the process. The environment variable TWHEEL_BACKEND overrides
        it, unless there is a path. info().process is the result. clock: time.CLOCK_MONOTONIC
        (the default), time.CLOCK_BOOTTIME, or time.CLOCK_REALTIME, which takes absolute times
        only. tick_ns, slots, levels:
        another geometry than the shared wheel's; 0 is the default. slots and levels are
        advice: info() returns the actual numbers. max_timeouts: limit of live timeouts.
        slack_ns: maximum added delay of timeouts without a slack of their own. inherit:
        programs started by this one get the descriptor too; not of a wheel in the process.

        Raises FileNotFoundError (the module is not loaded) and PermissionError if a device was
        asked for; OSError with EINVAL, EPERM, EAGAIN, ENOMEM or EOPNOTSUPP.
        """
        self._context: _Context | None = None
        self._path = path
        if backend not in _BACKENDS or path is not None and backend == "process":
            raise ValueError(f"no backend {backend!r}" + (" has a path" if path else ""))
        context = _Context()
        result = waiting.twheel_open(None if path is None else os.fsencode(path),
                                     _BACKENDS[backend] | (_lib.INHERIT if inherit else 0),
                                     ctypes.byref(context.pointer))
        if result < 0:
            raise open_error(result, path)
        if clock is not None or tick_ns or slots or levels or max_timeouts or slack_ns:
            check(waiting.twheel_configure(context.pointer, ctypes.byref(_lib.Setup(
                clock=clock or 0, flags=0 if clock is None else _lib.SETUP_CLOCK,
                tick_ns=check_unsigned(tick_ns), slots=check_unsigned(slots, 32),
                levels=check_unsigned(levels, 32),
                max_timeouts=check_unsigned(max_timeouts, 32), slack_us=slack_us(slack_ns)))))
        self._own(context)
        if self._first.process and inherit:
            self.close()
            raise OSError(errno.EOPNOTSUPP, "other programs cannot inherit a wheel in the process")

    def _own(self, context: _Context) -> None:
        self._context = context
        self._watches: dict[Any, Any] = {}      # what close() closes, by loop or by itself
        self._gate = context.gate
        self._making = threading.RLock()        # cancel_all() knows which cells it has ended
        self._gate.context = context.pointer.value or 0
        self._first = self.info()
        self._gate.relative = self._first.clock != time.CLOCK_REALTIME
        _wheels.add(self)

    @classmethod
    def from_fd(cls, fd: int) -> "Wheel":
        """Use a wheel that is open already: inherited, or received over a socket.

        The caller still owns the descriptor. Raises OSError with EBADF, ENOTTY, or EOPNOTSUPP
        for a wheel in a process.
        """
        context = _Context()
        result = waiting.twheel_open_fd(fd, ctypes.byref(context.pointer))
        if result == -errno.EOPNOTSUPP:
            raise OSError(-result, "the descriptor of a wheel in a process gives no access to it")
        check(result)
        wheel = cls.__new__(cls)
        wheel._path = None
        wheel._own(context)
        return wheel

    def close(self) -> None:
        """Release the context when no call uses it any more. Closing twice is harmless.

        The last descriptor cancels pending timeouts. Asynchronous iterators end. Blocked
        readers keep waiting: call stop() first.
        """
        context, self._context = self._context, None
        if context:
            self._gate.usable = False
            for key in [*self._watches]:
                self._drop(key)

    def _keep(self, key: Any, watch: Any) -> None:
        """close() closes the watch, too."""
        self._watches[key] = watch
        if self.closed:
            self._drop(key)

    def _drop(self, key: Any) -> None:
        """Close the watch, if no other thread does it."""
        watch = self._watches.pop(key, None)
        if watch:
            watch.close()

    def _another(self) -> "Wheel":
        """Open a context with the same backend and slack, and the same clock if it is steady. It
        works in a child, too. No warning if nobody closes it: a child cannot, for instance."""
        if self.closed:
            raise ValueError("the wheel is closed")
        info = self._first
        backend: Backend | None = "process" if info.process else None if self._path else "kernel"
        clock = time.CLOCK_MONOTONIC if info.clock == time.CLOCK_REALTIME else info.clock
        wheel = Wheel(self._path, backend=backend, clock=clock, slack_ns=info.slack_ns)
        wheel._warns = False
        return wheel

    @property
    def closed(self) -> bool:
        """close() was called."""
        return self._context is None

    def __enter__(self) -> "Wheel":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None,
                 traceback: TracebackType | None) -> None:
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_context", None):
            text = f"unclosed {self!r}"
            self.close()        # a loop may have descriptors of it
            if self._warns:
                warnings.warn(text, ResourceWarning, source=self)

    def __reduce__(self) -> NoReturn:
        """A copy would close the wheel of the original."""
        raise TypeError(f"cannot copy or pickle {self!r}")

    def __repr__(self) -> str:
        context = self._context
        pointer = context and context.pointer
        state = f"fd={lib.twheel_fd(pointer)}" if pointer else "closed"
        return f"<{type(self).__module__}.{type(self).__name__} {state}>"

    def _use(self) -> _Context:
        context = self._context
        if not context or not context.pointer:
            raise ValueError("the wheel is closed")
        if not self._gate.usable and self._context:     # not closed meanwhile
            raise OSError(errno.EOPNOTSUPP, "a wheel in the process cannot be used after a fork():"
                          " open another one in the child")
        return context

    def fileno(self) -> int:
        """The descriptor, for select and selectors: readable while an event is unread. That of a
        wheel in the process is also readable now and then without one: use read() with a timeout
        of 0. Never use os.read() on it. Do not close it while the wheel is in use."""
        context = self._use()
        return int(lib.twheel_fd(context.pointer))

    def _dup(self) -> int:
        """Duplicate the descriptor. The context keeps it open until then."""
        context = self._use()
        return os.dup(lib.twheel_fd(context.pointer))

    def info(self) -> Info:
        """Settings and fill level."""
        context, raw = self._use(), _lib.Info()
        check(lib.twheel_get_info(context.pointer, ctypes.byref(raw)))
        return Info._of(raw)

    def stats(self) -> Stats:
        """Counters and lateness."""
        context, raw = self._use(), _lib.Stats()
        check(lib.twheel_get_stats(context.pointer, ctypes.byref(raw)))
        return Stats._of(raw)

    def now_ns(self) -> int:
        """Time in nanoseconds on the clock of the wheel, as in absolute deadlines."""
        context, now = self._use(), ctypes.c_uint64()
        check(lib.twheel_now(context.pointer, ctypes.byref(now)))
        return now.value

    def now(self) -> float:
        """Time in seconds on the clock of the wheel."""
        return self.now_ns() / NSEC_PER_SEC

    def arm(self, when: Deadline | float, cookie: int = 0, *, cell: bool = False,
            repeat: Repeat | None = None, slack_ns: int = 0, exact: bool = False) -> int:
        """Arm a new timeout and return its id.

        when: a number of seconds from now, or after(), after_ns(), at(), at_ns(). cookie:
        returned in the event, 0 to 2**64 - 1. cell: make a cell, for find_cell(); not with
        a repeat. repeat: every() or every_ns(). slack_ns: maximum added delay, in whole
        microseconds up to 71 minutes, so that others share the wakeup; 0: the slack of the
        wheel. exact: no slack at all.

        Raises LimitReached, Stopped, and OSError with one of these:
        EINVAL for conflicting arguments, or a relative time on CLOCK_REALTIME.
        EBADF: the wheel is open for reading only.
        ENOMEM: no memory.
        """
        op = Operation.arm(when, cookie, cell=cell, repeat=repeat, slack_ns=slack_ns,
                           exact=exact)
        self.operate(op)
        return op.id

    def mod(self, id: int, when: Deadline | float, cookie: int = 0, *, cell: bool = False,
            repeat: Repeat | None = None, slack_ns: int = 0, exact: bool = False) -> Outcome:
        """Arm a timeout again. All settings of the earlier arming are replaced, and no event of
        it is read any more. cell: the timeout is a cell. A failure changes nothing.

        Raises TimeoutGone, and the errors of arm() except LimitReached and ENOMEM.
        """
        return self.operate(Operation.mod(id, when, cookie, cell=cell, repeat=repeat,
                                          slack_ns=slack_ns, exact=exact))

    def cancel(self, id: int) -> Outcome:
        """End a timeout. No event of it is read afterwards. Raises TimeoutGone."""
        return self.operate(Operation.cancel(id))

    def get(self, id: int) -> Timeout:
        """Return the state of a timeout. Raises TimeoutGone."""
        op = Operation.get(id)
        self.operate(op)
        return op.timeout

    def operate(self, op: Operation) -> Outcome:
        """Carry out one operation. Raises its error."""
        context = self._use()
        op._raw.result = lib.twheel_operate(context.pointer, ctypes.byref(op._raw))
        return op.outcome

    def submit(self, ops: Iterable[Operation]) -> None:
        """Carry out many operations with one system call, in order.

        A failed operation does not stop the others: Operation.error has the error of each. If
        a signal handler raises an exception, all or none of the operations are carried out.
        If none, Operation.error of each is an OSError with ECANCELED.
        """
        context, ops = self._use(), list(ops)
        raws = (_lib.Op * len(ops))(*(op._raw for op in ops))
        for op, raw in zip(ops, raws):
            raw.result = -errno.ECANCELED
            op._raw = raw
        check(waiting.twheel_submit_ops(context.pointer, raws, len(ops)))

    def _expires_ns(self, when: Deadline | float) -> int:
        """Absolute deadline of a cell."""
        deadline = when if isinstance(when, Deadline) else after(when)
        if deadline.absolute:
            return deadline.expires_ns
        if not self._gate.relative:
            raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
        return min(deadline.expires_ns + self.now_ns(), MAX_NS)

    def cell(self, cookie: int = 0) -> Cell:
        """Make an idle cell, a timeout that is armed and cancelled in memory.

        Raises LimitReached, Stopped, and OSError with one of these:
        EOPNOTSUPP: the kernel or the processor has no cells.
        EACCES: the wheel is not open for reading and writing.
        ENOMEM: no memory.
        """
        return cells.create(self, cookie)

    def find_cell(self, id: int) -> Cell:
        """Find a cell made by arm(), by submit(), or by another process with the same wheel.

        Raises TimeoutGone, and the errors of cell().
        """
        return cells.find(self, id)

    def cancel_all(self) -> Found:
        """End all timeouts and withdraw their unread events."""
        context, raw = self._use(), _lib.CancelAll()
        found = ctypes.byref(raw)
        with self._making:
            self._gate.epoch += 1       # no signal handler runs between this and the call
            check(waiting.twheel_cancel_timeouts(context.pointer, found))
        return Found(raw.pending, raw.withdrawn)

    def cancel_cookie(self, cookie: int) -> Found:
        """End all timeouts with one cookie. The search visits every timeout."""
        context, raw = self._use(), _lib.CancelAll()
        check(waiting.twheel_cancel_cookie(context.pointer, check_unsigned(cookie),
                                           ctypes.byref(raw)))
        return Found(raw.pending, raw.withdrawn)

    def stop(self) -> None:
        """Stop the wheel: nothing can be armed any more. Each timeout that has not fired becomes
        an unprocessed event, in no order. When the last event has been read, read() returns an
        empty list and iterations end."""
        context = self._use()
        check(waiting.twheel_stop(context.pointer))

    def timeouts(self) -> Iterator[Timeout]:
        """Iterate over all live timeouts, in no particular order. A timeout that is armed or ends
        meanwhile may be missing."""
        context, next_ = self._use(), ctypes.c_uint32()
        entries = (_lib.ListEntry * PAGE)()
        while found := check(waiting.twheel_list_timeouts(context.pointer, entries, PAGE,
                                                      ctypes.byref(next_))):
            for raw in entries[:found]:
                yield Timeout._of(raw, raw.remaining_ns)

    def wait(self, timeout: float | None = None) -> bool:
        """Wait until an event can be read, or until none can follow after stop().

        timeout: seconds, or None to wait without limit. Returns False after the timeout.
        """
        context = self._use()
        return bool(check(_patiently(lambda ns: waiting.twheel_wait(context.pointer, ns), timeout)))

    def read(self, most: int = 64, timeout: float | None = None) -> list[Event]:
        """Take events out of the queue, at least one, in the order in which they fired.

        most: maximum number of events, 1 or more. timeout: seconds to wait for the first, or
        None to wait without limit. Returns an empty list when none can follow after stop().

        Raises TimeoutError if no event came in time, also with a timeout of 0.
        """
        if most < 1:
            raise ValueError(f"room for {most} events")
        context, raws = self._use(), (_lib.Event * most)()
        result = _patiently(lambda ns: waiting.twheel_read(context.pointer, raws, most, ns),
                            timeout)
        if result in (-errno.EAGAIN, -errno.ETIMEDOUT):
            raise TimeoutError(errno.ETIMEDOUT, "no event came in time")
        return Event._all(raws, check(result))

    def _take(self, most: int) -> list[Event] | None:
        """Read without waiting. Returns None if there is no event yet."""
        context, raws = self._use(), (_lib.Event * most)()
        result = lib.twheel_read(context.pointer, raws, most, 0)
        if result in (-errno.EAGAIN, -errno.EINTR):
            return None
        return Event._all(raws, check(result))

    def __iter__(self) -> Iterator[Event]:
        """Iterate over events as they come, until the wheel is stopped and empty.

        One event is read at a time, so the event of a timeout cancelled meanwhile is not seen.
        """
        while events := self.read(1):
            yield events[0]

    def timeout(self, delay: float | None) -> "AsyncTimeout":
        """Limit the time of a block: async with wheel.timeout(5), as asyncio.timeout(5) does.

        It is a twheel.aio.Timeout, and has all that asyncio's has: reschedule(), when(), expired().
        delay: seconds; 0 or less is due at once, and None never.

        The timeouts of a loop share a context of their own, so nothing of them is read from this
        wheel. That context has the backend and the slack of this wheel, but not its tick and its
        max_timeouts. The first timeout of a loop opens it, which takes a descriptor and can raise
        the errors of Wheel(). Entering a block can raise those of cell().
        """
        global _aio
        if not _aio:
            from . import aio as _aio
        timeout: AsyncTimeout = _aio.timeout(self, delay)
        return timeout

    def expirations(self) -> AsyncIterator[Event]:
        """Iterate in asyncio or trio: async for event in wheel.expirations().

        Each task needs an iterator of its own, and each event goes to one of them. A cancelled
        wait loses no event. The iterator ends when the wheel is stopped or closed. It has one
        descriptor, from its first use to its last reference.
        """
        from . import aio
        return aio.Events(self, 1, lambda events: events[0])

    def batches(self, most: int = 64) -> AsyncIterator[list[Event]]:
        """Iterate over lists of up to `most` events: async for events in wheel.batches().

        This is for many expirations, because one system call reads several events. A list can
        contain the event of a timeout that is cancelled before the caller gets to it. A wait
        can be cancelled as in expirations().

        most: maximum number of events in a list, 1 or more. Raises ValueError otherwise.
        """
        from . import aio
        return aio.Events(self, most, lambda events: events)
