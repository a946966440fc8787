// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The tasks of an executor that wait. The due ones are in order: a thread takes the first one.
 * The others are in the wheel. They count as elements, so that the threads stay for them after a
 * shutdown. The iterator has them, too, and remove() finds them.
 *
 * <p>Users and threads see what decorateTask() has made of a task.
 *
 * <p>Cancelled tasks must not pile up while all threads are busy. So the due tasks are in a
 * tree: removal takes logarithmic time.
 */
final class TaskQueue extends AbstractQueue<Runnable> implements BlockingQueue<Runnable> {
	/** Number of tasks that wait, or that a call is submitting. */
	final AtomicLong waiting = new AtomicLong();
	/** Whether shutdownNow() was called. */
	volatile boolean isStopped;
	private final ConcurrentSkipListSet<WheelExecutor.Task<?>> due = new ConcurrentSkipListSet<>();
	/** A permit for each due task. One more for a task that was removed without a permit. */
	private final Semaphore permits = new Semaphore(0);
	/** Set before any thread uses the queue. */
	private Slots<WheelExecutor.Task<?>> slots;

	void setSlots(Slots<WheelExecutor.Task<?>> slots) {
		this.slots = slots;
	}

	@Override
	public boolean offer(Runnable task) {
		throw new UnsupportedOperationException("tasks come from the executor");
	}

	/** For a task that counts. Called with its lock held. */
	void addDue(WheelExecutor.Task<?> task) {
		due.add(task);
		permits.release();
	}

	@Override
	public boolean offer(Runnable task, long timeout, TimeUnit unit) {
		return offer(task);
	}

	@Override
	public void put(Runnable task) {
		offer(task);
	}

	/** For a user; also takes a task whose permit a thread has for a moment. */
	@Override
	public Runnable poll() {
		for (WheelExecutor.Task<?> task : due)
			if (task.takeOut())
				return task.outer;
		return null;
	}

	@Override
	public Runnable poll(long timeout, TimeUnit unit) throws InterruptedException {
		long end = System.nanoTime() + Math.max(unit.toNanos(timeout), 0);
		Runnable task = null;
		while (task == null && permits.tryAcquire(end - System.nanoTime(), TimeUnit.NANOSECONDS))
			task = takeFirst();
		return task;
	}

	@Override
	public Runnable take() throws InterruptedException {
		Runnable task = null;
		while (task == null) {
			permits.acquire();
			task = takeFirst();
		}
		return task;
	}

	/** For a thread that will run it. */
	private Runnable takeFirst() {
		for (WheelExecutor.Task<?> task; (task = due.pollFirst()) != null; ) {
			if (task.move(WheelExecutor.Place.DUE, WheelExecutor.Place.TAKEN)) {
				waiting.decrementAndGet();
				return task.outer;
			}
		}
		return null;
	}

	/** One that was decorated has to be searched for. */
	@Override
	public boolean remove(Object task) {
		if (task instanceof WheelExecutor.Task<?> own)
			return own.isIn(this) && own.takeOut();
		return task != null &&
			tasks().stream().anyMatch(own -> own.outer.equals(task) && own.takeOut());
	}

	/** Whether it was there. If a thread has the permit, it will look for another task. */
	boolean removeDue(WheelExecutor.Task<?> task) {
		boolean hasPermit = permits.tryAcquire();
		boolean isDue = due.remove(task);
		if (!isDue && hasPermit)
			permits.release();
		return isDue;
	}

	@Override
	public int drainTo(Collection<? super Runnable> tasks, int max) {
		if (Objects.requireNonNull(tasks) == this)
			throw new IllegalArgumentException("the queue itself");
		int number = 0;
		for (Runnable task; number < max && (task = poll()) != null; number++)
			tasks.add(task);
		return number;
	}

	/** For shutdownNow() all: it would search for each one that was decorated. */
	@Override
	public int drainTo(Collection<? super Runnable> tasks) {
		int number = drainTo(tasks, Integer.MAX_VALUE);
		if (!isStopped)
			return number;
		for (WheelExecutor.Task<?> task : tasks()) {
			if (task.takeOut()) {
				tasks.add(task.outer);
				number++;
			}
		}
		return number;
	}

	@Override
	public Runnable peek() {
		Iterator<WheelExecutor.Task<?>> first = due.iterator();
		return first.hasNext() ? first.next().outer : null;
	}

	@Override
	public boolean isEmpty() {
		return waiting.get() == 0;
	}

	@Override
	public int size() {
		return (int) Math.min(waiting.get(), Integer.MAX_VALUE);
	}

	@Override
	public int remainingCapacity() {
		return Integer.MAX_VALUE;
	}

	/** A copy. The wheel comes first: a task is due before it leaves that. */
	Set<WheelExecutor.Task<?>> tasks() {
		Set<WheelExecutor.Task<?>> tasks = new LinkedHashSet<>();
		slots.forEach(tasks::add);
		tasks.removeIf(task -> !task.isInWheel());
		tasks.addAll(due);
		return tasks;
	}

	/** Iterates over a copy. */
	@Override
	public Iterator<Runnable> iterator() {
		Iterator<WheelExecutor.Task<?>> copy = tasks().iterator();
		return new Iterator<>() {
			private WheelExecutor.Task<?> last;

			@Override
			public boolean hasNext() {
				return copy.hasNext();
			}

			@Override
			public Runnable next() {
				last = copy.next();
				return last.outer;
			}

			@Override
			public void remove() {
				copy.remove();
				last.takeOut();
			}
		};
	}
}
