# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""Expirations for asyncio, on any event loop that has add_reader().

There is no event loop with timers on the wheel. On asyncio's own loop a cancel sets a flag; on
the wheel it is an operation for the kernel. The work in Python for that operation costs more
than the whole cancel of asyncio, before any system call. doc/replacing.md has the figures.
Also, timeouts that were armed on different CPUs expire in no common order.
"""

import asyncio
import errno
import os

from .records import Event
from .wheel import Wheel

YIELD_AFTER = 16
"""Number of reads after which other tasks may run."""

POLL = 0.05
"""Seconds between reads without a free descriptor."""


async def _readable(wheel: Wheel) -> None:
    """Wait for an event. A loop knows one reader for each descriptor, so make a new one. Without a
    free descriptor it polls: the task that drops idle connections must not end then."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    try:
        fd = wheel._dup()
    except OSError as error:
        if error.errno not in (errno.EMFILE, errno.ENFILE):
            raise
        await asyncio.sleep(POLL)
        return
    try:
        loop.add_reader(fd, ready.set)
        await ready.wait()
    finally:
        loop.remove_reader(fd)
        os.close(fd)


class Batches:
    """Iterator over lists of up to `most` events. A cancelled wait loses no event, and the
    iterator can be used further. The iterator keeps the wheel alive.
    """

    def __init__(self, wheel: Wheel, most: int) -> None:
        if most < 1:
            raise ValueError(f"room for {most} events")
        self._wheel = wheel
        self._most = most
        self._reads = 0

    def __aiter__(self) -> "Batches":
        return self

    async def __anext__(self) -> list[Event]:
        while True:
            self._reads += 1
            if self._most > YIELD_AFTER or not self._reads % YIELD_AFTER:
                await asyncio.sleep(0)
            try:
                events = self._wheel.read(self._most, 0)
            except TimeoutError:
                await _readable(self._wheel)
                continue
            if not events:
                raise StopAsyncIteration
            return events


class Expirations:
    """Iterator over events. Each event is read when the iterator is asked for it."""

    def __init__(self, wheel: Wheel) -> None:
        self._reads = Batches(wheel, 1)

    def __aiter__(self) -> "Expirations":
        return self

    async def __anext__(self) -> Event:
        [event] = await anext(self._reads)
        return event
