# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""Timeouts in memory that is shared with the kernel."""

import ctypes
import errno
import os
import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from . import _lib
from ._lib import lib
from .errors import check_operation
from .records import Outcome, check_u64
from .times import MAX_NS, Deadline, after, check_ns

if TYPE_CHECKING:
    from .wheel import Wheel


class Cell:
    """A timeout that is armed, moved and cancelled by one exchange in memory.

    For timeouts that nearly always end before their deadline: one for each request, or
    one for each connection. Wheel.cell() makes one.

        cell = wheel.cell(cookie=42)
        cell.arm(5)                         # the request is sent
        cell.cancel()                       # the answer has come

    A cell can be armed any number of times, and by several threads. Its events have its
    id and its cookie, and in expires_ns the deadline that it was armed with. Withdrawn
    events are never read. The cell lives, and counts as a live timeout, until end(),
    Wheel.cancel(), Wheel.cancel_all() or Wheel.stop(). When it has ended it must not be
    used any more: its place may have been given to another cell.
    """

    __slots__ = ("wheel", "id", "cookie", "_pointer")

    def __init__(self, wheel: "Wheel", id: int, cookie: int, pointer: ctypes.c_void_p) -> None:
        """Use Wheel.cell() or Wheel.find_cell()."""
        self.wheel = wheel
        self.id = id
        """Id in events, and for Wheel.get(), mod() and cancel()."""
        self.cookie = cookie
        self._pointer = pointer

    def arm(self, when: Deadline | float) -> Outcome:
        """Arm the cell, or move it if it is armed. Returns its state before.

        when: a number of seconds from now, or after(), after_ns(), at(), at_ns(). A deadline in
        the past is due at once. It is a system call only if the kernel would look too late: not if
        the cell was armed with about the same delay before and is in regular use.

        Raises Stopped, TimeoutGone; OSError with EBADF when the wheel is open for reading
        only. The cell is idle then. Raises OSError with EINVAL for a relative time on
        CLOCK_REALTIME, like Wheel.arm(). That changes nothing.
        """
        context = self.wheel._use()
        deadline = when if isinstance(when, Deadline) else after(when)
        expires_ns = deadline.expires_ns
        if not deadline.absolute:
            if context.clock() == time.CLOCK_REALTIME:
                raise OSError(errno.EINVAL, os.strerror(errno.EINVAL))
            expires_ns = min(expires_ns + self.wheel.now_ns(), MAX_NS)
        return Outcome(check_operation(
            lib.twheel_cell_arm(context.pointer, self._pointer, self.id, expires_ns)))

    def cancel(self) -> Outcome:
        """Cancel the current arming without a system call. The cell stays usable.

        After PENDING or WITHDRAWN no event of that arming is read. IDLE means that the cell was
        not armed, or that its event was read before.
        """
        return Outcome(self._exchange(lib.twheel_cell_cancel))

    def cancel_at(self, expires_ns: int) -> bool:
        """Cancel the arming with that deadline, and no later one.

        Use this if another thread may have armed the cell again. Returns False if the cell was
        moved or cancelled, or has fired. Its event may still be read then.
        """
        return self._exchange(lib.twheel_cell_cancel_at, check_ns(expires_ns)) == 0

    def _exchange(self, function: Callable[..., int], *arguments: int) -> int:
        """Call a function on the memory. The context keeps it mapped during the call."""
        context = self.wheel._use()
        result = function(self._pointer, *arguments)
        del context
        return result

    def end(self) -> Outcome:
        """End the cell. No event of it is read afterwards. Raises TimeoutGone."""
        return self.wheel.cancel(self.id)

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} id={self.id} cookie={self.cookie}>"


def _need_cells() -> None:
    if not _lib.HAS_CELLS:
        raise OSError(errno.EOPNOTSUPP, os.strerror(errno.EOPNOTSUPP))


def create(wheel: "Wheel", cookie: int) -> Cell:
    """Make a new cell."""
    _need_cells()
    context, id, pointer = wheel._use(), ctypes.c_uint64(), ctypes.c_void_p()
    check_operation(lib.twheel_cell_create(context.pointer, check_u64(cookie), ctypes.byref(id),
                                           ctypes.byref(pointer)))
    return Cell(wheel, id.value, cookie, pointer)


def find(wheel: "Wheel", id: int) -> Cell:
    """Find an existing cell."""
    _need_cells()
    context, pointer = wheel._use(), ctypes.c_void_p()
    cookie = wheel.get(id).cookie
    check_operation(lib.twheel_cell_find(context.pointer, id, ctypes.byref(pointer)))
    return Cell(wheel, id, cookie, pointer)
