// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import org.junit.jupiter.api.Test;

/** A cell in memory without a kernel, which has promised to look at time 0. */
class CellWordTest {
	private final ByteBuffer memory = Native.records(2, Cell.SIZE);
	private final Cell cell = new Cell(null, memory, 1L << 32 | 1, 42);

	private void word(long value) {
		memory.putLong(Cell.SIZE, value);
	}

	private long word() {
		return memory.getLong(Cell.SIZE);
	}

	@Test
	void arm_stores_the_deadline_and_tells_the_state_before() {
		word(Cell.IDLE);
		assertEquals(Outcome.IDLE, cell.arm(5));
		assertEquals(Outcome.PENDING, cell.arm(Long.MAX_VALUE));
		assertEquals(Long.MAX_VALUE, word());
		word(Cell.FIRED);
		assertEquals(Outcome.WITHDRAWN, cell.arm(0));
		assertEquals(0, word());
	}

	@Test
	void any_other_word_is_idle() {
		word(Long.MIN_VALUE);
		assertEquals(Outcome.IDLE, cell.cancel());
	}

	@Test
	void cancel_stores_idle_and_tells_the_state_before() {
		word(5);
		assertEquals(Outcome.PENDING, cell.cancel());
		assertEquals(Cell.IDLE, word());
		assertEquals(Outcome.IDLE, cell.cancel());
		word(Cell.FIRED);
		assertEquals(Outcome.WITHDRAWN, cell.cancel());
	}

	@Test
	void cancel_at_spares_another_arming() {
		word(5);
		assertFalse(cell.cancelAt(4));
		assertEquals(5, word());
		assertTrue(cell.cancelAt(5));
		assertEquals(Cell.IDLE, word());
	}

	@Test
	void negative_deadline_changes_nothing() {
		word(5);
		assertThrows(IllegalArgumentException.class, () -> cell.arm(-1));
		assertEquals(5, word());
	}

	@Test
	void cell_uses_the_place_of_its_index() {
		cell.arm(5);
		assertEquals(0, memory.getLong(0));
		assertEquals(5, memory.getLong(Cell.SIZE));
	}
}
