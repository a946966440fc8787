# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""python3 -m tests.cost [PENDING]: print the costs of timeouts beside those of the standard
library, as the tables of README.md. The wheel is in the process. No device is needed.

A cost is the CPU time of the thread that arms, cancels or is called, in the best of several runs.
Beside other threads it is the time of one run. In a run as many are cancelled as are pending, for
the heap of asyncio.
"""

import asyncio
import contextlib
import functools
import os
import resource
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

from twheel import Operation, Wheel, _pycell

from . import HOUR

RUNS = 5
WAVES = (1000, 10_000, 50_000, 200_000)
Work = Callable[[int], None]


def nothing() -> None:
    """Callback of a timer."""


@contextlib.contextmanager
def busy_threads(number: int) -> Iterator[None]:
    def compute() -> None:
        while not stop.is_set():
            sum(range(1000))

    stop = threading.Event()
    threads = [threading.Thread(target=compute) for _ in range(number)]
    for thread in threads:
        thread.start()
    yield
    stop.set()
    for thread in threads:
        thread.join()


def timed(work: Work, number: int, clock: Callable[[], int] = time.thread_time_ns) -> float:
    """Microseconds of each."""
    begin = clock()
    work(number)
    return (clock() - begin) / number / 1000


def in_loop(main: Callable[[int], Any], pending: int) -> Work:
    """A coroutine, in a loop with other timers. Cancelled ones go in the turn after it."""
    async def whole(number: int) -> None:
        await main(number)
        await asyncio.sleep(0)

    loop = asyncio.new_event_loop()
    for i in range(pending):
        loop.call_later(HOUR + i, nothing)
    return lambda number: loop.run_until_complete(whole(number))


def pairs(wheel: Wheel, pending: int) -> Iterator[tuple[str, Work, int]]:
    """How a timeout is armed and cancelled, and how often in a run."""
    async def call_later(number: int) -> None:
        loop = asyncio.get_running_loop()
        for _ in range(number):
            loop.call_later(5, nothing).cancel()

    async def blocks(make: Callable[[float], Any], number: int) -> None:
        for _ in range(number):
            async with make(5):
                pass

    def exchanges(cell: Any, number: int) -> None:
        for _ in range(number):
            cell.arm(5)
            cell.cancel()

    def operations(number: int) -> None:
        for _ in range(number):
            wheel.cancel(wheel.arm(5))

    others = [wheel.arm(HOUR + i) for i in range(pending)]
    cell = wheel.cell()
    slow = _pycell.Exchange(wheel, cell.id, 0, cell._address)
    if not isinstance(cell, _pycell.Exchange):
        yield "a cell", functools.partial(exchanges, cell), 200_000
    yield "a cell, without the extension", functools.partial(exchanges, slow), 1000
    yield "`Wheel.arm()`, `cancel()`", operations, 1000
    yield "asyncio: `call_later()`, `cancel()`", in_loop(call_later, pending), pending + 1000
    for name, make in (("Wheel", wheel.timeout), ("asyncio", asyncio.timeout)):
        yield (f"`async with {name}.timeout()`",
               in_loop(functools.partial(blocks, make), pending), pending + 1000)
    wheel.submit(Operation.cancel(id) for id in others)


async def wave(make: Callable[[float], Any], number: int) -> int:
    """Returns the memory that the timeouts take up together."""
    def resident() -> int:
        with open("/proc/self/statm", encoding="ascii") as file:
            return int(file.read().split()[1]) * resource.getpagesize()

    before = resident()
    scopes = [make(5) for _ in range(number)]
    for scope in scopes:
        await scope.__aenter__()
    memory = resident() - before
    for scope in scopes:
        await scope.__aexit__(None, None, None)
    return memory


def bytes_of_each(make: Callable[[float], Any]) -> int:
    """In a child, which has nothing else."""
    end, other = os.pipe()
    if not os.fork():
        memory = asyncio.run(wave(make, WAVES[-1]))
        os.write(other, str(memory // WAVES[-1]).encode())
        os._exit(0)
    os.wait()
    return int(os.read(end, 16))


def main() -> None:
    pending = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    with Wheel(backend="process") as wheel:
        print("| us to arm and cancel, this many at once |",
              *(f"{number:,} |" for number in WAVES), "bytes of each |")
        print("|---" + "|--:" * len(WAVES) + "|--:|")
        makers = (("Wheel", wheel.timeout), ("asyncio", asyncio.timeout))
        memory = {name: bytes_of_each(make) for name, make in makers}
        for name, make in makers:
            work = in_loop(functools.partial(wave, make), 0)
            costs = [min(timed(work, number) for _ in range(RUNS)) for number in WAVES]
            print(f"| `async with {name}.timeout()` |", *(f"{cost:.2f} |" for cost in costs),
                  f"{memory[name]} |", flush=True)
        print(f"\n| us to arm and cancel, {pending:,} pending | alone | beside 3 busy threads |")
        print("|---|--:|--:|")
        for name, work, number in pairs(wheel, pending):
            alone = min(timed(work, number) for _ in range(RUNS))
            with busy_threads(3):
                beside = timed(work, number, time.perf_counter_ns)
            print(f"| {name} | {alone:,.2f} | {beside:,.2f} |", flush=True)


if __name__ == "__main__":
    main()
