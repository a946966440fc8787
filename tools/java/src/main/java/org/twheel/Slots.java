// SPDX-License-Identifier: LGPL-2.1-or-later
package org.twheel;

import java.util.Arrays;
import java.util.concurrent.TimeoutException;

/**
 * Objects with a deadline each, on a pool of cells, and a loop that takes the due ones.
 *
 * <p>A slot is a cell and the object that is armed in it. Its owner is the thread that took
 * it; then, from the arming on, whoever ends that arming. This is the caller of disarm() if
 * its compare-exchange succeeds, and otherwise the loop, which has an event of the arming
 * to read. Exactly one of them puts the slot back.
 *
 * <p>A caller of disarm() may be late: the arming has fired, and the slot has been armed
 * anew. Its compare-exchange must fail then. So the deadlines of a slot differ: each one is
 * above the last that fired, by a nanosecond if need be.
 *
 * <p>A slot keeps to the stripe that made it. Threads use different stripes, so that they
 * seldom write to the same cache line. Slots are made in groups, of whole cache lines except
 * near a limit, and are never given back before close().
 */
class Slots<E> implements AutoCloseable {
	/** Slots that a stripe makes at a time. */
	private static final int GROUP = 64;
	/** Events that one read takes at most. */
	private static final int EVENTS = 1024;

	/** A cell, and what is armed in it. */
	static final class Slot<E> extends Cell {
		private final Stripe<E> home;
		/** Written before the word is exchanged, read after the event of it has been read. */
		private E entry;
		/** The last deadline that fired. */
		private long floor;
		/** The next free slot of the stripe, while this one is free. */
		private Slot<E> next;

		Slot(Slots<E> slots, Stripe<E> home, long id, int index) {
			super(slots.context, slots.context.cells(), id, index);
			this.home = home;
		}
	}

	/** Handles the object of an arming that has ended with an event. */
	interface Receiver<E> {
		/** Called by run(). Unprocessed: the context was stopped before the deadline. */
		void ended(E entry, boolean unprocessed);
	}

	/**
	 * Free slots; the last one put back is taken first. Guarded by its own lock. Neither
	 * method allocates: a slot is never lost for want of memory.
	 */
	private static final class Stripe<E> {
		private Slot<E> first;

		private synchronized Slot<E> take() {
			Slot<E> slot = first;
			if (slot != null)
				first = slot.next;
			return slot;
		}

		private synchronized void put(Slot<E> slot) {
			slot.next = first;
			first = slot;
		}
	}

	private final Context context;
	/** Their number is a power of two: by default that of the CPUs or more. */
	private final Stripe<E>[] stripes;
	/** All slots, by the cookie of the cell; copied when it grows. */
	private volatile Slot<E>[] all;
	/** Number of slots in all; guarded by this. */
	private int made;

	Slots(Context context) {
		this(context, Integer.highestOneBit(2 * Runtime.getRuntime().availableProcessors() - 1));
	}

	@SuppressWarnings({ "rawtypes", "unchecked" })
	Slots(Context context, int stripes) {
		this.context = context;
		this.stripes = new Stripe[stripes];
		Arrays.setAll(this.stripes, i -> new Stripe<>());
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

	/** Arms a slot that was taken. If it throws, the slot has been put back. */
	void arm(Slot<E> slot, long deadlineNs, E entry) {
		slot.entry = entry;
		try {
			exchange(slot, deadlineNs);
		} catch (RuntimeException | Error e) {
			// After an Error the cell may be armed: a free slot must not fire.
			slot.cancelAt(deadlineNs);
			put(slot);
			throw e;
		}
	}

	void exchange(Slot<E> slot, long deadlineNs) {
		slot.arm(deadlineNs);
	}

	/** Ends an arming; false if it had ended before, or if it is for run() to end it. */
	boolean disarm(Slot<E> slot, long deadlineNs) {
		if (!slot.cancelAt(deadlineNs))
			return false;
		put(slot);
		return true;
	}

	/** Takes events until the context is stopped and no event can follow. */
	void run(Receiver<E> receiver) {
		Events events = new Events(EVENTS);
		while (read(events) > 0) {
			for (int i = 0; i < events.size(); i++) {
				Slot<E> slot = all[(int) events.cookie(i)];
				E entry = slot.entry;
				slot.floor = events.deadlineNs(i);
				put(slot);
				receiver.ended(entry, events.isUnprocessed(i));
			}
		}
	}

	/** Stops the context: each armed slot makes an event for run(). */
	void stop() {
		context.stop();
	}

	long nanoTime() {
		return context.nanoTime();
	}

	@Override
	public void close() {
		context.close();
	}

	private int read(Events events) {
		try {
			return context.read(events, Context.FOREVER);
		} catch (TimeoutException e) {
			throw new AssertionError(e);
		}
	}

	private void put(Slot<E> slot) {
		slot.entry = null;
		slot.home.put(slot);
	}

	/** The cookie of a slot is its index. */
	private synchronized Slot<E> make(Stripe<E> stripe) {
		long[] ids = context.newCells(made, GROUP);
		int number = ids.length;
		Slot<E>[] slots = made + number > all.length ? Arrays.copyOf(all, all.length * 2) : all;
		for (int i = 0; i < number; i++)
			slots[made + i] = new Slot<>(this, stripe, ids[i], made + i);
		all = slots;
		for (int i = 1; i < number; i++)
			stripe.put(slots[made + i]);
		made += number;
		return slots[made - number];
	}
}
