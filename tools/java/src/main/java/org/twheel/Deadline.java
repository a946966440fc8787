// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.util.concurrent.Executor;
import java.util.concurrent.atomic.AtomicLongFieldUpdater;

/**
 * A deadline that moves, with a callback: the idle timer of a connection, which each message sets
 * anew, or the timeout of a request, which the answer cancels. {@link Deadlines#newDeadline} makes
 * it.
 *
 * <p>The callback runs once for each deadline that passes. After {@link #reset} or {@link #cancel}
 * has returned, no callback of an earlier deadline begins. One that has begun goes on.
 *
 * <p>A reset is an atomic exchange and a reading of the clock. It allocates nothing, takes no lock,
 * and rarely calls the kernel, as {@link Cell} explains. All methods but {@link #close()} may be
 * called by several threads at once. If two calls overlap, either counts as the last.
 */
public final class Deadline implements AutoCloseable {
	/** There is no deadline. */
	private static final long NEVER = -1;

	/*
	 * The field due has the deadline; the cell only says when to compare it with the clock. So an
	 * event may be stale, or of another deadline in the same cell: fire() then runs nothing. It
	 * arms the cell anew if that was not armed for due: if two resets have overlapped. Whoever
	 * changes due to NEVER, the callback or cancel(), ends the deadline.
	 */
	private static final AtomicLongFieldUpdater<Deadline> DUE =
			AtomicLongFieldUpdater.newUpdater(Deadline.class, "due");

	private final Deadlines owner;
	private final Executor executor;
	private final Runnable callback;
	private final Runnable fire = this::fire;
	private volatile long due = NEVER;
	/** null: closed. */
	Slots.Slot<Deadline> slot;

	Deadline(Deadlines owner, Executor executor, Runnable callback, Slots.Slot<Deadline> slot) {
		this.owner = owner;
		this.executor = executor;
		this.callback = callback;
		this.slot = slot;
	}

	/**
	 * Sets the deadline, or moves it.
	 *
	 * @param delayNs from now to the deadline, 0 or more
	 * @throws IllegalArgumentException for a negative delay, which changes nothing
	 * @throws IllegalStateException    if it or its owner is closed
	 */
	public void reset(long delayNs) {
		long deadlineNs = Context.deadline(owner.slots.nanoTime(), delayNs);
		Slots.Slot<Deadline> cell = slot;
		if (cell == null)
			throw closed();
		// Before the exchange: whoever reads an event of the cell must find it.
		DUE.lazySet(this, deadlineNs);
		cell.exchange(deadlineNs);
		kick(cell, deadlineNs);
	}

	/**
	 * Cancels the deadline.
	 *
	 * @return true if its callback does not run; false if none was set, or its callback has begun
	 */
	public boolean cancel() {
		boolean wasDue = DUE.getAndSet(this, NEVER) != NEVER;
		Slots.Slot<Deadline> cell = slot;
		if (cell != null)
			cell.clear();
		return wasDue;
	}

	/** Cancels the deadline and ends it. No other call may be in progress, or follow. */
	@Override
	public void close() {
		if (slot == null)
			return;
		cancel();
		owner.slots.put(slot);
		slot = null;
	}

	/** Called by the reader when the cell has fired. */
	void expire() {
		try {
			executor.execute(fire);
		} catch (Throwable t) {
			Log.warn("the executor refused a callback", t);
		}
	}

	private void fire() {
		try {
			if (endIfPassed())
				callback.run();
		} catch (Throwable t) {
			Log.warn("a callback failed", t);
		}
	}

	/** Ends the deadline if it has passed; otherwise sees to it that the cell fires for it. */
	private boolean endIfPassed() {
		long deadlineNs = due;
		Slots.Slot<Deadline> cell = slot;
		if (deadlineNs == NEVER || cell == null || owner.closed)
			return false;
		try {
			if (deadlineNs <= owner.slots.nanoTime())
				return DUE.compareAndSet(this, deadlineNs, NEVER);
			// If close() comes before this, the next owner of the cell has a stale event.
			if (cell.armIfIdle(deadlineNs))
				kick(cell, deadlineNs);
		} catch (IllegalStateException e) {
			// The set is closed meanwhile.
		}
		return false;
	}

	private void kick(Slots.Slot<Deadline> cell, long deadlineNs) {
		int error = cell.kickIfLate(deadlineNs);
		if (error != 0 && slot == cell)
			throw owner.closed ? closed() : Cell.kickFailed(error);
	}

	private static IllegalStateException closed() {
		return new IllegalStateException("the deadline is closed");
	}
}
