# SPDX-License-Identifier: LGPL-2.1-or-later
"""asyncio on the device."""

import asyncio
import contextvars
import os
import threading
import time
import unittest
from collections.abc import Callable, Coroutine
from typing import Any

from twheel import Event, Operation, Outcome, Wheel, aio, every

HOUR = 3600
PATIENCE = 20


class LoopCase(unittest.TestCase):
    def setUp(self) -> None:
        self.wheel = Wheel()
        self.loop = aio.WheelEventLoop(self.wheel)
        self.addCleanup(self.loop.close)

    def run_in_loop(self, main: Coroutine[Any, Any, None]) -> None:
        self.loop.run_until_complete(asyncio.wait_for(main, PATIENCE))

    def run_for(self, delay: float) -> None:
        """On a heap of its own, so that the wheel has the test's timers alone."""
        self.loop.call_soon(lambda: threading.Timer(
            delay, lambda: self.loop.call_soon_threadsafe(self.loop.stop)).start())
        self.loop.run_forever()

    def run_until(self, called: list[Any], nr: int) -> None:
        """Until there are as many; and no more come."""
        deadline = time.monotonic() + PATIENCE
        while len(called) < nr and time.monotonic() < deadline:
            self.run_for(0.02)
        self.run_for(0.02)
        self.assertEqual(len(called), nr)

    def turn(self) -> None:
        self.loop.call_soon(self.loop.stop)
        self.loop.run_forever()


class Timers(LoopCase):
    def test_calls_come_once_and_not_early(self) -> None:
        called: list[tuple[float, float]] = []
        begin = self.loop.time()
        for i in range(200):
            when = begin + i / 1000
            self.loop.call_at(when, lambda when=when: called.append((when, self.loop.time())))
        self.run_until(called, 200)
        for when, now in called:
            self.assertGreaterEqual(now, when)

    def test_calls_come_in_the_order_of_their_deadlines(self) -> None:
        called: list[int] = []
        begin = self.loop.time() + 0.05
        for i in (3, 1, 4, 0, 2):
            self.loop.call_at(begin + i / 100, called.append, i)
        self.run_until(called, 5)
        self.assertEqual(called, [0, 1, 2, 3, 4])

    def test_calls_that_are_due_come_in_the_order_of_their_deadlines(self) -> None:
        called: list[int] = []
        now = self.loop.time()
        for i in (3, 1, 2):
            self.loop.call_at(now - 1 + i / 1e4, called.append, i)
        self.turn()
        self.assertEqual(called, [1, 2, 3])

    def test_call_that_is_due_does_not_come_in_the_same_turn(self) -> None:
        called: list[str] = []

        def first() -> None:
            self.loop.call_later(0, called.append, "later")
            called.append("first")
        self.loop.call_soon(first)
        self.turn()
        self.assertEqual(called, ["first"])
        self.turn()
        self.assertEqual(called, ["first", "later"])

    def test_cancelled_calls_do_not_come(self) -> None:
        nr = 900
        called: list[int] = []
        begin = self.loop.time() + 2
        handles = [self.loop.call_at(begin + i / 10000, called.append, i) for i in range(nr)]
        self.turn()
        self.assertEqual(self.wheel.info().live, nr)
        for handle in handles[::3]:
            handle.cancel()
            handle.cancel()
        self.run_until(called, nr * 2 // 3)
        self.assertEqual(called, [i for i in range(nr) if i % 3])
        stats = self.wheel.stats()
        self.assertEqual((stats.armed, stats.cancelled, stats.live), (nr, nr // 3, 0))

    def test_call_that_another_cancels_in_its_turn_does_not_come(self) -> None:
        called: list[str] = []
        when = self.loop.time() + 0.05
        second = self.loop.call_at(when + 1e-6, called.append, "second")
        self.loop.call_at(when, second.cancel)
        self.turn()
        time.sleep(0.1)
        self.run_for(0.05)
        self.assertEqual(called, [])

    def test_what_one_turn_arms_and_cancels_stays_in_the_process(self) -> None:
        for _ in range(100):
            self.loop.call_later(HOUR, print).cancel()
        self.turn()
        self.assertEqual(self.wheel.stats().armed, 0)

    def test_a_turn_goes_to_the_kernel_in_one_call(self) -> None:
        calls: list[int] = []
        submit = self.wheel.submit

        def counted(ops: list[Operation]) -> None:
            calls.append(len(ops))
            submit(ops)
        setattr(self.wheel, "submit", counted)
        handles = [self.loop.call_later(HOUR, print) for _ in range(50)]
        self.turn()
        for handle in handles:
            handle.cancel()
        self.loop.call_later(HOUR, print)
        self.turn()
        self.assertEqual(calls, [50, 51])

    def test_heap_of_the_loop_is_not_used(self) -> None:
        self.loop.call_later(HOUR, print)
        self.turn()
        self.assertEqual(getattr(self.loop, "_scheduled"), [])

    def test_far_deadlines_are_taken_and_others_refused(self) -> None:
        handles = [self.loop.call_later(delay, print) for delay in (1e8, 1e12, float("inf"))]
        self.turn()
        self.assertEqual(self.wheel.info().live, 3)
        for handle in handles:
            handle.cancel()
        with self.assertRaises(ValueError):
            self.loop.call_later(float("nan"), print)

    def test_heap_takes_what_the_wheel_refuses(self) -> None:
        called: list[int] = []
        with Wheel(max_timeouts=4) as wheel:
            self.loop.close()
            self.loop = aio.WheelEventLoop(wheel)
            begin = self.loop.time()
            handles = [self.loop.call_at(begin + 0.5 + i / 1000, called.append, i)
                       for i in range(10)]
            self.turn()
            self.assertEqual(wheel.info().live, 4)
            handles[1].cancel()
            handles[8].cancel()
            self.assertTrue(getattr(handles[8], "on_heap").cancelled())
            self.run_until(called, 8)
            self.loop.close()
        self.assertEqual(sorted(called), [0, 2, 3, 4, 5, 6, 7, 9])

    def test_exception_of_a_call_holds_no_other(self) -> None:
        errors: list[Exception] = []
        called: list[int] = []
        self.loop.set_exception_handler(lambda _, context: errors.append(context["exception"]))
        when = self.loop.time() + 0.02
        self.loop.call_at(when, lambda: 1 // 0)
        self.loop.call_at(when, called.append, 1)
        self.run_until(called, 1)
        self.assertEqual(([type(error) for error in errors], called), ([ZeroDivisionError], [1]))

    def test_calls_have_the_context_they_were_armed_in(self) -> None:
        variable: contextvars.ContextVar[int] = contextvars.ContextVar("variable", default=0)
        seen: list[int] = []
        variable.set(7)
        self.loop.call_later(0.01, lambda: seen.append(variable.get()))
        variable.set(8)
        self.run_until(seen, 1)
        self.assertEqual(seen, [7])

    def test_closed_loop_refuses(self) -> None:
        self.loop.close()
        self.assertTrue(self.wheel.closed)
        with self.assertRaises(RuntimeError):
            self.loop.call_later(1, print)

    def test_loop_in_debug_mode_refuses_other_threads(self) -> None:
        self.loop.set_debug(True)
        errors: list[BaseException] = []

        def arm() -> None:
            try:
                self.loop.call_later(1, print)
            except RuntimeError as error:
                errors.append(error)

        async def main() -> None:
            await asyncio.to_thread(arm)
        self.run_in_loop(main())
        self.assertEqual(len(errors), 1)


class Tasks(LoopCase):
    def test_timeouts_of_asyncio_work(self) -> None:
        async def main() -> None:
            begin = self.loop.time()
            with self.assertRaises(TimeoutError):
                async with asyncio.timeout(0.03):
                    await asyncio.sleep(HOUR)
            with self.assertRaises(TimeoutError):
                await asyncio.wait_for(asyncio.Event().wait(), 0.03)
            await asyncio.gather(*(asyncio.sleep(0.03) for _ in range(100)))
            self.assertGreaterEqual(self.loop.time(), begin + 0.09)
        self.run_in_loop(main())
        self.turn()
        self.assertEqual(self.wheel.info().live, 0)

    def test_idle_connections_are_closed_and_busy_ones_not(self) -> None:
        async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while line := await asyncio.wait_for(reader.readline(), 1):
                    writer.write(line)
            except TimeoutError:
                writer.write(b"idle\n")
            writer.close()

        async def client(path: str, lines: int) -> float:
            reader, writer = await asyncio.open_unix_connection(path)
            for _ in range(lines):
                writer.write(b"line\n")
                self.assertEqual(await reader.readline(), b"line\n")
                await asyncio.sleep(0.2)
            self.assertEqual(await reader.readline(), b"idle\n")
            writer.close()
            return self.loop.time()

        async def main() -> None:
            path = "/tmp/echo.socket"
            async with await asyncio.start_unix_server(echo, path):
                begin = self.loop.time()
                silent, busy = await asyncio.gather(client(path, 0), client(path, 7))
            self.assertGreaterEqual(silent, begin + 1)
            self.assertGreaterEqual(busy, begin + 6 * 0.2 + 1)
        self.run_in_loop(main())

    def test_run_is_as_of_asyncio(self) -> None:
        async def main() -> str:
            self.assertIsInstance(asyncio.get_running_loop(), aio.WheelEventLoop)
            await asyncio.sleep(0.01)
            return "done"
        self.assertEqual(aio.run(main()), "done")


class Expirations(unittest.TestCase):
    def run_on_both(self, main: Callable[[Wheel], Coroutine[Any, Any, None]]) -> None:
        """On a loop of ours, and on one that is not."""
        for run in (aio.run, asyncio.run):
            with Wheel() as wheel:
                run(asyncio.wait_for(main(wheel), PATIENCE))

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
        self.run_on_both(main)

    def test_loop_goes_on_while_an_iterator_waits(self) -> None:
        async def first(wheel: Wheel) -> Event:
            return await anext(wheel.expirations())

        async def main(wheel: Wheel) -> None:
            wheel.arm(1)
            task = asyncio.create_task(first(wheel))
            for _ in range(5):
                await asyncio.sleep(0.01)
            self.assertFalse(task.done())
            self.assertEqual((await task).count, 1)
        self.run_on_both(main)

    def test_loop_goes_on_while_there_is_always_an_event(self) -> None:
        async def main(wheel: Wheel) -> None:
            async def stop() -> None:
                await asyncio.sleep(0.05)
                wheel.stop()
            wheel.arm(0.001, repeat=every(0.001))
            task = asyncio.create_task(stop())
            async for _ in wheel.expirations():
                time.sleep(0.005)
            await task
        self.run_on_both(main)

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
        self.run_on_both(main)

    def test_what_is_cancelled_before_its_turn_does_not_come(self) -> None:
        async def main(wheel: Wheel) -> None:
            ids = {wheel.arm(0, i) for i in range(2)}
            while wheel.info().ready < 2:
                await asyncio.sleep(0.001)
            async for event in wheel.expirations():
                [other] = ids - {event.id}
                self.assertEqual(wheel.cancel(other), Outcome.WITHDRAWN)
                wheel.stop()
        self.run_on_both(main)

    def test_iterator_that_is_cancelled_leaves_no_descriptor(self) -> None:
        async def main(wheel: Wheel) -> None:
            before = os.listdir("/proc/self/fd")
            with self.assertRaises(TimeoutError):
                async with asyncio.timeout(0.02):
                    async for _ in wheel.expirations():
                        self.fail("nothing was armed")
            self.assertEqual(os.listdir("/proc/self/fd"), before)
        self.run_on_both(main)
