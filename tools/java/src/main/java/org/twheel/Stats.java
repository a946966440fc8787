// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.nio.ByteBuffer;
import java.util.Arrays;
import java.util.List;

/**
 * Statistics of a context since it was opened.
 *
 * @param armed       successful armings of new timeouts, and cells made
 * @param moved       successful mods
 * @param cancelled   timeouts that were cancelled while pending
 * @param withdrawn   timeouts that were cancelled with their event unread
 * @param ended       timeouts whose last event was read, and cells that ended idle
 * @param fired       events of timeouts that fired
 * @param looks       looks at a cell at a time that the kernel had published
 * @param kicks       looks at a cell that an arming asked for, with a system call
 * @param dropped     events of cells that were withdrawn
 * @param unprocessed events made by {@link Context#stop()}
 * @param read        events read
 * @param lateness    events by lateness: number n counts those from 2<sup>n-1</sup> ns to less than
 *                    2<sup>n</sup> ns after the deadline, the first those on time, and the last all
 *                    later ones
 */
public record Stats(long armed, long moved, long cancelled, long withdrawn, long ended, long fired,
		    long looks, long kicks, long dropped, long unprocessed, long read,
		    List<Long> lateness) {
	static final int SIZE = 464;

	/** Behind the counters are two numbers that Info has, too, in the place of one. */
	private static final int LATENESS = 12;
	private static final int BUCKETS = 40;

	static Stats of(ByteBuffer record) {
		long[] all = new long[LATENESS + BUCKETS];
		record.asLongBuffer().get(all);
		return new Stats(all[0], all[1], all[2], all[3], all[4], all[5], all[6], all[7], all[8],
				 all[9], all[10], Arrays.stream(all, LATENESS, all.length).boxed().toList());
	}
}
