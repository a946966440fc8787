// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static java.util.Objects.requireNonNull;

import java.util.concurrent.Executor;

/**
 * Deadlines that share a context, and a thread that passes their callbacks to executors.
 *
 * <pre>{@code
 * Deadlines deadlines = new Deadlines();
 * Deadline idle = deadlines.newDeadline(executor, connection::close);
 * idle.reset(30_000_000_000L);         // for each message
 * }</pre>
 *
 * <p>All methods may be called by several threads at once. The thread and the descriptor stay until
 * {@link #close()}. The thread is a daemon. The System.Logger {@code org.twheel} logs exceptions of
 * callbacks and of executors; a callback that its executor refuses is lost.
 */
public final class Deadlines implements AutoCloseable {
	final Slots<Deadline> slots;
	volatile boolean closed;
	private final Thread reader;

	/** Makes a set with the default settings. */
	public Deadlines() {
		this(Settings.DEFAULT);
	}

	/**
	 * Makes a set. On {@link Clock#BOOTTIME}, a deadline that passes while the machine is suspended
	 * has its callback at the resume.
	 *
	 * @throws TwheelException as {@link Context#open(Settings)}
	 */
	public Deadlines(Settings settings) {
		this(new Slots<>(Context.open(settings)));
	}

	/** For tests. */
	Deadlines(Slots<Deadline> slots) {
		this.slots = slots;
		reader = slots.serve((deadline, isUnprocessed) -> {
			// A deadline may have been closed meanwhile.
			if (deadline != null && !isUnprocessed)
				deadline.expire();
		});
	}

	/**
	 * Makes a deadline that is not set. It counts as one live timeout until its close.
	 *
	 * @param executor runs the callback. With {@code Runnable::run}, the thread of the set does,
	 *                 and other callbacks wait
	 * @throws TwheelException       EAGAIN at a limit
	 * @throws IllegalStateException if the set is closed
	 */
	public Deadline newDeadline(Executor executor, Runnable callback) {
		if (closed)
			throw new IllegalStateException("the set is closed");
		requireNonNull(executor, "executor");
		requireNonNull(callback, "callback");
		try {
			Slots.Slot<Deadline> slot = slots.take();
			Deadline deadline = new Deadline(this, executor, callback, slot);
			slots.keep(slot, deadline);
			return deadline;
		} catch (TwheelException e) {
			// An overlapping close() sets closed, and then stops the context.
			throw closed ? new IllegalStateException("the set is closed", e) : e;
		}
	}

	/**
	 * Ends all deadlines. After it has returned no callback begins. It waits for the thread of the
	 * set, unless a callback in that thread calls it.
	 */
	@Override
	public void close() {
		closed = true;
		// A callback that has seen the set open finds its deadline cancelled.
		slots.forEach(Deadline::cancel);
		slots.stop();
		Slots.join(reader, () -> true);
	}
}
