// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static org.junit.jupiter.api.Assertions.*;
import static org.junit.jupiter.api.Assumptions.assumeFalse;
import static org.twheel.LiveTimeout.State.*;
import static org.twheel.Patience.await;

import java.io.File;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicReference;
import org.junit.jupiter.api.*;

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
	void mod_replaces_deadline_and_cookie() throws Exception {
		long id = context.arm(HOUR, 1), other = context.arm(0, 3);
		assertEquals(Outcome.PENDING, context.mod(id, MSEC, 2));
		assertNotEquals(Outcome.GONE, context.cancel(other));
		assertEquals(Outcome.GONE, context.cancel(other));
		context.read(events, Context.FOREVER);
		assertEquals(2, events.cookie(0));
		assertEquals(Outcome.GONE, context.mod(id, MSEC, 3));
	}

	@Test
	void batch_goes_on_after_a_failure() {
		long fired = context.arm(0, 4);
		assertTrue(await(() -> context.info().ready() == 1));
		Batch batch = new Batch(5).arm(HOUR, 1).cancel(0x7fff_ffffL << 32).arm(-1, 2)
				.cancel(fired).arm(HOUR, 3);
		assertEquals(5, context.submit(batch));
		assertEquals(Outcome.GONE, batch.outcome(1));
		assertEquals(Native.EINVAL, batch.errno(2));
		assertThrows(TwheelException.class, () -> batch.outcome(2));
		assertEquals(Outcome.WITHDRAWN, batch.outcome(3));
		assertEquals(2, context.info().live());
		Batch query = new Batch(1).get(batch.id(4));
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
		Cell armed = context.newCell(1), idle = context.newCell(3);
		armed.armAfter(HOUR);
		context.stop();
		assertEquals(2, context.read(events, Context.FOREVER));
		assertEquals(Set.of(armed.cookie(), 2L), Set.of(events.cookie(0), events.cookie(1)));
		assertTrue(events.isUnprocessed(0) && events.isUnprocessed(1));
		assertEquals(0, events.count(0) + events.count(1));
		assertEquals(0, context.read(events, Context.FOREVER));
		assertEquals(Native.ESHUTDOWN,
			     assertThrows(TwheelException.class, () -> context.arm(1, 1)).errno());
		assertThrows(TwheelException.class, () -> idle.armAfter(HOUR));
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
			assertEquals(1, limited.info().refused());
			assertEquals(2, limited.info().maxTimeouts());
			assertEquals(3 * MSEC, limited.info().slackNs());
		}
	}

	@Test
	void settings_that_the_kernel_refuses_throw() {
		assertEquals(Native.EINVAL, assertThrows(TwheelException.class,
				() -> Context.open(new Settings(Long.MAX_VALUE, 0, 0))).errno());
	}

	/** Reads in a thread of its own. Returns when it blocks, or soon will. */
	private Future<Integer> blockedRead(Events room, AtomicReference<Thread> thread) {
		FutureTask<Integer> result =
				new FutureTask<>(() -> context.read(room, Context.FOREVER));
		room.size(1);
		thread.set(new Thread(result));
		thread.get().start();
		// A read clears the size after it has entered the context.
		assertTrue(await(() -> room.size() == 0 || result.isDone()));
		return result;
	}

	@Test
	void close_ends_blocked_reads_and_all_further_calls() throws Exception {
		AtomicReference<Thread> thread = new AtomicReference<>();
		Future<Integer> one = blockedRead(events, thread);
		Future<Integer> other = blockedRead(new Events(1), thread);
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
		Future<Integer> other = blockedRead(new Events(1), thread);
		for (int i = 0; i < 20; i++) {
			Future<Integer> one = blockedRead(events, thread);
			// Before the wait, or in it.
			TimeUnit.MILLISECONDS.sleep(i % 3);
			thread.get().interrupt();
			assertInstanceOf(InterruptedException.class,
					 assertThrows(ExecutionException.class, one::get).getCause());
		}
		assertFalse(other.isDone());
		context.arm(0, 7);
		assertEquals(1, other.get());
		Thread.currentThread().interrupt();
		assertThrows(InterruptedException.class, () -> context.read(events, Context.FOREVER));
		assertFalse(Thread.interrupted());
	}

	@Test
	void interrupts_lose_no_event() throws Exception {
		AtomicReference<Thread> thread = new AtomicReference<>();
		int seen = 0;
		for (int i = 0; i < 200; i++) {
			Future<Integer> reader = blockedRead(events, thread);
			context.arm(0, i);
			for (int pause = 0; pause < i % 20; pause++)
				Thread.yield();
			thread.get().interrupt();
			try {
				seen += reader.get();
			} catch (ExecutionException e) {
				assertInstanceOf(InterruptedException.class, e.getCause());
			}
		}
		while (seen < 200)
			seen += context.read(events, Context.FOREVER);
		assertEquals(0, context.info().live());
	}

	@Test
	void each_clock_fires() throws Exception {
		for (Clock clock : Clock.values()) {
			Settings settings = new Settings(MSEC / 2, 0, 0, Settings.Backend.PROCESS, clock);
			try (Context other = Context.open(settings)) {
				assertEquals(clock == Clock.MANUAL ? Clock.MONOTONIC : clock, other.info().clock());
				assertEquals(MSEC / 2, other.info().tickNs());
				assertTrue(other.info().isProcess());
				long deadline = other.nanoTime() + MSEC;
				long id = other.armAt(deadline + HOUR, 1);
				assertEquals(1, other.submit(new Batch(1).modAt(id, deadline, 2)));
				if (clock == Clock.MANUAL) {
					other.setTime(deadline - 1);
					assertThrows(TimeoutException.class, () -> other.read(events, 0));
					other.setTime(deadline);
				} else
					assertThrows(TwheelException.class, () -> other.setTime(deadline));
				assertEquals(1, other.read(events, 20_000 * MSEC));
				assertEquals(deadline, events.deadlineNs(0));
				assertTrue(events.firedNs(0) >= deadline && other.nanoTime() >= events.firedNs(0));
			}
		}
	}

	@Test
	void list_has_each_live_timeout_with_its_settings() {
		Settings settings = new Settings(0, 3 * MSEC, 0);
		try (Context other = Context.open(settings)) {
			other.submit(new Batch(4).arm(HOUR, 1).arm(HOUR, 2).interval(MSEC, 9).slack(5 * MSEC)
					.arm(HOUR, 3).fixedDelay(MSEC, 0).arm(HOUR, 4).exact());
			other.arm(0, 5);
			assertTrue(await(() -> other.info().ready() == 1));
			List<Cell> cells = List.of(other.newCell(6, 7 * MSEC), other.newCell(7, 0));
			cells.get(1).armAfter(HOUR);
			for (int i = 0; i < 500; i++)
				other.arm(HOUR, 8);
			List<LiveTimeout> found = new ArrayList<>();
			other.list(found::add);
			assertEquals(507, found.stream().mapToLong(LiveTimeout::id).distinct().count());
			long[] slack = { 0, 3, 5, 3, 0, 3, 7, 0, 3 };
			for (LiveTimeout timeout : found) {
				int cookie = (int) timeout.cookie();
				LiveTimeout.State state = cookie == 5 ? READY : cookie == 6 ? IDLE : PENDING;
				long left = state == READY ? 0 : state == IDLE ? -1 : timeout.remainingNs();
				assertTrue(state != PENDING || left > HOUR / 2 && left <= HOUR);
				assertEquals(new LiveTimeout(timeout.id(), cookie, left,
						cookie == 2 || cookie == 3 ? MSEC : 0, cookie == 2 ? 9 : 0,
						slack[cookie] * MSEC, state, cookie == 3, cookie == 6 || cookie == 7),
					     timeout);
			}
			assertEquals(500, other.cancelAll(8));
			cells.forEach(Cell::close);
			assertEquals(5, other.info().live());
		}
	}

	@Test
	void forgotten_contexts_are_closed() throws Exception {
		Callable<Integer> descriptors = () -> new File("/proc/self/fd").list().length;
		int before = descriptors.call();
		List<Context> forgotten = new ArrayList<>();
		for (int i = 0; i < 50; i++) {
			Context next = Context.open();
			forgotten.add(next);
			next.newCell(1).armAfter(HOUR);
			assertThrows(TimeoutException.class, () -> next.read(events, 1));
		}
		// Contexts that earlier tests forgot may be closed at any time.
		int closed = Math.min(before, descriptors.call() - forgotten.size());
		forgotten.clear();
		assertTrue(await(() -> {
			System.gc();
			return descriptors.call() <= closed;
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
}
