# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""python3 -m tests.cost [NUMBER]: print the cost of timers on asyncio's own event loop, and a
lower bound of their cost on a loop with timers on the wheel.

The lower bound is the Python code of such a loop. To arm, it creates the handle, packs the
operation and stores the id. To cancel, it packs the operation. To fire, it unpacks the event,
finds the handle and sorts. System calls and the kernel are not included, so a real loop costs
more. No device is needed.

Prints microseconds of CPU time per timer, the median of several runs. The deadlines are at
random within a minute, or ascending, which they are if all timers have the same delay.
"""

import asyncio
import gc
import random
import statistics
import struct
import sys
import time
from collections.abc import Callable
from typing import Any

from twheel import _lib

RUNS = 7
HOUR = 3600
OP = struct.Struct("=IIQQQQIIiI")
EVENT = struct.Struct("=QQQQQII")

Costs = tuple[float, float, float]


def nothing() -> None:
    """Callback of every timer."""


def cpu_time(work: Callable[[], Any]) -> float:
    """CPU time of work(), in microseconds."""
    begin = time.thread_time_ns()
    work()
    return (time.thread_time_ns() - begin) / 1000


def turn(loop: asyncio.AbstractEventLoop) -> None:
    loop.call_soon(loop.stop)
    loop.run_forever()


def expires_ns(handle: asyncio.TimerHandle) -> int:
    return int(handle.when() * 1e9) + 1


class Heap:
    """asyncio's own event loop."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.handles: list[asyncio.TimerHandle] = []

    def arm(self, deadlines: list[float]) -> None:
        self.handles = [self.loop.call_at(when, nothing) for when in deadlines]

    def cancel(self) -> None:
        """Also run the turn that removes cancelled timers from the heap."""
        for handle in self.handles:
            handle.cancel()
        turn(self.loop)

    def fire(self) -> None:
        turn(self.loop)


class Handle(asyncio.TimerHandle):
    """A timer of the loop below."""

    __slots__ = ("id", "wheel")
    id: int
    wheel: "Least"

    def cancel(self) -> None:
        if not self.cancelled():
            self.wheel.cancelled.append(self.id)
            del self.wheel.timers[self.id]
        asyncio.Handle.cancel(self)


class Least:
    """The least work that a loop on the wheel has to do, without the kernel."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self.timers: dict[int, Handle] = {}
        self.cancelled: list[int] = []
        self.events = b""

    def call_at(self, when: float) -> Handle:
        handle = Handle(when, nothing, (), self.loop)
        handle.wheel = self
        return handle

    def arm(self, deadlines: list[float]) -> None:
        """Number the ids, which the kernel would write."""
        handles = [self.call_at(when) for when in deadlines]
        ops = bytearray(OP.size * len(handles))
        for i, handle in enumerate(handles):
            OP.pack_into(ops, i * OP.size, _lib.OP_ARM, _lib.F_ABS, i + 1, expires_ns(handle),
                         0, 0, 0, 0, 0, 0)
        for handle, op in zip(handles, OP.iter_unpack(ops)):
            handle.id = op[2]
            self.timers[handle.id] = handle

    def cancel(self) -> None:
        for handle in list(self.timers.values()):
            handle.cancel()
        ops = bytearray(OP.size * len(self.cancelled))
        for i, id in enumerate(self.cancelled):
            OP.pack_into(ops, i * OP.size, _lib.OP_CANCEL, 0, id, 0, 0, 0, 0, 0, 0, 0)
        turn(self.loop)

    def expire(self) -> None:
        """Make the events. This is the kernel's part, which is not timed."""
        self.events = b"".join(EVENT.pack(handle.id, 0, expires_ns(handle), 0, 1, 1, 0)
                               for handle in self.timers.values())

    def fire(self) -> None:
        due = [self.timers.pop(event[0]) for event in EVENT.iter_unpack(self.events)]
        due.sort(key=asyncio.TimerHandle.when)
        self.loop._ready.extend(due)  # type: ignore[attr-defined]
        turn(self.loop)


Kind = type[Heap] | type[Least]
KINDS: dict[str, Kind] = {"asyncio": Heap, "wheel, at least": Least}


def costs(kind: Kind, spread: list[float]) -> Costs:
    """Costs of an arm, a cancel and an expiry. One set of timers is cancelled, another fires."""
    gc.collect()
    later, now = kind(), kind()
    arm = cpu_time(lambda: later.arm([later.loop.time() + HOUR + x for x in spread]))
    cancel = cpu_time(later.cancel)
    now.arm([now.loop.time() - HOUR + x for x in spread])
    if isinstance(now, Least):
        now.expire()
    fire = cpu_time(now.fire)
    later.loop.close()
    now.loop.close()
    return arm, cancel, fire


def main() -> None:
    assert OP.size == 56 and EVENT.size == 48
    number = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    chance = random.Random(1)
    spreads = {"random": [60 * chance.random() for _ in range(number)],
               "ascending": [60 * i / number for i in range(number)]}
    print(f"{number} timers, us each         arm  cancel    fire")
    for order, spread in spreads.items():
        for name, kind in KINDS.items():
            runs = [costs(kind, spread) for _ in range(RUNS)]
            medians = [statistics.median(column) / number for column in zip(*runs)]
            print(f"{order:10} {name:15}" + "".join(f"{cost:8.2f}" for cost in medians))


if __name__ == "__main__":
    main()
