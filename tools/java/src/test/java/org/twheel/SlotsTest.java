// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static org.junit.jupiter.api.Assertions.*;
import static org.twheel.Patience.await;

import java.util.*;
import java.util.concurrent.CopyOnWriteArrayList;
import org.junit.jupiter.api.Test;
import org.twheel.Slots.Slot;

/** The owner of a slot, and the order of the events of a read. */
class SlotsTest {
	private static final int LIMIT = 64;
	private static final int MANY = 65_536;

	/** Throws an error, once, after a cell has been armed. */
	private static final class FailingSlots extends ManualSlots<String> {
		private Runnable beforeError;
		private boolean refusesKicks;

		FailingSlots() {
			super(LIMIT);
		}

		@Override
		int kickIfLate(Slot<String> slot, long deadlineNs) {
			Runnable action = beforeError;
			beforeError = null;
			if (refusesKicks)
				return slot.cancelAt(deadlineNs) ? -Native.ESHUTDOWN : 0;
			int error = super.kickIfLate(slot, deadlineNs);
			if (action == null)
				return error;
			action.run();
			throw new StackOverflowError("for the test");
		}
	}

	private final FailingSlots slots = new FailingSlots();
	private final List<String> ended = new CopyOnWriteArrayList<>();

	private Slot<String> arm(long deadlineNs, String entry) {
		Slot<String> slot = slots.take();
		slots.arm(slot, deadlineNs, entry, false);
		return slot;
	}

	/** Fails if a slot is free twice, or if one is lost. */
	private void assertAllSlotsAreFree() {
		List<Slot<String>> taken = new ArrayList<>();
		for (int i = 0; i < LIMIT; i++) {
			Slot<String> slot = slots.take();
			taken.forEach(other -> assertNotSame(other, slot));
			taken.add(slot);
		}
		assertThrows(TwheelException.class, slots::take);
	}

	/** By deadline, and then in the order of arming. Events of the stop keep their mark. */
	@Test
	void any_order_of_any_number_of_events_is_sorted() {
		for (int seed = 0; seed < 200; seed++) {
			Random random = new Random(seed);
			ManualSlots<Long> many = new ManualSlots<>(1024);
			int number = random.nextInt(1024);
			long nowNs = random.nextInt(500);
			List<Long> deadlines = random.longs(number, 0, 500).boxed().toList();
			List<Long> model = new ArrayList<>();
			for (int i = 0; i < number; i++) {
				many.arm(many.take(), deadlines.get(i), deadlines.get(i) << 32 | i, false);
				model.add(deadlines.get(i) << 32 | i);
			}
			model.sort(Comparator.naturalOrder());
			model.replaceAll(entry -> entry >> 32 > nowNs ? ~entry : entry);
			many.setTime(nowNs);
			many.stop();
			List<Long> found = new ArrayList<>();
			many.run((entry, isStopped) -> found.add(isStopped ? ~entry : entry));
			assertTrue(model.equals(found), "seed " + seed);
		}
	}

	@Test
	void kick_that_is_refused_undoes_the_arming() {
		slots.refusesKicks = true;
		TwheelException e = assertThrows(TwheelException.class, () -> arm(9, "undone"));
		assertEquals(Native.ESHUTDOWN, e.errno());
		assertAllSlotsAreFree();
	}

	@Test
	void error_while_the_cell_is_pending_undoes_the_arming() {
		slots.beforeError = () -> { };
		assertThrows(StackOverflowError.class, () -> arm(9, "undone"));
		assertEquals(0, slots.armed());
		assertAllSlotsAreFree();
	}

	@Test
	void error_after_the_cell_has_fired_leaves_the_slot_to_the_loop() {
		slots.beforeError = () -> slots.setTime(9);
		Slot<String> slot = arm(9, "fired");
		assertEquals(0, slots.armed());
		slots.stop();
		slots.run((entry, isUnprocessed) -> ended.add(isUnprocessed ? "stopped" : entry));
		assertEquals(List.of("fired"), ended);
		assertFalse(slots.disarm(slot, 9));
		assertAllSlotsAreFree();
	}

	/** The loop has put the slot back, and another arming has it. */
	@Test
	void error_after_the_event_was_read_spares_the_next_arming() {
		List<Slot<String>> next = new ArrayList<>();
		slots.serve((entry, isUnprocessed) -> ended.add(entry));
		slots.beforeError = () -> {
			slots.setTime(9);
			assertTrue(await(() -> ended.size() == 1));
			next.add(arm(10, "next"));
		};
		Slot<String> slot = arm(9, "fired");
		assertSame(slot, next.get(0));
		assertEquals(1, slots.armed());
		assertTrue(slots.disarm(slot, 10));
		assertAllSlotsAreFree();
	}

	private static List<Slot<Integer>> armMany(ManualSlots<Integer> many, int number, long wantedNs) {
		List<Slot<Integer>> armed = new ArrayList<>();
		for (int i = 0; i < number; i++) {
			armed.add(many.take());
			many.arm(armed.get(i), many.deadline(armed.get(i), wantedNs), i, false);
		}
		return armed;
	}

	private static void disarmUntil(ManualSlots<Integer> many, List<Slot<Integer>> armed, int left) {
		while (armed.size() > left)
			assertTrue(many.disarm(armed.remove(armed.size() - 1), 9));
	}

	/** Lets the loop look at the slots until it ends no more cells. */
	private static void sweep(ManualSlots<Integer> many) {
		many.serve((entry, isUnprocessed) -> { });
		long[] looks = { 0 };
		assertTrue(await(() -> {
			many.setTime(++looks[0] * Slots.SWEEP_NS);
			return many.live() <= Slots.SPARE + 1;
		}));
		assertEquals(Slots.SPARE + 1, many.live());
		many.setTime(0);
	}

	@Test
	void slots_of_a_burst_stay_for_the_next_one_and_not_for_ever() {
		ManualSlots<Integer> many = new ManualSlots<>(2 * MANY);
		for (int i = 0; i < 3; i++) {
			disarmUntil(many, armMany(many, MANY, 9), 0);
			// One of them is to look at the others, and in its place a group was made.
			assertEquals(i == 0 ? MANY : MANY + 64, many.live());
		}
		sweep(many);
		armMany(many, MANY, 9);
		assertEquals(MANY + 1, many.live());
		many.stop();
	}

	/** The cell of the slot has been given to another, which wants the same deadline. */
	@Test
	void late_disarm_spares_the_next_slot_of_its_cell() {
		ManualSlots<Integer> many = new ManualSlots<>(MANY);
		List<Slot<Integer>> burst = armMany(many, MANY, 9);
		disarmUntil(many, burst, 1024);
		sweep(many);
		armMany(many, MANY, 9);
		burst.forEach(slot -> assertFalse(many.disarm(slot, 9)));
		assertEquals(MANY, many.armed());
		many.stop();
	}
}
