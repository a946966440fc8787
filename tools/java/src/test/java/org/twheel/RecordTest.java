// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static org.junit.jupiter.api.Assertions.assertArrayEquals;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertFalse;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.nio.ByteBuffer;
import org.junit.jupiter.api.Test;

/** The records that are shared with the kernel, as bytes. */
class RecordTest {
	@Test
	void sizes_are_those_of_the_c_header() {
		int[] sizes = { Batch.SIZE, Events.SIZE, Info.SIZE, Settings.SIZE, Cell.SIZE, Stats.SIZE,
				LiveTimeout.SIZE };
		assertArrayEquals(Native.sizes(), sizes);
	}

	@Test
	void arming_with_all_settings_fills_each_field() {
		Batch batch = new Batch(1);
		batch.armAt(7, 42).fixedDelay(9, 3).slack(5_999);
		ByteBuffer record = batch.records();
		assertEquals(1, record.getInt(0), "opcode");
		assertEquals(Native.ABSOLUTE | Native.FIXED_DELAY, record.getInt(4), "flags");
		assertEquals(0, record.getLong(8), "id");
		assertEquals(7, record.getLong(16), "expires");
		assertEquals(9, record.getLong(24), "interval");
		assertEquals(42, record.getLong(32), "cookie");
		assertEquals(3, record.getInt(40), "repeat");
		assertEquals(5, record.getInt(44), "slack in microseconds, rounded down");
	}

	@Test
	void reused_record_keeps_nothing_of_the_operation_before() {
		Batch batch = new Batch(1);
		batch.armAt(7, 42).interval(9, 3).slack(5_000);
		batch.clear();
		batch.cancel(11);
		assertEquals(3, batch.records().getInt(0), "opcode");
		assertEquals(11, batch.records().getLong(8), "id");
		for (int at = 16; at < Batch.SIZE; at += 4)
			assertEquals(0, batch.records().getInt(at), "at " + at);
	}

	@Test
	void slack_beyond_32_bits_of_microseconds_is_limited() {
		Batch batch = new Batch(1).arm(1, 1).slack(Long.MAX_VALUE);
		assertEquals(-1, batch.records().getInt(44));
	}

	@Test
	void full_batch_refuses_an_operation() {
		Batch batch = new Batch(1).arm(1, 1);
		assertThrows(IllegalStateException.class, () -> batch.arm(1, 1));
		assertThrows(IndexOutOfBoundsException.class, () -> batch.id(1));
	}

	@Test
	void results_tell_outcome_and_error() {
		Batch batch = new Batch(3).cancel(1).cancel(2).cancel(3);
		batch.records().putInt(48, 1).putInt(Batch.SIZE + 48, -Native.ENOENT)
				.putInt(2 * Batch.SIZE + 48, -Native.EINVAL);
		assertEquals(Outcome.WITHDRAWN, batch.outcome(0));
		assertEquals(Outcome.GONE, batch.outcome(1));
		assertEquals(Native.EINVAL, batch.errno(2));
		assertThrows(TwheelException.class, () -> batch.outcome(2));
	}

	@Test
	void event_is_read_field_by_field() {
		Events events = new Events(2);
		int second = Events.SIZE;
		events.records().putLong(second, 1).putLong(second + 8, 2).putLong(second + 16, 3)
				.putLong(second + 24, 4).putLong(second + 32, 5).putInt(second + 40, 3);
		events.size(2);
		assertEquals(1, events.id(1));
		assertEquals(2, events.cookie(1));
		assertEquals(3, events.deadlineNs(1));
		assertEquals(4, events.firedNs(1));
		assertEquals(5, events.count(1));
		assertTrue(events.isLast(1));
		assertTrue(events.isUnprocessed(1));
		assertFalse(events.isLast(0));
	}

	@Test
	void events_beyond_the_last_read_are_out_of_bounds() {
		Events events = new Events(2);
		events.size(1);
		assertThrows(IndexOutOfBoundsException.class, () -> events.id(1));
	}

	@Test
	void settings_fill_tick_limit_and_slack() {
		ByteBuffer record = new Settings(1_000, 5_000_000, 7).record();
		assertEquals(1_000, record.getLong(0), "tick");
		assertEquals(7, record.getInt(20), "limit");
		assertEquals(5_000, record.getInt(28), "slack in microseconds");
	}

	@Test
	void settings_out_of_range_are_refused() {
		assertThrows(IllegalArgumentException.class, () -> new Settings(-1, 0, 0));
		assertThrows(IllegalArgumentException.class, () -> new Settings(0, -1, 0));
		assertThrows(IllegalArgumentException.class, () -> new Settings(0, Long.MAX_VALUE, 0));
		assertThrows(IllegalArgumentException.class, () -> new Settings(0, 0, -1));
		assertThrows(NullPointerException.class, () -> new Settings(0, 0, 0, null));
		assertThrows(NullPointerException.class, () -> Settings.DEFAULT.with(null));
	}

	@Test
	void deadline_beyond_the_clock_is_its_end() {
		assertEquals(Long.MAX_VALUE, Context.deadline(5, Long.MAX_VALUE));
		assertEquals(7, Context.deadline(5, 2));
		assertThrows(IllegalArgumentException.class, () -> Context.deadline(5, -1));
	}
}
