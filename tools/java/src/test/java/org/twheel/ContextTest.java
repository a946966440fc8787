// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertInstanceOf;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;
import static org.twheel.LiveTimeout.State.IDLE;
import static org.twheel.LiveTimeout.State.PENDING;
import static org.twheel.LiveTimeout.State.READY;
import static org.twheel.Stall.await;

import java.io.File;
import java.lang.ref.WeakReference;
import java.lang.reflect.Constructor;
import java.net.URL;
import java.net.URLClassLoader;
import java.util.Arrays;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("device")
class ContextTest {
	private static final long MSEC = 1_000_000;
	private static final long HOUR = 3_600_000 * MSEC;

	private final Context context = Context.open();
	private final Events events = new Events(64);

	@AfterEach
	void close() {
		context.close();
	}

	@Test
	void timeout_makes_one_event_not_early() throws Exception {
		long before = context.nanoTime();
		long id = context.arm(5 * MSEC, 42);
		assertEquals(1, context.read(events, Context.FOREVER));
		assertEquals(id, events.id(0));
		assertEquals(42, events.cookie(0));
		assertTrue(events.deadlineNs(0) >= before + 5 * MSEC);
		assertTrue(events.firedNs(0) >= events.deadlineNs(0));
		assertEquals(1, events.count(0));
		assertTrue(events.isLast(0));
		assertThrows(TimeoutException.class, () -> context.read(events, 0));
	}

	@Test
	void nano_time_is_the_clock_of_deadlines() throws Exception {
		long deadline = context.nanoTime() + MSEC;
		context.armAt(deadline, 1);
		context.read(events, Context.FOREVER);
		assertEquals(deadline, events.deadlineNs(0));
		assertTrue(context.nanoTime() >= events.firedNs(0));
	}

	@Test
	void cancel_tells_what_it_found() throws Exception {
		long pending = context.arm(HOUR, 1);
		assertEquals(Outcome.PENDING, context.cancel(pending));
		assertEquals(Outcome.GONE, context.cancel(pending));
		assertThrows(TimeoutException.class, () -> context.read(events, 5 * MSEC));
	}

	@Test
	void mod_replaces_deadline_and_cookie() throws Exception {
		long id = context.arm(HOUR, 1);
		assertEquals(Outcome.PENDING, context.mod(id, MSEC, 2));
		context.read(events, Context.FOREVER);
		assertEquals(2, events.cookie(0));
		assertEquals(Outcome.GONE, context.mod(id, MSEC, 3));
	}

	@Test
	void batch_goes_on_after_a_failure() {
		Batch batch = new Batch(4).arm(HOUR, 1).cancel(0x7fff_ffffL << 32).arm(-1, 2).arm(HOUR, 3);
		assertEquals(4, context.submit(batch));
		assertEquals(Outcome.GONE, batch.outcome(1));
		assertEquals(Native.EINVAL, batch.errno(2));
		assertEquals(2, context.info().live());
		Batch query = new Batch(1).get(batch.id(3));
		context.submit(query);
		assertTrue(query.remainingNs(0) > HOUR / 2 && query.remainingNs(0) <= HOUR);
	}

	@Test
	void periodic_timeout_ends_after_its_repeats() throws Exception {
		context.submit(new Batch(1).arm(MSEC, 7).interval(2 * MSEC, 3));
		long seen = 0;
		boolean last = false;
		while (!last) {
			context.read(events, Context.FOREVER);
			seen += events.count(0);
			last = events.isLast(0);
		}
		assertEquals(3, seen);
	}

	@Test
	void one_read_takes_many_events_in_order() throws Exception {
		for (int i = 0; i < 200; i++)
			context.arm(0, i);
		assertTrue(await(() -> context.info().ready() == 200));
		assertEquals(64, context.read(events, 0));
		for (int i = 0; i < 64; i++)
			assertEquals(i, events.cookie(i));
	}

	@Test
	void stop_makes_unprocessed_events_and_then_an_end() throws Exception {
		context.arm(2 * HOUR, 2);
		context.arm(HOUR, 1);
		context.stop();
		assertEquals(2, context.read(events, Context.FOREVER));
		assertEquals(Set.of(1L, 2L), Set.of(events.cookie(0), events.cookie(1)));
		assertTrue(events.isUnprocessed(0) && events.isUnprocessed(1));
		assertEquals(0, events.count(0));
		assertEquals(0, events.count(1));
		assertEquals(0, context.read(events, Context.FOREVER));
		assertEquals(Native.ESHUTDOWN,
			     assertThrows(TwheelException.class, () -> context.arm(1, 1)).errno());
	}

	@Test
	void cancel_all_counts_pending_and_unread() {
		context.arm(HOUR, 1);
		context.arm(0, 2);
		assertTrue(await(() -> context.info().ready() == 1));
		assertEquals(2, context.cancelAll());
		assertEquals(0, context.info().live());
		assertThrows(TimeoutException.class, () -> context.read(events, 0));
	}

	@Test
	void limit_of_the_settings_is_exact() {
		try (Context limited = Context.open(new Settings(0, 3 * MSEC, 2))) {
			limited.arm(HOUR, 1);
			limited.arm(HOUR, 2);
			assertEquals(Native.EAGAIN,
				     assertThrows(TwheelException.class, () -> limited.arm(HOUR, 3)).errno());
			assertEquals(2, limited.info().maxTimeouts());
			assertEquals(3 * MSEC, limited.info().slackNs());
		}
	}

	@Test
	void settings_that_the_kernel_refuses_throw() {
		assertEquals(Native.EINVAL, assertThrows(TwheelException.class,
				() -> Context.open(new Settings(Long.MAX_VALUE, 0, 0))).errno());
	}

	@Test
	void failed_open_does_not_disable_the_next() {
		assumeFalse(context.info().isProcess(), "there is no device to move away");
		Settings settings = new Settings(0, 0, 0, Settings.Backend.KERNEL);
		File device = new File("/dev/twheel");
		File away = new File("/dev/twheel-away");
		assertTrue(device.renameTo(away));
		try {
			for (int i = 0; i < 2; i++)
				assertEquals(Native.ENOENT,
					     assertThrows(TwheelException.class, () -> Context.open(settings)).errno());
			try (Context inProcess = Context.open()) {
				assertTrue(inProcess.info().isProcess());
			}
		} finally {
			assertTrue(away.renameTo(device));
		}
		try (Context another = Context.open(settings)) {
			assertFalse(another.info().isProcess());
		}
	}

	@Test
	void process_can_be_asked_for() throws Exception {
		Settings settings = new Settings(MSEC / 2, 0, 0, Settings.Backend.PROCESS);
		try (Context inProcess = Context.open(settings)) {
			assertTrue(inProcess.info().isProcess());
			assertEquals(MSEC / 2, inProcess.info().tickNs());
			inProcess.newCell(3).armAfter(MSEC);
			assertEquals(1, inProcess.read(events, Context.FOREVER));
			assertEquals(3, events.cookie(0));
		}
	}

	/** Reads in a thread of its own. Returns when it blocks, or soon will. */
	private CompletableFuture<Integer> blockedRead(Events room, AtomicReference<Thread> thread) {
		CompletableFuture<Integer> result = new CompletableFuture<>();
		room.size(1);
		thread.set(new Thread(() -> {
			try {
				result.complete(context.read(room, Context.FOREVER));
			} catch (Throwable t) {
				result.completeExceptionally(t);
			}
		}));
		thread.get().start();
		// A read clears the size after it has entered the context.
		assertTrue(await(() -> room.size() == 0 || result.isDone()));
		return result;
	}

	@Test
	void close_ends_blocked_reads_and_all_further_calls() throws Exception {
		AtomicReference<Thread> thread = new AtomicReference<>();
		CompletableFuture<Integer> one = blockedRead(events, thread);
		CompletableFuture<Integer> other = blockedRead(new Events(1), thread);
		TimeUnit.MILLISECONDS.sleep(50);
		assertFalse(one.isDone() || other.isDone());
		context.close();
		assertEquals(0, one.get(10, TimeUnit.SECONDS));
		assertEquals(0, other.get(10, TimeUnit.SECONDS));
		assertThrows(IllegalStateException.class, () -> context.arm(1, 1));
		assertThrows(IllegalStateException.class, context::info);
		context.close();
	}

	@Test
	void interrupt_ends_a_blocked_read_and_spares_another() throws Exception {
		AtomicReference<Thread> thread = new AtomicReference<>();
		CompletableFuture<Integer> other = blockedRead(new Events(1), thread);
		for (int i = 0; i < 20; i++) {
			CompletableFuture<Integer> one = blockedRead(events, thread);
			// Before the wait, or in it.
			TimeUnit.MILLISECONDS.sleep(i % 3);
			thread.get().interrupt();
			assertInstanceOf(InterruptedException.class, assertThrows(ExecutionException.class,
					() -> one.get(20, TimeUnit.SECONDS)).getCause());
		}
		assertFalse(other.isDone());
		context.arm(0, 7);
		assertEquals(1, other.get(20, TimeUnit.SECONDS));
	}

	@Test
	void interrupts_lose_no_event() throws Exception {
		AtomicReference<Thread> thread = new AtomicReference<>();
		int seen = 0;
		for (int i = 0; i < 200; i++) {
			CompletableFuture<Integer> reader = blockedRead(events, thread);
			context.arm(0, i);
			for (int pause = 0; pause < i % 20; pause++)
				Thread.yield();
			thread.get().interrupt();
			thread.get().join();
			seen += reader.isCompletedExceptionally() ? 0 : reader.get();
		}
		assertTrue(await(() -> context.info().live() == context.info().ready()));
		while (context.info().ready() > 0)
			seen += context.read(events, 0);
		assertEquals(200, seen);
	}

	@Test
	void interrupted_thread_blocks_in_no_read() throws Exception {
		context.arm(0, 1);
		assertTrue(await(() -> context.info().ready() == 1));
		Thread.currentThread().interrupt();
		assertThrows(InterruptedException.class, () -> context.read(events, Context.FOREVER));
		assertFalse(Thread.interrupted());
		Thread.currentThread().interrupt();
		assertEquals(1, context.read(events, 0));
		assertTrue(Thread.interrupted());
	}

	@Test
	void read_with_an_end_waits_for_it() throws Exception {
		long start = System.nanoTime();
		assertThrows(TimeoutException.class, () -> context.read(events, 20 * MSEC));
		assertTrue(System.nanoTime() - start >= 20 * MSEC);
		context.arm(5 * MSEC, 1);
		assertEquals(1, context.read(events, 20_000 * MSEC));
	}

	@Test
	void each_clock_fires() throws Exception {
		for (Clock clock : Clock.values()) {
			Settings settings = new Settings(0, 0, 0, Settings.Backend.ANY, clock);
			if (clock == Clock.MANUAL)
				continue;
			try (Context other = Context.open(settings)) {
				assertEquals(clock, other.info().clock());
				long deadline = other.nanoTime() + MSEC;
				other.armAt(deadline, 1);
				other.newCell(2).arm(deadline);
				for (int seen = 0; seen < 2; seen += other.read(events, Context.FOREVER))
					assertTrue(other.info().live() > 0);
				assertEquals(deadline, events.deadlineNs(0));
				assertTrue(events.firedNs(0) >= deadline && other.nanoTime() >= events.firedNs(0));
			}
		}
		try (Context wall = Context.open(Settings.DEFAULT.with(Clock.REALTIME))) {
			assertTrue(wall.nanoTime() > 1_000_000_000L * 3600 * 24 * 365 * 50);
			assertEquals(Native.EINVAL,
				     assertThrows(TwheelException.class, () -> wall.arm(1, 1)).errno());
		}
	}

	@Test
	void manual_clock_is_of_the_process_alone() throws Exception {
		Settings settings = Settings.DEFAULT.with(Clock.MANUAL);
		if (!context.info().isProcess()) {
			assertEquals(Native.EINVAL,
				     assertThrows(TwheelException.class, () -> Context.open(settings)).errno());
			assertEquals(Native.EOPNOTSUPP,
				     assertThrows(TwheelException.class, () -> context.setTime(1)).errno());
			return;
		}
		try (Context manual = Context.open(settings)) {
			manual.newCell(1).armAfter(HOUR);
			manual.setTime(HOUR - 1);
			assertThrows(TimeoutException.class, () -> manual.read(events, 0));
			manual.setTime(HOUR);
			assertEquals(HOUR, manual.nanoTime());
			assertEquals(1, manual.read(events, 0));
			assertThrows(TwheelException.class, () -> manual.setTime(-1));
		}
		assertThrows(TwheelException.class, () -> context.setTime(1));
	}

	@Test
	void list_has_each_live_timeout_with_its_settings() {
		try (Context other = Context.open(new Settings(0, 3 * MSEC, 0))) {
			Batch batch = new Batch(4).arm(HOUR, 1).arm(HOUR, 2).interval(MSEC, 9).slack(5 * MSEC)
					.arm(HOUR, 3).fixedDelay(MSEC, 0).arm(HOUR, 4).exact();
			other.submit(batch);
			other.arm(0, 5);
			assertTrue(await(() -> other.info().ready() == 1));
			other.newCell(6, 7 * MSEC);
			other.newCell(7, 0).armAfter(HOUR);
			for (int i = 0; i < 500; i++)
				other.arm(HOUR, 8);
			Map<Long, LiveTimeout> found = new HashMap<>();
			other.list(timeout -> found.put(timeout.id(), timeout));
			assertEquals(507, found.size());
			for (LiveTimeout timeout : found.values()) {
				int cookie = (int) timeout.cookie();
				assertEquals(cookie == 5 ? READY : cookie == 6 ? IDLE : PENDING, timeout.state());
				long remaining = timeout.remainingNs();
				assertTrue(cookie == 5 ? remaining == 0 : cookie == 6 ? remaining == -1 :
					   remaining > HOUR / 2 && remaining <= HOUR, timeout::toString);
				assertEquals(cookie == 2 || cookie == 3 ? MSEC : 0, timeout.intervalNs());
				assertEquals(cookie == 2 ? 9 : 0, timeout.repeat());
				long[] slack = { 0, 3, 5, 3, 0, 3, 7, 0, 3 };
				assertEquals(slack[cookie] * MSEC, timeout.slackNs());
				assertEquals(cookie == 3, timeout.isFixedDelay());
				assertEquals(cookie == 6 || cookie == 7, timeout.isCell());
			}
			Batch query = new Batch(1).get(batch.id(1));
			other.submit(query);
			assertEquals(List.of(2L, MSEC, 9L),
				     List.of(query.cookie(0), query.intervalNs(0), query.repeat(0)));
		}
	}

	@Test
	void cancel_by_cookie_spares_others() {
		for (int i = 0; i < 10; i++)
			context.arm(HOUR, i % 2);
		context.newCell(1).armAfter(HOUR);
		assertEquals(6, context.cancelAll(1));
		assertEquals(5, context.info().live());
		assertEquals(0, context.cancelAll(1));
	}

	@Test
	void mod_takes_an_absolute_deadline() throws Exception {
		long id = context.arm(HOUR, 1);
		long deadline = context.nanoTime();
		assertEquals(Outcome.PENDING, context.modAt(id, deadline, 2));
		context.read(events, Context.FOREVER);
		assertEquals(deadline, events.deadlineNs(0));
		id = context.arm(HOUR, 1);
		Batch batch = new Batch(1).modAt(id, deadline + 1, 3);
		context.submit(batch);
		assertEquals(Outcome.PENDING, batch.outcome(0));
		context.read(events, Context.FOREVER);
		assertEquals(deadline + 1, events.deadlineNs(0));
	}

	@Test
	void info_and_stats_have_what_happened() throws Exception {
		try (Context limited = Context.open(new Settings(2 * MSEC, 0, 1))) {
			limited.arm(0, 1);
			assertThrows(TwheelException.class, () -> limited.arm(1, 1));
			assertEquals(1, limited.read(events, Context.FOREVER));
			Info info = limited.info();
			assertEquals(1, info.refused());
			assertEquals(2 * MSEC, info.tickNs());
			assertTrue(info.isPrivate() && !info.isStopped() && info.levels() > 0 && info.slots() > 0);
			Stats stats = limited.stats();
			assertEquals(1, stats.lateness().stream().mapToLong(n -> n).sum());
			assertEquals(List.of(1L, 1L, 1L), List.of(stats.armed(), stats.fired(), stats.read()));
			limited.stop();
			assertTrue(limited.info().isStopped());
		}
	}

	private static int descriptors() {
		return new File("/proc/self/fd").list().length;
	}

	@Test
	void forgotten_contexts_are_closed() throws Exception {
		int before = descriptors();
		for (int i = 0; i < 50; i++) {
			Context forgotten = Context.open();
			forgotten.newCell(1).armAfter(HOUR);
			assertThrows(TimeoutException.class, () -> forgotten.read(events, 1));
		}
		assertTrue(descriptors() >= before + 50);
		assertTrue(await(() -> {
			System.gc();
			return descriptors() <= before;
		}));
	}

	@Test
	void places_come_back_at_close() {
		assumeFalse(context.info().isProcess(), "a wheel in the process has no limit of users");
		Context other = Context.open();
		long before = context.info().userTimeouts();
		Cell[] cells = new Cell[10_000];
		Arrays.setAll(cells, i -> other.newCell(i));
		assertTrue(context.info().userTimeouts() >= before + cells.length);
		cells[0].armAfter(HOUR);
		other.close();
		assertTrue(context.info().userTimeouts() <= before);
		for (Cell cell : cells) {
			assertEquals(Outcome.IDLE, cell.cancel());
			assertThrows(IllegalStateException.class, () -> cell.armAfter(HOUR));
		}
	}

	/** What an application uses, in a class loader of its own. */
	static final class Application implements Runnable {
		@Override
		public void run() {
			try (Context used = Context.open(new Settings(0, 1_000, 0)); Deadlines set = new Deadlines()) {
				used.newCell(1).armAfter(0);
				used.read(new Events(1), Context.FOREVER);
				CountDownLatch ran = new CountDownLatch(1);
				set.newDeadline(Runnable::run, ran::countDown).reset(0);
				ran.await();
			} catch (Exception e) {
				throw new AssertionError(e);
			}
		}
	}

	private static WeakReference<ClassLoader> runApplication() throws Exception {
		URL[] urls = new URL[2];
		Class<?>[] classes = { Context.class, Application.class };
		for (int i = 0; i < 2; i++)
			urls[i] = classes[i].getProtectionDomain().getCodeSource().getLocation();
		URLClassLoader loader = new URLClassLoader(urls, null);
		Constructor<?> make = loader.loadClass(Application.class.getName()).getDeclaredConstructor();
		make.setAccessible(true);
		((Runnable) make.newInstance()).run();
		loader.close();
		return new WeakReference<>(loader);
	}

	@Test
	void class_loader_of_an_application_is_collected() throws Exception {
		WeakReference<ClassLoader> loader = runApplication();
		assertTrue(await(() -> {
			System.gc();
			return loader.get() == null;
		}));
	}
}
