// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static java.util.concurrent.TimeUnit.HOURS;
import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.List;
import java.util.TreeSet;
import java.util.concurrent.CancellationException;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Delayed;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("device")
class WheelExecutorTest {
	private final WheelExecutor executor = new WheelExecutor(2);

	@AfterEach
	void end() throws InterruptedException {
		executor.shutdownNow();
		assertTrue(executor.awaitTermination(20, SECONDS));
	}

	@Test
	void delayed_call_returns_its_value_not_early() throws Exception {
		long start = System.nanoTime();
		ScheduledFuture<Integer> future = executor.schedule(() -> 42, 30, MILLISECONDS);
		assertTrue(future.getDelay(MILLISECONDS) <= 30);
		assertEquals(42, future.get(20, SECONDS));
		assertTrue(System.nanoTime() - start >= 30_000_000);
	}

	@Test
	void past_delay_runs_at_once_and_a_failure_is_reported() {
		ScheduledFuture<?> future = executor.schedule(() -> {
			throw new IllegalArgumentException("for the test");
		}, -1, HOURS);
		assertThrows(ExecutionException.class, () -> future.get(20, SECONDS));
	}

	@Test
	void earlier_deadline_is_less() {
		ScheduledFuture<?> sooner = executor.schedule(() -> 1, 1, HOURS);
		ScheduledFuture<?> later = executor.schedule(() -> 1, 2, HOURS);
		assertTrue(sooner.compareTo(later) < 0);
		assertTrue(later.compareTo(sooner) > 0);
	}

	@Test
	void cancelled_task_does_not_run() throws InterruptedException {
		Stall stall = new Stall(20);
		AtomicInteger runs;
		ScheduledFuture<?> future;
		boolean cancelled;
		do {
			runs = new AtomicInteger();
			future = executor.schedule(runs::incrementAndGet, 20, MILLISECONDS);
			cancelled = future.cancel(false);
		} while (stall.happened());
		assertTrue(cancelled);
		assertThrows(CancellationException.class, future::get);
		MILLISECONDS.sleep(40);
		assertEquals(0, runs.get());
	}

	@Test
	void fixed_rate_keeps_its_pace() throws InterruptedException {
		List<Long> times = new CopyOnWriteArrayList<>();
		CountDownLatch left = new CountDownLatch(4);
		long start = System.nanoTime();
		ScheduledFuture<?> future = executor.scheduleAtFixedRate(() -> {
			times.add(System.nanoTime() - start);
			left.countDown();
		}, 10, 20, MILLISECONDS);
		assertTrue(left.await(20, SECONDS));
		assertTrue(future.cancel(false));
		for (int i = 0; i < 4; i++)
			assertTrue(times.get(i) >= (10 + i * 20) * 1_000_000L, times.toString());
	}

	/** The first run is late. Its next arming takes the slot of a task with a later deadline. */
	@Test
	void fixed_rate_makes_up_for_runs_that_were_late() throws InterruptedException {
		CountDownLatch left = new CountDownLatch(80);
		CountDownLatch later = new CountDownLatch(1);
		List<Long> starts = new CopyOnWriteArrayList<>();
		executor.scheduleAtFixedRate(() -> {
			starts.add(System.nanoTime());
			left.countDown();
			try {
				later.await();
			} catch (InterruptedException e) {
				Thread.currentThread().interrupt();
			}
		}, 20, 20, MILLISECONDS);
		executor.schedule(later::countDown, 1600, MILLISECONDS);
		assertTrue(left.await(20, SECONDS));
		// With one run per period, nearly all gaps would be 20 ms. A machine that stands still
		// makes one gap longer, and at most one shorter.
		assertTrue(IntStream.range(1, 80)
				.filter(i -> starts.get(i) - starts.get(i - 1) < 10_000_000).count() >= 60,
			   starts.toString());
	}

	@Test
	void pool_without_a_thread_fails_that_task_only() throws Exception {
		AtomicInteger threads = new AtomicInteger();
		WheelExecutor poor = new WheelExecutor(1, run -> {
			if (threads.incrementAndGet() == 2)
				throw new IllegalStateException("for the test");
			return new Thread(run);
		});
		ScheduledFuture<Integer> failed = poor.schedule(() -> 1, 0, SECONDS);
		assertThrows(ExecutionException.class, () -> failed.get(20, SECONDS));
		assertEquals(42, poor.schedule(() -> 42, 0, SECONDS).get(20, SECONDS));
		poor.shutdownNow();
		assertTrue(poor.awaitTermination(20, SECONDS));
	}

	@Test
	void fixed_delay_begins_at_the_end_of_a_run() throws InterruptedException {
		CountDownLatch left = new CountDownLatch(3);
		long start = System.nanoTime();
		executor.scheduleWithFixedDelay(() -> {
			left.countDown();
			try {
				MILLISECONDS.sleep(20);
			} catch (InterruptedException e) {
				Thread.currentThread().interrupt();
			}
		}, 0, 20, MILLISECONDS);
		assertTrue(left.await(20, SECONDS));
		assertTrue(System.nanoTime() - start >= 80_000_000);
	}

	@Test
	void failure_ends_a_periodic_task() {
		AtomicInteger runs = new AtomicInteger();
		ScheduledFuture<?> future = executor.scheduleAtFixedRate(() -> {
			if (runs.incrementAndGet() == 2)
				throw new IllegalArgumentException("for the test");
		}, 0, 1, MILLISECONDS);
		assertThrows(ExecutionException.class, () -> future.get(20, SECONDS));
		assertEquals(2, runs.get());
	}

	@Test
	void period_must_be_positive() {
		assertThrows(IllegalArgumentException.class,
			     () -> executor.scheduleAtFixedRate(() -> { }, 0, 0, SECONDS));
		assertThrows(IllegalArgumentException.class,
			     () -> executor.scheduleWithFixedDelay(() -> { }, 0, -1, SECONDS));
	}

	@Test
	void shutdown_runs_delayed_tasks_and_ends_periodic_ones() throws Exception {
		ScheduledFuture<Integer> delayed = executor.schedule(() -> 42, 50, MILLISECONDS);
		ScheduledFuture<?> periodic = executor.scheduleAtFixedRate(() -> { }, 1, 1, HOURS);
		executor.shutdown();
		assertTrue(executor.isShutdown());
		assertTrue(periodic.isCancelled());
		assertThrows(RejectedExecutionException.class, () -> executor.schedule(() -> 1, 0, SECONDS));
		assertThrows(RejectedExecutionException.class, () -> executor.execute(() -> { }));
		assertTrue(executor.awaitTermination(20, SECONDS));
		assertEquals(42, delayed.get());
		assertTrue(executor.isTerminated());
	}

	@Test
	void shutdown_after_the_last_cancel_ends_at_once() throws InterruptedException {
		ScheduledFuture<?> future = executor.schedule(() -> 1, 1, HOURS);
		executor.shutdown();
		assertFalse(executor.awaitTermination(30, MILLISECONDS));
		assertTrue(future.cancel(false));
		assertTrue(executor.awaitTermination(20, SECONDS));
	}

	@Test
	void shutdown_now_returns_what_has_not_begun() {
		ScheduledFuture<?> first = executor.schedule(() -> 1, 1, HOURS);
		ScheduledFuture<?> second = executor.schedule(() -> 1, 2, HOURS);
		executor.schedule(() -> 1, 3, HOURS).cancel(false);
		assertEquals(List.of(first, second), executor.shutdownNow());
		assertTrue(executor.shutdownNow().isEmpty());
	}

	@Test
	void tasks_are_ordered_by_deadline_and_then_by_number() {
		ScheduledFuture<Integer> late = executor.schedule(() -> 1, 2, HOURS);
		ScheduledFuture<Integer> early = executor.schedule(() -> 1, 1, HOURS);
		assertTrue(early.compareTo(late) < 0 && late.compareTo(early) > 0);
		assertEquals(0, early.compareTo(early));
		assertTrue(new TreeSet<Delayed>(List.of(late, early)).remove(late));
	}

	@Test
	void submitted_task_runs_on_the_pool() throws Exception {
		assertEquals(42, executor.submit(() -> 42).get(20, SECONDS));
	}
}
