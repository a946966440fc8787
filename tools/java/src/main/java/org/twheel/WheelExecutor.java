// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.util.List;
import java.util.Objects;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;

/**
 * A {@link ScheduledExecutorService} on {@code /dev/twheel}: delayed tasks are cells of the
 * wheel. A thread of the package, which is a daemon, takes the due ones for a pool of threads.
 *
 * <p>It keeps the contract of ScheduledThreadPoolExecutor, with these differences:
 * <ul>
 * <li>A cancelled task is removed at once by default.
 * <li>Equal deadlines begin in the order of submission if the tasks are read or wait for a thread
 * together. Otherwise, the order of two tasks is not guaranteed if their deadlines are within a
 * tick of each other. The same holds if they were armed on different CPUs, and while the machine
 * is too busy to expire them in time.
 * <li>At a limit of the module, RejectedExecutionException is thrown. The handler gets only tasks
 * that come after a shutdown. A periodic task counts against the limit until it ends, also while
 * it runs. A task without a delay does not count.
 * <li>The queue's poll(), take(), peek(), drainTo() and clear() find only tasks that wait for a
 * thread. Nothing can be added to it.
 * <li>A periodic task that is run by hand does nothing.
 * <li>It needs one thread at least.
 * </ul>
 *
 * <p>A task never runs early: its deadline is rounded up to the tick of the wheel, 1 ms by
 * default. Delays are at most {@link Long#MAX_VALUE} ns. All methods may be called by several
 * threads at once. An executor that is not shut down keeps its threads and its descriptor.
 */
public class WheelExecutor extends ThreadPoolExecutor implements ScheduledExecutorService {
	/** For threads above the size of the pool, and for all if the user lets them end. */
	private static final long KEEP_ALIVE_MS = 10;

	private final Slots<Task<?>> slots;
	private final TaskQueue queue = (TaskQueue) super.getQueue();
	private final Thread reader;
	/** The number of the next task. */
	private final AtomicLong numbers = new AtomicLong();
	private volatile boolean continuesPeriodic;
	private volatile boolean executesDelayed = true;
	private volatile boolean removesOnCancel = true;

	/** Makes an executor with the default thread factory and {@link AbortPolicy}. */
	public WheelExecutor(int threads) {
		this(threads, Executors.defaultThreadFactory());
	}

	/** Makes an executor with {@link AbortPolicy}. */
	public WheelExecutor(int threads, ThreadFactory threadFactory) {
		this(threads, threadFactory, new AbortPolicy());
	}

	/** Makes an executor with the default thread factory. */
	public WheelExecutor(int threads, RejectedExecutionHandler handler) {
		this(threads, Executors.defaultThreadFactory(), handler);
	}

	/**
	 * Makes an executor.
	 *
	 * @param threads       number of threads that run tasks, 1 or more
	 * @param threadFactory makes these threads, and no others
	 * @param handler       gets tasks that are submitted after a shutdown
	 * @throws TwheelException as {@link Context#open()}
	 */
	public WheelExecutor(int threads, ThreadFactory threadFactory, RejectedExecutionHandler handler) {
		this(threads, threadFactory, handler, () -> new Slots<>(Context.open()));
	}

	/** For tests, on slots without a kernel. */
	WheelExecutor(int threads, ThreadFactory threadFactory, RejectedExecutionHandler handler,
		      Supplier<Slots<Task<?>>> open) {
		super((int) positive(threads), Integer.MAX_VALUE, KEEP_ALIVE_MS, TimeUnit.MILLISECONDS,
		      new TaskQueue(), threadFactory, handler);
		slots = open.get();
		queue.setSlots(slots);
		reader = slots.serve((task, isUnprocessed) -> task.fired());
	}

	/** Runs a task once, after a delay. A delay of 0 or less is due at once. */
	@Override
	public ScheduledFuture<?> schedule(Runnable command, long delay, TimeUnit unit) {
		return begin(command, unit.toNanos(delay), 0);
	}

	/** Calls a task once, after a delay. A delay of 0 or less is due at once. */
	@Override
	public <V> ScheduledFuture<V> schedule(Callable<V> callable, long delay, TimeUnit unit) {
		Task<V> task = new Task<>(callable, unit.toNanos(delay), 0);
		return begin(task, decorateTask(callable, task));
	}

	/** Runs a task at deadlines that are a period apart. */
	@Override
	public ScheduledFuture<?> scheduleAtFixedRate(Runnable command, long initialDelay, long period,
						      TimeUnit unit) {
		return begin(command, unit.toNanos(initialDelay), positive(unit.toNanos(period)));
	}

	/** Runs a task repeatedly, with a delay between the end of a run and the next. */
	@Override
	public ScheduledFuture<?> scheduleWithFixedDelay(Runnable command, long initialDelay, long delay,
							 TimeUnit unit) {
		return begin(command, unit.toNanos(initialDelay), -positive(unit.toNanos(delay)));
	}

	/** Runs a task that is due at once. Its future has what it throws. */
	@Override
	public void execute(Runnable command) {
		schedule(command, 0, TimeUnit.NANOSECONDS);
	}

	@Override
	public ScheduledFuture<?> submit(Runnable task) {
		return schedule(task, 0, TimeUnit.NANOSECONDS);
	}

	@Override
	public <V> ScheduledFuture<V> submit(Runnable task, V result) {
		return schedule(Executors.callable(task, result), 0, TimeUnit.NANOSECONDS);
	}

	@Override
	public <V> ScheduledFuture<V> submit(Callable<V> task) {
		return schedule(task, 0, TimeUnit.NANOSECONDS);
	}

	/**
	 * Replaces the future of a Runnable, as ScheduledThreadPoolExecutor lets subclasses do.
	 *
	 * @param runnable what was submitted
	 * @param task     its future; the default returns it
	 * @return what the submitter gets, and what is in the queue. Its run() runs that of task
	 */
	protected <V> RunnableScheduledFuture<V> decorateTask(Runnable runnable,
							      RunnableScheduledFuture<V> task) {
		return task;
	}

	/** As {@link #decorateTask(Runnable, RunnableScheduledFuture)}, of a Callable. */
	protected <V> RunnableScheduledFuture<V> decorateTask(Callable<V> callable,
							      RunnableScheduledFuture<V> task) {
		return task;
	}

	/**
	 * Sets whether periodic tasks go on after {@link #shutdown}; false by default. After a
	 * shutdown, false ends them, too.
	 */
	public void setContinueExistingPeriodicTasksAfterShutdownPolicy(boolean value) {
		continuesPeriodic = value;
		dropRefused();
	}

	/** Returns whether periodic tasks go on after {@link #shutdown}. */
	public boolean getContinueExistingPeriodicTasksAfterShutdownPolicy() {
		return continuesPeriodic;
	}

	/**
	 * Sets whether delayed tasks still run after {@link #shutdown}; true by default. After a
	 * shutdown, false cancels them, too.
	 */
	public void setExecuteExistingDelayedTasksAfterShutdownPolicy(boolean value) {
		executesDelayed = value;
		dropRefused();
	}

	/** Returns whether delayed tasks still run after {@link #shutdown}. */
	public boolean getExecuteExistingDelayedTasksAfterShutdownPolicy() {
		return executesDelayed;
	}

	/**
	 * Sets whether a cancelled task is removed at once; true by default. With false, it stays
	 * in the queue until a thread takes it.
	 */
	public void setRemoveOnCancelPolicy(boolean value) {
		removesOnCancel = value;
	}

	/** Returns whether a cancelled task is removed at once. */
	public boolean getRemoveOnCancelPolicy() {
		return removesOnCancel;
	}

	@Override
	public void setCorePoolSize(int threads) {
		super.setCorePoolSize((int) positive(threads));
	}

	@Override
	public void shutdown() {
		super.shutdown();
		dropRefused();
	}

	/** The context is closed when this returns, as {@link Context#close} explains. */
	@Override
	public List<Runnable> shutdownNow() {
		queue.isStopped = true;
		List<Runnable> tasks = super.shutdownNow();
		endContext();
		return tasks;
	}

	/** The context is closed when this returns true, as {@link Context#close} explains. */
	@Override
	public boolean awaitTermination(long timeout, TimeUnit unit) throws InterruptedException {
		if (!super.awaitTermination(timeout, unit))
			return false;
		// A subclass may have its own terminated().
		endContext();
		return true;
	}

	/**
	 * Waits while a task is being armed, unless the reader has ended. It does not wait for that:
	 * terminated() of a subclass may call this with a lock held that the reader waits for.
	 */
	private void endContext() {
		slots.stop();
		Slots.join(reader, () -> queue.waiting.get() > 0);
		slots.close();
	}

	@Override
	protected void terminated() {
		slots.stop();
		super.terminated();
	}

	/** Ends the pool, if it is shut down and has no task. A subclass may have its own remove(). */
	private void endIfEmpty() {
		if (isShutdown() && queue.isEmpty())
			super.remove(null);
	}

	private static long positive(long number) {
		if (number <= 0)
			throw new IllegalArgumentException(number + " is not positive");
		return number;
	}

	private ScheduledFuture<?> begin(Runnable command, long delayNs, long periodNs) {
		Task<Object> task = new Task<>(Executors.callable(command), delayNs, periodNs);
		return begin(task, decorateTask(command, task));
	}

	/** Counts the task first: a shutdown that comes meanwhile waits for it, or it is refused. */
	private <V> ScheduledFuture<V> begin(Task<V> task, RunnableScheduledFuture<V> outer) {
		task.outer = Objects.requireNonNull(outer);
		boolean isCounted = false;
		queue.waiting.incrementAndGet();
		try {
			if (!isShutdown()) {
				prestartCoreThread();
				if (task.isDelayed || task.isPeriodic())
					task.arm(task.deadlineNs);
				else
					task.enqueue();
				isCounted = true;
				return outer;
			}
		} catch (RejectedExecutionException e) {
			if (!isShutdown())
				throw e;
		} finally {
			if (!isCounted && !task.takeOut())
				left();
			task.check();
		}
		getRejectedExecutionHandler().rejectedExecution(outer, this);
		return outer;
	}

	/** A task waits no more. */
	private void left() {
		queue.waiting.decrementAndGet();
		endIfEmpty();
	}

	/** Whether the policies let a task run. */
	private boolean mayRun(Task<?> task) {
		if (queue.isStopped || !isShutdown())
			return !queue.isStopped;
		return task.isPeriodic() ? continuesPeriodic :
			executesDelayed || task.getDelay(TimeUnit.NANOSECONDS) <= 0;
	}

	/** Cancels the waiting tasks that the policies do not let run. */
	private void dropRefused() {
		if (!isShutdown())
			return;
		queue.tasks().forEach(Task::check);
		endIfEmpty();
	}

	/** NONE: not submitted, running, or over. TAKEN: a thread of the pool has it, to run it. */
	enum Place { NONE, WHEEL, DUE, TAKEN }

	/**
	 * A task that waits for its deadline, or runs.
	 *
	 * <p>Its place changes in one step, with its lock held. A task is in the WHEEL until the reader
	 * hands it over, even if its cell has fired, and then DUE. A thread, remove() or a cancel
	 * takes it; if it is due, the one that removes it from the tree. So none is missed. If its
	 * cell had fired when it was taken out of the WHEEL, the reader only frees the slot.
	 *
	 * <p>A periodic task keeps its slot while it runs: at the limit of the module, another thread
	 * would take it, and the task could not go on.
	 */
	final class Task<V> extends FutureTask<V> implements RunnableScheduledFuture<V> {
		/** Above 0: from one deadline to the next. Below 0: from the end of a run to the next run. */
		private final long periodNs;
		private final boolean isDelayed;
		/** The task that decorateTask() returned, written before this one waits anywhere. */
		RunnableScheduledFuture<V> outer;
		/** The deadline of the last arming; changed with the lock held. */
		private volatile long deadlineNs;
		/** The start of the next period: the slot may have taken a later deadline. */
		private volatile long dueNs;
		/** Orders tasks with the same deadline. */
		private final long number = numbers.getAndIncrement();
		/** Not the task itself, which its user may lock. */
		private final Object lock = new Object();
		/** Changed with the lock held. */
		private volatile Place place = Place.NONE;
		/** Guarded by lock. */
		private Slots.Slot<Task<?>> slot;

		Task(Callable<V> callable, long delayNs, long periodNs) {
			super(callable);
			this.periodNs = periodNs;
			isDelayed = delayNs > 0;
			deadlineNs = Context.deadline(slots.nanoTime(), Math.max(delayNs, 0));
		}

		boolean isIn(TaskQueue other) {
			return queue == other;
		}

		boolean isInWheel() {
			return place == Place.WHEEL;
		}

		/** Returns false if it was elsewhere. */
		boolean move(Place from, Place to) {
			synchronized (lock) {
				if (place != from)
					return false;
				place = to;
				return true;
			}
		}

		/** Arms its slot, or a free one, and holds the lock meanwhile: it may fire at once. */
		private void arm(long wantedNs) {
			synchronized (lock) {
				Slots.Slot<Task<?>> own = slot;
				slot = null;
				try {
					if (own == null)
						own = slots.take();
					dueNs = wantedNs;
					deadlineNs = slots.deadline(own, wantedNs);
					slots.arm(own, deadlineNs, this, true);
					slot = own;
					place = Place.WHEEL;
				} catch (RuntimeException e) {
					throw new RejectedExecutionException(e.getMessage(), e);
				}
			}
		}

		/** Lets it wait for a thread. */
		private void enqueue() {
			synchronized (lock) {
				queue.addDue(this);
				place = Place.DUE;
			}
		}

		/** Called by the reader. Without memory the task fails, and the reader goes on. */
		private void fired() {
			try {
				synchronized (lock) {
					if (place == Place.WHEEL)
						enqueue();
					if (place != Place.DUE || !isPeriodic())
						free();
				}
			} catch (Throwable t) {
				if (takeOut()) {
					free();
					setException(t);
				}
			}
		}

		/** Returns false if it waits neither in the wheel nor for a thread. */
		boolean takeOut() {
			synchronized (lock) {
				if (place == Place.DUE && queue.removeDue(this))
					free();
				else if (place != Place.WHEEL)
					return false;
				else if (slots.disarm(slot, deadlineNs))
					slot = null;
				place = Place.NONE;
			}
			left();
			return true;
		}

		/** Called when it waits: a cancel or a shutdown may have come before. */
		private void check() {
			if ((isCancelled() || !mayRun(this)) && takeOut())
				outer.cancel(false);
		}

		/** The slot, if it has one, must not be armed, and the reader must not be to come. */
		private void free() {
			synchronized (lock) {
				Slots.Slot<Task<?>> own = slot;
				slot = null;
				if (own != null)
					slots.put(own);
			}
		}

		@Override
		public boolean isPeriodic() {
			return periodNs != 0;
		}

		@Override
		public void run() {
			if (!mayRun(this))
				cancel(false);
			else if (isPeriodic())
				runPeriodic();
			else
				super.run();
		}

		/** The deadline changes, by which the queue finds it: so a call of the user does nothing. */
		private void runPeriodic() {
			if (!move(Place.TAKEN, Place.NONE))
				return;
			if (super.runAndReset())
				again();
			else
				free();
		}

		/** After a shutdown the context may refuse it. Nobody else can be told of another failure. */
		private void again() {
			// Before it is armed: shutdownNow(), which has interrupted it, must not find it.
			if (!mayRun(this)) {
				free();
				cancel(false);
				return;
			}
			queue.waiting.incrementAndGet();
			try {
				long from = periodNs > 0 ? dueNs : slots.nanoTime();
				arm(Context.deadline(from, Math.abs(periodNs)));
			} catch (RuntimeException | Error e) {
				left();
				if (mayRun(this))
					setException(e);
				else
					cancel(false);
			}
			check();
			try {
				// A submission may have got no thread, or its thread has ended since.
				prestartCoreThread();
			} catch (RuntimeException | Error e) {
				// The next run tries again. The thread of this one must go on.
			}
		}

		@Override
		public boolean cancel(boolean mayInterruptIfRunning) {
			if (!super.cancel(mayInterruptIfRunning))
				return false;
			if (removesOnCancel)
				takeOut();
			if (place == Place.DUE || place == Place.TAKEN)
				free();
			return true;
		}

		@Override
		public long getDelay(TimeUnit unit) {
			return unit.convert(deadlineNs - slots.nanoTime(), TimeUnit.NANOSECONDS);
		}

		@Override
		public int compareTo(Delayed other) {
			if (other instanceof WheelExecutor.Task<?> task) {
				int order = Long.compare(deadlineNs, task.deadlineNs);
				return order != 0 ? order : Long.compare(number, task.number);
			}
			return Long.compare(getDelay(TimeUnit.NANOSECONDS), other.getDelay(TimeUnit.NANOSECONDS));
		}
	}
}
