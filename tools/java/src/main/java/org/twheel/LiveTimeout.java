// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.nio.ByteBuffer;

/**
 * A live timeout, as {@link Context#list} has found it.
 *
 * @param id           the timeout
 * @param cookie       of the last arming
 * @param remainingNs  time until the deadline; 0: the event is unread; -1: an idle cell
 * @param intervalNs   from one deadline to the next; 0: not periodic
 * @param repeat       the number of deadlines not read yet; 0: no end, or not periodic
 * @param slackNs      maximum added delay
 * @param state        what it waits for
 * @param isFixedDelay whether its interval starts when the event is read
 * @param isCell       whether it is a cell
 */
public record LiveTimeout(long id, long cookie, long remainingNs, long intervalNs, long repeat,
			  long slackNs, State state, boolean isFixedDelay, boolean isCell) {
	/** The state of a live timeout. */
	public enum State {
		/** It will fire. */
		PENDING,
		/** Its event is unread. */
		READY,
		/** A cell that is not armed. */
		IDLE;

		private static final State[] BY_NUMBER = { null, PENDING, READY, IDLE };
	}

	static final int SIZE = 48;

	static LiveTimeout of(ByteBuffer entry) {
		int flags = entry.getInt(44);
		return new LiveTimeout(entry.getLong(0), entry.getLong(8), entry.getLong(16), entry.getLong(24),
				       Integer.toUnsignedLong(entry.getInt(32)),
				       Integer.toUnsignedLong(entry.getInt(36)) * 1000,
				       State.BY_NUMBER[entry.getInt(40)], (flags & Native.FIXED_DELAY) != 0,
				       (flags & Native.CELL) != 0);
	}
}
