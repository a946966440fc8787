// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static org.junit.jupiter.api.Assertions.*;
import static org.twheel.Patience.await;

import java.util.*;
import java.util.concurrent.TimeoutException;
import org.junit.jupiter.api.*;

@Tag("device")
class CellTest {
	private static final long MSEC = 1_000_000;
	private static final long HOUR = 3_600_000 * MSEC;

	private final Context context = Context.open();
	private final Events events = new Events(16);

	@AfterEach
	void close() {
		context.close();
	}

	@Test
	void cell_fires_with_its_exact_deadline_again_and_again() throws Exception {
		Cell cell = context.newCell(42);
		for (int i = 0; i < 20; i++) {
			long deadline = context.nanoTime() + i * MSEC / 4;
			assertEquals(Outcome.IDLE, cell.arm(deadline));
			assertEquals(1, context.read(events, Context.FOREVER));
			assertEquals(cell.id(), events.id(0));
			assertEquals(42, events.cookie(0));
			assertEquals(deadline, events.deadlineNs(0));
			assertTrue(events.firedNs(0) >= deadline);
			assertFalse(events.isLast(0));
		}
	}

	@Test
	void unread_event_is_withdrawn() {
		Cell cell = context.newCell(1);
		cell.armAfter(0);
		assertTrue(await(() -> context.info().ready() == 1));
		assertEquals(Outcome.WITHDRAWN, cell.arm(context.nanoTime() + HOUR));
		assertThrows(TimeoutException.class, () -> context.read(events, 0));
		assertEquals(Outcome.PENDING, cell.cancel());
	}

	@Test
	void earlier_deadline_is_not_missed() throws Exception {
		Cell cell = context.newCell(1);
		cell.armAfter(HOUR);
		assertEquals(Outcome.PENDING, cell.armAfter(MSEC));
		assertEquals(1, context.read(events, 10_000 * MSEC));
		assertEquals(Outcome.IDLE, cell.cancel());
	}

	@Test
	void batch_arms_many_cells_with_one_call() throws Exception {
		Cell[] cells = new Cell[100];
		Arrays.setAll(cells, i -> context.newCell(i));
		Batch batch = new Batch(cells.length);
		cells[3].end();
		for (Cell cell : cells)
			assertEquals(Outcome.IDLE, batch.arm(cell, HOUR + context.nanoTime()));
		assertThrows(IllegalStateException.class, () -> batch.arm(cells[0], 1));
		context.submit(batch);
		assertEquals(cells.length - 1, context.stats().kicks());
		for (int i = 0; i < cells.length; i++)
			assertEquals(i == 3 ? Native.ENOENT : 0, batch.errno(i));
		batch.clear();
		for (Cell cell : cells)
			if (cell != cells[3])
				assertEquals(Outcome.PENDING, batch.arm(cell, 2 * HOUR + context.nanoTime()));
		assertEquals(0, batch.size());
		for (int i = 0; i < 3; i++)
			batch.arm(cells[i], i);
		assertEquals(3, context.submit(batch));
		Set<Long> fired = new HashSet<>();
		while (fired.size() < 3)
			for (int i = context.read(events, Context.FOREVER) - 1; i >= 0; i--)
				fired.add(events.cookie(i));
		assertEquals(Set.of(0L, 1L, 2L), fired);
	}

	/** Handles of cells that have ended stay, and other cells get their places. */
	@Test
	void random_program_agrees_with_a_model() {
		Random random = new Random(5);
		List<Cell> cells = new ArrayList<>();
		Map<Cell, Outcome> model = new HashMap<>();
		for (int i = 0; i < 5000; i++) {
			int call = random.nextInt(100);
			if (call < 10 || cells.isEmpty()) {
				cells.add(context.newCell(i));
				model.put(cells.get(cells.size() - 1), Outcome.IDLE);
				continue;
			}
			Cell cell = cells.get(random.nextInt(cells.size()));
			Outcome before = model.get(cell);
			if (call < 12) {
				assertEquals(Collections.frequency(model.values(), Outcome.PENDING), context.cancelAll());
				model.replaceAll((any, state) -> Outcome.GONE);
			} else if (call < 20) {
				assertEquals(before, cell.end());
				model.put(cell, Outcome.GONE);
			} else if (call < 60 && before == Outcome.GONE) {
				TwheelException e = assertThrows(TwheelException.class, () -> cell.armAfter(HOUR));
				assertEquals(Native.ENOENT, e.errno());
			} else if (call < 60) {
				assertEquals(before, cell.armAfter(HOUR));
				model.put(cell, Outcome.PENDING);
			} else {
				assertEquals(before == Outcome.GONE ? Outcome.IDLE : before, cell.cancel());
				model.replace(cell, Outcome.PENDING, Outcome.IDLE);
			}
			int gone = Collections.frequency(model.values(), Outcome.GONE);
			assertEquals(model.size() - gone, context.info().live());
		}
	}

	@Test
	void forgotten_cell_ends() {
		for (int i = 0; i < 100; i++)
			context.newCell(i);
		assertTrue(await(() -> {
			System.gc();
			return context.info().live() == 0;
		}));
	}

	@Test
	void memory_of_cells_outlives_close() {
		Cell cell = context.newCell(1);
		cell.armAfter(HOUR);
		context.close();
		cell.cancel();
		assertThrows(IllegalStateException.class, () -> cell.armAfter(HOUR));
		assertEquals(Outcome.IDLE, cell.cancel());
	}

	@Test
	void slots_reach_the_limit_exactly() {
		for (int limit : new int[] { 1, 50, 64, 100 }) {
			try (Slots<String> slots = new Slots<>(Context.open(new Settings(0, 0, limit)))) {
				for (int i = 0; i < limit; i++)
					slots.take();
				TwheelException e = assertThrows(TwheelException.class, slots::take);
				assertEquals(Native.EAGAIN, e.errno());
			}
		}
	}
}
