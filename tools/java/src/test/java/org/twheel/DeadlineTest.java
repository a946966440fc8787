// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.twheel.Stall.await;

import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("device")
class DeadlineTest {
	private static final long MSEC = 1_000_000;
	private static final long HOUR = 3_600_000 * MSEC;

	/** Callbacks that the test runs, on slots whose cells it lets fire. */
	private static final class Manual implements AutoCloseable {
		final Queue<Runnable> queued = new ConcurrentLinkedQueue<>();
		final FakeSlots<Deadline> slots;
		final Deadlines deadlines;
		final AtomicInteger runs = new AtomicInteger();
		private int expected;

		Manual(FakeSlots<Deadline> slots) {
			this.slots = slots;
			deadlines = new Deadlines(slots);
		}

		Deadline make() {
			return deadlines.newDeadline(queued::add, runs::incrementAndGet);
		}

		/** Lets the cell fire that is armed for the time, and waits for the reader. */
		void fire(long timeNs) {
			slots.nowNs = Math.max(slots.nowNs, timeNs);
			slots.fireAt(timeNs);
			expected++;
			assertTrue(await(() -> queued.size() == expected));
		}

		int run() {
			expected = 0;
			for (Runnable next; (next = queued.poll()) != null; )
				next.run();
			return runs.getAndSet(0);
		}

		@Override
		public void close() {
			deadlines.close();
			assertTrue(slots.isClosed);
		}
	}

	@Test
	void callback_runs_once_at_the_last_deadline() {
		try (Manual manual = new Manual(new FakeSlots<>(64))) {
			Deadline deadline = manual.make();
			for (int now = 0; now < 100; now += 10) {
				manual.slots.nowNs = now;
				deadline.reset(30);
				assertEquals(1, manual.slots.armed().size());
			}
			manual.fire(120);
			assertEquals(1, manual.run());
			assertEquals(List.of(), manual.slots.armed());
			assertFalse(deadline.cancel());
			deadline.reset(5);
			manual.fire(125);
			assertEquals(1, manual.run());
		}
	}

	/** The event has been read, and the callback waits in the executor. */
	@Test
	void late_reset_or_cancel_holds_the_callback_back() {
		try (Manual manual = new Manual(new FakeSlots<>(64))) {
			Deadline deadline = manual.make();
			deadline.reset(10);
			manual.fire(10);
			deadline.reset(10);
			assertEquals(0, manual.run());
			manual.fire(20);
			assertTrue(deadline.cancel());
			assertFalse(deadline.cancel());
			assertEquals(0, manual.run());
			// Two events wait, of which the second counts.
			deadline.reset(10);
			manual.fire(30);
			deadline.reset(10);
			manual.fire(40);
			assertEquals(1, manual.run());
			// The first one is stale, and the deadline is cancelled before it fires.
			deadline.reset(10);
			manual.fire(50);
			deadline.reset(10);
			assertTrue(deadline.cancel());
			assertEquals(0, manual.run());
		}
	}

	/** One thread has stored a later deadline, and the other has exchanged the word last. */
	@Test
	void overlapping_resets_lose_no_deadline() {
		try (Manual manual = new Manual(new FakeSlots<>(64))) {
			Deadline deadline = manual.make();
			deadline.reset(10);
			manual.slots.setWord(manual.slots.armed().get(0), 4);
			manual.fire(4);
			assertEquals(0, manual.run());
			manual.fire(10);
			assertEquals(1, manual.run());
		}
	}

	/** The reader has an event of each, when a burst of deadlines is closed and its cells end. */
	@Test
	void closed_deadlines_have_no_callback() {
		int number = 40_000;
		List<Deadline> all = new ArrayList<>();
		FakeSlots<Deadline> slots = new FakeSlots<>(number) {
			@Override
			int read(Events events) {
				int read = super.read(events);
				all.forEach(Deadline::close);
				all.clear();
				return read;
			}
		};
		try (Manual manual = new Manual(slots)) {
			for (int i = 0; i < number; i++)
				all.add(manual.make());
			all.forEach(deadline -> deadline.reset(10));
			Deadline first = all.get(0);
			slots.nowNs = 10;
			slots.fire(slots.armed().subList(0, 1000).toArray(Integer[]::new));
			assertTrue(await(() -> slots.live() < number));
			assertEquals(0, manual.run());
			assertThrows(IllegalStateException.class, () -> first.reset(1));
			assertThrows(IllegalStateException.class, first::cancel);
			Deadline next = manual.make();
			next.reset(10);
			manual.queued.clear();
			manual.fire(20);
			assertEquals(1, manual.run());
		}
	}

	@Test
	void callback_runs_in_its_executor_and_not_early() throws Exception {
		try (Deadlines deadlines = new Deadlines()) {
			for (int i = 0; i < 20; i++) {
				AtomicReference<Thread> thread = new AtomicReference<>();
				AtomicLong ran = new AtomicLong();
				CountDownLatch done = new CountDownLatch(1);
				Deadline deadline = deadlines.newDeadline(run -> {
					thread.set(new Thread(run));
					thread.get().start();
				}, () -> {
					assertEquals(thread.get(), Thread.currentThread());
					ran.set(System.nanoTime());
					done.countDown();
				});
				deadline.reset(HOUR);
				long start = System.nanoTime();
				deadline.reset(i * MSEC / 4);
				done.await();
				assertTrue(ran.get() - start >= i * MSEC / 4);
				deadline.close();
			}
		}
	}

	@Test
	void deadline_on_another_clock_has_its_callback() throws Exception {
		for (Clock clock : List.of(Clock.BOOTTIME, Clock.REALTIME))
			try (Deadlines deadlines = new Deadlines(Settings.DEFAULT.with(clock))) {
				CountDownLatch done = new CountDownLatch(1);
				deadlines.newDeadline(Runnable::run, done::countDown).reset(MSEC);
				done.await();
			}
	}

	/** Whoever ends a deadline, the callback or cancel(), does so once. */
	@Test
	void each_deadline_ends_once() throws Exception {
		try (Deadlines deadlines = new Deadlines(new Settings(MSEC / 4, 0, 0))) {
			AtomicInteger callbacks = new AtomicInteger();
			Deadline deadline = deadlines.newDeadline(Runnable::run, callbacks::incrementAndGet);
			int cancelled = 0;
			for (int i = 1; i <= 2_000; i++) {
				deadline.reset(i % 4 * MSEC / 8);
				for (int pause = 0; pause < i % 50; pause++)
					Thread.yield();
				if (i % 3 == 0)
					cancelled += deadline.cancel() ? 1 : 0;
				else {
					int number = i - cancelled;
					assertTrue(await(() -> callbacks.get() == number));
				}
				assertEquals(i, callbacks.get() + cancelled);
			}
		}
	}

	@Test
	void resets_of_two_threads_leave_one_callback() throws Exception {
		try (Deadlines deadlines = new Deadlines(new Settings(MSEC / 4, 0, 0))) {
			AtomicInteger callbacks = new AtomicInteger();
			Deadline deadline = deadlines.newDeadline(Runnable::run, callbacks::incrementAndGet);
			for (int i = 0; i < 100; i++) {
				Thread other = new Thread(() -> {
					for (int j = 0; j < 100; j++)
						deadline.reset(20 * HOUR + j);
				});
				other.start();
				for (int j = 0; j < 100; j++)
					deadline.reset(10 * HOUR + j);
				other.join();
				assertTrue(deadline.cancel());
				assertEquals(i, callbacks.get());
				deadline.reset(0);
				int number = i + 1;
				assertTrue(await(() -> callbacks.get() == number));
			}
		}
	}

	@Test
	void failures_of_callbacks_and_executors_spare_others() throws Exception {
		try (Deadlines deadlines = new Deadlines()) {
			CountDownLatch failed = new CountDownLatch(2);
			deadlines.newDeadline(Runnable::run, () -> {
				failed.countDown();
				throw new IllegalStateException("for the test");
			}).reset(0);
			deadlines.newDeadline(run -> {
				failed.countDown();
				throw new RejectedExecutionException("for the test");
			}, () -> { }).reset(0);
			failed.await();
			CountDownLatch done = new CountDownLatch(1);
			deadlines.newDeadline(Runnable::run, done::countDown).reset(0);
			done.await();
		}
	}

	@Test
	void set_that_is_closed_runs_no_callback() throws Exception {
		Deadlines deadlines = new Deadlines();
		AtomicInteger callbacks = new AtomicInteger();
		Deadline pending = deadlines.newDeadline(Runnable::run, callbacks::incrementAndGet);
		pending.reset(HOUR);
		CountDownLatch closed = new CountDownLatch(1);
		deadlines.newDeadline(Runnable::run, () -> {
			deadlines.close();
			closed.countDown();
		}).reset(0);
		closed.await();
		deadlines.close();
		assertEquals(0, callbacks.get());
		assertThrows(IllegalStateException.class, () -> pending.reset(0));
		pending.close();
	}

	@Test
	void deadlines_count_until_they_are_closed() {
		try (Deadlines deadlines = new Deadlines(new Settings(0, 0, 2))) {
			Deadline one = deadlines.newDeadline(Runnable::run, () -> { });
			one.reset(HOUR);
			deadlines.newDeadline(Runnable::run, () -> { });
			assertEquals(Native.EAGAIN, assertThrows(TwheelException.class,
					() -> deadlines.newDeadline(Runnable::run, () -> { })).errno());
			one.close();
			one.close();
			deadlines.newDeadline(Runnable::run, () -> { }).reset(HOUR);
		}
	}
}
