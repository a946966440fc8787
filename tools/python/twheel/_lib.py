# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""The structures of /dev/twheel and the functions of libtwheel, for ctypes.

Nothing here is for users of the package. Every structure has the fields of the structure
of the same name in <twheel/abi.h>, in their order. A function that can fail returns a
negative errno. Other threads run during a call through `waiting`, and none during one through `lib`,
which keeps the GIL. To give it up and to get it back beside busy threads takes longer than a call.
"""

import ctypes
from ctypes import (POINTER, c_char_p, c_int, c_int32, c_int64, c_uint, c_uint8, c_uint32, c_uint64,
                    c_void_p)
from pathlib import Path

SONAME = "libtwheel.so.1"

NONBLOCK = 0x1
INHERIT = 0x2
KERNEL = 0x4
PROCESS = 0x8
FOREVER = -1

OP_ARM, OP_MOD, OP_CANCEL, OP_GET = 1, 2, 3, 4
F_ABS, F_FIXED_DELAY, F_CELL, F_EXACT = 1, 2, 4, 8
EV_LAST, EV_UNPROCESSED = 1, 2
INFO_PRIVATE, INFO_STOPPED, INFO_PROCESS = 1, 2, 2**31
SETUP_CLOCK = 1
STATE_PENDING, STATE_READY, STATE_IDLE = 1, 2, 3
CELL_IDLE = 2**64 - 1
LATENESS = 40


class Op(ctypes.Structure):
    _fields_ = [
        ("opcode", c_uint32),
        ("flags", c_uint32),
        ("id", c_uint64),
        ("expires_ns", c_uint64),
        ("interval_ns", c_uint64),
        ("cookie", c_uint64),
        ("repeat", c_uint32),
        ("slack_us", c_uint32),
        ("result", c_int32),
        ("reserved", c_uint32),
    ]


class Event(ctypes.Structure):
    _fields_ = [
        ("id", c_uint64),
        ("cookie", c_uint64),
        ("expires_ns", c_uint64),
        ("fired_ns", c_uint64),
        ("count", c_uint64),
        ("flags", c_uint32),
        ("reserved", c_uint32),
    ]


class Info(ctypes.Structure):
    _fields_ = [
        ("opcodes", c_uint32),
        ("op_flags", c_uint32),
        ("tick_ns", c_uint64),
        ("clock", c_uint32),
        ("slots", c_uint32),
        ("levels", c_uint32),
        ("max_timeouts", c_uint32),
        ("live", c_uint32),
        ("ready", c_uint32),
        ("flags", c_uint32),
        ("slack_us", c_uint32),
        ("setup_flags", c_uint32),
        ("cells", c_uint32),
        ("user_timeouts", c_uint32),
        ("max_user_timeouts", c_uint32),
        ("wheel_bytes", c_uint64),
        ("max_wheel_bytes", c_uint64),
        ("refused", c_uint64),
        ("user_refused", c_uint64),
        ("all_refused", c_uint64),
        ("wheel_refused", c_uint64),
        ("reserved", c_uint64 * 2),
    ]


class Setup(ctypes.Structure):
    _fields_ = [
        ("tick_ns", c_uint64),
        ("clock", c_uint32),
        ("slots", c_uint32),
        ("levels", c_uint32),
        ("max_timeouts", c_uint32),
        ("flags", c_uint32),
        ("slack_us", c_uint32),
        ("reserved", c_uint64 * 3),
    ]


class CancelAll(ctypes.Structure):
    _fields_ = [
        ("cookie", c_uint64),
        ("flags", c_uint32),
        ("pending", c_uint32),
        ("withdrawn", c_uint32),
        ("reserved0", c_uint32),
        ("reserved", c_uint64 * 2),
    ]


class ListEntry(ctypes.Structure):
    _fields_ = [
        ("id", c_uint64),
        ("cookie", c_uint64),
        ("remaining_ns", c_uint64),
        ("interval_ns", c_uint64),
        ("repeat", c_uint32),
        ("slack_us", c_uint32),
        ("state", c_uint32),
        ("flags", c_uint32),
    ]


class Gate(ctypes.Structure):
    """Of the extension _cell: whether the cells of a wheel can be used."""

    _fields_ = [
        ("context", c_uint64),
        ("usable", c_uint8),
        ("relative", c_uint8),
    ]


class Stats(ctypes.Structure):
    _fields_ = [
        ("armed", c_uint64),
        ("moved", c_uint64),
        ("cancelled", c_uint64),
        ("withdrawn", c_uint64),
        ("ended", c_uint64),
        ("fired", c_uint64),
        ("looks", c_uint64),
        ("kicks", c_uint64),
        ("dropped", c_uint64),
        ("unprocessed", c_uint64),
        ("read", c_uint64),
        ("live", c_uint32),
        ("ready", c_uint32),
        ("lateness", c_uint64 * LATENESS),
        ("reserved", c_uint64 * 6),
    ]


# Functions that the package uses. All operations on a single timeout go through
# twheel_operate(): the package fills in the structures.
SIGNATURES = {
    "twheel_open": (c_int, c_char_p, c_uint, POINTER(c_void_p)),
    "twheel_open_fd": (c_int, c_int, POINTER(c_void_p)),
    "twheel_close": (None, c_void_p),
    "twheel_fd": (c_int, c_void_p),
    "twheel_configure": (c_int, c_void_p, POINTER(Setup)),
    "twheel_get_info": (c_int, c_void_p, POINTER(Info)),
    "twheel_get_stats": (c_int, c_void_p, POINTER(Stats)),
    "twheel_now": (c_int, c_void_p, POINTER(c_uint64)),
    "twheel_operate": (c_int, c_void_p, POINTER(Op)),
    "twheel_submit_ops": (c_int, c_void_p, POINTER(Op), c_uint),
    "twheel_cell_create": (c_int, c_void_p, c_uint64, POINTER(c_uint64), POINTER(c_void_p)),
    "twheel_cell_find": (c_int, c_void_p, c_uint64, POINTER(c_void_p)),
    "twheel_cancel_timeouts": (c_int, c_void_p, POINTER(CancelAll)),
    "twheel_cancel_cookie": (c_int, c_void_p, c_uint64, POINTER(CancelAll)),
    "twheel_stop": (c_int, c_void_p),
    "twheel_list_timeouts": (c_int, c_void_p, POINTER(ListEntry), c_uint, POINTER(c_uint32)),
    "twheel_wait": (c_int, c_void_p, c_int64),
    "twheel_read": (c_int, c_void_p, POINTER(Event), c_uint, c_int64),
}

# In C these are inline. The library has them where the processor can exchange 64 bits at
# once; elsewhere no cell can be made.
EXCHANGES = {
    "twheel_cell_arm": (c_int, c_void_p, c_void_p, c_uint64, c_uint64),
    "twheel_cell_cancel": (c_int, c_void_p),
    "twheel_cell_cancel_at": (c_int, c_void_p, c_uint64),
}


def load(kind: type[ctypes.CDLL]) -> ctypes.CDLL:
    """Load the library that a wheel of pip has beside this file, or the one that is installed."""
    own = Path(__file__).with_name(SONAME)
    try:
        library = kind(str(own) if own.exists() else SONAME)
    except OSError as error:
        raise ImportError(
            f"{error}. Install the package libtwheel1, or twheel with pip, which brings the library:"
            " 'pip install ./tools/python' in the sources") from None
    found = {name: types for name, types in EXCHANGES.items() if hasattr(library, name)}
    for name, (result, *arguments) in (SIGNATURES | found).items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


lib, waiting = load(ctypes.PyDLL), load(ctypes.CDLL)
HAS_CELLS = all(hasattr(lib, name) for name in EXCHANGES)
