# SPDX-License-Identifier: LGPL-2.1-or-later
"""What goes into a wheel and what comes out of it."""

import enum
from dataclasses import dataclass, fields
from typing import NamedTuple

from . import _lib
from .errors import check_operation, operation_error
from .times import Deadline, Repeat, after, check_ns


class Outcome(enum.IntEnum):
    """What a timeout was when it was cancelled or armed anew."""

    PENDING = 0
    """It had not fired."""
    WITHDRAWN = 1
    """It had fired, and its event was unread: it will not be read any more."""
    IDLE = 2
    """It was a cell that was not armed."""


@dataclass(frozen=True, slots=True)
class Event:
    """One or more expirations of a timeout."""

    id: int
    cookie: int
    expires_ns: int
    """The deadline it stands for, the last if there are several, absolute."""
    fired_ns: int
    """When it was taken out of the wheel, on the same clock."""
    count: int
    """Deadlines it stands for; 0 if it is unprocessed."""
    last: bool
    """There is no further event: the id is dead. A cell lives on."""
    unprocessed: bool
    """It had not fired when the wheel was stopped."""

    @classmethod
    def _of(cls, raw: _lib.Event) -> "Event":
        return cls(raw.id, raw.cookie, raw.expires_ns, raw.fired_ns, raw.count,
                   bool(raw.flags & _lib.EV_LAST), bool(raw.flags & _lib.EV_UNPROCESSED))


class Timeout(NamedTuple):
    """A timeout that lives, as it was found."""

    id: int
    cookie: int
    remaining_ns: int
    """To its deadline; 0 when it has fired or is idle."""
    interval_ns: int
    """0 for a single deadline."""
    repeat: int
    """Deadlines that have not been read yet; 0: no end, or no interval."""
    idle: bool
    """A cell that is not armed."""

    @classmethod
    def _of(cls, raw: _lib.Op | _lib.ListEntry, remaining_ns: int) -> "Timeout":
        idle = remaining_ns == _lib.CELL_IDLE
        return cls(raw.id, raw.cookie, 0 if idle else remaining_ns, raw.interval_ns, raw.repeat,
                   idle)


class Found(NamedTuple):
    """How many timeouts cancel_all() or cancel_cookie() has ended."""

    pending: int
    withdrawn: int


@dataclass(frozen=True, slots=True)
class Info:
    """What a wheel is, and what is in it."""

    clock: int
    """time.CLOCK_MONOTONIC, CLOCK_BOOTTIME or CLOCK_REALTIME."""
    tick_ns: int
    slack_ns: int
    """Of timeouts that name none."""
    slots: int
    levels: int
    max_timeouts: int
    """Most timeouts that may live at once."""
    live: int
    """Timeouts that are pending or have an unread event, and cells."""
    ready: int
    """Unread events."""
    cells: bool
    """The kernel has cells."""
    private: bool
    """The wheel is not shared with others of the same geometry."""
    stopped: bool

    @classmethod
    def _of(cls, raw: _lib.Info) -> "Info":
        return cls(raw.clock, raw.tick_ns, raw.slack_us * 1000, raw.slots, raw.levels,
                   raw.max_timeouts, raw.live, raw.ready, bool(raw.op_flags & _lib.F_CELL),
                   bool(raw.flags & _lib.INFO_PRIVATE), bool(raw.flags & _lib.INFO_STOPPED))


@dataclass(frozen=True, slots=True)
class Stats:
    """What has been done. armed == cancelled + withdrawn + ended + live."""

    armed: int
    moved: int
    cancelled: int
    withdrawn: int
    ended: int
    """Timeouts whose last event has been read, and cells that ended idle."""
    fired: int
    looks: int
    """Times that the kernel has looked at a cell because of the time."""
    kicks: int
    """Times that it has looked because it was told to."""
    dropped: int
    """Events of cells that were withdrawn without a call."""
    unprocessed: int
    read: int
    live: int
    ready: int
    lateness: tuple[int, ...]
    """Events fired less than 2**n ns late and not less than 2**(n - 1), by n."""

    @classmethod
    def _of(cls, raw: _lib.Stats) -> "Stats":
        counters = {field.name: getattr(raw, field.name) for field in fields(cls)[:-1]}
        return cls(**counters, lateness=tuple(raw.lateness))


class Operation:
    """One operation, for Wheel.submit(); and, after it, what came of it."""

    __slots__ = ("_raw",)

    def __init__(self, raw: _lib.Op) -> None:
        """Use arm(), mod(), cancel() or get()."""
        self._raw = raw

    @classmethod
    def arm(cls, when: Deadline | float, cookie: int = 0, *, cell: bool = False,
            repeat: Repeat | None = None, slack_ns: int = 0, exact: bool = False) -> "Operation":
        """As Wheel.arm(); the id is known afterwards."""
        return cls(_deadline(_lib.OP_ARM, 0, when, cookie, cell, repeat, slack_ns, exact))

    @classmethod
    def mod(cls, id: int, when: Deadline | float, cookie: int = 0, *, cell: bool = False,
            repeat: Repeat | None = None, slack_ns: int = 0, exact: bool = False) -> "Operation":
        """As Wheel.mod()."""
        return cls(_deadline(_lib.OP_MOD, id, when, cookie, cell, repeat, slack_ns, exact))

    @classmethod
    def cancel(cls, id: int) -> "Operation":
        """As Wheel.cancel()."""
        return cls(_lib.Op(opcode=_lib.OP_CANCEL, id=check_u64(id)))

    @classmethod
    def get(cls, id: int) -> "Operation":
        """As Wheel.get()."""
        return cls(_lib.Op(opcode=_lib.OP_GET, id=check_u64(id)))

    @property
    def id(self) -> int:
        """The timeout; 0 for an arm that was not carried out."""
        return int(self._raw.id)

    @property
    def error(self) -> OSError | None:
        """Why it failed, None if it did not."""
        return operation_error(self._raw.result)

    @property
    def outcome(self) -> Outcome:
        """What the timeout was. Raises what the single operation would."""
        return Outcome(check_operation(self._raw.result))

    @property
    def timeout(self) -> Timeout:
        """What get() has found. Raises what the single operation would."""
        check_operation(self._raw.result)
        return Timeout._of(self._raw, self._raw.expires_ns)


def check_unsigned(value: int, bits: int) -> int:
    """The same, if it has room."""
    if not 0 <= value < 2**bits:
        raise ValueError(f"{value} is not within 0 and 2**{bits} - 1")
    return value


def check_u64(value: int) -> int:
    """The same, if it has room where ids and cookies go."""
    return check_unsigned(value, 64)


def slack_us(slack_ns: int) -> int:
    """Whole microseconds, and never more slack than that."""
    return min(check_ns(slack_ns) // 1000, 2**32 - 1)


def _deadline(opcode: int, id: int, when: Deadline | float, cookie: int, cell: bool,
              repeat: Repeat | None, slack_ns: int, exact: bool) -> _lib.Op:
    deadline = when if isinstance(when, Deadline) else after(when)
    flags = (_lib.F_ABS if deadline.absolute else 0) | (_lib.F_CELL if cell else 0)
    flags |= _lib.F_EXACT if exact else 0
    op = _lib.Op(opcode=opcode, flags=flags, id=check_u64(id), expires_ns=deadline.expires_ns,
                 cookie=check_u64(cookie), slack_us=slack_us(slack_ns))
    if repeat:
        op.interval_ns, op.repeat = repeat.interval_ns, repeat.times
        op.flags |= _lib.F_FIXED_DELAY if repeat.fixed_delay else 0
    return op
