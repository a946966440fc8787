# SPDX-License-Identifier: LGPL-2.1-or-later
"""Expirations for asyncio, on any event loop that has add_reader().

There is no event loop with timers on the wheel. On asyncio's own loop a cancel sets a flag; on
the wheel it is an operation for the kernel. The work in Python for that operation costs more
than the whole cancel of asyncio, before any system call. `make bench-python` prints the
figures. Also, timeouts that were armed on different CPUs expire in no common order.
"""

import asyncio
import itertools
import os
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing

from .records import Event
from .wheel import Wheel

YIELD_AFTER = 16
"""Number of reads after which other tasks have their turn."""


async def _readable(fd: int) -> None:
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(fd, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(fd)


async def batches(wheel: Wheel, most: int) -> AsyncGenerator[list[Event], None]:
    """Lists of up to `most` events. Each iterator has a descriptor of its own, because a loop
    knows one reader for each descriptor. The wheel lives at least as long as the iterator.
    """
    fd = os.dup(wheel.fileno())
    try:
        for turn in itertools.count(1):
            if most > YIELD_AFTER or not turn % YIELD_AFTER:
                await asyncio.sleep(0)
            try:
                events = wheel.read(most, 0)
            except TimeoutError:
                await _readable(fd)
                continue
            if not events:
                return
            yield events
    finally:
        os.close(fd)


async def expirations(wheel: Wheel) -> AsyncIterator[Event]:
    """Events, of which each is read when it is asked for."""
    async with aclosing(batches(wheel, 1)) as reads:
        async for events in reads:
            yield events[0]
