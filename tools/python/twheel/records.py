# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""Operations on a wheel, and their results."""

import ctypes
import enum
import struct
from dataclasses import dataclass, fields
from typing import NamedTuple

from . import _lib
from .errors import check_operation, operation_error
from .times import Deadline, Repeat, after, check_ns, check_unsigned


_EVENT = struct.Struct("5Q2I")


class Outcome(enum.IntEnum):
    """State of a timeout when it was cancelled or armed again."""

    PENDING = 0
    """It had not fired."""
    WITHDRAWN = 1
    """It had fired. Its event was unread and will not be read any more."""
    IDLE = 2
    """It was a cell and not armed."""


class Event(NamedTuple):
    """One or more expirations of a timeout."""

    id: int
    cookie: int
    expires_ns: int
    """Absolute deadline; the last one if the event counts several."""
    fired_ns: int
    """Time on the same clock when it was taken out of the wheel."""
    count: int      # type: ignore[assignment]      # not the method of a tuple
    """Number of deadlines that have passed; 0 if it is unprocessed."""
    last: bool
    """No event follows, and the id is no longer valid. Of a cell: only after stop()."""
    unprocessed: bool
    """It had not fired when the wheel was stopped."""

    @staticmethod
    def _all(raws: "ctypes.Array[_lib.Event]", number: int) -> "list[Event]":
        """Of the first ones. To look at each member through ctypes would take twice as long."""
        return [Event(id, cookie, expires_ns, fired_ns, count, flags & _lib.EV_LAST != 0,
                      flags & _lib.EV_UNPROCESSED != 0)
                for id, cookie, expires_ns, fired_ns, count, flags, _
                in _EVENT.iter_unpack(memoryview(raws)[:number].tobytes())]


class Timeout(NamedTuple):
    """State of a live timeout."""

    id: int
    cookie: int
    remaining_ns: int
    """Time to its deadline; 0 if it has fired or is idle."""
    interval_ns: int
    """Interval; 0 if it has a single deadline."""
    repeat: int
    """Number of deadlines not yet read; 0 without end or interval."""
    idle: bool
    """It is a cell and not armed."""

    @classmethod
    def _of(cls, raw: _lib.Op | _lib.ListEntry, remaining_ns: int) -> "Timeout":
        idle = remaining_ns == _lib.CELL_IDLE
        return cls(raw.id, raw.cookie, 0 if idle else remaining_ns, raw.interval_ns, raw.repeat,
                   idle)


class Found(NamedTuple):
    """Numbers of timeouts that cancel_all() or cancel_cookie() has ended."""

    pending: int
    withdrawn: int


@dataclass(frozen=True, slots=True)
class Info:
    """Properties of a wheel, and the numbers of its timeouts and events."""

    clock: int
    """time.CLOCK_MONOTONIC, CLOCK_BOOTTIME or CLOCK_REALTIME."""
    tick_ns: int
    slack_ns: int
    """Slack of timeouts that specify none."""
    slots: int
    levels: int
    max_timeouts: int
    """Maximum number of live timeouts."""
    live: int
    """Number of timeouts that are pending or have an unread event, and of cells."""
    ready: int
    """Number of unread events."""
    cells: bool
    """The kernel has cells."""
    private: bool
    """The wheel is not shared with others of the same geometry."""
    stopped: bool
    process: bool
    """It is a wheel in the process, not the device."""
    refused: int
    """Requests that max_timeouts has refused."""
    user_timeouts: int
    """Timeouts that fit into the memory of all wheels of the user who opened this one."""
    max_user_timeouts: int
    user_refused: int
    """Requests of the user that max_user_timeouts has refused."""
    all_refused: int
    """Requests of the user that the limit of all users' timeouts has refused."""
    wheel_bytes: int
    """Memory of the private wheels of the user."""
    max_wheel_bytes: int
    wheel_refused: int
    """Requests of the user that max_wheel_bytes has refused."""

    @classmethod
    def _of(cls, raw: _lib.Info) -> "Info":
        return cls(raw.clock, raw.tick_ns, raw.slack_us * 1000, raw.slots, raw.levels,
                   raw.max_timeouts, raw.live, raw.ready, bool(raw.op_flags & _lib.F_CELL),
                   bool(raw.flags & _lib.INFO_PRIVATE), bool(raw.flags & _lib.INFO_STOPPED),
                   bool(raw.flags & _lib.INFO_PROCESS),
                   raw.refused, raw.user_timeouts, raw.max_user_timeouts, raw.user_refused,
                   raw.all_refused, raw.wheel_bytes, raw.max_wheel_bytes, raw.wheel_refused)


@dataclass(frozen=True, slots=True)
class Stats:
    """Counters. armed == cancelled + withdrawn + ended + live."""

    armed: int
    moved: int
    cancelled: int
    withdrawn: int
    ended: int
    """Timeouts whose last event has been read, and cells that ended idle."""
    fired: int
    looks: int
    """Number of times that the kernel has looked at a cell on time."""
    kicks: int
    """Number of times that it has looked at a cell because of a kick."""
    dropped: int
    """Events of cells that were withdrawn without a call."""
    unprocessed: int
    read: int
    live: int
    ready: int
    lateness: tuple[int, ...]
    """Entry n is the number of events that were 2**(n - 1) to 2**n - 1 ns late."""

    @classmethod
    def _of(cls, raw: _lib.Stats) -> "Stats":
        counters = {field.name: getattr(raw, field.name) for field in fields(cls)[:-1]}
        return cls(**counters, lateness=tuple(raw.lateness))


class Operation:
    """One operation for Wheel.submit(), which stores the result in it."""

    __slots__ = ("_raw",)

    def __init__(self, raw: _lib.Op) -> None:
        """Use arm(), mod(), cancel() or get()."""
        self._raw = raw

    @classmethod
    def arm(cls, when: Deadline | float, cookie: int = 0, *, cell: bool = False,
            repeat: Repeat | None = None, slack_ns: int = 0, exact: bool = False) -> "Operation":
        """Like Wheel.arm(). The id is known after submit()."""
        return cls(_deadline(_lib.OP_ARM, 0, when, cookie, cell, repeat, slack_ns, exact))

    @classmethod
    def mod(cls, id: int, when: Deadline | float, cookie: int = 0, *, cell: bool = False,
            repeat: Repeat | None = None, slack_ns: int = 0, exact: bool = False) -> "Operation":
        """Like Wheel.mod()."""
        return cls(_deadline(_lib.OP_MOD, id, when, cookie, cell, repeat, slack_ns, exact))

    @classmethod
    def cancel(cls, id: int) -> "Operation":
        """Like Wheel.cancel()."""
        return cls(_lib.Op(opcode=_lib.OP_CANCEL, id=check_unsigned(id)))

    @classmethod
    def get(cls, id: int) -> "Operation":
        """Like Wheel.get()."""
        return cls(_lib.Op(opcode=_lib.OP_GET, id=check_unsigned(id)))

    @property
    def id(self) -> int:
        """Id of the timeout; 0 if an arm failed."""
        return int(self._raw.id)

    @property
    def error(self) -> OSError | None:
        """Error of the operation, or None."""
        result = self._raw.result
        return operation_error(result) if result < 0 else None

    @property
    def outcome(self) -> Outcome:
        """State of the timeout before. Raises the error of the operation."""
        return Outcome(check_operation(self._raw.result))

    @property
    def timeout(self) -> Timeout:
        """Timeout that get() has found. Raises the error of the operation."""
        check_operation(self._raw.result)
        return Timeout._of(self._raw, self._raw.expires_ns)


def slack_us(slack_ns: int) -> int:
    """Convert slack to whole microseconds, rounded down."""
    return min(check_ns(slack_ns) // 1000, 2**32 - 1)


def _deadline(opcode: int, id: int, when: Deadline | float, cookie: int, cell: bool,
              repeat: Repeat | None, slack_ns: int, exact: bool) -> _lib.Op:
    deadline = when if isinstance(when, Deadline) else after(when)
    flags = (_lib.F_ABS if deadline.absolute else 0) | (_lib.F_CELL if cell else 0)
    flags |= _lib.F_EXACT if exact else 0
    op = _lib.Op(opcode=opcode, flags=flags, id=check_unsigned(id), expires_ns=deadline.expires_ns,
                 cookie=check_unsigned(cookie), slack_us=slack_us(slack_ns))
    if repeat:
        op.interval_ns, op.repeat = repeat.interval_ns, repeat.times
        op.flags |= _lib.F_FIXED_DELAY if repeat.fixed_delay else 0
    return op
