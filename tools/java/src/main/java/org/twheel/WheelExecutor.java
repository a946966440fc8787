// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static java.util.Objects.requireNonNull;

import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.AbstractExecutorService;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.Delayed;
import java.util.concurrent.Executors;
import java.util.concurrent.FutureTask;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.RunnableScheduledFuture;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import java.util.function.Supplier;

/**
 * A {@link ScheduledExecutorService} on {@code /dev/twheel}: delayed tasks are cells of the
 * wheel, one thread takes the due ones and hands them to a pool of threads.
 *
 * <p>It behaves as ScheduledThreadPoolExecutor does with its default policies, except for the
 * order of tasks. After {@link #shutdown()} periodic tasks are cancelled and delayed tasks still
 * run. A cancelled task is removed at once. Runs of a periodic task never overlap. A periodic
 * task counts against the limit of the module until it ends, also while it runs.
 *
 * <p>Due tasks that the thread reads together begin in the order of their deadlines. Equal
 * deadlines begin in the order in which they were armed. Otherwise, the order of two tasks is
 * not guaranteed if their deadlines are within a tick of each other. The same holds if they were
 * armed on different CPUs, and while the machine is too busy to expire them in time.
 *
 * <p>A task never runs early: its deadline is rounded up to the tick of the wheel, 1 ms by
 * default. Delays are at most {@link Long#MAX_VALUE} ns, and negative ones count as 0. All
 * methods may be called by several threads at once. An executor that is not shut down keeps
 * its threads and its descriptor.
 */
public final class WheelExecutor extends AbstractExecutorService
		implements ScheduledExecutorService {
	private final Slots<Task<?>> slots;
	private final ThreadPoolExecutor pool;
	private final Thread reader;
	/** Number of tasks that are armed, or are being armed. */
	private final AtomicLong waiting = new AtomicLong();
	/** The number of the next task. */
	private final AtomicLong numbers = new AtomicLong();
	private final Set<Task<?>> periodic = ConcurrentHashMap.newKeySet();
	private volatile boolean shutdown;
	private volatile boolean stopped;
	/** Written by the reader; read when it has ended. */
	private final List<Runnable> unprocessed = new ArrayList<>();

	/**
	 * Makes an executor.
	 *
	 * @param threads number of threads that run tasks, 1 or more
	 * @throws TwheelException as {@link Context#open()}
	 */
	public WheelExecutor(int threads) {
		this(threads, Executors.defaultThreadFactory());
	}

	/**
	 * Makes an executor.
	 *
	 * @param threads       number of threads that run tasks, 1 or more
	 * @param threadFactory makes these threads, and the one that waits for deadlines
	 * @throws TwheelException as {@link Context#open()}
	 */
	public WheelExecutor(int threads, ThreadFactory threadFactory) {
		this(threads, threadFactory, () -> new Slots<>(Context.open()));
	}

	/** For tests, on slots without a kernel. */
	WheelExecutor(int threads, ThreadFactory threadFactory, Supplier<Slots<Task<?>>> open) {
		pool = new ThreadPoolExecutor(threads, threads, 0, TimeUnit.SECONDS,
				new LinkedBlockingQueue<>(), threadFactory);
		reader = requireNonNull(threadFactory.newThread(this::serve), "thread");
		slots = open.get();
		try {
			reader.start();
		} catch (RuntimeException | Error e) {
			slots.close();
			throw e;
		}
	}

	/**
	 * Runs a task once, after a delay.
	 *
	 * @throws RejectedExecutionException after shutdown, or at a limit of the module
	 */
	@Override
	public ScheduledFuture<?> schedule(Runnable command, long delay, TimeUnit unit) {
		return begin(new Task<>(Executors.callable(command), unit.toNanos(delay), 0));
	}

	/**
	 * Calls a task once, after a delay.
	 *
	 * @throws RejectedExecutionException after shutdown, or at a limit of the module
	 */
	@Override
	public <V> ScheduledFuture<V> schedule(Callable<V> callable, long delay, TimeUnit unit) {
		return begin(new Task<>(callable, unit.toNanos(delay), 0));
	}

	/**
	 * Runs a task at deadlines that are a period apart.
	 *
	 * @throws RejectedExecutionException after shutdown, or at a limit of the module
	 */
	@Override
	public ScheduledFuture<?> scheduleAtFixedRate(Runnable command, long initialDelay, long period,
						      TimeUnit unit) {
		return begin(new Task<>(Executors.callable(command), unit.toNanos(initialDelay),
				positive(unit.toNanos(period))));
	}

	/**
	 * Runs a task repeatedly, with a delay between the end of a run and the next.
	 *
	 * @throws RejectedExecutionException after shutdown, or at a limit of the module
	 */
	@Override
	public ScheduledFuture<?> scheduleWithFixedDelay(Runnable command, long initialDelay, long delay,
							 TimeUnit unit) {
		return begin(new Task<>(Executors.callable(command), unit.toNanos(initialDelay),
				-positive(unit.toNanos(delay))));
	}

	/** Runs a task at once, on the pool. */
	@Override
	public void execute(Runnable command) {
		if (shutdown)
			throw new RejectedExecutionException("the executor is shut down");
		pool.execute(command);
	}

	@Override
	public void shutdown() {
		shutdown = true;
		for (Task<?> task : periodic)
			task.cancel(false);
		endIfIdle();
	}

	@Override
	public List<Runnable> shutdownNow() {
		shutdown = true;
		stopped = true;
		List<Runnable> tasks = new ArrayList<>();
		synchronized (this) {
			endReader();
			tasks.addAll(unprocessed);
			unprocessed.clear();
		}
		tasks.addAll(pool.shutdownNow());
		return tasks;
	}

	@Override
	public boolean isShutdown() {
		return shutdown;
	}

	@Override
	public boolean isTerminated() {
		return pool.isTerminated();
	}

	@Override
	public boolean awaitTermination(long timeout, TimeUnit unit) throws InterruptedException {
		return pool.awaitTermination(timeout, unit);
	}

	private static long positive(long periodNs) {
		if (periodNs <= 0)
			throw new IllegalArgumentException("period " + periodNs);
		return periodNs;
	}

	private <V> Task<V> begin(Task<V> task) {
		if (task.isPeriodic())
			periodic.add(task);
		try {
			arm(task, null, task.deadlineNs);
		} catch (RejectedExecutionException | Error e) {
			periodic.remove(task);
			throw e;
		} catch (RuntimeException e) {
			periodic.remove(task);
			throw new RejectedExecutionException(e.getMessage(), e);
		}
		return task;
	}

	/**
	 * Arms a task, in the slot that it has kept, if any. Counted first: a shutdown that comes
	 * meanwhile waits for the task, or it is refused. No slot is put back then: none is needed.
	 */
	private void arm(Task<?> task, Slots.Slot<Task<?>> kept, long deadlineNs) {
		waiting.incrementAndGet();
		try {
			if (shutdown)
				throw new RejectedExecutionException("the executor is shut down");
			task.place(kept, deadlineNs);
		} catch (RuntimeException | Error e) {
			left();
			throw e;
		}
		if (task.isCancelled())
			task.withdraw();
	}

	/** A task waits no more. */
	private void left() {
		if (waiting.decrementAndGet() == 0)
			endIfIdle();
	}

	private void endIfIdle() {
		if (!shutdown || waiting.get() != 0)
			return;
		try {
			slots.stop();
		} catch (IllegalStateException e) {
			// Another thread was faster, and the reader has closed the context.
		}
	}

	/** The reader, which ends when the context is stopped and its events are read. */
	private void serve() {
		slots.run((task, isUnprocessed) -> {
			if (stopped || isUnprocessed)
				unprocessed.add(task);
			else
				hand(task);
			left();
		});
		slots.close();
		pool.shutdown();
	}

	/** If the pool cannot start a thread, the task fails, and the reader goes on. */
	private void hand(Task<?> task) {
		task.keepSlot();
		try {
			pool.execute(task);
		} catch (Throwable t) {
			task.fail(t);
		}
	}

	private void endReader() {
		try {
			slots.stop();
		} catch (IllegalStateException e) {
			// It has ended: the context is closed.
		}
		Slots.join(reader, () -> { });
	}

	/**
	 * A task that waits for its deadline, or runs. A periodic task keeps its slot while it runs:
	 * at the limit of the module, another thread would take it, and the task could not go on.
	 */
	final class Task<V> extends FutureTask<V> implements RunnableScheduledFuture<V> {
		/** Above 0: from one deadline to the next. Below 0: from the end of a run to the next run. */
		private final long periodNs;
		/** The deadline of the last arming; changed with the lock held. */
		private volatile long deadlineNs;
		/** The start of the next period: the slot may have taken a later deadline. */
		private volatile long dueNs;
		/** Orders tasks with the same deadline. */
		private final long number = numbers.getAndIncrement();
		/** The slot of the last arming. Guarded by this. */
		private Slots.Slot<Task<?>> slot;
		/** The slot of a periodic task that has fired, until it runs or fails. Guarded by this. */
		private Slots.Slot<Task<?>> kept;

		Task(Callable<V> callable, long delayNs, long periodNs) {
			super(callable);
			this.periodNs = periodNs;
			deadlineNs = Context.deadline(slots.nanoTime(), Math.max(delayNs, 0));
		}

		/** Holds the lock until slot is set, because the task may fire before. */
		private synchronized void place(Slots.Slot<Task<?>> own, long wantedNs) {
			slot = null;
			Slots.Slot<Task<?>> free = own != null ? own : slots.take();
			dueNs = wantedNs;
			deadlineNs = slots.deadline(free, wantedNs);
			slots.arm(free, deadlineNs, this, isPeriodic());
			slot = free;
		}

		/** It waits no more if this ends its arming; otherwise the reader finds it. */
		private synchronized void withdraw() {
			if (slot == null || !slots.disarm(slot, deadlineNs))
				return;
			// Once: the slot may be armed for another task, with the same deadline.
			slot = null;
			left();
		}

		/** Called when the task has fired. */
		private synchronized void keepSlot() {
			if (!isPeriodic())
				return;
			kept = slot;
			slot = null;
		}

		private synchronized Slots.Slot<Task<?>> takeKept() {
			Slots.Slot<Task<?>> own = kept;
			kept = null;
			return own;
		}

		private void fail(Throwable cause) {
			setException(cause);
			Slots.Slot<Task<?>> own = takeKept();
			if (own != null)
				slots.put(own);
		}

		@Override
		public boolean isPeriodic() {
			return periodNs != 0;
		}

		@Override
		public void run() {
			if (isPeriodic())
				runPeriodic();
			else
				super.run();
		}

		/** Does nothing unless the task has fired: then the pool calls it, and not the user. */
		private void runPeriodic() {
			Slots.Slot<Task<?>> own = takeKept();
			if (own == null)
				return;
			if (super.runAndReset())
				again(own);
			else
				slots.put(own);
		}

		/** Refused after a shutdown. Nobody else can be told of another failure. */
		private void again(Slots.Slot<Task<?>> own) {
			long from = periodNs > 0 ? dueNs : slots.nanoTime();
			try {
				arm(this, own, Context.deadline(from, Math.abs(periodNs)));
			} catch (RuntimeException | Error e) {
				if (shutdown)
					cancel(false);
				else
					setException(e);
			}
		}

		@Override
		public boolean cancel(boolean mayInterruptIfRunning) {
			if (!super.cancel(mayInterruptIfRunning))
				return false;
			withdraw();
			return true;
		}

		@Override
		protected void done() {
			periodic.remove(this);
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
