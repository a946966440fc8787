# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""Wheel.timeout(). The promises of asyncio.timeout() are checked on both."""

import asyncio
import contextlib
import gc
import os
import threading
import time
import unittest
import warnings
from typing import Any
from unittest import mock

from twheel import LimitReached, Wheel, aio, cell as cells

from . import CLOSES, HOUR, in_a_child

INFINITY = float("inf")


async def enter(wheel: Wheel) -> None:
    async with wheel.timeout(HOUR):
        pass


class OfAsyncio(unittest.IsolatedAsyncioTestCase):
    """asyncio's own."""

    def make(self, delay: float | None) -> Any:
        return asyncio.timeout(delay)

    async def test_block_that_takes_too_long_is_cancelled(self) -> None:
        begin = time.monotonic()
        with self.assertRaises(TimeoutError) as caught:
            async with self.make(0.05) as scope:
                await asyncio.sleep(HOUR)
        self.assertGreaterEqual(time.monotonic(), begin + 0.05)
        self.assertTrue(scope.expired())
        self.assertIsInstance(caught.exception.__context__, asyncio.CancelledError)
        await asyncio.sleep(0)          # the task is not cancelled

    async def test_block_that_ends_in_time_goes_on(self) -> None:
        for delay in (HOUR, None, INFINITY):
            async with self.make(delay) as scope:
                await asyncio.sleep(0.002)
            self.assertFalse(scope.expired())
        with self.assertRaises(KeyError):
            async with self.make(HOUR):
                raise KeyError
        async with self.make(0) as scope:       # without a wait
            pass
        self.assertFalse(scope.expired())

    async def test_delay_that_has_passed_ends_the_first_wait(self) -> None:
        for delay in (0, -1, -INFINITY):
            waited = False
            with self.assertRaises(TimeoutError):
                async with self.make(delay):
                    waited = True
                    await asyncio.sleep(0)
                    self.fail("the wait came to its end")
            self.assertTrue(waited)

    async def test_reschedule_moves_the_deadline(self) -> None:
        now = asyncio.get_running_loop().time
        for delay in (HOUR, None):
            for rest in (0.02, 0, -1, -INFINITY):
                with self.assertRaises(TimeoutError):
                    async with self.make(delay) as scope:
                        scope.reschedule(now() + rest)
                        await asyncio.sleep(HOUR)
        for soon in (0, 0.002):
            for when in (None, now() + HOUR, INFINITY):
                async with self.make(soon) as scope:
                    scope.reschedule(when)
                    self.assertEqual(scope.when(), when)
                    await asyncio.sleep(0.02)
                self.assertFalse(scope.expired())

    async def test_when_is_the_time_of_the_loop(self) -> None:
        now = asyncio.get_running_loop().time
        before, scope = now(), self.make(HOUR)
        self.assertTrue(before <= scope.when() - HOUR <= now())
        self.assertIsNone(self.make(None).when())

    async def test_repr_has_the_state_and_the_deadline(self) -> None:
        async with self.make(HOUR) as scope:
            self.assertRegex(repr(scope), r"^<Timeout \[active\] when=\d+\.\d*>$")
            scope.reschedule(None)
            self.assertEqual(repr(scope), "<Timeout [active] when=None>")
        self.assertEqual(repr(scope), "<Timeout [finished]>")

    async def test_reschedule_is_for_the_block(self) -> None:
        scope = self.make(HOUR)
        # An assertion: before 3.12.
        self.assertRaises((RuntimeError, AssertionError), scope.reschedule, None)
        async with scope:
            pass
        self.assertRaises(RuntimeError, scope.reschedule, None)
        with self.assertRaises(TimeoutError):
            async with self.make(0) as scope:
                try:
                    await asyncio.sleep(HOUR)
                finally:
                    self.assertRaises(RuntimeError, scope.reschedule, None)

    async def test_nested_blocks_expire_each_at_its_own_time(self) -> None:
        with self.assertRaises(TimeoutError):
            async with self.make(HOUR) as outer:
                with self.assertRaises(TimeoutError):
                    async with self.make(0.01) as inner:
                        await asyncio.sleep(HOUR)
                self.assertEqual((inner.expired(), outer.expired()), (True, False))
                outer.reschedule(0)
                async with self.make(HOUR) as inner:
                    await asyncio.sleep(HOUR)
        self.assertEqual((inner.expired(), outer.expired()), (False, True))

    async def test_cancellation_from_outside_is_no_timeout(self) -> None:
        async def work(scope: Any) -> None:
            async with scope:
                await asyncio.sleep(HOUR)

        scope = self.make(HOUR)
        task = asyncio.create_task(work(scope))
        await asyncio.sleep(0)
        task.cancel()
        with self.assertRaises(asyncio.CancelledError):
            await task
        self.assertEqual((task.cancelling(), scope.expired()), (1, False))

    async def test_each_cancellation_counts(self) -> None:
        task = asyncio.current_task()
        assert task
        with contextlib.suppress(asyncio.CancelledError):
            async with self.make(0) as scope:
                try:
                    await asyncio.sleep(HOUR)
                except asyncio.CancelledError:
                    task.cancel()
                    await asyncio.sleep(0)
        self.assertTrue(scope.expired())
        self.assertEqual((task.uncancel(), task.cancelling()), (0, 0))
        with self.assertRaises(KeyError):
            async with self.make(0):
                try:
                    await asyncio.sleep(HOUR)
                except asyncio.CancelledError:
                    raise KeyError from None
        self.assertEqual(task.cancelling(), 0)


class OfTheWheel(OfAsyncio):
    async def asyncSetUp(self) -> None:
        self.wheel = self.enterContext(Wheel())

    def make(self, delay: float | None) -> Any:
        return self.wheel.timeout(delay)

    async def test_timeouts_leave_the_events_of_the_wheel_alone(self) -> None:
        self.wheel.arm(0.01, 5)
        with self.assertRaises(TimeoutError):
            async with self.make(0.02):
                await asyncio.sleep(HOUR)
        self.assertEqual([event.cookie for event in self.wheel.read(10)], [5])
        self.assertEqual(self.wheel.info().live, 0)

    async def test_timeouts_of_one_time_have_one_deadline(self) -> None:
        when = time.monotonic() + HOUR
        async with self.make(None) as one, self.make(None) as other:
            one.reschedule(when)
            other.reschedule(when)
            [timeouts] = self.wheel._watches.values()
            timeouts.wheel.stop()
            self.assertEqual(len({event.expires_ns for event in timeouts.wheel.read()}), 1)

    async def burst(self, number: int) -> None:
        async with contextlib.AsyncExitStack() as stack:
            for _ in range(number):
                await stack.enter_async_context(self.make(HOUR))

    async def test_burst_makes_cells_in_batches_for_later_ones(self) -> None:
        with (mock.patch.object(aio, "BATCH", 16),
              mock.patch.object(cells, "create_many", wraps=cells.create_many) as create):
            for number in (160, 1, 160):
                await self.burst(number)
        self.assertLessEqual(create.call_count, 15)
        [timeouts] = self.wheel._watches.values()
        info, stats = timeouts.wheel.info(), timeouts.wheel.stats()
        self.assertEqual(stats.armed, info.live)
        self.assertLess(info.live, 160 + 16)

    async def test_cells_that_a_burst_leaves_end_later(self) -> None:
        """Those in use stay, and a few spare ones."""
        with mock.patch.multiple(aio, QUIET=0.01, BATCH=16, SPARE=4):
            async with self.make(HOUR):
                await self.burst(50)
                [timeouts] = self.wheel._watches.values()
                while timeouts.wheel.info().live > aio.SPARE + 1:
                    await self.burst(3)
                    await asyncio.sleep(0.001)
            self.assertTrue(timeouts.wheel.info().live)

    async def test_burst_that_reaches_the_limit_is_told(self) -> None:
        with mock.patch.object(self.wheel, "_another", lambda: Wheel(max_timeouts=100)):
            self.make(HOUR)
        with self.assertRaises(LimitReached):
            await self.burst(101)
        await self.burst(100)

    async def test_close_leaves_timeouts_to_the_loop_also_in_another_thread(self) -> None:
        for close in CLOSES:
            with Wheel() as wheel, self.assertRaises(TimeoutError):
                async with wheel.timeout(0.1) as outer:
                    async with wheel.timeout(HOUR) as inner:
                        close(wheel)
                        await asyncio.sleep(0)
                        inner.reschedule(time.monotonic() + HOUR)
                        await asyncio.sleep(HOUR)
            self.assertEqual((outer.expired(), inner.expired()), (True, False))
            self.assertRaises(ValueError, wheel.timeout, 1)

    async def test_timeout_is_entered_once(self) -> None:
        """The text is that of asyncio in Python 3.12."""
        async with self.make(HOUR) as scope:
            with self.assertRaisesRegex(RuntimeError, "^Timeout has already been entered$"):
                await scope.__aenter__()
        with self.assertRaisesRegex(RuntimeError, "^Timeout has already been entered$"):
            await scope.__aenter__()


class Loops(unittest.TestCase):
    def test_close_for_a_loop_that_does_not_run(self) -> None:
        """A wheel can be closed where a loop has stopped with tasks that wait. If it runs again,
        they end."""
        async def iterate() -> None:
            async for _ in wheel.expirations():
                self.fail("nothing was armed")

        async def limit() -> None:
            with contextlib.suppress(TimeoutError):
                async with wheel.timeout(0.1):
                    await asyncio.sleep(HOUR)

        for runs_again in (True, False):
            gc.collect()    # what earlier tests have left
            before = len(os.listdir("/proc/self/fd"))
            loop = asyncio.new_event_loop()
            loop.set_exception_handler(lambda *_: None)     # destroys tasks that wait
            with Wheel() as wheel:
                tasks = [loop.create_task(main()) for main in (iterate, limit, iterate)]
                loop.run_until_complete(asyncio.sleep(0))
                if not runs_again:
                    loop.close()
            if runs_again:
                loop.run_until_complete(asyncio.gather(*tasks))
                loop.close()
            del tasks
            gc.collect()
            self.assertEqual(len(os.listdir("/proc/self/fd")), before)

    def test_delay_counts_on_a_clock_that_is_not_set(self) -> None:
        """Also beside a wheel on CLOCK_REALTIME. A delay that is not a number is due at once."""
        async def main() -> None:
            with Wheel(clock=time.CLOCK_REALTIME) as wheel:
                for delay in (0.01, float("nan")):
                    with self.assertRaises(TimeoutError):
                        async with wheel.timeout(delay) as scope:
                            self.assertFalse((scope.when() or 0) > time.monotonic() + HOUR)
                            await asyncio.sleep(HOUR)
        asyncio.run(main())

    def test_close_while_the_first_timeout_of_a_loop_is_made(self) -> None:
        def another() -> Wheel:
            wheel.close()
            return other

        async def main() -> None:
            with mock.patch.object(wheel, "_another", another):
                wheel.timeout(HOUR)

        wheel, other = Wheel(), Wheel()
        self.addCleanup(other.close)
        asyncio.run(main())
        self.assertTrue(other.closed)

    def test_loops_that_are_over_keep_no_descriptor(self) -> None:
        with Wheel() as wheel:
            asyncio.run(enter(wheel))
            gc.collect()
            before = len(os.listdir("/proc/self/fd"))
            for _ in range(3):
                asyncio.run(enter(wheel))
            self.assertEqual(len(os.listdir("/proc/self/fd")), before)
            self.assertEqual(len(wheel._watches), 1)
            self.assertRaises(RuntimeError, wheel.timeout, 1)

    def test_two_threads_forget_a_loop_that_is_over(self) -> None:
        def closed() -> bool:
            del old.is_closed
            thread = threading.Thread(target=lambda: asyncio.run(enter(wheel)))
            thread.start()
            thread.join()
            return True

        with Wheel() as wheel, asyncio.Runner() as runner:
            old: Any = runner.get_loop()
            runner.run(enter(wheel))
            runner.close()
            old.is_closed = closed
            asyncio.run(enter(wheel))

    def test_forgotten_wheel_keeps_no_descriptor(self) -> None:
        """It lives as long as a timeout of it."""
        async def main() -> None:
            before = os.listdir("/proc/self/fd")
            for _ in range(3):
                with self.assertRaises(TimeoutError):
                    async with Wheel().timeout(0.001):
                        await asyncio.sleep(HOUR)
                del _
            gc.collect()
            self.assertEqual(os.listdir("/proc/self/fd"), before)

        gc.collect()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            asyncio.run(main())

    def test_child_has_timeouts_of_its_own(self) -> None:
        """A server opens the wheel and forks its workers, before or after the first timeout."""
        async def limit(delay: float) -> None:
            async with wheel.timeout(delay):
                await asyncio.sleep(0.02)

        async def while_others_fork() -> None:
            async with wheel.timeout(0.1):
                in_a_child(worker)
                in_a_child(wheel.close)
                await asyncio.sleep(HOUR)

        def worker() -> None:
            asyncio.run(limit(HOUR))
            self.assertRaises(TimeoutError, asyncio.run, limit(0))
            wheel.close()

        with Wheel() as wheel:
            in_a_child(worker)
            self.assertRaises(TimeoutError, asyncio.run, while_others_fork())
            in_a_child(wheel.close)         # without a warning about a wheel that is not ours
