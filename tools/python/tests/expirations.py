# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""Expirations for asyncio, on the device."""

import asyncio
import os
import resource
import time
import unittest
from collections.abc import AsyncIterator, Callable, Coroutine
from typing import Any

from twheel import Event, Operation, Outcome, Wheel, aio, every

HOUR = 3600
PATIENCE = 20


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
        async def first(wheel: Wheel) -> Event:
            return await anext(wheel.expirations())

        async def main(wheel: Wheel) -> None:
            wheel.arm(PATIENCE / 2, 1)      # ends a read that blocks the loop
            task = asyncio.create_task(first(wheel))
            for _ in range(5):
                await asyncio.sleep(0.01)
            self.assertFalse(task.done())
            wheel.arm(0, 2)
            event = await task
            self.assertEqual((event.cookie, event.count), (2, 1))
        self.run_loop(main)

    def test_events_come_without_a_free_descriptor(self) -> None:
        async def main(wheel: Wheel) -> None:
            soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
            resource.setrlimit(resource.RLIMIT_NOFILE, (wheel.fileno() + 1, hard))
            try:
                wheel.arm(0.01, 7)
                self.assertEqual((await anext(wheel.expirations())).cookie, 7)
            finally:
                resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
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

    def test_expirations_go_on_after_a_wait_that_is_cancelled(self) -> None:
        self.check_goes_on(Wheel.expirations)

    def test_batches_go_on_after_a_wait_that_is_cancelled(self) -> None:
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
            async for events in aio.Batches(wheel, 4):
                self.assertEqual(len(events), 4)
                break
            self.assertEqual(len(wheel.read(64, 0)), 6)
        self.run_loop(main)

    def test_loop_goes_on_between_batches(self) -> None:
        self.check_turns(Wheel.batches)
