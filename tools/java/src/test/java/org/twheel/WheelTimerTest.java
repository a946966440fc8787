// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static java.util.concurrent.TimeUnit.*;
import static org.junit.jupiter.api.Assertions.*;
import static org.twheel.Patience.await;

import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.util.List;
import java.util.Set;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;
import java.util.logging.LogRecord;
import java.util.logging.Logger;
import org.junit.jupiter.api.*;

@Tag("device")
class WheelTimerTest {
	private static final TimerTask NOTHING = timeout -> { };

	private final WheelTimer timer = new WheelTimer();
	private final BlockingQueue<Timeout> ran = new LinkedBlockingQueue<>();

	@AfterEach
	void stop() {
		timer.stop();
	}

	private static WheelTimer limited(int maxPending, Executor executor) {
		return new WheelTimer(Executors.defaultThreadFactory(), 0, MILLISECONDS, maxPending, executor);
	}

	/** Only a failure takes the whole wait. */
	private Timeout next() throws InterruptedException {
		return ran.poll(20, SECONDS);
	}

	@Test
	void task_runs_once_after_its_delay() throws InterruptedException {
		long start = System.nanoTime();
		TimerTask task = ran::add;
		Timeout timeout = timer.newTimeout(task, 30, MILLISECONDS);
		assertSame(task, timeout.task());
		assertFalse(timeout.isExpired() && System.nanoTime() - start < 30_000_000);
		assertSame(timeout, next());
		assertTrue(System.nanoTime() - start >= 30_000_000);
		assertTrue(timeout.isExpired());
		assertFalse(timeout.cancel() || timeout.isCancelled());
		assertTrue(timeout.timer() == timer && timeout.toString().contains("expired"));
		assertEquals(0, timer.pendingTimeouts());
		assertNull(ran.poll(20, MILLISECONDS));
	}

	@Test
	void past_and_huge_delays_are_limited() throws InterruptedException {
		Timeout never = timer.newTimeout(ran::add, Long.MAX_VALUE, MILLISECONDS);
		Timeout now = timer.newTimeout(ran::add, Long.MIN_VALUE, MILLISECONDS);
		assertSame(now, next());
		assertNull(ran.poll(50, MILLISECONDS));
		assertTrue(never.cancel());
	}

	@Test
	void task_can_arm_the_timer_again() throws InterruptedException {
		AtomicInteger runs = new AtomicInteger();
		timer.newTimeout(timeout -> ran.add(timer.newTimeout(timeout.task(),
				runs.incrementAndGet() < 3 ? 5 : HOURS.toMillis(1), MILLISECONDS)), 5, MILLISECONDS);
		for (int i = 0; i < 2; i++)
			assertNotNull(next());
		assertEquals(Set.of(next()), timer.stop());
	}

	@Test
	void task_that_fails_and_has_no_text_does_not_harm_the_next() throws InterruptedException {
		timer.newTimeout(new TimerTask() {
			@Override
			public void run(Timeout timeout) {
				throw new IllegalArgumentException("for the test");
			}

			@Override
			public String toString() {
				throw new IllegalStateException("for the test");
			}
		}, 0, MILLISECONDS);
		Timeout timeout = timer.newTimeout(ran::add, 1, MILLISECONDS);
		assertSame(timeout, next());
	}

	/** Netty 4.1 has no cancelled(): then nothing is called, and nothing fails. */
	@Test
	void cancel_succeeds_once_and_calls_back() {
		boolean hasCancelled = List.of(TimerTask.class.getMethods()).stream()
				.anyMatch(method -> method.getName().equals("cancelled"));
		AtomicReference<Timeout> cancelled = new AtomicReference<>();
		List<LogRecord> log = new CopyOnWriteArrayList<>();
		Logger logger = Logger.getLogger("org.twheel");
		logger.setFilter(record -> log.add(record));
		Timeout timeout = timer.newTimeout(new TimerTask() {
			@Override
			public void run(Timeout unused) {
				ran.add(unused);
			}

			@Override
			public void cancelled(Timeout which) {
				cancelled.set(which);
			}
		}, 1, HOURS);
		assertTrue(timeout.cancel());
		assertFalse(timeout.cancel());
		assertTrue(timeout.isCancelled());
		assertFalse(timeout.isExpired());
		assertSame(hasCancelled ? timeout : null, cancelled.get());
		logger.setFilter(null);
		assertEquals(List.of(), log);
	}

	/** Its join() goes on after an interrupt. Only a failure takes the whole wait. */
	private static CompletableFuture<Void> signal() {
		return new CompletableFuture<Void>().completeOnTimeout(null, 20, SECONDS);
	}

	/** Lets a task begin that ends with the signal, and not when it is interrupted. */
	private CompletableFuture<Void> runSlowTask() throws InterruptedException {
		CountDownLatch begun = new CountDownLatch(1);
		CompletableFuture<Void> go = signal();
		timer.newTimeout(timeout -> {
			begun.countDown();
			go.join();
		}, 1, MILLISECONDS);
		assertTrue(begun.await(20, SECONDS));
		return go;
	}

	@Test
	void timeout_that_fired_behind_a_slow_task_can_be_cancelled() throws InterruptedException {
		CompletableFuture<Void> go = runSlowTask();
		Timeout fired = timer.newTimeout(ran::add, 1, MILLISECONDS);
		MILLISECONDS.sleep(30);
		assertEquals(1, timer.pendingTimeouts());
		assertTrue(fired.cancel());
		assertEquals(0, timer.pendingTimeouts());
		go.complete(null);
		Timeout other = timer.newTimeout(ran::add, 1, MILLISECONDS);
		assertSame(other, next());
		assertNull(ran.poll(20, MILLISECONDS));
	}

	@Test
	void limit_is_exact_and_free_again_after_cancel_and_expiry() throws InterruptedException {
		WheelTimer limited = limited(2, Runnable::run);
		try {
			Timeout first = limited.newTimeout(NOTHING, 1, HOURS);
			limited.newTimeout(NOTHING, 1, HOURS);
			assertThrows(RejectedExecutionException.class,
				     () -> limited.newTimeout(NOTHING, 1, MILLISECONDS));
			assertEquals(2, limited.pendingTimeouts());
			first.cancel();
			limited.newTimeout(ran::add, 1, MILLISECONDS);
			next();
			limited.newTimeout(NOTHING, 1, HOURS);
			assertThrows(RejectedExecutionException.class,
				     () -> limited.newTimeout(NOTHING, 1, HOURS));
		} finally {
			assertEquals(2, limited.stop().size());
		}
	}

	@Test
	void tasks_run_on_the_executor() throws InterruptedException {
		BlockingQueue<Runnable> handed = new LinkedBlockingQueue<>();
		WheelTimer other = limited(0, handed::add);
		other.newTimeout(ran::add, 1, MILLISECONDS);
		Runnable task = handed.poll(20, SECONDS);
		other.stop();
		assertTrue(ran.isEmpty());
		task.run();
		assertEquals(1, ran.size());
	}

	@Test
	void executor_that_refuses_loses_that_task_only() throws InterruptedException {
		CountDownLatch calls = new CountDownLatch(2);
		WheelTimer other = limited(0, task -> {
			calls.countDown();
			throw new RejectedExecutionException("for the test");
		});
		other.newTimeout(ran::add, 1, MILLISECONDS);
		other.newTimeout(ran::add, 2, MILLISECONDS);
		assertTrue(calls.await(20, SECONDS));
		assertTrue(other.stop().isEmpty());
		assertEquals(0, other.pendingTimeouts());
	}

	@Test
	void stop_returns_what_has_not_run_and_cancels_it() throws InterruptedException {
		timer.newTimeout(ran::add, 1, MILLISECONDS);
		next();
		Timeout first = timer.newTimeout(NOTHING, 1, HOURS);
		Timeout second = timer.newTimeout(NOTHING, 2, HOURS);
		timer.newTimeout(NOTHING, 3, HOURS).cancel();
		Set<Timeout> unprocessed = timer.stop();
		assertEquals(Set.of(first, second), unprocessed);
		assertTrue(first.isCancelled() && second.isCancelled());
		assertFalse(first.cancel());
		assertEquals(0, timer.pendingTimeouts());
		assertTrue(timer.stop().isEmpty());
		assertThrows(IllegalStateException.class, () -> timer.newTimeout(NOTHING, 1, HOURS));
		assertThrows(IllegalStateException.class, timer::start);
	}

	@Test
	void stop_returns_what_has_fired_behind_a_slow_task() throws Exception {
		CompletableFuture<Void> go = runSlowTask();
		Timeout fired = timer.newTimeout(ran::add, 0, MILLISECONDS);
		MILLISECONDS.sleep(30);
		Future<Set<Timeout>> stop = stopElsewhere(timer);
		awaitStopped();
		go.complete(null);
		assertEquals(Set.of(fired), stop.get());
		assertTrue(ran.isEmpty());
	}

	private static Future<Set<Timeout>> stopElsewhere(WheelTimer other) {
		FutureTask<Set<Timeout>> stop = new FutureTask<>(other::stop);
		new Thread(stop).start();
		return stop;
	}

	/** stop() has begun: other threads see it. */
	private void awaitStopped() {
		assertTrue(await(() -> {
			try {
				timer.start();
				return false;
			} catch (IllegalStateException stopped) {
				return true;
			}
		}));
	}

	@Test
	void stop_interrupts_a_task_until_it_ends_and_does_not_return_it() throws Exception {
		CountDownLatch begun = new CountDownLatch(1);
		Timeout running = timer.newTimeout(timeout -> {
			begun.countDown();
			for (int i = 0; i < 2; i++)
				assertThrows(InterruptedException.class, () -> SECONDS.sleep(10));
			ran.add(timeout);
		}, 0, MILLISECONDS);
		assertTrue(begun.await(20, SECONDS));
		assertTrue(timer.stop().isEmpty());
		assertSame(running, ran.poll());
		assertTrue(running.isExpired());
		assertEquals(0, timer.pendingTimeouts());
	}

	@Test
	void interrupt_of_a_task_ends_with_the_task() throws InterruptedException {
		BlockingQueue<Boolean> interrupts = new LinkedBlockingQueue<>();
		timer.newTimeout(timeout -> Thread.currentThread().interrupt(), 0, MILLISECONDS);
		timer.newTimeout(timeout -> interrupts.add(Thread.interrupted()), 10, MILLISECONDS);
		assertEquals(Boolean.FALSE, interrupts.poll(20, SECONDS));
	}

	/** The executor waits for a free thread, and then its thread runs the task. */
	@Test
	void stop_interrupts_neither_another_executor_nor_its_task() throws Exception {
		CountDownLatch begun = new CountDownLatch(1);
		CompletableFuture<Void> free = signal();
		CompletableFuture<Void> go = signal();
		BlockingQueue<Boolean> interrupts = new LinkedBlockingQueue<>();
		WheelTimer other = limited(0, task -> {
			new Thread(task).start();
			begun.countDown();
			free.join();
			interrupts.add(Thread.interrupted());
		});
		other.newTimeout(timeout -> {
			go.join();
			interrupts.add(Thread.interrupted());
		}, 0, MILLISECONDS);
		assertTrue(begun.await(20, SECONDS));
		Future<?> stop = stopElsewhere(other);
		assertThrows(TimeoutException.class, () -> stop.get(250, MILLISECONDS));
		free.complete(null);
		stop.get(20, SECONDS);
		go.complete(null);
		assertEquals(Boolean.FALSE, interrupts.poll(20, SECONDS));
		assertEquals(Boolean.FALSE, interrupts.poll(20, SECONDS));
	}

	@Test
	void task_cannot_stop_its_timer() throws InterruptedException {
		timer.newTimeout(timeout -> {
			assertThrows(IllegalStateException.class, timer::stop);
			ran.add(timeout);
		}, 0, MILLISECONDS);
		assertNotNull(next());
	}

	@Test
	void second_stop_waits_for_the_task_too() throws Exception {
		CompletableFuture<Void> go = runSlowTask();
		Future<?> first = stopElsewhere(timer);
		awaitStopped();
		Future<?> second = stopElsewhere(timer);
		assertThrows(TimeoutException.class, () -> second.get(50, MILLISECONDS));
		go.complete(null);
		second.get(20, SECONDS);
		first.get();
	}

	@Test
	void null_arguments_are_refused() {
		assertThrows(NullPointerException.class, () -> timer.newTimeout(null, 1, HOURS));
		assertThrows(NullPointerException.class, () -> timer.newTimeout(NOTHING, 1, null));
		assertEquals(0, timer.pendingTimeouts());
	}

	/** As a handler of a log may do whose disk is full. */
	@Test
	void log_that_throws_does_not_end_the_thread() throws InterruptedException {
		Logger logger = Logger.getLogger("org.twheel");
		logger.setFilter(record -> {
			throw new IllegalStateException("for the test");
		});
		try {
			timer.newTimeout(timeout -> {
				throw new IllegalArgumentException("for the test");
			}, 0, MILLISECONDS);
			Timeout next = timer.newTimeout(ran::add, 1, MILLISECONDS);
			assertSame(next, next());
		} finally {
			logger.setFilter(null);
		}
	}
}
