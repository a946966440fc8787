// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static org.junit.jupiter.api.Assertions.*;
import static org.twheel.Patience.await;

import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicReference;
import java.util.logging.Logger;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("device")
class DeadlineTest {
	private static final long MSEC = 1_000_000;
	private static final long HOUR = 3_600_000 * MSEC;

	private final AtomicInteger callbacks = new AtomicInteger();
	private final Queue<Runnable> queued = new ConcurrentLinkedQueue<>();

	/** Lets a cell fire that is armed for the time, and waits for the reader. */
	private void fire(ManualSlots<Deadline> slots, long timeNs) {
		int before = queued.size();
		slots.setTime(timeNs);
		assertTrue(await(() -> queued.size() == before + 1));
	}

	private Deadline make(Deadlines set) {
		return set.newDeadline(queued::add, callbacks::incrementAndGet);
	}

	/** Runs what the executor has, and returns the number of callbacks. */
	private int run() {
		for (Runnable next; (next = queued.poll()) != null; )
			next.run();
		return callbacks.getAndSet(0);
	}

	/**
	 * Steps: a number resets it to this time. "fire" lets its cell fire then. "cancel" is true and
	 * "idle" is false. "word" arms the cell as the late half of another reset would. "run" and
	 * "none" are what the executor runs.
	 */
	@Test
	void callback_runs_once_for_the_last_deadline() {
		for (String steps : new String[] {
			"10 20 30 fire-30 run idle 40 fire-40 run",
			"10 cancel none idle 20 fire-20 run",
			// The event is read before the reset or the cancel, and the executor is late.
			"10 fire-10 20 none fire-20 run none",
			"10 fire-10 cancel idle none",
			"10 fire-10 20 cancel none",
			"10 fire-10 20 fire-20 run none",
			// Two resets overlap.
			"10 word-4 fire-4 none fire-10 run", "10 word-12 fire-12 run",
		}) {
			ManualSlots<Deadline> slots = new ManualSlots<>(64);
			try (Deadlines set = new Deadlines(slots)) {
				Deadline deadline = make(set);
				for (String step : steps.split(" ")) {
					String[] words = step.split("-");
					long time = words.length == 1 ? 0 : Long.parseLong(words[1]);
					switch (words[0]) {
						case "fire" -> fire(slots, time);
						case "cancel", "idle" -> assertEquals(step.equals("cancel"), deadline.cancel(), steps);
						case "word" -> deadline.slot.arm(time);
						case "run", "none" -> assertEquals(step.equals("run") ? 1 : 0, run(), steps);
						default -> deadline.reset(Long.parseLong(step) - slots.nanoTime());
					}
				}
			}
			assertTrue(slots.isClosed());
		}
	}

	/** The reader has events of deadlines that are closed. */
	@Test
	void closed_deadlines_have_no_callback() {
		List<Deadline> all = new CopyOnWriteArrayList<>();
		ManualSlots<Deadline> slots = new ManualSlots<>(2000) {
			@Override
			int read(Events events) {
				int read = super.read(events);
				all.forEach(Deadline::close);
				all.clear();
				return read;
			}
		};
		try (Deadlines set = new Deadlines(slots)) {
			all.addAll(Collections.nCopies(2000, 0).stream().map(i -> make(set)).toList());
			all.forEach(deadline -> deadline.reset(10));
			Deadline first = all.get(0);
			slots.setTime(10);
			assertTrue(await(all::isEmpty));
			assertThrows(IllegalStateException.class, () -> first.reset(1));
			make(set).reset(10);
			fire(slots, 20);
			assertEquals(1, run());
		}
	}

	/**
	 * The callback waits in the executor, and has found its deadline: passed, or moved meanwhile. The
	 * set is closed before it reads the clock, or after that. On other clocks than that of
	 * System.nanoTime(), a closed context has no time.
	 */
	@Test
	void close_of_the_set_in_a_callback_that_begins_ends_it() {
		List<String> logged = new CopyOnWriteArrayList<>();
		Logger logger = Logger.getLogger("org.twheel");
		logger.setFilter(record -> !logged.add(record.getMessage() + ": " + record.getThrown()));
		for (int i = 0; i < 4; i++) {
			AtomicReference<Runnable> hook = new AtomicReference<>(() -> { });
			Settings settings = new Settings(0, 0, 64, Settings.Backend.ANY, Clock.BOOTTIME);
			boolean isBefore = i % 2 == 0;
			Deadlines set = new Deadlines(new Slots<>(Context.open(settings)) {
				@Override
				long nanoTime() {
					if (isBefore)
						hook.getAndSet(() -> { }).run();
					long nowNs = super.nanoTime();
					hook.getAndSet(() -> { }).run();
					return nowNs;
				}
			});
			Deadline deadline = make(set);
			deadline.reset(0);
			assertTrue(await(() -> !queued.isEmpty()));
			if (i > 1)
				deadline.reset(HOUR);
			hook.set(set::close);
			assertEquals(0, run());
			assertThrows(IllegalStateException.class, () -> deadline.reset(HOUR));
			deadline.close();
			assertThrows(IllegalStateException.class, () -> make(set));
		}
		logger.setFilter(null);
		assertEquals(List.of(), logged);
	}

	@Test
	void close_of_the_set_refuses_a_deadline_in_the_making() {
		Deadlines[] set = { null };
		set[0] = new Deadlines(new Slots<>(Context.open()) {
			@Override
			long[] newCells(int number) {
				set[0].close();
				throw new TwheelException(Native.ESHUTDOWN, "stopped");
			}
		});
		assertThrows(IllegalStateException.class, () -> make(set[0]));
	}

	@Test
	void each_clock_has_callbacks_in_the_executor_and_not_early() throws Exception {
		for (Clock clock : List.of(Clock.MONOTONIC, Clock.BOOTTIME, Clock.REALTIME))
			try (Deadlines set = new Deadlines(new Settings(0, 0, 0, Settings.Backend.ANY, clock))) {
				CountDownLatch done = new CountDownLatch(1);
				Deadline deadline = set.newDeadline(run -> new Thread(run, "mine").start(), () -> {
					if (Thread.currentThread().getName().equals("mine"))
						done.countDown();
				});
				deadline.reset(HOUR);
				long start = System.nanoTime();
				deadline.reset(3 * MSEC);
				done.await();
				assertTrue(System.nanoTime() - start >= 3 * MSEC || clock == Clock.REALTIME);
			}
	}

	/** The callback or cancel() ends a deadline once, also beside resets of two threads. */
	@Test
	void each_deadline_ends_once() throws Exception {
		try (Deadlines set = new Deadlines(new Settings(MSEC / 4, 0, 0))) {
			Deadline deadline = set.newDeadline(Runnable::run, callbacks::incrementAndGet);
			int cancelled = 0;
			for (int i = 1; i <= 1_000; i++) {
				Thread other = new Thread(() -> deadline.reset(HOUR));
				if (i % 50 == 0)
					other.start();
				deadline.reset(2 * HOUR);
				other.join();
				deadline.reset(i % 4 * MSEC / 8);
				for (int pause = 0; pause < i % 8; pause++)
					Thread.yield();
				if (i % 3 == 0)
					cancelled += deadline.cancel() ? 1 : 0;
				int number = i - cancelled;
				assertTrue(await(() -> callbacks.get() == number));
			}
		}
	}

	@Test
	void failures_spare_others_and_close_ends_all() throws Exception {
		Deadlines set = new Deadlines(new Settings(0, 0, 3));
		CountDownLatch done = new CountDownLatch(3);
		Deadline failing = set.newDeadline(Runnable::run, () -> {
			done.countDown();
			throw new IllegalStateException("for the test");
		});
		failing.reset(0);
		set.newDeadline(run -> {
			done.countDown();
			throw new RejectedExecutionException("for the test");
		}, callbacks::incrementAndGet).reset(0);
		assertTrue(await(() -> done.getCount() == 1));
		Deadline last = set.newDeadline(Runnable::run, () -> {
			set.close();
			done.countDown();
		});
		assertThrows(TwheelException.class, () -> set.newDeadline(Runnable::run, () -> { }));
		failing.close();
		set.newDeadline(Runnable::run, callbacks::incrementAndGet).reset(HOUR);
		last.reset(0);
		done.await();
		set.close();
		assertEquals(0, callbacks.get());
		assertThrows(IllegalStateException.class, () -> last.reset(0));
	}
}
