// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.nio.ByteBuffer;
import java.util.Objects;

/**
 * Operations that {@link Context#submit} carries out with one system call.
 *
 * <pre>{@code
 * Batch batch = new Batch(2);
 * batch.arm(5_000_000_000L, 42).interval(1_000_000_000L, 10).slack(50_000_000L);
 * batch.cancel(id);
 * context.submit(batch);
 * long armed = batch.id(0);
 * }</pre>
 *
 * A batch is for one thread at a time. One that is full refuses operations with an
 * IllegalStateException. An index is that of an operation, in the order in which they were
 * added. All times are nanoseconds, from 0 to {@link Long#MAX_VALUE}. A delay counts from the call
 * of {@link Context#submit}; a deadline is absolute, on the clock of {@link Context#nanoTime()}.
 */
public final class Batch {
	static final int SIZE = 56;

	private static final int ARM = 1;
	private static final int MOD = 2;
	private static final int CANCEL = 3;
	private static final int GET = 4;
	private static final int KICK = 5;

	private static final int OPCODE = 0;
	private static final int FLAGS = 4;
	private static final int ID = 8;
	private static final int EXPIRES = 16;
	private static final int INTERVAL = 24;
	private static final int COOKIE = 32;
	private static final int REPEAT = 40;
	private static final int SLACK = 44;
	private static final int RESULT = 48;

	private final ByteBuffer records;
	/** The cells that are armed, by operation, and their deadlines. */
	private final Cell[] cells;
	private final long[] deadlines;
	private int size;

	/**
	 * Makes an empty batch.
	 *
	 * @param capacity the number of operations that it can hold, 1 or more
	 */
	public Batch(int capacity) {
		records = Native.records(capacity, SIZE);
		cells = new Cell[capacity];
		deadlines = new long[capacity];
	}

	/** Adds an arming of a new timeout. */
	public Batch arm(long delayNs, long cookie) {
		return add(ARM, 0, 0, delayNs, cookie);
	}

	/** Adds an arming of a new timeout, as {@link #arm(long, long)}. */
	public Batch armAt(long deadlineNs, long cookie) {
		return add(ARM, Native.ABSOLUTE, 0, deadlineNs, cookie);
	}

	/**
	 * Adds an arming of an existing timeout with a new deadline and a new cookie. It also
	 * replaces the interval and the slack of the timeout.
	 */
	public Batch mod(long id, long delayNs, long cookie) {
		return add(MOD, 0, id, delayNs, cookie);
	}

	/** Adds an arming of an existing timeout, as {@link #mod}. */
	public Batch modAt(long id, long deadlineNs, long cookie) {
		return add(MOD, Native.ABSOLUTE, id, deadlineNs, cookie);
	}

	/**
	 * Arms or moves a cell. Adds an operation if the kernel would look at the cell too late: then
	 * the arming counts from {@link Context#submit}. If {@link #errno} is not 0 afterwards, the
	 * arming has failed and the cell is idle.
	 *
	 * @param deadlineNs as in {@link Cell#arm}
	 * @return as {@link Cell#arm}
	 */
	public Outcome arm(Cell cell, long deadlineNs) {
		if (size == cells.length)
			throw full();
		long old = cell.exchange(deadlineNs);
		if (cell.isLate(deadlineNs)) {
			cells[size] = cell;
			deadlines[size] = deadlineNs;
			add(KICK, 0, cell.id(), 0, 0);
		}
		return Outcome.ofWord(old);
	}

	/** Adds the end of a timeout. */
	public Batch cancel(long id) {
		return add(CANCEL, 0, id, 0, 0);
	}

	/** Adds a query of a timeout, whose answer is in {@link #remainingNs}. */
	public Batch get(long id) {
		return add(GET, 0, id, 0, 0);
	}

	/**
	 * Makes the last operation added periodic; it must be an arming.
	 *
	 * @param intervalNs from one deadline to the next
	 * @param repeat     the number of deadlines; 0: no end
	 */
	public Batch interval(long intervalNs, int repeat) {
		int last = last();
		records.putLong(last + INTERVAL, intervalNs).putInt(last + REPEAT, repeat);
		return this;
	}

	/** Like {@link #interval}, but each interval starts when the event is read. */
	public Batch fixedDelay(long intervalNs, int repeat) {
		int last = last();
		records.putInt(last + FLAGS, records.getInt(last + FLAGS) | Native.FIXED_DELAY);
		return interval(intervalNs, repeat);
	}

	/**
	 * Lets the last operation added, an arming, share the wakeup of others.
	 *
	 * @param slackNs the maximum added delay; rounded down to microseconds and limited to
	 *                71 minutes. Below a microsecond: none, as {@link #exact}
	 */
	public Batch slack(long slackNs) {
		if (slackNs < 0)
			throw new IllegalArgumentException("slack " + slackNs);
		if (slackNs < 1000)
			return exact();
		return slackUs((int) Math.min(slackNs / 1000, 0xffff_ffffL), 0);
	}

	/** Lets the last operation added, an arming, have no slack even if the context has some. */
	public Batch exact() {
		return slackUs(0, Native.EXACT);
	}

	private Batch slackUs(int slackUs, int exact) {
		int last = last();
		records.putInt(last + SLACK, slackUs);
		records.putInt(last + FLAGS, records.getInt(last + FLAGS) & ~Native.EXACT | exact);
		return this;
	}

	/** Returns the number of operations in the batch. */
	public int size() {
		return size;
	}

	/** Empties the batch. */
	public void clear() {
		size = 0;
	}

	/**
	 * Returns the error of an operation that has been submitted.
	 *
	 * @return 0 for success, or a positive errno, for example 2 (ENOENT)
	 */
	public int errno(int index) {
		return Math.max(-records.getInt(at(index) + RESULT), 0);
	}

	/**
	 * Returns the state in which a mod or cancel found the timeout.
	 *
	 * @throws TwheelException if the operation failed, and not because there is no such
	 *                         timeout
	 */
	public Outcome outcome(int index) {
		int errno = errno(index);
		if (errno != 0 && errno != Native.ENOENT)
			throw new TwheelException(errno, "operation " + index + " of a batch: " +
					TwheelException.text(errno));
		return Outcome.of(records.getInt(at(index) + RESULT));
	}

	/**
	 * Returns the id of the timeout of an operation; of an arming, after it was submitted.
	 *
	 * @return the id, never 0
	 */
	public long id(int index) {
		return records.getLong(at(index) + ID);
	}

	/**
	 * Returns the time left until the deadline, after a get.
	 *
	 * @return nanoseconds; 0: the event is unread; -1: an idle cell
	 */
	public long remainingNs(int index) {
		return records.getLong(at(index) + EXPIRES);
	}

	/** The arming of a refused kick counts if the kernel had seen it before. */
	void undoFailedKicks() {
		for (int i = 0; i < size; i++) {
			int at = i * SIZE;
			boolean failed = records.getInt(at + OPCODE) == KICK && records.getInt(at + RESULT) < 0;
			if (failed && !cells[i].cancelAt(deadlines[i]))
				records.putInt(at + RESULT, 0);
		}
	}

	/** Adds an idle cell. */
	Batch newCell(long cookie) {
		return add(ARM, Native.CELL | Native.ABSOLUTE, 0, Cell.IDLE, cookie);
	}

	ByteBuffer records() {
		return records;
	}

	private Batch add(int opcode, int flags, long id, long expiresNs, long cookie) {
		if (size == cells.length)
			throw full();
		int at = size++ * SIZE;
		for (int i = 0; i < SIZE; i += Long.BYTES)
			records.putLong(at + i, 0);
		records.putInt(at + OPCODE, opcode).putInt(at + FLAGS, flags)
				.putLong(at + ID, id).putLong(at + EXPIRES, expiresNs)
				.putLong(at + COOKIE, cookie);
		return this;
	}

	private static IllegalStateException full() {
		return new IllegalStateException("the batch is full");
	}

	private int last() {
		return at(size - 1);
	}

	private int at(int index) {
		return Objects.checkIndex(index, size) * SIZE;
	}
}
