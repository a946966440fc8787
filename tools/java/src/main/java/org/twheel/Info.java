// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.nio.ByteBuffer;

/**
 * Settings and fill level of a context.
 *
 * @param tickNs      length of a tick in nanoseconds
 * @param slackNs     default slack of timeouts in nanoseconds
 * @param maxTimeouts limit of live timeouts
 * @param live        live timeouts: pending, with an unread event, or cells
 * @param ready       unread events
 * @param cells       cells that there can be; 0: the kernel has none
 * @param isProcess   whether it is a wheel in the process, and not the device
 */
public record Info(long tickNs, long slackNs, long maxTimeouts, long live, long ready,
		   long cells, boolean isProcess) {
	static final int SIZE = 128;

	private static final int TICK = 8;
	private static final int MAX_TIMEOUTS = 28;
	private static final int LIVE = 32;
	private static final int READY = 36;
	private static final int FLAGS = 40;
	private static final int SLACK = 44;
	private static final int CELLS = 52;

	private static final int PROCESS = 1 << 31;

	static Info of(ByteBuffer record) {
		return new Info(record.getLong(TICK),
				Integer.toUnsignedLong(record.getInt(SLACK)) * 1000,
				Integer.toUnsignedLong(record.getInt(MAX_TIMEOUTS)),
				Integer.toUnsignedLong(record.getInt(LIVE)),
				Integer.toUnsignedLong(record.getInt(READY)),
				Integer.toUnsignedLong(record.getInt(CELLS)),
				(record.getInt(FLAGS) & PROCESS) != 0);
	}
}
