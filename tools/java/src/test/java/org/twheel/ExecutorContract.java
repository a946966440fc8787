// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static java.util.concurrent.TimeUnit.*;
import static org.junit.jupiter.api.Assertions.*;
import static org.twheel.Patience.await;

import java.lang.reflect.InvocationTargetException;
import java.lang.reflect.Proxy;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.function.Executable;

/**
 * The sentences of ScheduledExecutorService and ScheduledThreadPoolExecutor. The JDK's own
 * executor passes the same tests, with its policy to remove cancelled tasks.
 */
abstract class ExecutorContract<E extends ThreadPoolExecutor & ScheduledExecutorService> {
	private static final ThreadFactory THREADS = Executors.defaultThreadFactory();
	private static final String CONTINUE = "ContinueExistingPeriodicTasksAfterShutdownPolicy";
	private static final String EXECUTE = "ExecuteExistingDelayedTasksAfterShutdownPolicy";

	private final Class<E> type;
	private final List<E> made = new ArrayList<>();
	private final E executor;
	private final CountDownLatch go = new CountDownLatch(1);
	private final AtomicInteger runs = new AtomicInteger();

	ExecutorContract(Class<E> type) throws Exception {
		this.type = type;
		executor = make(2, THREADS, new ThreadPoolExecutor.AbortPolicy());
	}

	/** Calls the constructor that takes these: a number, a factory, a handler. */
	private E make(Object... arguments) throws Exception {
		Class<?>[] types = { int.class, ThreadFactory.class, RejectedExecutionHandler.class };
		if (arguments.length == 2 && arguments[1] instanceof RejectedExecutionHandler)
			types[1] = types[2];
		try {
			E one = type.getConstructor(Arrays.copyOf(types, arguments.length)).newInstance(arguments);
			if (one instanceof ScheduledThreadPoolExecutor jdk)
				jdk.setRemoveOnCancelPolicy(true);
			made.add(one);
			return one;
		} catch (InvocationTargetException e) {
			throw (Exception) e.getCause();
		}
	}

	/** Makes one with a thread, whose decorateTask() calls decorated(). */
	abstract E makeDecorating(List<String> calls);

	/** Another object with the same methods, whose calls are noted. */
	@SuppressWarnings("unchecked")
	static <V> RunnableScheduledFuture<V> decorated(RunnableScheduledFuture<V> task, List<String> calls) {
		return (RunnableScheduledFuture<V>) Proxy.newProxyInstance(ExecutorContract.class.getClassLoader(),
				new Class<?>[] { RunnableScheduledFuture.class }, (proxy, method, arguments) -> {
			calls.add(method.getName());
			if (method.getName().equals("equals"))
				return proxy == arguments[0];
			try {
				return method.invoke(task, arguments);
			} catch (InvocationTargetException e) {
				throw e.getCause();
			}
		});
	}

	private void set(E executor, String policy, boolean value) throws ReflectiveOperationException {
		type.getMethod("set" + policy, boolean.class).invoke(executor, value);
		assertEquals(value, type.getMethod("get" + policy).invoke(executor));
	}

	@AfterEach
	void end() throws InterruptedException {
		go.countDown();
		for (E one : made) {
			one.shutdownNow();
			assertTrue(one.awaitTermination(20, SECONDS));
		}
	}

	private static boolean awaits(CountDownLatch latch) {
		try {
			return latch.await(20, SECONDS);
		} catch (InterruptedException e) {
			Thread.currentThread().interrupt();
			return false;
		}
	}

	/** One thread, which is busy until go. */
	private E makeBusy() throws Exception {
		E busy = make(1);
		CountDownLatch begun = new CountDownLatch(1);
		busy.execute(() -> {
			begun.countDown();
			awaits(go);
		});
		assertTrue(awaits(begun));
		return busy;
	}

	private static Throwable failure(Future<?> future) {
		return assertThrows(ExecutionException.class, () -> future.get(20, SECONDS)).getCause();
	}

	private static void assertCancelled(Future<?> future) {
		assertThrows(CancellationException.class, () -> future.get(20, SECONDS));
		assertTrue(future.isCancelled() && future.isDone());
	}

	private static ScheduledFuture<?> hour(ScheduledExecutorService executor) {
		return executor.schedule(() -> { }, 1, HOURS);
	}

	private static ScheduledFuture<?> hourly(ScheduledExecutorService executor) {
		return executor.scheduleAtFixedRate(() -> { }, 1, 1, HOURS);
	}

	@Test
	void delayed_call_returns_its_value_not_early() throws Exception {
		long start = System.nanoTime();
		ScheduledFuture<Integer> future = executor.schedule(() -> 42, 30, MILLISECONDS);
		assertTrue(future.getDelay(MILLISECONDS) <= 30);
		assertEquals(42, future.get(20, SECONDS));
		assertTrue(System.nanoTime() - start >= 30_000_000);
		assertTrue(future.getDelay(NANOSECONDS) <= 0);
		assertNull(executor.schedule(() -> { }, 1, MILLISECONDS).get(20, SECONDS));
	}

	@Test
	void negative_delays_are_due_at_once_and_long_ones_do_not_overflow() throws Exception {
		ScheduledFuture<?> never = executor.schedule(runs::incrementAndGet, Long.MAX_VALUE, DAYS);
		assertTrue(never.getDelay(DAYS) > 50_000 && never.compareTo(hour(executor)) > 0);
		for (long delay : new long[] { 0, -1, Long.MIN_VALUE }) {
			assertEquals(42, executor.schedule(() -> 42, delay, DAYS).get(20, SECONDS));
			CountDownLatch ran = new CountDownLatch(2);
			executor.scheduleAtFixedRate(ran::countDown, delay, 1, MILLISECONDS);
			assertTrue(awaits(ran));
		}
		assertEquals(0, runs.get());
	}

	@Test
	void tasks_that_wait_for_a_thread_begin_in_the_order_of_submission() throws Exception {
		E busy = makeBusy();
		BlockingQueue<Integer> order = new LinkedBlockingQueue<>();
		IntStream.range(0, 100).forEach(i -> busy.execute(() -> order.add(i)));
		go.countDown();
		for (int i = 0; i < 100; i++)
			assertEquals(i, order.poll(20, SECONDS));
	}

	@Test
	void cancelled_task_does_not_run_and_is_gone_at_once() throws Exception {
		E busy = makeBusy();
		for (long delayMs : new long[] { 0, 1, 3_600_000 }) {
			ScheduledFuture<?> one = busy.schedule(runs::incrementAndGet, delayMs, MILLISECONDS);
			ScheduledFuture<?> many =
					busy.scheduleAtFixedRate(runs::incrementAndGet, delayMs, 1, HOURS);
			MILLISECONDS.sleep(10);
			assertTrue(one.cancel(false) && many.cancel(true));
			assertFalse(one.cancel(false));
			assertCancelled(one);
			assertTrue(await(busy.getQueue()::isEmpty), "delay " + delayMs);
		}
		assertEquals(List.of(), busy.shutdownNow());
		assertEquals(0, runs.get());
	}

	/** The counter is not atomic: runs that overlap, or do not see each other, lose some. */
	@Test
	void runs_of_a_periodic_task_do_not_overlap() {
		int[] counter = new int[1];
		CountDownLatch left = new CountDownLatch(500);
		ScheduledFuture<?> future = executor.scheduleAtFixedRate(() -> {
			counter[0]++;
			runs.incrementAndGet();
			left.countDown();
		}, 0, 10, MICROSECONDS);
		assertTrue(awaits(left));
		future.cancel(false);
		assertDoesNotThrow(() -> executor.invokeAll(List.of(() -> 1, () -> 2, () -> 3)));
		executor.shutdown();
		assertTrue(await(executor::isTerminated));
		assertEquals(runs.get(), counter[0]);
	}

	@Test
	void defaults_are_those_of_the_pool() throws Exception {
		E one = make(2);
		for (int i = 0; i < 3; i++)
			hour(one);
		assertEquals(2, one.getPoolSize());
		assertInstanceOf(ThreadPoolExecutor.AbortPolicy.class, one.getRejectedExecutionHandler());
		assertEquals(THREADS.getClass(), one.getThreadFactory().getClass());
		assertEquals(false, type.getMethod("get" + CONTINUE).invoke(one));
		assertEquals(true, type.getMethod("get" + EXECUTE).invoke(one));
	}

	@Test
	void bad_arguments_are_refused() {
		Runnable run = () -> { };
		Object handler = new ThreadPoolExecutor.AbortPolicy();
		List<Executable> nulls = List.of(() -> executor.schedule((Runnable) null, 1, HOURS),
			() -> executor.schedule(run, 1, null), () -> executor.schedule((Callable<?>) null, 1, HOURS),
			() -> executor.schedule(() -> 1, 1, null),
			() -> executor.scheduleAtFixedRate(null, 1, 1, HOURS),
			() -> executor.scheduleAtFixedRate(run, 1, 1, null),
			() -> executor.scheduleWithFixedDelay(null, 1, 1, HOURS),
			() -> executor.scheduleWithFixedDelay(run, 1, 1, null), () -> executor.execute(null),
			() -> executor.submit((Runnable) null), () -> executor.submit(null, 1),
			() -> executor.submit((Callable<?>) null), () -> make(1, null, handler),
			() -> make(1, null), () -> make(1, THREADS, null),
			() -> executor.getQueue().drainTo(null));
		nulls.forEach(call -> assertThrows(NullPointerException.class, call));
		List<Executable> numbers = List.of(() -> make(-1),
			() -> executor.scheduleAtFixedRate(run, 0, 0, HOURS),
			() -> executor.scheduleAtFixedRate(run, 0, -1, HOURS),
			() -> executor.scheduleWithFixedDelay(run, 0, 0, HOURS),
			() -> executor.scheduleWithFixedDelay(run, 0, -1, HOURS),
			() -> executor.getQueue().drainTo(executor.getQueue()));
		numbers.forEach(call -> assertThrows(IllegalArgumentException.class, call));
		assertTrue(executor.getQueue().isEmpty());
	}

	@Test
	void fixed_rate_counts_from_deadlines_and_fixed_delay_from_ends() {
		for (boolean isRate : new boolean[] { true, false }) {
			List<Long> times = new CopyOnWriteArrayList<>();
			CountDownLatch left = new CountDownLatch(4);
			Runnable task = () -> {
				times.add(System.nanoTime());
				left.countDown();
				assertDoesNotThrow(() -> MILLISECONDS.sleep(10));
			};
			long start = System.nanoTime();
			ScheduledFuture<?> future = isRate ?
				executor.scheduleAtFixedRate(task, 10, 20, MILLISECONDS) :
				executor.scheduleWithFixedDelay(task, 10, 20, MILLISECONDS);
			assertTrue(awaits(left));
			future.cancel(false);
			for (int i = 0; i < 4; i++)
				assertTrue(times.get(i) - start >= (10 + i * (isRate ? 20 : 30)) * 1_000_000L,
					   times + " from " + start);
		}
	}

	/** The first run is late. */
	@Test
	void fixed_rate_makes_up_for_runs_that_were_late() {
		CountDownLatch left = new CountDownLatch(80);
		CountDownLatch later = new CountDownLatch(1);
		List<Long> starts = new CopyOnWriteArrayList<>();
		executor.scheduleAtFixedRate(() -> {
			starts.add(System.nanoTime());
			left.countDown();
			awaits(later);
		}, 20, 20, MILLISECONDS);
		executor.schedule(later::countDown, 1600, MILLISECONDS);
		assertTrue(awaits(left));
		// With one run per period, nearly all gaps would be 20 ms. A machine that stands still
		// makes one gap longer, and at most one shorter.
		assertTrue(IntStream.range(1, 80)
				.filter(i -> starts.get(i) - starts.get(i - 1) < 10_000_000).count() >= 60,
			   starts.toString());
	}

	@Test
	void failure_ends_a_periodic_task() throws Exception {
		Error error = new StackOverflowError("for the test");
		ScheduledFuture<?> future = executor.scheduleAtFixedRate(() -> {
			if (runs.incrementAndGet() == 2)
				throw error;
		}, 0, 1, MILLISECONDS);
		assertSame(error, failure(future));
		assertTrue(future.isDone() && !future.isCancelled());
		assertTrue(await(executor.getQueue()::isEmpty));
		MILLISECONDS.sleep(10);
		assertEquals(2, runs.get());
	}

	@Test
	void cancel_in_its_run_ends_a_periodic_task() throws Exception {
		LinkedBlockingQueue<Future<?>> self = new LinkedBlockingQueue<>();
		ScheduledFuture<?> future = executor.scheduleWithFixedDelay(() -> {
			runs.incrementAndGet();
			assertDoesNotThrow(() -> self.take().cancel(false));
		}, 0, 1, MILLISECONDS);
		self.add(future);
		self.add(future);
		assertCancelled(future);
		MILLISECONDS.sleep(10);
		assertEquals(1, runs.get());
	}

	@Test
	void execute_and_submit_make_scheduled_futures_without_a_delay() throws Exception {
		assertInstanceOf(ScheduledFuture.class, executor.submit(() -> { }));
		assertEquals(7, assertInstanceOf(ScheduledFuture.class, executor.submit(() -> { }, 7)).get());
		assertEquals(8, assertInstanceOf(ScheduledFuture.class, executor.submit(() -> 8)).get());
		assertEquals("any", executor.invokeAny(List.of(() -> "any", () -> "any")));
		E busy = makeBusy();
		busy.execute(runs::incrementAndGet);
		ScheduledFuture<?> waits = assertInstanceOf(ScheduledFuture.class, busy.getQueue().peek());
		assertTrue(waits.getDelay(NANOSECONDS) <= 0);
		assertEquals(List.of(waits), busy.shutdownNow());
	}

	@Test
	void failure_of_a_task_is_in_its_future_alone() throws Exception {
		List<Throwable> uncaught = new CopyOnWriteArrayList<>();
		E one = make(1, (ThreadFactory) run -> {
			Thread thread = new Thread(run);
			thread.setUncaughtExceptionHandler((unused, cause) -> uncaught.add(cause));
			return thread;
		});
		RuntimeException cause = new IllegalArgumentException("for the test");
		Runnable fails = () -> {
			throw cause;
		};
		one.execute(fails);
		assertSame(cause, failure(one.submit(fails)));
		one.shutdown();
		assertTrue(one.awaitTermination(20, SECONDS));
		assertEquals(List.of(), uncaught);
	}

	@Test
	void earlier_deadline_is_less_and_then_the_number() throws Exception {
		ScheduledFuture<?> late = executor.schedule(() -> { }, 2, HOURS);
		ScheduledFuture<?> early = hour(executor);
		assertTrue(early.compareTo(late) < 0 && late.compareTo(early) > 0);
		assertEquals(0, early.compareTo(early));
		assertTrue(new TreeSet<Delayed>(List.of(late, early)).remove(late));
		E other = make(1);
		assertTrue(early.compareTo(other.schedule(() -> { }, 2, HOURS)) < 0);
	}

	@Test
	void queue_has_the_tasks_that_wait() throws Exception {
		assertTrue(executor.getQueue().isEmpty());
		assertTimeoutPreemptively(Duration.ofSeconds(20),
				() -> assertNull(executor.getQueue().poll(Long.MIN_VALUE, DAYS)));
		Set<?> all = Set.of(hour(executor), hourly(executor), hour(executor));
		assertEquals(all, Set.copyOf(executor.getQueue()));
		assertEquals(3, executor.getQueue().size());
		executor.purge();
		Runnable first = (Runnable) all.iterator().next();
		E other = make(1);
		assertFalse(other.remove(first) || other.getQueue().remove(first));
		assertTrue(executor.remove(first));
		assertFalse(executor.remove(first));
		assertFalse(((Future<?>) first).isDone());
		assertEquals(2, executor.getQueue().size());
		Runnable next = executor.getQueue().iterator().next();
		assertTrue(executor.getQueue().removeIf(task -> task == next));
		assertEquals(1, executor.getQueue().size());
	}

	@Test
	void shutdown_runs_delayed_tasks_and_ends_periodic_ones() throws Exception {
		ScheduledFuture<Integer> delayed = executor.schedule(() -> 42, 50, MILLISECONDS);
		ScheduledFuture<?> periodic = hourly(executor);
		ScheduledFuture<?> far = hour(executor);
		executor.shutdown();
		executor.shutdown();
		assertTrue(executor.isShutdown());
		assertCancelled(periodic);
		assertEquals(42, delayed.get(20, SECONDS));
		assertFalse(executor.awaitTermination(5, MILLISECONDS));
		assertTrue(far.cancel(false));
		assertTrue(executor.awaitTermination(20, SECONDS));
		assertTrue(executor.isTerminated());
	}

	@Test
	void shutdown_lets_a_periodic_run_end_by_itself() throws Exception {
		RuntimeException cause = new IllegalStateException("for the test");
		for (RuntimeException failure : new RuntimeException[] { null, cause }) {
			E one = make(2);
			CountDownLatch begun = new CountDownLatch(1);
			CountDownLatch end = new CountDownLatch(1);
			ScheduledFuture<?> future = one.scheduleWithFixedDelay(() -> {
				begun.countDown();
				awaits(end);
				if (failure != null)
					throw failure;
			}, 0, 1, MILLISECONDS);
			assertTrue(awaits(begun));
			one.shutdown();
			assertFalse(future.isDone());
			assertFalse(one.awaitTermination(10, MILLISECONDS));
			end.countDown();
			assertTrue(one.awaitTermination(20, SECONDS));
			if (failure == null)
				assertCancelled(future);
			else
				assertSame(failure, failure(future));
		}
	}

	/** Both policies, set before the shutdown or after it. */
	@Test
	void policies_tell_what_goes_on_after_a_shutdown() throws Exception {
		for (int i = 0; i < 16; i++) {
			boolean continues = (i & 1) != 0;
			boolean executes = (i & 2) != 0;
			boolean isBefore = (i & 4) != 0;
			// Both wait for an hour, or they are due and wait for a thread.
			boolean isFar = (i & 8) != 0;
			E one = isFar ? make(1) : makeBusy();
			set(one, CONTINUE, !isBefore || continues);
			set(one, EXECUTE, !isBefore || executes);
			ScheduledFuture<?> delayed = isFar ? hour(one) : one.schedule(() -> { }, 0, SECONDS);
			ScheduledFuture<?> periodic =
					one.scheduleAtFixedRate(() -> { }, isFar ? 1 : 0, 1, HOURS);
			one.shutdown();
			set(one, CONTINUE, continues);
			set(one, EXECUTE, executes);
			String text = "case " + i;
			assertTrue(await(() -> periodic.isCancelled() == !continues), text);
			assertEquals(!executes && isFar, delayed.isCancelled(), text);
			boolean isOver = isFar && !continues && !executes;
			assertEquals(isOver, one.awaitTermination(isOver ? 20_000 : 5, MILLISECONDS), text);
			periodic.cancel(false);
			if (isFar)
				delayed.cancel(false);
			else
				one.shutdownNow();
			assertTrue(one.awaitTermination(20, SECONDS), text);
		}
	}

	@Test
	void periodic_task_that_continues_runs_until_the_policy_changes() throws Exception {
		set(executor, CONTINUE, true);
		ScheduledFuture<?> periodic =
				executor.scheduleAtFixedRate(runs::incrementAndGet, 0, 1, MILLISECONDS);
		executor.shutdown();
		int before = runs.get();
		assertTrue(await(() -> runs.get() > before + 5));
		set(executor, CONTINUE, false);
		assertCancelled(periodic);
		assertTrue(executor.awaitTermination(20, SECONDS));
	}

	@Test
	void handler_decides_about_tasks_after_a_shutdown() throws Exception {
		List<Object> refused = new ArrayList<>();
		RejectedExecutionHandler keep = (task, from) -> refused.addAll(List.of(task, from));
		E one = make(1, keep);
		E discard = make(1, new ThreadPoolExecutor.CallerRunsPolicy());
		// They are shut down, and their threads are there.
		List.of(one, discard, executor).forEach(ExecutorContract::hour);
		List.of(one, discard, executor).forEach(E::shutdown);
		ScheduledFuture<?> future = hour(one);
		one.execute(() -> { });
		assertEquals(List.of(future, one), refused.subList(0, 2));
		assertEquals(4, refused.size());
		assertFalse(future.isDone() || discard.submit(runs::incrementAndGet).isDone());
		List<Executable> calls = List.of(() -> executor.execute(() -> { }),
			() -> executor.submit(() -> 1), () -> hour(executor), () -> hourly(executor),
			() -> executor.scheduleWithFixedDelay(() -> { }, 1, 1, HOURS));
		calls.forEach(call -> assertThrows(RejectedExecutionException.class, call));
		assertEquals(0, runs.get());
	}

	@Test
	void shutdown_now_interrupts_and_returns_what_has_not_begun() throws Exception {
		E busy = makeBusy();
		ScheduledFuture<?> due = busy.schedule(runs::incrementAndGet, 0, SECONDS);
		ScheduledFuture<?> first = busy.schedule(runs::incrementAndGet, 1, HOURS);
		ScheduledFuture<?> second = busy.scheduleAtFixedRate(runs::incrementAndGet, 2, 1, HOURS);
		busy.schedule(() -> 1, 3, HOURS).cancel(false);
		List<Runnable> tasks = busy.shutdownNow();
		assertEquals(Set.of(due, first, second), Set.copyOf(tasks));
		assertEquals(3, tasks.size());
		assertTrue(busy.getQueue().isEmpty());
		assertEquals(List.of(), busy.shutdownNow());
		assertTrue(busy.awaitTermination(20, SECONDS));
		assertFalse(first.isDone() || second.isDone());
		tasks.forEach(Runnable::run);
		tasks.forEach(task -> assertCancelled((Future<?>) task));
		assertEquals(0, runs.get());
	}

	@Test
	void shutdown_now_cancels_a_periodic_task_that_runs() {
		CountDownLatch begun = new CountDownLatch(1);
		ScheduledFuture<?> future = executor.scheduleAtFixedRate(() -> {
			begun.countDown();
			awaits(go);
		}, 0, 1, MILLISECONDS);
		assertTrue(awaits(begun));
		assertEquals(List.of(), executor.shutdownNow());
		assertCancelled(future);
	}

	@Test
	void shutdown_now_returns_them_to_a_task_and_after_a_shutdown() throws Exception {
		hour(executor);
		hourly(executor);
		executor.shutdown();
		assertEquals(1, executor.shutdownNow().size());
		E other = make(2);
		hour(other);
		hour(other);
		assertEquals(2, other.schedule(() -> other.shutdownNow().size(), 1, MILLISECONDS)
				.get(20, SECONDS));
		assertTrue(other.awaitTermination(20, SECONDS));
	}

	@Test
	void factory_makes_the_workers_alone_and_may_fail() throws Exception {
		AtomicInteger threads = new AtomicInteger();
		E poor = make(1, (ThreadFactory) run -> {
			if (threads.incrementAndGet() == 1)
				throw new IllegalStateException("for the test");
			return new Thread(run, "worker");
		});
		assertThrows(IllegalStateException.class, () -> poor.schedule(() -> 1, 1, MILLISECONDS));
		assertEquals("worker", poor.schedule(() -> Thread.currentThread().getName(), 1, MILLISECONDS)
				.get(20, SECONDS));
		assertEquals(2, threads.get());
	}

	@Test
	void run_of_a_periodic_task_makes_up_for_a_thread_that_was_not_made() throws Exception {
		ThreadFactory factory = run -> runs.incrementAndGet() == 2 ? null : new Thread(run);
		E poor = make(2, factory);
		poor.scheduleAtFixedRate(() -> { }, 0, 1, MILLISECONDS);
		hour(poor);
		assertTrue(await(() -> poor.getPoolSize() == 2));
	}

	/** A cancel meets every stage of a run. */
	@Test
	void periodic_task_does_not_run_after_its_cancel() throws Exception {
		AtomicInteger late = new AtomicInteger();
		for (int round = 0; round < 300; round++) {
			AtomicInteger cancelled = new AtomicInteger();
			List<Future<?>> futures = new ArrayList<>();
			for (int i = 0; i < 20; i++)
				futures.add(executor.scheduleAtFixedRate(() -> late.addAndGet(cancelled.get()),
									 0, 200, MICROSECONDS));
			futures.forEach(future -> future.cancel(false));
			// Runs that had begun are over when the pool of two has run two that meet.
			CountDownLatch both = new CountDownLatch(2);
			Callable<Boolean> meet = () -> {
				both.countDown();
				return awaits(both);
			};
			executor.invokeAll(List.of(meet, meet));
			cancelled.set(1);
			assertTrue(await(executor.getQueue()::isEmpty));
		}
		executor.shutdown();
		assertTrue(executor.awaitTermination(20, SECONDS));
		assertEquals(0, late.get());
	}

	@Test
	void decorated_tasks_are_those_that_others_see() throws Exception {
		List<String> calls = new CopyOnWriteArrayList<>();
		E one = makeDecorating(calls);
		made.add(one);
		ScheduledFuture<Integer> future = one.schedule(() -> 42, 1, MILLISECONDS);
		assertEquals(42, future.get(20, SECONDS));
		assertEquals(1, Collections.frequency(calls, "run"));
		one.execute(runs::incrementAndGet);
		ScheduledFuture<?> periodic =
				one.scheduleAtFixedRate(runs::incrementAndGet, 0, 1, MILLISECONDS);
		assertTrue(await(() -> runs.get() > 4));
		assertTrue(Collections.frequency(calls, "run") > 4);
		periodic.cancel(false);
		assertCancelled(periodic);
		assertTrue(await(one.getQueue()::isEmpty));
		ScheduledFuture<?> first = hour(one);
		ScheduledFuture<?> second = hourly(one);
		assertEquals(Set.of(first, second), Set.copyOf(one.getQueue()));
		assertTrue(one.remove((Runnable) first));
		assertFalse(one.remove((Runnable) first));
		calls.clear();
		ScheduledFuture<?> third = hour(one);
		one.shutdown();
		assertCancelled(second);
		assertTrue(calls.contains("cancel"));
		assertEquals(List.of(third), one.shutdownNow());
	}

	@Test
	void lock_of_a_future_delays_no_other_task() throws Exception {
		ScheduledFuture<?> periodic =
				executor.scheduleAtFixedRate(() -> { }, 1, 1, MILLISECONDS);
		synchronized (periodic) {
			MILLISECONDS.sleep(20);
			assertEquals(1, executor.schedule(() -> 1, 10, MILLISECONDS).get(20, SECONDS));
		}
	}
}
