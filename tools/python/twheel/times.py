# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""Points in time and durations, in seconds or in nanoseconds.

Seconds are floats or ints. Nanoseconds are ints, and their names end in _ns. Seconds are
converted exactly and rounded up to the nanosecond, so that no timeout is early. A negative
delay or time is due at once, as in asyncio. One above 2**63 - 1 ns, which is 292 years, and NaN
raise ValueError.
"""

import math
from dataclasses import dataclass
from operator import index

NSEC_PER_SEC = 10**9
MAX_NS = 2**63 - 1


def check_unsigned(value: int, bits: int = 64) -> int:
    """Return the value, such as an id or a cookie. Raises ValueError if it does not fit."""
    value = index(value)
    if not 0 <= value < 2**bits:
        raise ValueError(f"{value} is not within 0 and 2**{bits} - 1")
    return value


def check_ns(ns: int) -> int:
    """Return the time. Raises ValueError if it is out of range."""
    ns = index(ns)
    if not 0 <= ns <= MAX_NS:
        raise ValueError(f"{ns} ns is not within 0 and 2**63 - 1")
    return ns


def seconds(value: float) -> int:
    """Convert seconds to nanoseconds. Less than 0 is 0."""
    if value < 0:
        return 0
    if not value < math.inf:
        raise ValueError(f"{value} s is no time")
    numerator, denominator = value.as_integer_ratio()
    return check_ns(-(-numerator * NSEC_PER_SEC // denominator))


@dataclass(frozen=True, slots=True)
class Deadline:
    """Deadline of a timeout: relative to now, or absolute on the clock of its wheel."""

    expires_ns: int
    absolute: bool

    def __post_init__(self) -> None:
        check_ns(self.expires_ns)


@dataclass(frozen=True, slots=True)
class Repeat:
    """Deadlines of a periodic timeout after the first one."""

    interval_ns: int
    times: int = 0
    fixed_delay: bool = False

    def __post_init__(self) -> None:
        if not check_ns(self.interval_ns):
            raise ValueError("an interval of 0")
        check_unsigned(self.times, 32)


def after(delay: float) -> Deadline:
    """A number of seconds from now; 0 is due at once. CLOCK_REALTIME rejects it with EINVAL."""
    return Deadline(seconds(delay), False)


def after_ns(delay_ns: int) -> Deadline:
    """A number of nanoseconds from now, like after()."""
    return Deadline(max(0, index(delay_ns)), False)


def at(when: float) -> Deadline:
    """A time in seconds on the clock of the wheel. A time in the past is due at once.

    The default clock, CLOCK_MONOTONIC, is that of time.monotonic().
    """
    return Deadline(seconds(when), True)


def at_ns(when_ns: int) -> Deadline:
    """A time in nanoseconds on the clock of the wheel."""
    return Deadline(max(0, index(when_ns)), True)


def every(interval: float, times: int = 0, *, fixed_delay: bool = False) -> Repeat:
    """Repeat at an interval in seconds.

    times: number of deadlines in all; 0 for no end. fixed_delay: the interval counts from
    the read of the event, not from the deadline before.
    """
    return Repeat(seconds(interval), times, fixed_delay)


def every_ns(interval_ns: int, times: int = 0, *, fixed_delay: bool = False) -> Repeat:
    """Repeat at an interval in nanoseconds, like every()."""
    return Repeat(interval_ns, times, fixed_delay)
