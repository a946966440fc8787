// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.nio.ByteBuffer;

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
 */
public record Stats(long armed, long moved, long cancelled, long withdrawn, long ended, long fired,
		    long looks, long kicks, long dropped, long unprocessed, long read) {
	static final int SIZE = 464;

	static Stats of(ByteBuffer record) {
		long[] first = new long[11];
		record.asLongBuffer().get(first);
		return new Stats(first[0], first[1], first[2], first[3], first[4], first[5], first[6],
				 first[7], first[8], first[9], first[10]);
	}
}
