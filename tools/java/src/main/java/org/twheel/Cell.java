// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * A timeout in memory that is shared with the kernel. One atomic exchange arms, moves or
 * cancels it, without a call into C. Cells suit timeouts that nearly always end before their
 * deadline: one for each request, or one for each connection.
 *
 * <pre>{@code
 * Cell cell = context.newCell(42);
 * cell.armAfter(5_000_000_000L);       // the request is sent
 * cell.cancel();                       // the answer has come
 * }</pre>
 *
 * <p>An arming calls the kernel only if the kernel would look at the cell too late: at the
 * first arming, and after the cell has fired or rested. The event of a cell has its id, its
 * cookie and the exact deadline of the arming. No event of an earlier arming is read after
 * arm or cancel has returned.
 *
 * <p>A cell may be used by several threads at once. It counts as one live timeout until
 * {@link #close()}, {@link Context#cancelAll()}, {@link Context#stop()} or
 * {@link Context#close()} ends it. A cell that is forgotten is ended by a collection of garbage,
 * even if it is armed.
 *
 * <p>When a cell has ended, another one may get its place. A call for the one that has ended does
 * not change the other, unless it overlaps with the end of the one or the making of the other.
 */
public class Cell implements AutoCloseable {
	/** Words of a cell that are no deadlines. */
	static final long IDLE = -1;
	static final long FIRED = -2;

	static final int SIZE = 16;

	private static final int LOOK = 8;
	private static final VarHandle WORD =
			MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());

	private final Context context;
	private final ByteBuffer cells;
	private final int offset;
	private final long id;
	private final long cookie;

	Cell(Context context, ByteBuffer cells, long id, long cookie) {
		this.context = context;
		this.cells = cells;
		this.offset = (int) (Integer.toUnsignedLong((int) id) * SIZE % cells.capacity());
		this.id = id;
		this.cookie = cookie;
	}

	/** Returns the id, as in events. */
	public final long id() {
		return id;
	}

	/** Returns the cookie, as in events. */
	public final long cookie() {
		return cookie;
	}

	/**
	 * Arms or moves the cell.
	 *
	 * @param deadlineNs absolute, on the clock of {@link Context#nanoTime()}; a time in the
	 *                   past is due at once
	 * @return {@link Outcome#PENDING} if it was pending and is moved; {@link
	 *         Outcome#WITHDRAWN} if its unread event is withdrawn; {@link Outcome#IDLE}
	 * @throws IllegalArgumentException for a negative deadline, which changes nothing
	 * @throws TwheelException          if the cell has ended (ENOENT, ESHUTDOWN)
	 * @throws IllegalStateException    if the context is closed
	 */
	public final Outcome arm(long deadlineNs) {
		long old = exchange(deadlineNs);
		int error = kickIfLate(deadlineNs);
		if (error != 0)
			throw kickFailed(error);
		return Outcome.ofWord(old);
	}

	/**
	 * Arms or moves the cell, from now.
	 *
	 * @param delayNs from now to the deadline, 0 or more; the deadline is limited to
	 *                {@link Long#MAX_VALUE}
	 * @return as {@link #arm}
	 */
	public final Outcome armAfter(long delayNs) {
		return arm(Context.deadline(context.nanoTime(), delayNs));
	}

	/**
	 * Cancels the current arming. Never calls the kernel.
	 *
	 * @return {@link Outcome#PENDING} or {@link Outcome#WITHDRAWN}: no event of the arming is
	 *         read; {@link Outcome#IDLE}: it was not armed, or its event was read before, or the
	 *         cell has ended
	 */
	public final Outcome cancel() {
		if (!context.hasPlace(id))
			return Outcome.IDLE;
		try {
			return Outcome.ofWord((long) WORD.getAndSet(cells, offset, IDLE));
		} finally {
			Reference.reachabilityFence(cells);
		}
	}

	/**
	 * Cancels one arming, and no later one. Never calls the kernel.
	 *
	 * @param deadlineNs the deadline of the arming
	 * @return false if it was moved, was cancelled or has fired; its event may still be read
	 */
	public final boolean cancelAt(long deadlineNs) {
		try {
			return context.hasPlace(id) && WORD.compareAndSet(cells, offset, deadlineNs, IDLE);
		} finally {
			Reference.reachabilityFence(cells);
		}
	}

	/**
	 * Ends the cell: no event of it is read any more.
	 *
	 * @return the outcome; {@link Outcome#GONE} if it had ended before
	 * @throws IllegalStateException if the context is closed
	 */
	public final Outcome end() {
		return context.cancel(id);
	}

	/** As end(), also after the close of the context. */
	@Override
	public final void close() {
		try {
			end();
		} catch (IllegalStateException e) {
			// All cells have ended.
		}
	}

	/** The first half of arm(): stores the deadline, and returns the word before. */
	final long exchange(long deadlineNs) {
		if (deadlineNs < 0)
			throw new IllegalArgumentException("deadline " + deadlineNs);
		if (!context.hasPlace(id))
			throw kickFailed(-Native.ENOENT);
		try {
			return (long) WORD.getAndSet(cells, offset, deadlineNs);
		} finally {
			Reference.reachabilityFence(cells);
		}
	}

	/**
	 * The second half of arm(): calls the kernel if it would look at the cell too late.
	 *
	 * @return 0, or a negative errno: then the arming is undone
	 * @throws IllegalStateException if the context is closed: the arming is undone
	 */
	final int kickIfLate(long deadlineNs) {
		try {
			return isLate(deadlineNs) ? context.kick(cells, offset, id, deadlineNs) : 0;
		} catch (IllegalStateException e) {
			cancelAt(deadlineNs);
			throw e;
		} finally {
			Reference.reachabilityFence(cells);
		}
	}

	/** Stores the deadline in an idle cell alone; false if it was not idle. */
	final boolean armIfIdle(long deadlineNs) {
		try {
			long word = (long) WORD.getVolatile(cells, offset);
			return Outcome.ofWord(word) == Outcome.IDLE && context.hasPlace(id) &&
					WORD.compareAndSet(cells, offset, word, deadlineNs);
		} finally {
			Reference.reachabilityFence(cells);
		}
	}

	/** As cancel(), but an event may still be read afterwards. */
	final void clear() {
		if (context.hasPlace(id))
			WORD.setRelease(cells, offset, IDLE);
		Reference.reachabilityFence(cells);
	}

	/** Whether the kernel would look too late at a deadline that the word was exchanged with. */
	final boolean isLate(long deadlineNs) {
		try {
			// Pairs with the kernel, which publishes look before it reads the word.
			long look = (long) WORD.getVolatile(cells, offset + LOOK);
			return look < 0 || look > deadlineNs;
		} finally {
			Reference.reachabilityFence(cells);
		}
	}

	static TwheelException kickFailed(int error) {
		return new TwheelException(-error, "cell: " + TwheelException.text(-error));
	}
}
