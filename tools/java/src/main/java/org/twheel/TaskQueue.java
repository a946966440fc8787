// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicLong;

/**
 * The tasks of an executor that wait. The due ones are in order: a thread takes the first one.
 * The others are in the wheel. They count as elements, so that the threads stay for them after a
 * shutdown. The iterator has them, too, and remove() finds them. A task counts once from its
 * submission until a thread takes it.
 *
 * <p>Users and threads see what decorateTask() has made of a task.
 *
 * <p>Cancelled tasks must not pile up while all threads are busy. So the due tasks are in a
 * tree: removal takes logarithmic time.
 */
final class TaskQueue extends AbstractQueue<Runnable> implements BlockingQueue<Runnable> {
	/** Number of tasks that are in the wheel, or on their way there or from there. */
	final AtomicLong armed = new AtomicLong();
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
		due.add((WheelExecutor.Task<?>) task);
		permits.release();
		return true;
	}

	/** As offer(), for a task that counts as armed. */
	void arrive(WheelExecutor.Task<?> task) {
		synchronized (armed) {
			due.add(task);
			armed.decrementAndGet();
		}
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
		WheelExecutor.Task<?> task = due.pollFirst();
		if (task == null)
			return null;
		task.putKept();
		return task.outer;
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
		WheelExecutor.Task<?> task = due.pollFirst();
		if (task == null)
			return null;
		task.isTaken = true;
		return task.outer;
	}

	/** One that was decorated has to be searched for. */
	@Override
	public boolean remove(Object task) {
		if (task instanceof WheelExecutor.Task<?> own)
			return own.isIn(this) && own.takeOut();
		return tasks().stream().anyMatch(own -> own.outer.equals(task) && own.takeOut());
	}

	/** If a thread has the permit, it will look for another task. */
	boolean removeDue(WheelExecutor.Task<?> task) {
		boolean hasPermit = permits.tryAcquire();
		boolean removed = due.remove(task);
		if (hasPermit && !removed)
			permits.release();
		return removed;
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

	@Override
	public int drainTo(Collection<? super Runnable> tasks) {
		return drainTo(tasks, Integer.MAX_VALUE);
	}

	@Override
	public Runnable peek() {
		Iterator<WheelExecutor.Task<?>> first = due.iterator();
		return first.hasNext() ? first.next().outer : null;
	}

	@Override
	public boolean isEmpty() {
		synchronized (armed) {
			return armed.get() == 0 && due.isEmpty();
		}
	}

	@Override
	public int size() {
		synchronized (armed) {
			return (int) Math.min(armed.get() + due.size(), Integer.MAX_VALUE);
		}
	}

	@Override
	public int remainingCapacity() {
		return Integer.MAX_VALUE;
	}

	/** A copy. */
	List<WheelExecutor.Task<?>> tasks() {
		List<WheelExecutor.Task<?>> tasks = new ArrayList<>(due);
		slots.forEach(task -> {
			if (task.isArmed())
				tasks.add(task);
		});
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
