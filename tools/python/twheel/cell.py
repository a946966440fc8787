# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""Timeouts in memory that is shared with the kernel."""

import contextlib
import ctypes
import errno
import os
from typing import TYPE_CHECKING, NoReturn

from . import _lib
from ._lib import lib
from .errors import check_operation
from .records import Operation, Outcome
from .times import check_ns, check_unsigned

if TYPE_CHECKING:
    from ._pycell import Exchange
    from .wheel import Wheel
else:
    try:
        from ._cell import Exchange
    except ImportError:
        from ._pycell import Exchange

OUTCOMES = tuple(Outcome)

_process = object()


def _leave() -> None:
    global _process
    _process = object()


os.register_at_fork(after_in_child=_leave)


class Cell(Exchange):
    """A timeout that is armed, moved and cancelled by one exchange in memory.

    For timeouts that nearly always end before their deadline: one for each request, or
    one for each connection. Wheel.cell() makes one.

        cell = wheel.cell(cookie=42)
        cell.arm(5)                         # the request is sent
        cell.cancel()                       # the answer has come

    A cell can be armed any number of times, and by several threads. Its events have its
    id and its cookie, and in expires_ns the deadline that it was armed with. Withdrawn
    events are never read. The cell lives, and counts as a live timeout, until close() or the
    last reference to it, Wheel.cancel(), Wheel.cancel_all() or Wheel.stop(). A reference from
    Wheel.find_cell() does not count. Never arm or cancel a cell that Wheel.cancel() or
    cancel_cookie() or another process has ended: another cell may have its place.
    """

    __slots__ = ("_owner",)

    def __init__(self, wheel: "Wheel", id: int, cookie: int, address: int,
                 owner: object = None) -> None:
        """Use Wheel.cell() or Wheel.find_cell()."""
        super().__init__(wheel, id, cookie, address, wheel._gate, ctypes.addressof(wheel._gate),
                         OUTCOMES, check_operation)
        self._owner = owner     # the process in which the last reference ends the cell

    def cancel_at(self, expires_ns: int) -> bool:
        """Cancel the arming with that deadline, and no later one.

        Use this if another thread may have armed the cell again. Returns False if the cell was
        moved or cancelled, or has fired. Its event may still be read then.
        """
        return self._cancel_at(check_ns(expires_ns))

    def close(self) -> None:
        """End the cell. No event of it is read afterwards. Closing twice is harmless."""
        if self._end() and not self.wheel.closed:
            with contextlib.suppress(OSError, ValueError):      # it has ended, or the wheel has
                self.wheel.cancel(self.id)

    def __del__(self) -> None:
        if getattr(self, "_owner", None) is _process:
            self.close()

    def __reduce__(self) -> NoReturn:
        """A copy would end the cell of the original."""
        raise TypeError(f"cannot copy or pickle {self!r}")

    def __repr__(self) -> str:
        return f"<{type(self).__module__}.{type(self).__name__} id={self.id} cookie={self.cookie}>"


def create(wheel: "Wheel", cookie: int) -> Cell:
    """Make a new cell."""
    context, id, pointer = wheel._use(), ctypes.c_uint64(), ctypes.c_void_p()
    with wheel._making:
        epoch = wheel._gate.epoch
        check_operation(lib.twheel_cell_create(context.pointer, check_unsigned(cookie),
                                               ctypes.byref(id), ctypes.byref(pointer)))
        cell = Cell(wheel, id.value, cookie, pointer.value or 0, _process)
        if wheel._gate.epoch != epoch:          # a signal handler has called cancel_all()
            cell.close()
        return cell


def create_many(wheel: "Wheel", number: int) -> list[Cell]:
    """Make new cells with one call, fewer if they reach a limit, but one at least."""
    made = [create(wheel, 0)]
    context, pointer, more = wheel._use(), ctypes.c_void_p(), number - 1
    op = _lib.Op(opcode=_lib.OP_ARM, flags=_lib.F_ABS | _lib.F_CELL, expires_ns=_lib.CELL_IDLE,
                 result=-errno.ECANCELED)
    ops = (_lib.Op * more).from_buffer_copy(bytes(op) * more)
    with wheel._making:
        lib.twheel_submit_ops(context.pointer, ops, more)
        for op in ops:
            if not op.result:
                check_operation(lib.twheel_cell_find(context.pointer, op.id, ctypes.byref(pointer)))
                made.append(Cell(wheel, op.id, 0, pointer.value or 0, _process))
    return made


def close_many(wheel: "Wheel", cells: list[Cell]) -> None:
    """End cells with one call."""
    wheel.submit(Operation.cancel(cell.id) for cell in cells if cell._end())


def find(wheel: "Wheel", id: int) -> Cell:
    """Find an existing cell."""
    context, pointer = wheel._use(), ctypes.c_void_p()
    with wheel._making:
        cookie = wheel.get(id).cookie
        check_operation(lib.twheel_cell_find(context.pointer, id, ctypes.byref(pointer)))
        return Cell(wheel, id, cookie, pointer.value or 0)
