// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static java.util.Objects.requireNonNull;

import io.netty.util.Timeout;
import io.netty.util.Timer;
import io.netty.util.TimerTask;
import java.util.Collections;
import java.util.HashSet;
import java.util.Set;
import java.util.concurrent.*;
import java.util.concurrent.atomic.*;

/**
 * Netty's {@link Timer} on {@code /dev/twheel}.
 *
 * <pre>{@code
 * Timer timer = new WheelTimer();
 * Timeout timeout = timer.newTimeout(t -> connection.close(), 30, TimeUnit.SECONDS);
 * timeout.cancel();
 * timer.stop();
 * }</pre>
 *
 * <p>A timeout is a cell in memory that is shared with the kernel: arming and cancelling is
 * an atomic exchange. An idle timer has no ticks and never wakes. One thread reads many
 * events at a time and runs the tasks, or hands them to an executor.
 *
 * <p>A task never runs early. If a thread and a CPU are free, it runs late by a tick of the
 * wheel and the slack at most. The tick is 1 ms by default.
 *
 * <p>Expired tasks that the thread reads together run in the order of their deadlines. Equal
 * deadlines run in the order in which they were armed. Otherwise, the order of two tasks is not
 * guaranteed if their deadlines are within a tick and the slack of each other. The same holds
 * if they were armed on different CPUs, and while the machine is too busy to expire them in time.
 *
 * <p>Differences from Netty's HashedWheelTimer: a cancelled timeout is released at once, not
 * at the next tick. {@link TimerTask#cancelled}, which Netty 4.1 does not have, is called by the
 * thread that cancels. After {@link #stop()} has begun, no further task starts on the thread of
 * the timer. If the factory makes virtual threads, a thread of the package waits for events.
 *
 * <p>The System.Logger {@code org.twheel} logs exceptions of tasks and of the executor; a task
 * that the executor refuses is lost. All methods may be called by several threads at once. A
 * timer that is not stopped keeps its descriptor and its thread, which is no daemon by default.
 */
public class WheelTimer implements Timer {
	/** TimerTask.cancelled() came with Netty 4.2. */
	private static final boolean HAS_CANCELLED = hasCancelled();

	private static final int NEW = 0;
	private static final int RUNNING = 1;
	private static final int STOPPED = 2;

	private final Slots<WheelTimeout> slots;
	private final Thread worker;
	private final long maxPendingTimeouts;
	private final Executor taskExecutor;
	private final AtomicLong pending = new AtomicLong();
	/** Guards state and isInTask. */
	private final Object lock = new Object();
	/** Changed with the lock held, so that the thread is started before it is joined. */
	private volatile int state = NEW;
	/** Whether the thread of the timer runs a task, which stop() may interrupt. */
	private boolean isInTask;
	/** Written by the worker; read when it has ended. */
	private final Set<Timeout> unprocessed = new HashSet<>();

	/** Makes a timer with neither slack nor a limit of its own. Its thread runs the tasks. */
	public WheelTimer() {
		this(0, TimeUnit.NANOSECONDS);
	}

	/** Makes a timer with slack and without a limit of its own. Its thread runs the tasks. */
	public WheelTimer(long slack, TimeUnit unit) {
		this(Executors.defaultThreadFactory(), slack, unit, 0, Runnable::run);
	}

	/**
	 * Makes a timer.
	 *
	 * @param threadFactory      makes the thread of the timer
	 * @param slack              delay that every timeout allows, to share the wakeup of
	 *                           others, as the tick of a HashedWheelTimer; 0 or more, at most
	 *                           71 minutes
	 * @param unit               the unit of slack
	 * @param maxPendingTimeouts limit of pending timeouts; 0 or negative: the limit of the
	 *                           module, its parameter max_timeouts
	 * @param taskExecutor       runs the tasks; the caller shuts it down
	 * @throws IllegalArgumentException for slack that is out of range
	 * @throws TwheelException          as {@link Context#open()}
	 */
	public WheelTimer(ThreadFactory threadFactory, long slack, TimeUnit unit,
			  long maxPendingTimeouts, Executor taskExecutor) {
		this.taskExecutor = requireNonNull(taskExecutor, "taskExecutor");
		this.maxPendingTimeouts = maxPendingTimeouts;
		Settings settings = new Settings(0, unit.toNanos(slack), 0);
		worker = requireNonNull(threadFactory.newThread(this::run), "thread");
		slots = new Slots<>(Context.open(settings));
	}

	/** For tests, on slots that call back. */
	WheelTimer(Slots<WheelTimeout> slots, long maxPendingTimeouts, Executor taskExecutor) {
		this.slots = slots;
		this.maxPendingTimeouts = maxPendingTimeouts;
		this.taskExecutor = taskExecutor;
		worker = new Thread(this::run);
	}

	/**
	 * Starts the thread. {@link #newTimeout} does this if needed.
	 *
	 * @throws IllegalStateException if the timer is stopped
	 */
	public void start() {
		if (state == RUNNING)
			return;
		synchronized (lock) {
			if (state == STOPPED)
				throw stopped();
			if (state == NEW) {
				worker.start();
				state = RUNNING;
			}
		}
	}

	/**
	 * Arms a timeout.
	 *
	 * @param task  runs once, after the delay
	 * @param delay from now; a delay of 0 or less is due at once, and the deadline is limited
	 *              to the end of the clock
	 * @param unit  the unit of delay
	 * @return the timeout
	 * @throws IllegalStateException      if the timer is stopped
	 * @throws RejectedExecutionException at the limit of pending timeouts
	 * @throws TwheelException            if the kernel has no memory for it
	 */
	@Override
	public Timeout newTimeout(TimerTask task, long delay, TimeUnit unit) {
		requireNonNull(task, "task");
		requireNonNull(unit, "unit");
		start();
		count();
		try {
			return arm(task, Context.deadline(slots.nanoTime(), Math.max(unit.toNanos(delay), 0)));
		} catch (RuntimeException e) {
			pending.decrementAndGet();
			throw refusal(e);
		} catch (Error e) {
			pending.decrementAndGet();
			throw e;
		}
	}

	/**
	 * Returns the number of timeouts that have neither expired nor been cancelled.
	 *
	 * @return the exact number at a moment during the call
	 */
	public long pendingTimeouts() {
		return pending.get();
	}

	/**
	 * Stops the timer, and cancels all timeouts that have not expired. Only the first call has
	 * timeouts to return.
	 *
	 * <p>A task that runs on the thread of the timer is interrupted, again every 100 ms until
	 * it ends, and the call waits for it. Tasks that the executor has go on, or begin later. A call
	 * of the executor is not interrupted, because it would lose its task.
	 *
	 * @return the timeouts that this call has cancelled
	 * @throws IllegalStateException if a task calls it on the thread of the timer
	 */
	@Override
	public Set<Timeout> stop() {
		if (Thread.currentThread() == worker)
			throw new IllegalStateException("a task cannot stop its timer");
		int before;
		synchronized (lock) {
			before = state;
			state = STOPPED;
		}
		if (before == RUNNING)
			slots.stop();
		// Again and again: a task may ignore an interrupt, or begin after the first one.
		Slots.join(worker, this::interruptTask);
		if (before == STOPPED)
			return Collections.emptySet();
		slots.close();
		return Collections.unmodifiableSet(unprocessed);
	}

	private static boolean hasCancelled() {
		try {
			TimerTask.class.getMethod("cancelled", Timeout.class);
			return true;
		} catch (NoSuchMethodException e) {
			return false;
		}
	}

	private void count() {
		long now;
		do {
			now = pending.get();
			if (maxPendingTimeouts > 0 && now >= maxPendingTimeouts)
				throw new RejectedExecutionException(maxPendingTimeouts + " timeouts are pending");
		} while (!pending.compareAndSet(now, now + 1));
	}

	/** A stop that comes meanwhile gets the timeout, or the slots refuse it: never both. */
	private Timeout arm(TimerTask task, long wantedNs) {
		Slots.Slot<WheelTimeout> slot = slots.take();
		long deadlineNs = slots.deadline(slot, wantedNs);
		WheelTimeout timeout = new WheelTimeout(this, task, slot, deadlineNs);
		slots.arm(slot, deadlineNs, timeout, false);
		return timeout;
	}

	/** A stopped context refuses an arming, and so does a closed one. */
	private RuntimeException refusal(RuntimeException e) {
		if (state == STOPPED)
			return stopped();
		if (e instanceof TwheelException failed && failed.errno() == Native.EAGAIN)
			return new RejectedExecutionException(e.getMessage(), e);
		return e;
	}

	private static IllegalStateException stopped() {
		return new IllegalStateException("the timer is stopped");
	}

	private void run() {
		slots.run((timeout, isUnprocessed) -> {
			if (state != STOPPED)
				expire(timeout);
			else
				leave(timeout);
		});
	}

	/** Leaves a timeout to the caller of stop(), unless it was cancelled. */
	private void leave(WheelTimeout timeout) {
		if (!timeout.become(WheelTimeout.CANCELLED))
			return;
		pending.decrementAndGet();
		unprocessed.add(timeout);
	}

	private void expire(WheelTimeout timeout) {
		if (!timeout.become(WheelTimeout.EXPIRED))
			return;
		pending.decrementAndGet();
		try {
			taskExecutor.execute(timeout);
		} catch (Throwable t) {
			Log.warn("the executor refused a task", t);
		}
	}

	/** An interrupt lasts no longer than the task that it was for. */
	private void setInTask(boolean now) {
		synchronized (lock) {
			isInTask = now;
			if (!now)
				Thread.interrupted();
		}
	}

	/** Returns true: stop() waits on. */
	private boolean interruptTask() {
		synchronized (lock) {
			if (isInTask)
				worker.interrupt();
		}
		return true;
	}

	/** A timeout; taken by the executor of the tasks as it is. */
	static final class WheelTimeout implements Timeout, Runnable {
		static final int PENDING = 0;
		static final int CANCELLED = 1;
		static final int EXPIRED = 2;

		private static final AtomicIntegerFieldUpdater<WheelTimeout> STATE =
				AtomicIntegerFieldUpdater.newUpdater(WheelTimeout.class, "state");

		private final WheelTimer timer;
		private final TimerTask task;
		private final Slots.Slot<WheelTimeout> slot;
		private final long deadlineNs;
		private volatile int state;

		WheelTimeout(WheelTimer timer, TimerTask task, Slots.Slot<WheelTimeout> slot, long deadlineNs) {
			this.timer = timer;
			this.task = task;
			this.slot = slot;
			this.deadlineNs = deadlineNs;
		}

		/** Ends it; one caller alone succeeds. */
		boolean become(int end) {
			return STATE.compareAndSet(this, PENDING, end);
		}

		@Override
		public Timer timer() {
			return timer;
		}

		@Override
		public TimerTask task() {
			return task;
		}

		@Override
		public boolean isExpired() {
			return state == EXPIRED;
		}

		@Override
		public boolean isCancelled() {
			return state == CANCELLED;
		}

		@Override
		public boolean cancel() {
			if (!become(CANCELLED))
				return false;
			// First, or an arming would be within the limit and find no slot.
			timer.slots.disarm(slot, deadlineNs);
			timer.pending.decrementAndGet();
			if (!HAS_CANCELLED)
				return true;
			try {
				task.cancelled(this);
			} catch (Throwable t) {
				Log.warn("cancelled() of a task failed", t);
			}
			return true;
		}

		@Override
		public void run() {
			boolean isWorker = Thread.currentThread() == timer.worker;
			try {
				if (isWorker)
					timer.setInTask(true);
				task.run(this);
			} catch (Throwable t) {
				Log.warn("a task failed", t);
			} finally {
				if (isWorker)
					timer.setInTask(false);
			}
		}

		@Override
		public String toString() {
			String[] names = { "pending", "cancelled", "expired" };
			return "WheelTimeout(" + (deadlineNs - timer.slots.nanoTime()) + " ns left, " +
				names[state] + ", task: " + task + ")";
		}
	}
}
