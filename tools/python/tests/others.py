# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""Expirations in trio, through anyio, which also runs them on asyncio. The server of
README.md, and CPython's tests of asyncio.timeout()."""

import asyncio
import contextlib
import importlib
import socket
import sys
import time
import types
import unittest
from collections.abc import Callable, Coroutine
from typing import Any
from unittest import mock

from twheel import Wheel

from . import CLOSES, PATIENCE


class InOtherLoops(unittest.TestCase):
    def run_all(self, main: Callable[[Wheel, Any], Coroutine[Any, Any, None]]) -> None:
        """Run main(wheel, anyio) in each loop."""
        for backend in ("trio", "asyncio"):
            try:
                anyio = importlib.import_module("anyio")
                importlib.import_module(backend)
            except ImportError as error:
                self.skipTest(f"{error}: pip install anyio trio")

            async def in_time(wheel: Wheel) -> None:
                with anyio.fail_after(PATIENCE):
                    await main(wheel, anyio)
            with Wheel() as wheel:
                anyio.run(in_time, wheel, backend=backend)

    def test_wait_can_be_cancelled_and_ends_when_the_wheel_is_stopped(self) -> None:
        async def main(wheel: Wheel, anyio: Any) -> None:
            events = wheel.expirations()
            for cookie in range(3):
                with anyio.move_on_after(0.01) as scope:
                    await anext(events)
                self.assertTrue(scope.cancelled_caught)
                wheel.arm(0.01, cookie)
                self.assertEqual((await anext(events)).cookie, cookie)
            wheel.stop()
            self.assertEqual([event async for event in events], [])
        self.run_all(main)

    def test_other_tasks_run_while_there_is_always_an_event(self) -> None:
        async def main(wheel: Wheel, anyio: Any) -> None:
            async def stop() -> None:
                await anyio.sleep(0.01)
                wheel.stop()

            async with anyio.create_task_group() as group:
                group.start_soon(stop)
                async for event in wheel.expirations():
                    if not event.unprocessed:
                        wheel.arm(0)
                        wheel.wait(PATIENCE)
        self.run_all(main)

    def test_close_ends_iterators(self) -> None:
        async def main(_: Wheel, anyio: Any) -> None:
            async def iterate(wheel: Wheel) -> None:
                async for event in wheel.expirations():
                    cookies.append(event.cookie)

            for close in CLOSES:
                cookies: list[int] = []
                with Wheel() as wheel:
                    wheel.arm(0, 3)
                    async with anyio.create_task_group() as group:
                        group.start_soon(iterate, wheel)
                        while not cookies:
                            await anyio.sleep(0.001)
                        close(wheel)
                    self.assertEqual(cookies, [3])
        self.run_all(main)


class Server(unittest.TestCase):
    def test_server_of_the_page_ends_idle_connections(self) -> None:
        async def client() -> None:
            serving = asyncio.create_task(server.main(port))
            while True:
                with contextlib.suppress(ConnectionRefusedError):
                    reader, writer = await asyncio.open_connection("127.0.0.1", port)
                    break
                await asyncio.sleep(0.01)
            for _ in range(3):
                writer.write(b"echo")
                self.assertEqual(await reader.readexactly(4), b"echo")
            server.IDLE = 0.01
            writer.write(b"last")
            with contextlib.suppress(ConnectionResetError):
                await reader.read()
            writer.close()
            serving.cancel()
            await asyncio.wait([serving])

        server: Any = importlib.import_module("server")
        with socket.create_server(("127.0.0.1", 0)) as other:
            port = other.getsockname()[1]
        asyncio.run(client())


class OfCPython(unittest.TestCase):
    def test_what_cpython_tests_of_asyncio_holds_for_timeout(self) -> None:
        def timeout_at(when: float | None) -> Any:
            timeout = wheel.timeout(None if when is None else when - time.monotonic())
            timeout._when = when
            return timeout

        try:
            module: Any = importlib.import_module("test.test_asyncio.test_timeouts")
        except ImportError as error:
            self.skipTest(f"{error}: libpython3.{sys.version_info.minor}-testsuite has it")
        tests = list(unittest.defaultTestLoader.loadTestsFromTestCase(module.TimeoutTests))
        with Wheel() as wheel:
            own = vars(asyncio) | {"timeout": wheel.timeout, "timeout_at": timeout_at}
            with mock.patch.object(module, "asyncio", types.SimpleNamespace(**own)):
                for test in tests:
                    # Some have a tenth of a second: a stalled machine needs another attempt.
                    for _ in range(10):
                        test.run(result := unittest.TestResult())
                        if result.wasSuccessful():
                            break
                    self.assertEqual((result.testsRun, result.errors, result.failures,
                                      result.skipped), (1, [], [], []))
        print(f"# {len(tests)} tests of CPython")
