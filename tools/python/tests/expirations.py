# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""Expirations for asyncio, on the device."""

import asyncio
import os
import resource
import threading
import time
import unittest
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any
from unittest import mock

from twheel import Event, Operation, Outcome, Wheel, aio, every

HOUR = 3600
PATIENCE = 20


async def first(events: AsyncIterator[Event]) -> Event:
    return await anext(events)


class Expirations(unittest.TestCase):
    def run_loop(self, main: Callable[[Wheel], Coroutine[Any, Any, None]]) -> None:
        with Wheel() as wheel:
            asyncio.run(asyncio.wait_for(main(wheel), PATIENCE))

    def test_expirations_come_until_the_wheel_is_stopped(self) -> None:
        async def main(wheel: Wheel) -> None:
            for i in range(5):
                wheel.arm(i / 50, i)
            wheel.arm(HOUR, 99)
            cookies = []
            async for event in wheel.expirations():
                cookies.append((event.cookie, event.unprocessed))
                if event.cookie == 4:
                    wheel.stop()
            self.assertEqual(cookies, [(i, False) for i in range(5)] + [(99, True)])
        self.run_loop(main)

    def test_loop_goes_on_while_an_iterator_waits(self) -> None:
        async def main(wheel: Wheel) -> None:
            wheel.arm(PATIENCE / 2, 1)      # ends a read that blocks the loop
            task = asyncio.create_task(first(wheel.expirations()))
            for _ in range(5):
                await asyncio.sleep(0.01)
            self.assertFalse(task.done())
            wheel.arm(0, 2)
            event = await task
            self.assertEqual((event.cookie, event.count), (2, 1))
        self.run_loop(main)

    def test_events_come_without_a_free_descriptor(self) -> None:
        async def main(wheel: Wheel) -> None:
            events = wheel.expirations()
            for cookie in range(3):
                wheel.arm(0.01, cookie)
                self.assertEqual((await anext(events)).cookie, cookie)
                if not cookie:
                    limit = resource.getrlimit(resource.RLIMIT_NOFILE)
                    self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limit)
                    resource.setrlimit(resource.RLIMIT_NOFILE, (0, limit[1]))
                    with self.assertRaises(OSError):
                        os.dup(0)
        self.run_loop(main)

    def check_ends(self, close: Callable[[Wheel], None]) -> None:
        """A task that waits ends, and one that does not wait yet."""
        async def main(wheel: Wheel) -> None:
            async def collect(events: AsyncIterator[Event]) -> list[int]:
                return [event.cookie async for event in events]

            before = len(os.listdir("/proc/self/fd"))
            late, early = wheel.expirations(), asyncio.create_task(collect(wheel.expirations()))
            wheel.arm(0, 7)
            while wheel.info().live:
                await asyncio.sleep(0.001)
            self.assertFalse(early.done())
            close(wheel)
            self.assertEqual((await early, await collect(late)), ([7], []))
            while len(os.listdir("/proc/self/fd")) >= before:   # the thread may be in close()
                await asyncio.sleep(0.001)
        self.run_loop(main)

    def test_close_ends_iterators_also_in_another_thread(self) -> None:
        self.check_ends(Wheel.close)
        self.check_ends(lambda wheel: threading.Thread(target=wheel.close).start())

    def test_iterator_stays_registered_from_wait_to_wait(self) -> None:
        async def main(wheel: Wheel) -> None:
            loop, events = asyncio.get_running_loop(), wheel.expirations()
            with (mock.patch.object(loop, "add_reader", wraps=loop.add_reader) as add,
                  mock.patch("os.dup", wraps=os.dup) as dup):
                for cookie in range(20):
                    wheel.arm(0.002, cookie)
                    self.assertEqual((await anext(events)).cookie, cookie)
            self.assertEqual((add.call_count, dup.call_count), (1, 1))
        self.run_loop(main)

    def test_loop_sleeps_while_nobody_asks_for_an_event(self) -> None:
        async def main(wheel: Wheel) -> None:
            events = wheel.expirations()
            wheel.arm(0, 1)
            await anext(events)
            wheel.arm(0, 2)
            wheel.wait()
            with mock.patch.object(aio._Watch, "_wake", autospec=True,
                                   side_effect=aio._Watch._wake) as wake:
                await asyncio.sleep(0.05)
            self.assertLessEqual(wake.call_count, 3)
            self.assertEqual((await anext(events)).cookie, 2)
        self.run_loop(main)

    def check_turns(self, iterate: Callable[[Wheel], AsyncIterator[Any]]) -> None:
        """Another task has its turn although there is always an event."""
        async def main(wheel: Wheel) -> None:
            async def stop() -> None:
                await asyncio.sleep(0.05)
                wheel.stop()
            wheel.arm(0.001, repeat=every(0.001))
            task = asyncio.create_task(stop())
            async for _ in iterate(wheel):
                time.sleep(0.005)
            await task
        self.run_loop(main)

    def test_loop_goes_on_while_there_is_always_an_event(self) -> None:
        self.check_turns(Wheel.expirations)
        self.check_turns(Wheel.batches)

    def test_tasks_that_iterate_get_each_event_once(self) -> None:
        async def main(wheel: Wheel) -> None:
            async def collect() -> list[int]:
                return [event.cookie async for event in wheel.expirations()]

            async def stop() -> None:
                while wheel.stats().read < 100:
                    await asyncio.sleep(0.01)
                wheel.stop()
            wheel.submit(Operation.arm(i / 1000, i) for i in range(100))
            one, other, _ = await asyncio.gather(collect(), collect(), stop())
            self.assertEqual(sorted(one + other), list(range(100)))
        self.run_loop(main)

    def test_what_is_cancelled_before_its_turn_does_not_come(self) -> None:
        async def main(wheel: Wheel) -> None:
            ids = {wheel.arm(0, i) for i in range(2)}
            while wheel.info().ready < 2:
                await asyncio.sleep(0.001)
            async for event in wheel.expirations():
                [other] = ids - {event.id}
                self.assertEqual(wheel.cancel(other), Outcome.WITHDRAWN)
                wheel.stop()
        self.run_loop(main)

    def test_iterator_that_is_cancelled_leaves_no_descriptor(self) -> None:
        async def main(wheel: Wheel) -> None:
            before = os.listdir("/proc/self/fd")
            with self.assertRaises(TimeoutError):
                async with asyncio.timeout(0.02):
                    async for _ in wheel.expirations():
                        self.fail("nothing was armed")
            await asyncio.sleep(0)      # asyncio keeps the cancellation until then
            self.assertEqual(os.listdir("/proc/self/fd"), before)
        self.run_loop(main)

    def check_goes_on(self, iterate: Callable[[Wheel], AsyncIterator[Any]]) -> None:
        """A wait that is cancelled does not end the iterator."""
        async def main(wheel: Wheel) -> None:
            iterator = iterate(wheel)
            for _ in range(3):
                with self.assertRaises(TimeoutError):
                    await asyncio.wait_for(anext(iterator), 0.01)
            wheel.arm(0)
            self.assertTrue(await anext(iterator))
            wheel.stop()
            with self.assertRaises(StopAsyncIteration):
                await anext(iterator)
        self.run_loop(main)

    def test_iterators_go_on_after_a_wait_that_is_cancelled(self) -> None:
        self.check_goes_on(Wheel.expirations)
        self.check_goes_on(Wheel.batches)

    def test_batches_have_room(self) -> None:
        with Wheel() as wheel, self.assertRaises(ValueError):
            wheel.batches(0)

    def test_batches_have_several_events(self) -> None:
        async def main(wheel: Wheel) -> None:
            wheel.submit(Operation.arm(0, i) for i in range(100))
            while wheel.info().ready < 100:
                await asyncio.sleep(0.001)
            sizes, cookies = [], []
            async for events in wheel.batches(64):
                sizes.append(len(events))
                cookies += [event.cookie for event in events]
                if len(cookies) == 100:
                    wheel.stop()
            self.assertEqual(sizes, [64, 36])
            self.assertEqual(sorted(cookies), list(range(100)))
        self.run_loop(main)

    def test_batch_that_nobody_asked_for_stays_in_the_wheel(self) -> None:
        async def main(wheel: Wheel) -> None:
            wheel.submit(Operation.arm(0, i) for i in range(10))
            while wheel.info().ready < 10:
                await asyncio.sleep(0.001)
            async for events in wheel.batches(4):
                self.assertEqual(len(events), 4)
                break
            self.assertEqual(len(wheel.read(64, 0)), 6)
        self.run_loop(main)
