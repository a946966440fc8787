// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.atomic.*;
import java.util.function.BooleanSupplier;
import java.util.function.Consumer;
import java.util.function.ToIntFunction;

/**
 * Objects with a deadline each, on a pool of cells, and a loop that takes the due ones.
 *
 * <p>A slot is a cell and the object that is armed in it. Its owner is the thread that took
 * it. From the arming on, the owner is the thread that ends the arming. This is the caller of
 * disarm() if its compare-exchange succeeds, and otherwise the loop, which has an event of the
 * arming to read. Exactly one of them puts the slot back. If the arming keeps the slot, the
 * loop leaves it to the receiver instead.
 *
 * <p>The kernel orders events by tick, and apart for each CPU. So the loop sorts the events of
 * each read: by deadline, and then by the number of the arming.
 *
 * <p>A caller of disarm() may be late: the arming has fired, and the slot has been armed
 * anew. Its compare-exchange must fail then. So the deadlines of a slot differ: each one is
 * above the last that fired, by a nanosecond if need be.
 *
 * <p>A slot keeps to the stripe that made it. Threads use different stripes, so that they
 * seldom write to the same cache line. Slots are made in groups, of whole cache lines except
 * near a limit. The next burst needs the slots of the last one. So while more than SPARE are free,
 * one of them is armed, for the loop to look at the stripes now and then: it ends the cells of
 * slots that were free all the time since the last look, SWEEP of a stripe at most. The module
 * counts their memory, by the page, against the limit of the user until close().
 */
class Slots<E> implements AutoCloseable {
	/** Slots that a stripe makes at a time. */
	private static final int GROUP = 64;
	/** Free slots of all stripes that stay in any case: few for any limit. */
	static final int SPARE = 16_384;
	/** Slots of a stripe that end at a time. */
	static final int SWEEP = 4096;
	/** Time between looks. */
	static final long SWEEP_NS = 10_000_000_000L;
	/** Events that one read takes at most. */
	private static final int EVENTS = 1024;
	/** Duration of a wait in join(). */
	private static final long JOIN_MS = 100;

	/** A cell, and the object that is armed in it. */
	static final class Slot<E> extends Cell {
		private final Stripe<E> home;
		/** Written before the word is exchanged, read after the event of it has been read. */
		private E entry;
		/** Whether the receiver gets the slot when the arming fires. Ordered as entry is. */
		private boolean kept;
		/** Orders armings with the same deadline. Ordered as entry is. */
		private long number;
		/** Whether the arming ended unfired. Written and read by the loop. */
		private boolean unprocessed;
		/** The last deadline that fired in the slot, or in one that had its cell. */
		private long floor;
		/** The next free slot of the stripe, while this one is free. */
		private Slot<E> next;

		Slot(Slots<E> slots, Stripe<E> home, long id) {
			super(slots.context, slots.cells(id), id, 0);
			this.home = home;
			floor = slots.floor;
		}

		/** Between armings that have both ended. */
		private boolean isBefore(Slot<E> other) {
			return floor != other.floor ? floor < other.floor : number < other.number;
		}
	}

	/** Handles the object of an arming that has ended with an event. */
	interface Receiver<E> {
		/** Called by run(). Unprocessed: the context was stopped before the deadline. */
		void ended(E entry, boolean unprocessed);
	}

	/**
	 * Free slots; the last one put back is taken first. Guarded by its own lock. No method
	 * allocates: a slot is never lost for want of memory.
	 */
	private static final class Stripe<E> {
		private final int spare;
		private Slot<E> first;
		/** Number of free slots. */
		private int free;
		/** The lowest number of free slots since the last look. */
		private int least;

		private Stripe(int spare) {
			this.spare = spare;
		}

		private synchronized Slot<E> take() {
			Slot<E> slot = first;
			if (slot == null)
				return null;
			first = slot.next;
			least = Math.min(least, --free);
			return slot;
		}

		/** Returns whether too many are free. */
		private synchronized boolean put(Slot<E> slot) {
			slot.next = first;
			first = slot;
			return ++free > spare;
		}

		/** Takes slots that nobody has needed, for good. The last look ends with it. */
		private synchronized List<Slot<E>> takeUnused() {
			int number = Math.max(Math.min(least - spare, SWEEP), 0);
			List<Slot<E>> unused = new ArrayList<>(number);
			while (unused.size() < number)
				unused.add(take());
			least = free;
			return unused;
		}
	}

	private final Context context;
	/** Their number is a power of two: by default that of the CPUs or more. */
	private final Stripe<E>[] stripes;
	/** All slots, by the index of the cell; copied when it grows. Written with the lock held. */
	private volatile Slot<E>[] all;
	/** The last deadline that fired in a slot whose cell has ended; guarded by this. */
	private long floor;
	/** The number of the next arming. */
	private final AtomicLong numbers = new AtomicLong();
	/** Whether a look is to come. */
	private final AtomicBoolean sweeps = new AtomicBoolean();
	/** Armed for the next look, and its deadline. Ordered as an entry is. */
	private Slot<E> sweeper;
	private long sweepNs;

	Slots(Context context) {
		this(context, Integer.highestOneBit(2 * Runtime.getRuntime().availableProcessors() - 1));
	}

	@SuppressWarnings({ "rawtypes", "unchecked" })
	Slots(Context context, int stripes) {
		this.context = context;
		this.stripes = new Stripe[stripes];
		Arrays.setAll(this.stripes, i -> new Stripe<>(SPARE / stripes));
		all = new Slot[GROUP];
	}

	/** Takes a free slot; the caller arms it or puts it back. */
	Slot<E> take() {
		Stripe<E> stripe = stripes[(int) Thread.currentThread().getId() & stripes.length - 1];
		Slot<E> slot = stripe.take();
		if (slot != null)
			return slot;
		try {
			return make(stripe);
		} catch (TwheelException e) {
			// At a limit: other threads may have left slots.
			slot = takeFrom(0);
			if (slot == null)
				throw e;
			return slot;
		}
	}

	/**
	 * Takes a slot of any stripe from the index on. An empty stripe stays locked until the
	 * others have been tried: no slot can move into it meanwhile and be missed.
	 */
	Slot<E> takeFrom(int index) {
		if (index == stripes.length)
			return null;
		synchronized (stripes[index]) {
			Slot<E> slot = stripes[index].take();
			return slot != null ? slot : takeFrom(index + 1);
		}
	}

	/** The deadline with which a slot may be armed: the one wanted, or a nanosecond more. */
	long deadline(Slot<E> slot, long wantedNs) {
		return Math.max(wantedNs, slot.floor + 1);
	}

	/**
	 * Arms a slot that was taken or kept. If it throws, the slot has been put back. The loop
	 * puts the slot back after it has fired, unless keep is set.
	 */
	void arm(Slot<E> slot, long deadlineNs, E entry, boolean keep) {
		slot.entry = entry;
		slot.kept = keep;
		slot.number = numbers.getAndIncrement();
		boolean armed = false;
		try {
			exchange(slot, deadlineNs);
			armed = true;
			int error = kickIfLate(slot, deadlineNs);
			if (error == 0)
				return;
			armed = false;
			throw Cell.kickFailed(error);
		} catch (RuntimeException | Error e) {
			// If the context is closed, the loop has ended: the arming counts if it has had the event.
			// If no kick was refused, an Error leaves the cell armed. If the cell has fired since,
			// the arming counts and the loop owns the slot.
			// The slot may have fired again since.
			if (e instanceof IllegalStateException ? slot.floor >= deadlineNs :
					armed && e instanceof Error && !slot.cancelAt(deadlineNs))
				return;
			put(slot);
			throw e;
		}
	}

	void exchange(Slot<E> slot, long deadlineNs) {
		slot.exchange(deadlineNs);
	}

	int kickIfLate(Slot<E> slot, long deadlineNs) {
		return slot.kickIfLate(deadlineNs);
	}

	/** Gives a slot that was taken an object, which the receiver gets whenever it has fired. */
	void keep(Slot<E> slot, E entry) {
		slot.entry = entry;
		slot.kept = true;
	}

	/** Ends an arming; false if it had ended before, or if it is for run() to end it. */
	boolean disarm(Slot<E> slot, long deadlineNs) {
		if (!slot.cancelAt(deadlineNs))
			return false;
		put(slot);
		return true;
	}

	/** Starts a thread that runs the loop and closes the context. */
	Thread serve(Receiver<E> receiver) {
		Thread thread = daemon(() -> {
			try {
				run(receiver);
			} finally {
				close();
			}
		});
		thread.start();
		return thread;
	}

	/** A thread of the package, which keeps neither the program nor a class loader alive. */
	static Thread daemon(Runnable run) {
		Thread thread = new Thread(null, run, "twheel", 0, false);
		thread.setDaemon(true);
		thread.setContextClassLoader(null);
		return thread;
	}

	static boolean isVirtual(Thread thread) {
		try {
			return (boolean) Thread.class.getMethod("isVirtual").invoke(thread);
		} catch (ReflectiveOperationException e) {
			return false;
		}
	}

	/** Takes events until the context is stopped and no event can follow. */
	void run(Receiver<E> receiver) {
		if (!isVirtual(Thread.currentThread())) {
			run(receiver, this::read);
			return;
		}
		// In the kernel, a virtual thread would keep others from its carrier.
		ExecutorService thread = Executors.newSingleThreadExecutor(Slots::daemon);
		run(receiver, events -> CompletableFuture.supplyAsync(() -> read(events), thread).join());
		thread.shutdown();
	}

	@SuppressWarnings({ "rawtypes", "unchecked" })
	private void run(Receiver<E> receiver, ToIntFunction<Events> read) {
		Events events = new Events(EVENTS);
		Slot<E>[] ended = new Slot[EVENTS];
		while (read.applyAsInt(events) > 0) {
			int number = events.size();
			for (int i = 0; i < number; i++)
				ended[i] = slotOf(events, i);
			sort(ended, number);
			for (int i = 0; i < number; i++)
				end(ended[i], receiver);
		}
	}

	/** It is there: cells end in this thread, and unread events of theirs are withdrawn. */
	private Slot<E> slotOf(Events events, int index) {
		Slot<E> slot = all[(int) events.id(index)];
		slot.floor = events.deadlineNs(index);
		slot.unprocessed = events.isUnprocessed(index);
		return slot;
	}

	/** By insertion: the sort of the library allocates, and a failure would lose events. */
	private static <E> void sort(Slot<E>[] slots, int number) {
		for (int i = 1; i < number; i++) {
			Slot<E> slot = slots[i];
			int from = slot.isBefore(slots[i - 1]) ? 0 : i;
			for (int to = i; from < to; ) {
				int middle = from + to >>> 1;
				if (slot.isBefore(slots[middle]))
					to = middle;
				else
					from = middle + 1;
			}
			System.arraycopy(slots, from, slots, from + 1, i - from);
			slots[from] = slot;
		}
	}

	/** Frees the slot first, so that the receiver can arm the next object in it. */
	private void end(Slot<E> slot, Receiver<E> receiver) {
		E entry = slot.entry;
		boolean unprocessed = slot.unprocessed;
		if (slot == sweeper && slot.floor == sweepNs) {
			sweep(slot, unprocessed);
			return;
		}
		if (!slot.kept)
			put(slot);
		receiver.ended(entry, unprocessed);
	}

	/** Passes the armed objects, and perhaps some that are just armed or have just ended. */
	void forEach(Consumer<E> action) {
		for (Slot<E> slot : all) {
			E entry = slot == null ? null : slot.entry;
			if (entry != null)
				action.accept(entry);
		}
		// The caller may look next where the receiver puts those that are missed here.
		VarHandle.acquireFence();
	}

	/** Stops the context, unless it is closed: each armed slot makes an event for run(). */
	void stop() {
		try {
			context.stop();
		} catch (IllegalStateException e) {
			// Another thread was faster, and the loop has ended.
		}
	}

	/**
	 * Waits for the end of the thread of a loop, and asks before each wait whether to wait. Keeps
	 * an interrupt for the caller. Returns at once if the thread was never started, or calls it.
	 */
	static void join(Thread thread, BooleanSupplier waits) {
		boolean interrupted = false;
		while (thread != Thread.currentThread() && thread.isAlive() && waits.getAsBoolean()) {
			try {
				thread.join(JOIN_MS);
			} catch (InterruptedException e) {
				interrupted = true;
			}
		}
		if (interrupted)
			Thread.currentThread().interrupt();
	}

	ByteBuffer cells(long id) {
		return context.cells(id);
	}

	long[] newCells(int number) {
		Batch batch = new Batch(number);
		for (int i = 0; i < number; i++)
			batch.newCell(0);
		return context.newCells(batch);
	}

	long nanoTime() {
		return context.nanoTime();
	}

	@Override
	public void close() {
		context.close();
	}

	int read(Events events) {
		try {
			return context.readUninterruptibly(events);
		} catch (IllegalStateException e) {
			// Another thread has closed the context, and needs no more events.
			return 0;
		}
	}

	/** Puts back a slot that was taken or kept, and that is not armed. */
	void put(Slot<E> slot) {
		slot.entry = null;
		if (slot.home.put(slot) && !sweeps.get() && sweeps.compareAndSet(false, true))
			armSweeper(null);
	}

	/** If the context is closed or stopped, all cells have ended, and no look is to come. */
	private void armSweeper(Slot<E> last) {
		try {
			Slot<E> slot = last != null ? last : take();
			sweepNs = deadline(slot, nanoTime() + SWEEP_NS);
			sweeper = slot;
			arm(slot, sweepNs, null, true);
		} catch (IllegalStateException | TwheelException e) {
			sweeper = null;
		}
	}

	private void sweep(Slot<E> slot, boolean isStopped) {
		boolean isMore = false;
		try {
			for (int i = 0; i < stripes.length && !isStopped; i++) {
				Stripe<E> stripe = stripes[i];
				List<Slot<E>> unused = stripe.takeUnused();
				isMore |= stripe.least > stripe.spare;
				if (!unused.isEmpty())
					end(unused);
			}
		} catch (OutOfMemoryError e) {
			// The loop goes on, and so do the slots.
		}
		if (isMore) {
			armSweeper(slot);
			return;
		}
		sweeper = null;
		slot.home.put(slot);
		sweeps.set(isStopped);
	}

	/** Ends the cells of free slots. Forgets the slots first: an index may be used again then. */
	private void end(List<Slot<E>> unused) {
		Batch batch = new Batch(unused.size());
		synchronized (this) {
			for (Slot<E> slot : unused) {
				floor = Math.max(floor, slot.floor);
				all[(int) slot.id()] = null;
				batch.cancel(slot.id());
			}
		}
		try {
			context.submit(batch);
		} catch (IllegalStateException e) {
			// The context is closed, and all cells have ended.
		}
	}

	/** The index of a slot is that of its cell, the low half of the id. */
	private synchronized Slot<E> make(Stripe<E> stripe) {
		long[] ids = newCells(GROUP);
		Slot<E>[] slots = all;
		for (long id : ids) {
			while ((int) id >= slots.length)
				slots = Arrays.copyOf(slots, slots.length * 2);
			slots[(int) id] = new Slot<>(this, stripe, id);
		}
		all = slots;
		for (int i = 1; i < ids.length; i++)
			stripe.put(slots[(int) ids[i]]);
		return slots[(int) ids[0]];
	}
}
