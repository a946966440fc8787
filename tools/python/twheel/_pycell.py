# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""The exchanges of cells through ctypes, where the extension _cell is missing."""

import errno
import threading
from typing import TYPE_CHECKING

from ._lib import lib
from .errors import check_operation
from .records import Outcome
from .times import Deadline, at

if TYPE_CHECKING:
    from .wheel import Wheel


class Exchange:
    """The part of a cell that is in memory. The lock keeps _end() away from an exchange: the place
    can be given to another cell afterwards. A signal handler may do either meanwhile."""

    __slots__ = ("wheel", "id", "cookie", "_address", "_epoch", "_lock")
    _address: int       # 0: it has ended

    def __init__(self, wheel: "Wheel", id: int, cookie: int, address: int, *_: object) -> None:
        """The rest is for the extension: the gate, and how results are returned."""
        self.wheel = wheel
        self.id = id
        """Id in events, and for Wheel.get(), mod() and cancel()."""
        self.cookie = cookie
        self._address = address
        self._epoch = wheel._gate.epoch
        self._lock = threading.RLock()

    def arm(self, when: Deadline | float, /) -> Outcome:
        """Arm the cell, or move it if it is armed. Returns its state before.

        when: a number of seconds from now, or after(), after_ns(), at(), at_ns(). A deadline in
        the past is due at once. It is a system call only if the kernel would look too late: not if
        the cell was armed with about the same delay before and is in regular use.

        Raises Stopped, TimeoutGone; OSError with EBADF when the wheel is open for reading
        only. The cell is idle then. Raises OSError with EINVAL for a relative time on
        CLOCK_REALTIME, like Wheel.arm(). That changes nothing.
        """
        expires_ns = self.wheel._expires_ns(when)
        context = self.wheel._use()     # keeps it mapped
        with self._lock:
            return Outcome(check_operation(
                lib.twheel_cell_arm(context.pointer, self._address, self.id, expires_ns)
                if self._place() else -errno.ENOENT))

    def _arm_at(self, when: float) -> None:
        self.arm(at(when))

    def cancel(self) -> Outcome:
        """Cancel the current arming without a system call. The cell stays usable.

        After PENDING or WITHDRAWN no event of that arming is read. IDLE means that the cell was
        not armed, or that its event was read before.
        """
        _mapped = self.wheel._use()
        with self._lock:
            return Outcome(lib.twheel_cell_cancel(self._address) if self._place() else Outcome.IDLE)

    def _cancel_at(self, expires_ns: int) -> bool:
        _mapped = self.wheel._use()
        with self._lock:
            return bool(self._place() and not lib.twheel_cell_cancel_at(self._address, expires_ns))

    def _place(self) -> int:
        """The address, or 0 if the cell has ended by close() or Wheel.cancel_all(): another one may
        have its place."""
        return self._address if self._epoch == self.wheel._gate.epoch else 0

    def _end(self) -> bool:
        """Forget the place. Returns False if that was done before."""
        with self._lock:
            address, self._address = self._address, 0
        return address != 0
