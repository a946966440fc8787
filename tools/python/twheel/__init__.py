# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""Timeouts by the million behind one file descriptor: /dev/twheel, or a wheel in the process.

    from twheel import Wheel, every

    with Wheel() as wheel:
        wheel.arm(0.5, cookie=42)
        wheel.arm(1, cookie=7, repeat=every(0.1, times=10))
        for event in wheel:
            print(event.cookie, event.count)

See Wheel; for many operations at once Wheel.submit(); for timeouts that hardly ever fire
Cell; for asyncio Wheel.expirations() and Wheel.batches(). It uses the C library, libtwheel.
"""

from .cell import Cell
from .errors import LimitReached, Stopped, TimeoutGone
from .records import Event, Found, Info, Operation, Outcome, Stats, Timeout
from .times import (Deadline, Repeat, after, after_ns, at, at_ns, every, every_ns, seconds)
from .wheel import Wheel

__all__ = [
    "Cell", "Deadline", "Event", "Found", "Info", "LimitReached", "Operation", "Outcome", "Repeat",
    "Stats", "Stopped", "Timeout", "TimeoutGone", "Wheel", "after", "after_ns", "at", "at_ns",
    "every", "every_ns", "seconds",
]
