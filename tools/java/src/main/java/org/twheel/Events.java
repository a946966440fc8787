// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.nio.ByteBuffer;
import java.util.Objects;

/**
 * Room for the events that one {@link Context#read} takes out of the queue.
 *
 * <p>A room is for one thread at a time. An index is that of an event, in the order in which they
 * fired. Times are absolute nanoseconds on the clock of {@link Context#nanoTime()}.
 */
public final class Events {
	/** The offsets are those of struct twheel_event. */
	static final int SIZE = 48;

	private static final int LAST = 1;
	private static final int UNPROCESSED = 1 << 1;

	private final ByteBuffer records;
	private int size;

	/**
	 * Makes an empty room.
	 *
	 * @param capacity the number of events that one read takes at most, 1 or more
	 */
	public Events(int capacity) {
		records = Native.records(capacity, SIZE);
	}

	/** Returns the number of events of the last read. */
	public int size() {
		return size;
	}

	/** Returns the id of the timeout that fired. */
	public long id(int index) {
		return records.getLong(at(index));
	}

	/** Returns the cookie of the last arming. */
	public long cookie(int index) {
		return records.getLong(at(index) + 8);
	}

	/** Returns the deadline; of several that passed before the read, the last one. */
	public long deadlineNs(int index) {
		return records.getLong(at(index) + 16);
	}

	/** Returns the time when the timeout fired, never before its deadline. */
	public long firedNs(int index) {
		return records.getLong(at(index) + 24);
	}

	/**
	 * Returns the number of deadlines that had passed when the event was read.
	 *
	 * @return 1, more for a periodic timeout, or 0 if it is {@link #isUnprocessed}
	 */
	public long count(int index) {
		return records.getLong(at(index) + 32);
	}

	/**
	 * Tells whether it is the last event of the timeout: the id is no longer valid. For a cell
	 * this is so only after {@link Context#stop()}: a cell that has fired can be armed again.
	 */
	public boolean isLast(int index) {
		return (records.getInt(at(index) + 40) & LAST) != 0;
	}

	/** Tells whether {@link Context#stop()} made the event: the timeout did not fire. */
	public boolean isUnprocessed(int index) {
		return (records.getInt(at(index) + 40) & UNPROCESSED) != 0;
	}

	int capacity() {
		return records.capacity() / SIZE;
	}

	ByteBuffer records() {
		return records;
	}

	void size(int events) {
		size = events;
	}

	private int at(int index) {
		return Objects.checkIndex(index, size) * SIZE;
	}
}
