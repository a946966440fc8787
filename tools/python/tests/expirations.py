# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""Expirations for asyncio, on the device."""

import asyncio
import os
import resource
import time
import unittest
from collections.abc import AsyncIterator, Callable
from typing import Any
from unittest import mock

from twheel import Event, Operation, Outcome, Wheel, aio, every

from . import CLOSES, HOUR, PATIENCE

ITERATORS: list[Callable[[Wheel], AsyncIterator[Any]]] = [Wheel.expirations, Wheel.batches]


async def collect(events: AsyncIterator[Event]) -> list[int]:
    return [event.cookie async for event in events]


class Expirations(unittest.IsolatedAsyncioTestCase):
    async def asyncSetUp(self) -> None:
        self.wheel = self.enterContext(Wheel())

    async def let_fire(self, number: int) -> None:
        self.wheel.submit(Operation.arm(0, i) for i in range(number))
        while self.wheel.info().ready < number:
            await asyncio.sleep(0.001)

    async def test_expirations_come_until_the_wheel_is_stopped(self) -> None:
        for i in range(5):
            self.wheel.arm(i / 50, i)
        self.wheel.arm(HOUR, 99)
        cookies = []
        async for event in self.wheel.expirations():
            cookies.append((event.cookie, event.unprocessed))
            if event.cookie == 4:
                self.wheel.stop()
        self.assertEqual(cookies, [(i, False) for i in range(5)] + [(99, True)])

    async def test_loop_goes_on_while_an_iterator_waits(self) -> None:
        self.wheel.arm(PATIENCE / 2, 1)      # ends a read that blocks the loop
        task = asyncio.ensure_future(anext(self.wheel.expirations()))
        for _ in range(5):
            await asyncio.sleep(0.01)
        self.assertFalse(task.done())
        self.wheel.arm(0, 2)
        event = await task
        self.assertEqual((event.cookie, event.count), (2, 1))

    async def test_events_come_without_a_free_descriptor(self) -> None:
        events = self.wheel.expirations()
        for cookie in range(3):
            self.wheel.arm(0.01, cookie)
            self.assertEqual((await anext(events)).cookie, cookie)
            if not cookie:
                limit = resource.getrlimit(resource.RLIMIT_NOFILE)
                self.addCleanup(resource.setrlimit, resource.RLIMIT_NOFILE, limit)
                resource.setrlimit(resource.RLIMIT_NOFILE, (0, limit[1]))
                with self.assertRaises(OSError):
                    os.dup(0)

    async def test_close_ends_iterators_also_in_another_thread(self) -> None:
        """A task that waits ends, and one that does not wait yet."""
        for close in CLOSES:
            before = len(os.listdir("/proc/self/fd"))
            with Wheel() as wheel:
                late, early = wheel.expirations(), asyncio.create_task(collect(wheel.expirations()))
                wheel.arm(0, 7)
                while wheel.info().live:
                    await asyncio.sleep(0.001)
                self.assertFalse(early.done())
                close(wheel)
                self.assertEqual((await early, await collect(late)), ([7], []))
                while len(os.listdir("/proc/self/fd")) > before:    # the thread may be in close()
                    await asyncio.sleep(0.001)

    async def test_iterator_stays_registered_from_wait_to_wait(self) -> None:
        loop, events = asyncio.get_running_loop(), self.wheel.expirations()
        with (mock.patch.object(loop, "add_reader", wraps=loop.add_reader) as add,
              mock.patch("os.dup", wraps=os.dup) as dup):
            for cookie in range(20):
                self.wheel.arm(0.002, cookie)
                self.assertEqual((await anext(events)).cookie, cookie)
        self.assertEqual((add.call_count, dup.call_count), (1, 1))

    async def test_loop_sleeps_while_nobody_asks_for_an_event(self) -> None:
        with mock.patch.object(aio._Watch, "_wake", autospec=True,
                               side_effect=aio._Watch._wake) as wake:
            events = self.wheel.expirations()
            self.wheel.arm(0, 1)
            await anext(events)
            self.wheel.arm(0, 2)
            self.wheel.wait()
            before = wake.call_count
            await asyncio.sleep(0.05)
            self.assertLessEqual(wake.call_count, before + 3)
        self.assertEqual((await anext(events)).cookie, 2)

    async def test_loop_goes_on_while_there_is_always_an_event(self) -> None:
        for iterate in ITERATORS:
            with Wheel() as wheel:
                wheel.arm(0.001, repeat=every(0.001))
                asyncio.get_running_loop().call_later(0.05, wheel.stop)
                async for _ in iterate(wheel):
                    time.sleep(0.005)

    async def test_tasks_that_iterate_get_each_event_once(self) -> None:
        self.wheel.submit(Operation.arm(i / 1000, i) for i in range(100))
        tasks = [asyncio.create_task(collect(self.wheel.expirations())) for _ in range(2)]
        while self.wheel.stats().read < 100:
            await asyncio.sleep(0.01)
        self.wheel.stop()
        one, other = await asyncio.gather(*tasks)
        self.assertEqual(sorted(one + other), list(range(100)))

    async def test_what_is_cancelled_before_its_turn_does_not_come(self) -> None:
        await self.let_fire(2)
        async for event in self.wheel.expirations():
            [other] = self.wheel.timeouts()
            self.assertEqual(self.wheel.cancel(other.id), Outcome.WITHDRAWN)
            self.wheel.stop()

    async def test_iterator_that_is_cancelled_leaves_no_descriptor(self) -> None:
        before = os.listdir("/proc/self/fd")
        with self.assertRaises(TimeoutError):
            async with asyncio.timeout(0.02):
                async for _ in self.wheel.expirations():
                    self.fail("nothing was armed")
        await asyncio.sleep(0)      # asyncio keeps the cancellation until then
        self.assertEqual(os.listdir("/proc/self/fd"), before)

    async def test_iterators_go_on_after_a_wait_that_is_cancelled(self) -> None:
        for iterate in ITERATORS:
            with Wheel() as wheel:
                iterator = iterate(wheel)
                for _ in range(3):
                    with self.assertRaises(TimeoutError):
                        await asyncio.wait_for(anext(iterator), 0.01)
                wheel.arm(0)
                self.assertTrue(await anext(iterator))
                wheel.stop()
                with self.assertRaises(StopAsyncIteration):
                    await anext(iterator)

    async def test_batch_has_events_up_to_its_size(self) -> None:
        with self.assertRaises(ValueError):
            self.wheel.batches(0)
        await self.let_fire(100)
        batches = self.wheel.batches(64)
        events = await anext(batches)
        self.assertEqual((len(events), self.wheel.info().ready), (64, 36))
        events += await anext(batches)
        self.assertEqual(sorted(event.cookie for event in events), list(range(100)))
