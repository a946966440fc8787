# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""The structures of /dev/twheel and the functions of libtwheel, for ctypes.

Nothing here is for users of the package. Every structure has the fields of the structure of the
same name in <twheel/abi.h>, in their order. A function that can fail returns a negative errno. A
call through `waiting` gives up the GIL. One through `lib` keeps it: to get it back beside busy
threads takes longer than such a call.
"""

import ctypes
from ctypes import (POINTER, c_char_p, c_int, c_int32, c_int64, c_uint, c_uint8, c_uint32, c_uint64,
                    c_void_p)
from pathlib import Path
from typing import Any

SONAME = "libtwheel.so.1"

INHERIT = 0x2
KERNEL = 0x4
PROCESS = 0x8
FOREVER = -1

OP_ARM, OP_MOD, OP_CANCEL, OP_GET = 1, 2, 3, 4
F_ABS, F_FIXED_DELAY, F_CELL, F_EXACT = 1, 2, 4, 8
EV_LAST, EV_UNPROCESSED = 1, 2
INFO_PRIVATE, INFO_STOPPED, INFO_PROCESS = 1, 2, 2**31
SETUP_CLOCK = 1
CELL_IDLE = 2**64 - 1
LATENESS = 40


Fields = list[tuple[str, Any]]


def u32(*names: str) -> Fields:
    return [(name, c_uint32) for name in names]


def u64(*names: str) -> Fields:
    return [(name, c_uint64) for name in names]


class Op(ctypes.Structure):
    _fields_ = [*u32("opcode", "flags"), *u64("id", "expires_ns", "interval_ns", "cookie"),
                *u32("repeat", "slack_us"), ("result", c_int32), *u32("reserved")]


class Event(ctypes.Structure):
    _fields_ = [*u64("id", "cookie", "expires_ns", "fired_ns", "count"), *u32("flags", "reserved")]


class Info(ctypes.Structure):
    _fields_ = [*u32("opcodes", "op_flags"), *u64("tick_ns"),
                *u32("clock", "slots", "levels", "max_timeouts", "live", "ready", "flags",
                     "slack_us", "setup_flags", "cells", "user_timeouts", "max_user_timeouts"),
                *u64("wheel_bytes", "max_wheel_bytes", "refused", "user_refused", "all_refused",
                     "wheel_refused"), ("reserved", c_uint64 * 10)]


class Setup(ctypes.Structure):
    _fields_ = [*u64("tick_ns"),
                *u32("clock", "slots", "levels", "max_timeouts", "flags", "slack_us"),
                ("reserved", c_uint64 * 3)]


class CancelAll(ctypes.Structure):
    _fields_ = [*u64("cookie"), *u32("flags", "pending", "withdrawn", "reserved0"),
                ("reserved", c_uint64 * 2)]


class ListEntry(ctypes.Structure):
    _fields_ = [*u64("id", "cookie", "remaining_ns", "interval_ns"),
                *u32("repeat", "slack_us", "state", "flags")]


class Stats(ctypes.Structure):
    _fields_ = [*u64("armed", "moved", "cancelled", "withdrawn", "ended", "fired", "looks", "kicks",
                     "dropped", "unprocessed", "read"), *u32("live", "ready"),
                ("lateness", c_uint64 * LATENESS), ("reserved", c_uint64 * 6)]


class Gate(ctypes.Structure):
    """Of the extension _cell: whether the cells of a wheel can be used."""

    _fields_ = [*u64("context"), ("usable", c_uint8), ("relative", c_uint8), *u32("epoch")]


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
            f"{error}. Install the package libtwheel1, or twheel with pip, which brings the"
            " library: 'pip install ./tools/python' in the sources") from None
    found = {name: types for name, types in EXCHANGES.items() if hasattr(library, name)}
    for name, (result, *arguments) in (SIGNATURES | found).items():
        function = getattr(library, name)
        function.restype = result
        function.argtypes = arguments
    return library


lib, waiting = load(ctypes.PyDLL), load(ctypes.CDLL)
