// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static org.junit.jupiter.api.Assertions.*;

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
	void slack_below_a_microsecond_is_none() {
		Batch batch = new Batch(1).arm(1, 1).slack(999);
		assertEquals(0, batch.records().getInt(44));
		int flags = new Batch(1).arm(1, 1).exact().records().getInt(4);
		assertEquals(flags, batch.records().getInt(4));
	}

	@Test
	void events_beyond_the_last_read_are_out_of_bounds() {
		Events events = new Events(2);
		events.size(1);
		assertThrows(IndexOutOfBoundsException.class, () -> events.id(1));
	}

	@Test
	void numbers_out_of_range_are_refused() {
		assertThrows(IllegalArgumentException.class, () -> new Batch(0));
		assertThrows(IllegalArgumentException.class, () -> new Events(0));
		assertThrows(IllegalArgumentException.class, () -> new Settings(-1, 0, 0));
		assertThrows(IllegalArgumentException.class, () -> new Settings(0, -1, 0));
		assertThrows(IllegalArgumentException.class, () -> new Settings(0, Long.MAX_VALUE, 0));
		assertThrows(IllegalArgumentException.class, () -> new Settings(0, 0, -1));
		assertThrows(NullPointerException.class, () -> new Settings(0, 0, 0, null, Clock.BOOTTIME));
		assertThrows(NullPointerException.class, () -> new Settings(0, 0, 0, Settings.Backend.ANY, null));
	}

	@Test
	void deadline_beyond_the_clock_is_its_end() {
		assertEquals(Long.MAX_VALUE, Context.deadline(5, Long.MAX_VALUE));
		assertEquals(7, Context.deadline(5, 2));
		assertThrows(IllegalArgumentException.class, () -> Context.deadline(5, -1));
	}

	@Test
	void last_slack_of_an_operation_counts() {
		Batch batch = new Batch(1).arm(1, 1).slack(5_000).slack(0);
		assertEquals(0, batch.records().getInt(44));
		try (Context context = Context.open(new Settings(0, 0, 0, Settings.Backend.PROCESS,
				Clock.MONOTONIC))) {
			context.submit(batch);
			assertEquals(0, batch.errno(0));
		}
	}
}
