// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.nio.ByteBuffer;

/**
 * Settings and fill level of a context. The user is the one who opened it.
 *
 * @param clock           the clock of deadlines; MONOTONIC instead of MANUAL
 * @param tickNs          length of a tick in nanoseconds
 * @param slackNs         default slack of timeouts in nanoseconds
 * @param maxTimeouts     limit of live timeouts
 * @param live            live timeouts: pending, with an unread event, or cells
 * @param ready           unread events
 * @param cells           cells that there can be; 0: the kernel has none
 * @param isProcess       whether it is a wheel in the process, and not the device
 * @param isStopped       whether {@link Context#stop()} was called
 * @param userTimeouts    timeouts that fit into the memory of all contexts of the user
 * @param maxUserTimeouts limit of userTimeouts
 * @param refused         requests that maxTimeouts has refused
 */
public record Info(Clock clock, long tickNs, long slackNs, long maxTimeouts, long live, long ready,
		   long cells, boolean isProcess, boolean isStopped, long userTimeouts,
		   long maxUserTimeouts, long refused) {
	static final int SIZE = 192;

	private static final int STOPPED = 1 << 1;
	private static final int PROCESS = 1 << 31;

	/** The offsets are those of struct twheel_info. */
	static Info of(ByteBuffer record) {
		int flags = record.getInt(40);
		return new Info(Clock.of(record.getInt(16)), record.getLong(8), number(record, 44) * 1000,
				number(record, 28), number(record, 32), number(record, 36), number(record, 52),
				(flags & PROCESS) != 0, (flags & STOPPED) != 0, number(record, 56),
				number(record, 60), record.getLong(80));
	}

	private static long number(ByteBuffer record, int offset) {
		return Integer.toUnsignedLong(record.getInt(offset));
	}
}
