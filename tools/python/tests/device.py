# SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
"""The package on the device, and on wheels in the process."""

import contextlib
import copy
import errno
import functools
import gc
import io
import os
import pickle
import runpy
import signal
import sys
import threading
import time
import unittest
import warnings
import weakref
from collections.abc import Callable
from fractions import Fraction
from random import Random
from typing import Any
from unittest import mock

from twheel import (Cell, Deadline, Event, LimitReached, Operation, Outcome, Stopped, TimeoutGone,
                    Wheel, _lib, _pycell, after_ns, at, at_ns, cell as cells, every, seconds)

from . import HOUR, PATIENCE, in_a_child


class Case(unittest.TestCase):
    def refuse(self, error: int | type[Exception], *calls: Callable[[], object]) -> None:
        """Each call raises an exception of the class, or an OSError with the errno."""
        for call in calls:
            with self.assertRaises(OSError if isinstance(error, int) else error) as caught:
                call()
            if isinstance(error, int):
                self.assertEqual(getattr(caught.exception, "errno"), error)


class WheelCase(Case):
    def setUp(self) -> None:
        self.wheel = self.enterContext(Wheel())

    def take(self) -> Event:
        [event] = self.wheel.read(1, PATIENCE)
        return event

    def arm_fired(self, cookie: int = 0) -> int:
        id = self.wheel.arm(0, cookie)
        self.assertTrue(self.wheel.wait(PATIENCE))
        return id

    def assert_nothing_to_read(self) -> None:
        self.refuse(TimeoutError, lambda: self.wheel.read(1, 0))
        self.refuse(errno.ETIMEDOUT, lambda: self.wheel.read(1, 0))


class OneTimeout(WheelCase):
    def test_relative_timeout_fires_once_and_not_early(self) -> None:
        begin = time.monotonic_ns()
        id = self.wheel.arm(0.05, cookie=2**64 - 1)
        event = self.take()
        self.assertGreaterEqual(time.monotonic_ns(), begin + 50_000_000)
        self.assertGreaterEqual(event.expires_ns, begin + 50_000_000)
        self.assertGreaterEqual(event.fired_ns, event.expires_ns)
        self.assertEqual((event.id, event.cookie, event.count, event.last, event.unprocessed),
                         (id, 2**64 - 1, 1, True, False))
        self.assert_nothing_to_read()

    def test_cancel_of_unread_withdraws_the_event(self) -> None:
        self.assertEqual(self.wheel.cancel(self.arm_fired()), Outcome.WITHDRAWN)
        self.assert_nothing_to_read()

    def test_what_is_over_is_gone(self) -> None:
        id = self.arm_fired()
        self.take()
        self.refuse(errno.ENOENT, lambda: self.wheel.get(id))
        self.assertRaisesRegex(TimeoutGone, "no such timeout", self.wheel.get, id)
        self.refuse(TimeoutGone, lambda: self.wheel.cancel(id), lambda: self.wheel.get(id),
                    lambda: self.wheel.mod(id, 1), lambda: self.wheel.find_cell(id))

    def test_mod_replaces_deadline_and_cookie_and_withdraws_an_event(self) -> None:
        id = self.wheel.arm(HOUR, cookie=1)
        self.assertEqual(self.wheel.mod(id, 0, cookie=2), Outcome.PENDING)
        self.assertTrue(self.wheel.wait(PATIENCE))
        self.assertEqual(self.wheel.mod(id, 0.01, cookie=3), Outcome.WITHDRAWN)
        event = self.take()
        self.assertEqual((event.id, event.cookie), (id, 3))
        self.assert_nothing_to_read()

    def test_get_finds_what_was_armed(self) -> None:
        id = self.wheel.arm(HOUR, 5, repeat=every(60, 4))
        found = self.wheel.get(id)
        self.assertEqual((found.id, found.cookie, found.interval_ns, found.repeat),
                         (id, 5, 60 * 10**9, 4))
        self.assertLessEqual(found.remaining_ns, HOUR * 10**9)
        self.assertGreater(found.remaining_ns, (HOUR - PATIENCE) * 10**9)

    def test_what_does_not_go_together_is_einval(self) -> None:
        self.refuse(errno.EINVAL, lambda: self.wheel.arm(1, cell=True, repeat=every(1)),
                    lambda: self.wheel.arm(1, exact=True, slack_ns=1_000_000))


class Cells(WheelCase):
    def fire(self, cell: Cell) -> None:
        cell.arm(0)
        self.assertTrue(self.wheel.wait(PATIENCE))

    def test_exchanges_are_those_under_test(self) -> None:
        module = Cell.__base__.__module__.rpartition(".")[2]
        self.assertEqual(os.environ.get("EXCHANGES", module), module)

    def test_cell_is_made_idle(self) -> None:
        cell = self.wheel.cell(cookie=2**64 - 1)
        found = self.wheel.get(cell.id)
        self.assertEqual((found.cookie, found.remaining_ns, found.idle), (cell.cookie, 0, True))
        self.assertEqual([timeout.idle for timeout in self.wheel.timeouts()], [True])
        self.assertEqual(cell.cancel(), Outcome.IDLE)

    def test_cell_fires_whenever_it_is_armed(self) -> None:
        cell = self.wheel.cell(7)
        for _ in range(3):
            when = self.wheel.now_ns() + 20_000_000
            self.assertEqual(cell.arm(at_ns(when)), Outcome.IDLE)
            event = self.take()
            self.assertEqual((event.id, event.cookie, event.expires_ns, event.last),
                             (cell.id, 7, when, False))
            self.assertGreaterEqual(event.fired_ns, when)
        self.assertEqual(self.wheel.stats().armed, 1)

    def test_event_of_a_cell_that_is_cancelled_or_moved_is_withdrawn(self) -> None:
        cell = self.wheel.cell()
        self.fire(cell)
        self.assertEqual(cell.cancel(), Outcome.WITHDRAWN)
        self.assertEqual(cell.cancel(), Outcome.IDLE)
        self.assert_nothing_to_read()
        self.assertEqual(self.wheel.stats().dropped, 1)
        self.fire(cell)
        later = self.wheel.now_ns() + 50_000_000
        self.assertEqual(cell.arm(at_ns(later)), Outcome.WITHDRAWN)
        self.assertEqual(self.take().expires_ns, later)
        self.assert_nothing_to_read()

    def test_cell_in_use_needs_no_call(self) -> None:
        cell = self.wheel.cell()
        for _ in range(1000):
            cell.arm(HOUR)
            self.assertEqual(cell.cancel(), Outcome.PENDING)
        self.assertEqual(self.wheel.stats().kicks, 1)
        cell.arm(60)
        self.assertEqual(self.wheel.stats().kicks, 2)

    def test_cancel_at_leaves_other_armings(self) -> None:
        cell = self.wheel.cell()
        when = self.wheel.now_ns() + HOUR * 10**9
        cell.arm(at_ns(when))
        self.assertFalse(cell.cancel_at(when + 1))
        self.assertEqual(cell.arm(at_ns(when + 1)), Outcome.PENDING)
        self.assertFalse(cell.cancel_at(when))
        self.assertTrue(cell.cancel_at(when + 1))
        self.assertTrue(self.wheel.get(cell.id).idle)
        self.refuse(ValueError, lambda: cell.cancel_at(2**63))
        cell.arm(after_ns(2**63 - 1))
        self.assertTrue(cell.cancel_at(2**63 - 1))

    def test_cell_that_was_armed_by_an_operation_is_found(self) -> None:
        op = Operation.arm(HOUR, 5, cell=True)
        self.wheel.submit([op, Operation.arm(HOUR, 6)])
        cell = self.wheel.find_cell(op.id)
        self.assertEqual(cell.cookie, 5)
        self.assertEqual(cell.arm(0), Outcome.PENDING)
        self.assertEqual(self.take().cookie, 5)
        self.assertEqual(self.wheel.mod(op.id, HOUR, 8, cell=True), Outcome.IDLE)
        self.assertEqual(self.wheel.get(op.id).cookie, 8)

    def test_cell_ends_with_its_last_reference(self) -> None:
        cell = self.wheel.cell()
        again = self.wheel.find_cell(cell.id)
        self.fire(cell)
        del again
        self.assertEqual(self.wheel.info().live, 1)
        del cell
        self.assertEqual(self.wheel.info().live, 0)
        self.assert_nothing_to_read()

    def test_cell_of_another_process_does_not_end_with_its_reference(self) -> None:
        cells = [self.wheel.cell()]
        in_a_child(cells.clear)
        self.assertTrue(self.wheel.get(cells[0].id).idle)

    def test_cycle_of_a_wheel_and_its_cells_is_collected(self) -> None:
        """The context, the wheel and the cells are finalized in any order."""
        class Late(Cell):
            def __del__(self) -> None:
                for call in (lambda: self.arm(1), self.cancel, self.wheel.info, super().__del__):
                    with contextlib.suppress(OSError, ValueError):
                        call()

        wheel = Wheel()
        cells = [wheel.cell()]
        cells.append(Late(wheel, cells[0].id, 0, cells[0]._address))
        setattr(wheel, "mine", cells)
        alive = weakref.ref(wheel)
        del wheel, cells
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()
        self.assertIsNone(alive())

    def test_cell_without_a_wheel_refuses(self) -> None:
        cell = Cell.__new__(Cell)
        for operation in (lambda: cell.arm(1), cell.cancel, lambda: cell.cancel_at(1),
                          lambda: cell.wheel):
            self.assertRaises((AttributeError, ValueError), operation)

    def test_deadline_of_any_number_is_rounded_up(self) -> None:
        with Wheel() as wheel:
            cell = wheel.cell()
            delays: list[Any] = [0.1, 1e-9, 1e-12, 5e-324, 86400.000000001, 2**53 / 10**9, 3, True,
                                 9e9, Fraction(1, 3), 9.2e9]
            for delay in delays:
                before = wheel.now_ns()
                cell.arm(delay)
                left = wheel.get(cell.id).remaining_ns + wheel.now_ns() - before
                self.assertGreaterEqual(min(left, 9 * 10**18), min(seconds(delay), 9 * 10**18))
                self.assertLess(left, seconds(delay) + PATIENCE * 10**9)

    def test_delay_that_is_no_number_is_refused(self) -> None:
        cell = self.wheel.cell()
        cell.arm(HOUR)
        delays: list[Any] = [float("nan"), float("inf"), 2**70, 10**400, "1", None]
        for delay in delays:
            self.assertRaises((TypeError, ValueError), cell.arm, delay)
        self.assertEqual(cell.cancel(), Outcome.PENDING)

    def test_fraction_is_refused_where_an_integer_belongs(self) -> None:
        half: Any = 0.5
        self.refuse(TypeError, lambda: after_ns(half), lambda: at_ns(-half),
                    lambda: self.wheel.cell(half), lambda: self.wheel.cancel(half),
                    lambda: every(1, half))

    def test_negative_delay_is_due_at_once(self) -> None:
        cell = self.wheel.cell(1)
        delays: list[Deadline | float] = [-1, -0.5, -float("inf"), after_ns(-1), at(-1), at_ns(-1)]
        for delay in delays:
            cell.arm(delay)
            self.assertEqual(self.take().cookie, 1)
            self.wheel.arm(delay, 2)
            self.assertEqual(self.take().cookie, 2)
        self.refuse(TimeoutError, lambda: self.wheel.read(1, -1))

    def test_close_beside_exchanges_in_threads(self) -> None:
        def exchange(cell: Cell) -> None:
            try:
                while True:
                    cell.arm(HOUR)
                    cell.cancel()
            except ValueError as error:
                refused.append(error)

        refused: list[ValueError] = []
        for _ in range(20):
            with Wheel() as wheel:
                threads = [threading.Thread(target=exchange, args=(wheel.cell(),))
                           for _ in range(2)]
                for thread in threads:
                    thread.start()
            for thread in threads:
                thread.join()
        self.assertEqual(len(refused), 40)

    def test_random_program_agrees_with_a_model(self) -> None:
        """Handles of cells that have ended stay, and other cells get their places."""
        random = Random(5)
        cells: dict[Cell, Outcome | None] = {}      # None: it has ended
        for _ in range(5000):
            call = random.randrange(100)
            if call < 10 or not cells:
                cells[self.wheel.cell()] = Outcome.IDLE
                continue
            cell = random.choice(list(cells))
            if call < 12:
                armed = [*cells.values()].count(Outcome.PENDING)
                self.assertEqual(self.wheel.cancel_all(), (armed, 0))
                cells = dict.fromkeys(cells)
            elif call < 16:
                cell.close()
                cells[cell] = None
            elif call < 20:
                del cells[cell]
            elif call < 60 and cells[cell] is None:
                self.assertRaises(TimeoutGone, cell.arm, HOUR)
            elif call < 60:
                self.assertEqual(cell.arm(HOUR), cells[cell])
                cells[cell] = Outcome.PENDING
            else:
                before = cells[cell]
                self.assertEqual(cell.cancel(), Outcome.IDLE if before is None else before)
                cells[cell] = None if before is None else Outcome.IDLE
            del cell
            self.assertEqual(self.wheel.info().live, sum(of is not None for of in cells.values()))

    def test_cell_made_beside_cancel_all_knows_that_it_has_ended(self) -> None:
        for handler in False, True:
            thread = threading.Thread(target=self.wheel.cancel_all)

            def late(*arguments: Any) -> Cell:
                if handler:                     # as a signal handler would
                    self.wheel.cancel_all()
                else:
                    thread.start()
                    thread.join(0.1)
                return Cell(*arguments)
            with mock.patch.object(cells, "Cell", late):
                cell = self.wheel.cell()
            if not handler:
                thread.join()
            stranger = self.wheel.cell()        # in the same place
            self.assertEqual(stranger.arm(HOUR), Outcome.IDLE)
            self.refuse(TimeoutGone, lambda: cell.arm(2 * HOUR))

    def test_cell_that_ends_beside_an_exchange_leaves_the_next_one_alone(self) -> None:
        """The next one has its place."""
        if not isinstance(self.wheel.cell(), _pycell.Exchange):
            self.skipTest("the GIL keeps them apart")
        strangers: list[Cell] = []
        threads: list[threading.Thread] = []

        def late(exchange: Callable[..., int], cell: Cell, *arguments: Any) -> int:
            def replace() -> None:
                cell.close()
                strangers.append(self.wheel.cell())
                self.wheel.mod(strangers[-1].id, at_ns(2**62), cell=True)
            threads.append(threading.Thread(target=replace))
            threads[-1].start()
            threads[-1].join(0.1)
            return exchange(*arguments)

        exchanges: list[tuple[str, Callable[[Cell], object]]] = [
            ("twheel_cell_arm", lambda cell: cell.arm(0)), ("twheel_cell_cancel", Cell.cancel),
            ("twheel_cell_cancel_at", lambda cell: cell.cancel_at(2**62))]
        for name, call in exchanges:
            cell = self.wheel.cell()
            with mock.patch.object(_lib.lib, name, functools.partial(
                    late, getattr(_lib.lib, name), cell)):
                call(cell)
                threads[-1].join()
        self.assertEqual([cell.cancel_at(2**62) for cell in strangers], [True] * 3)

    def test_threads_withdraw_or_read_each_event(self) -> None:
        cells = [self.wheel.cell(i) for i in range(50)]
        withdrawn = [0] * 50
        read = [0] * 50

        def reader() -> None:
            for event in self.wheel:
                read[event.cookie] += not event.unprocessed

        thread = threading.Thread(target=reader)
        thread.start()
        rounds = 40
        found = [0] * 50
        for _ in range(rounds):
            for i, cell in enumerate(cells):
                found[i] += cell.arm(0.001) != Outcome.IDLE
        for i, cell in enumerate(cells):
            withdrawn[i] = found[i] + (cell.cancel() != Outcome.IDLE)
        self.wheel.stop()
        thread.join()
        self.assertEqual([a + b for a, b in zip(read, withdrawn)], [rounds] * 50)


class Interpreter(WheelCase):
    def test_call_that_does_not_wait_keeps_the_gil(self) -> None:
        """A thread that wants the GIL gets it when a call gives it up."""
        def want() -> None:
            while not stop.is_set():
                turns.append(None)
                time.sleep(0)

        stop, turns, cell = threading.Event(), list[None](), self.wheel.cell()
        thread = threading.Thread(target=want)
        gc.collect()                # closes wheels of other tests
        self.addCleanup(sys.setswitchinterval, sys.getswitchinterval())
        sys.setswitchinterval(HOUR)
        thread.start()
        before = len(turns)
        for _ in range(3000):
            cell.arm(HOUR)
            cell.cancel()
            self.wheel.cancel(self.wheel.arm(HOUR))
            self.wheel.get(cell.id)
            self.wheel._take(1)
        after = len(turns)
        stop.set()
        thread.join()
        self.assertEqual(after, before)

    def test_wheels_and_cells_are_not_copied(self) -> None:
        makers: list[Callable[[object], object]] = [copy.copy, copy.deepcopy, pickle.dumps]
        for make in makers:
            self.refuse(TypeError, lambda: make(self.wheel), lambda: make(self.wheel.cell()))


class Sharing(WheelCase):
    def test_wheel_from_a_descriptor_is_the_same(self) -> None:
        if self.wheel.info().process:
            self.skipTest("a wheel in the process has one context")
        cell, fd = self.wheel.cell(3), os.dup(self.wheel.fileno())
        with Wheel.from_fd(fd) as other:
            self.assertEqual(other.cancel(self.wheel.arm(HOUR)), Outcome.PENDING)
            other.find_cell(cell.id).arm(HOUR)
            self.assertEqual(cell.arm(0), Outcome.PENDING)
            self.assertEqual(other.read(1, PATIENCE)[0].cookie, 3)
        os.close(fd)

    def assert_unsupported(self, *calls: Callable[[], object]) -> None:
        self.refuse(errno.EOPNOTSUPP, *calls)
        for call in calls:
            self.assertRaisesRegex(OSError, "wheel in (the|a) process", call)

    def test_wheel_in_the_process_is_not_shared(self) -> None:
        with Wheel(backend="process") as wheel:
            self.assertTrue(wheel.info().process)
            self.assert_unsupported(lambda: Wheel.from_fd(wheel.fileno()),
                                    lambda: Wheel(backend="process", inherit=True))

    def test_wheel_in_the_process_fails_in_a_child_alone(self) -> None:
        def use() -> None:
            self.assert_unsupported(wheel.info, wheel.read, wheel.fileno, lambda: wheel.arm(1),
                                    lambda: cell.arm(1), cell.cancel)
            repr(wheel)
            wheel.close()

        with Wheel(backend="process") as wheel:
            cell = wheel.cell(5)
            in_a_child(use)
            cell.arm(0)
            self.assertEqual([event.cookie for event in wheel.read(1, PATIENCE)], [5])


class ManyTimeouts(WheelCase):
    def test_submit_carries_out_all_in_order(self) -> None:
        gone = self.arm_fired()
        self.take()
        bad, arm = Operation.cancel(gone), Operation.arm(HOUR, 3)
        self.wheel.submit([bad, arm])
        self.refuse(TimeoutGone, lambda: bad.outcome)
        self.assertIsInstance(bad.error, TimeoutGone)
        self.assertIsNone(arm.error)
        get, cancel, late = (make(arm.id) for make in
                             (Operation.get, Operation.cancel, Operation.get))
        self.wheel.submit(iter([get, cancel, late]))
        self.assertEqual(get.timeout.cookie, 3)
        self.assertEqual(cancel.outcome, Outcome.PENDING)
        self.assertIsInstance(late.error, TimeoutGone)
        self.wheel.submit([])

    def test_cancel_all_tells_pending_from_withdrawn(self) -> None:
        self.wheel.submit(Operation.arm(HOUR) for _ in range(100))
        self.arm_fired()
        self.assertEqual(self.wheel.cancel_all(), (100, 1))
        self.assertEqual(self.wheel.info().live, 0)

    def test_cancel_cookie_leaves_the_others(self) -> None:
        self.wheel.submit(Operation.arm(HOUR, i % 2) for i in range(10))
        self.assertEqual(self.wheel.cancel_cookie(1), (5, 0))
        self.assertEqual({timeout.cookie for timeout in self.wheel.timeouts()}, {0})

    def test_timeouts_finds_all_over_several_pages(self) -> None:
        ops = [Operation.arm(HOUR, i) for i in range(600)]
        self.wheel.submit(ops)
        found = {timeout.id: timeout.cookie for timeout in self.wheel.timeouts()}
        self.assertEqual(found, {op.id: i for i, op in enumerate(ops)})


class Reading(WheelCase):
    def test_wait_tells_whether_there_is_an_event(self) -> None:
        self.assertFalse(self.wheel.wait(0.01))
        self.wheel.arm(0.01)
        self.assertTrue(self.wheel.wait())

    def test_read_of_none_in_time_is_a_timeout_error(self) -> None:
        begin = time.monotonic()
        self.assertRaisesRegex(TimeoutError, "no event", self.wheel.read, timeout=0.05)
        self.assertGreaterEqual(time.monotonic(), begin + 0.05)
        self.refuse(ValueError, lambda: self.wheel.read(0))

    def test_iteration_does_not_show_what_is_cancelled_before_its_turn(self) -> None:
        ids = [self.wheel.arm(0, i) for i in range(3)]
        while self.wheel.info().ready < 3:
            time.sleep(0.001)
        events = iter(self.wheel)
        first = next(events)
        for id in ids:
            if id not in (first.id, ids[2]):
                self.wheel.cancel(id)
        self.wheel.stop()
        self.assertEqual([event.id for event in events], [ids[2]])

    def test_stop_hands_back_what_has_not_fired(self) -> None:
        cell = self.wheel.cell(4)
        cell.arm(HOUR)
        for cookie in (3, 1, 2):
            self.wheel.arm(cookie * HOUR, cookie)
        self.wheel.stop()
        events = list(self.wheel)
        self.assertEqual(sorted(event.cookie for event in events), [1, 2, 3, 4])
        self.assertTrue(all(event.unprocessed and event.count == 0 and event.last
                            for event in events))
        self.assertEqual(self.wheel.read(), [])
        self.refuse(Stopped, lambda: self.wheel.arm(1), lambda: cell.arm(1), self.wheel.cell)
        self.refuse(errno.ESHUTDOWN, lambda: self.wheel.arm(1))
        self.assertRaisesRegex(Stopped, "the wheel was stopped", self.wheel.arm, 1)

    def on_alarm(self, handler: Callable[..., object]) -> None:
        """Run the handler soon. The second signal is for a read that began to wait just after
        the first."""
        before = signal.signal(signal.SIGALRM, handler)
        self.addCleanup(signal.signal, signal.SIGALRM, before)
        self.addCleanup(signal.setitimer, signal.ITIMER_REAL, 0)
        signal.setitimer(signal.ITIMER_REAL, 0.02, 4)

    def test_signal_handler_runs_while_read_waits(self) -> None:
        calls = []
        # After the handler the read waits again.
        self.on_alarm(lambda *_: calls.append(self.wheel.arm(0.05, 9)))
        self.assertEqual(self.take().cookie, 9)
        self.assertEqual(len(calls), 1)

    def test_exception_of_a_signal_handler_ends_the_read(self) -> None:
        def interrupt(*_: object) -> None:
            raise KeyboardInterrupt
        with self.assertRaises(KeyboardInterrupt):
            self.on_alarm(interrupt)
            self.wheel.read()

    def test_readers_in_threads_get_each_event_once(self) -> None:
        taken: list[list[int]] = [[] for _ in range(3)]

        def reader(mine: list[int]) -> None:
            mine.extend(event.cookie for event in self.wheel)

        threads = [threading.Thread(target=reader, args=(mine,)) for mine in taken]
        for thread in threads:
            thread.start()
        self.wheel.submit(Operation.arm(i / 10000, i) for i in range(500))
        while sum(map(len, taken)) < 500:
            time.sleep(0.01)
        self.wheel.stop()
        for thread in threads:
            thread.join()
        self.assertEqual(sorted(sum(taken, [])), list(range(500)))


class Pages(unittest.TestCase):
    def test_example_of_the_howto_runs(self) -> None:
        output = io.StringIO()
        with contextlib.redirect_stdout(output):
            runpy.run_module("howto")
        self.assertIn("request 9 was lost", output.getvalue().splitlines())


class Contexts(Case):
    def test_geometry_and_clock_are_as_asked_for(self) -> None:
        with Wheel(clock=time.CLOCK_BOOTTIME, tick_ns=500_000, slots=50, levels=1,
                   max_timeouts=100) as wheel:
            info = wheel.info()
            self.assertEqual((info.clock, info.tick_ns, info.max_timeouts),
                             (time.CLOCK_BOOTTIME, 500_000, 100))
            self.assertTrue(info.private)
            if not info.process:
                self.assertEqual((info.slots, info.levels), (64, 1))
                self.assertTrue(0 < info.wheel_bytes <= info.max_wheel_bytes)
            self.assertAlmostEqual(wheel.now(), time.clock_gettime(time.CLOCK_BOOTTIME), delta=5)

    def test_setup_without_a_clock_is_monotonic(self) -> None:
        with Wheel(max_timeouts=100) as wheel:
            self.assertEqual(wheel.info().clock, time.CLOCK_MONOTONIC)
            self.assertEqual(wheel.info().private, wheel.info().process)
            wheel.arm(0)
            self.assertEqual(wheel.read(1, PATIENCE)[0].count, 1)

    def test_slack_is_that_of_the_wheel_unless_exact(self) -> None:
        with Wheel(slack_ns=HOUR * 10**9) as wheel:
            self.assertEqual(wheel.info().slack_ns, HOUR * 10**9)
            wheel.arm(0.01, cookie=1)
            wheel.arm(0.01, cookie=2, exact=True)
            self.assertEqual(wheel.read(1, PATIENCE)[0].cookie, 2)

    def test_realtime_takes_absolute_times_only(self) -> None:
        with Wheel(clock=time.CLOCK_REALTIME) as wheel:
            cell = wheel.cell(4)
            cell.arm(at(time.time() + HOUR))
            self.refuse(errno.EINVAL, lambda: wheel.arm(1), lambda: cell.arm(HOUR),
                        lambda: cell.arm(after_ns(0)))
            self.assertEqual(cell.arm(at(time.time() + 0.02)), Outcome.PENDING)
            self.assertEqual(wheel.read(1, PATIENCE)[0].cookie, 4)
            wheel.arm(at(time.time() + 0.02), 5)
            self.assertEqual(wheel.read(1, PATIENCE)[0].cookie, 5)

    def test_limit_is_reached(self) -> None:
        with Wheel(max_timeouts=10) as wheel:
            ops = [Operation.arm(HOUR) for _ in range(11)]
            wheel.submit(ops)
            self.assertEqual([type(op.error) for op in ops], [type(None)] * 10 + [LimitReached])
            self.assertIn("the limit of timeouts", str(ops[10].error))
            self.refuse(errno.EAGAIN, lambda: wheel.arm(1))
            info = wheel.info()
            self.assertEqual((info.refused, info.user_refused, info.all_refused,
                              info.wheel_refused), (2, 0, 0, 0))
            self.assertTrue(10 <= info.user_timeouts <= info.max_user_timeouts)

    def test_what_is_no_device_is_an_error_with_its_name(self) -> None:
        for path, kind, code in (("/nonexistent", FileNotFoundError, errno.ENOENT),
                                 ("/dev/null", OSError, errno.ENOTTY)):
            with self.assertRaises(kind) as caught:
                Wheel(path)
            self.assertEqual((caught.exception.errno, caught.exception.filename), (code, path))
            self.assertEqual("modprobe" in str(caught.exception), code == errno.ENOENT)
        self.refuse(errno.EBADF, lambda: Wheel.from_fd(-1))

    def test_impossible_setup_is_einval_and_leaves_nothing_open(self) -> None:
        before = os.listdir("/proc/self/fd")
        self.refuse(errno.EINVAL, lambda: Wheel(tick_ns=2**62))
        self.assertEqual(os.listdir("/proc/self/fd"), before)

    def test_setup_that_has_no_room_is_a_value_error(self) -> None:
        self.refuse(ValueError, lambda: Wheel(slots=2**32), lambda: Wheel(levels=-1),
                    lambda: Wheel(max_timeouts=2**32 + 1), lambda: Wheel(tick_ns=2**64))

    def test_closed_wheel_refuses(self) -> None:
        wheel = Wheel()
        fd, cell = wheel.fileno(), wheel.cell()
        wheel.close()
        wheel.close()
        self.assertTrue(wheel.closed)
        self.refuse(errno.EBADF, lambda: os.fstat(fd))
        self.refuse(ValueError, wheel.fileno, wheel.info, wheel.read, lambda: wheel.arm(1),
                    lambda: cell.arm(1), cell.cancel, lambda: cell.cancel_at(1))

    def test_close_while_a_thread_reads_takes_nothing_from_it(self) -> None:
        wheel = Wheel()
        taken: list[Event] = []
        thread = threading.Thread(target=lambda: taken.extend(wheel.read(1)))
        wheel.arm(1, 6)
        alone = sys.getrefcount(wheel._context)
        thread.start()
        while thread.is_alive() and sys.getrefcount(wheel._context) == alone:
            time.sleep(0.001)
        wheel.close()
        thread.join()
        self.assertEqual([event.cookie for event in taken], [6])

    def test_wheel_that_is_not_closed_is_warned_of(self) -> None:
        wheel = Wheel()
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            del wheel
        self.assertEqual([warning.category for warning in caught], [ResourceWarning])

    def test_account_closes(self) -> None:
        with Wheel() as wheel:
            for delay in (0, HOUR, HOUR):
                last = wheel.arm(delay)
            wheel.cancel(last)
            wheel.read(1, PATIENCE)
            stats = wheel.stats()
            self.assertEqual((stats.armed, stats.cancelled, stats.ended, stats.fired, stats.live),
                             (3, 1, 1, 1, 1))
            self.assertEqual(sum(stats.lateness), 1)
