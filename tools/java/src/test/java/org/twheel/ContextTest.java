// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;
import static org.junit.jupiter.api.Assumptions.assumeFalse;
import static org.twheel.Stall.await;

import java.io.File;
import java.util.Set;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.TimeoutException;
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
	void timeout_makes_one_event_not_early() throws TimeoutException {
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
	void nano_time_is_the_clock_of_deadlines() throws TimeoutException {
		long deadline = context.nanoTime() + MSEC;
		context.armAt(deadline, 1);
		context.read(events, Context.FOREVER);
		assertEquals(deadline, events.deadlineNs(0));
		assertTrue(context.nanoTime() >= events.firedNs(0));
	}

	@Test
	void cancel_tells_what_it_found() throws TimeoutException {
		long pending = context.arm(HOUR, 1);
		assertEquals(Outcome.PENDING, context.cancel(pending));
		assertEquals(Outcome.GONE, context.cancel(pending));
		assertThrows(TimeoutException.class, () -> context.read(events, 5 * MSEC));
	}

	@Test
	void mod_replaces_deadline_and_cookie() throws TimeoutException {
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
	void periodic_timeout_ends_after_its_repeats() throws TimeoutException {
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
	void one_read_takes_many_events_in_order() throws TimeoutException {
		for (int i = 0; i < 200; i++)
			context.arm(0, i);
		assertTrue(await(() -> context.info().ready() == 200));
		assertEquals(64, context.read(events, 0));
		for (int i = 0; i < 64; i++)
			assertEquals(i, events.cookie(i));
	}

	@Test
	void stop_makes_unprocessed_events_and_then_an_end() throws TimeoutException {
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
	void process_can_be_asked_for() throws TimeoutException {
		Settings settings = new Settings(MSEC / 2, 0, 0, Settings.Backend.PROCESS);
		try (Context inProcess = Context.open(settings)) {
			assertTrue(inProcess.info().isProcess());
			assertEquals(MSEC / 2, inProcess.info().tickNs());
			inProcess.newCell(3).armAfter(MSEC);
			assertEquals(1, inProcess.read(events, Context.FOREVER));
			assertEquals(3, events.cookie(0));
		}
	}

	@Test
	void close_ends_a_blocked_read_and_all_further_calls() throws Exception {
		events.size(1);
		CompletableFuture<Integer> reader = CompletableFuture.supplyAsync(() -> {
			try {
				return context.read(events, Context.FOREVER);
			} catch (TimeoutException e) {
				return -1;
			}
		});
		// A read clears the size after it has entered the context. It blocks soon after that.
		assertTrue(await(() -> events.size() == 0));
		TimeUnit.MILLISECONDS.sleep(50);
		assertFalse(reader.isDone());
		context.close();
		assertEquals(0, reader.get(10, TimeUnit.SECONDS));
		assertThrows(IllegalStateException.class, () -> context.arm(1, 1));
		assertThrows(IllegalStateException.class, context::info);
		context.close();
	}
}
