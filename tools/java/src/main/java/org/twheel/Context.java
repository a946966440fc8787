// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.lang.ref.Cleaner;
import java.lang.ref.Reference;
import java.nio.ByteBuffer;
import java.util.*;
import java.util.concurrent.TimeoutException;
import java.util.function.Consumer;
import java.util.function.LongUnaryOperator;

/**
 * An open of {@code /dev/twheel}, with its own timeouts, queue of events and limit. Without the
 * module, or without permission, it is a wheel in the process, which needs neither.
 *
 * <pre>{@code
 * try (Context context = Context.open()) {
 *     context.arm(500_000_000L, 42);
 *     Events events = new Events(64);
 *     int number = context.read(events, Context.FOREVER);
 *     System.out.println(events.cookie(0));       // 42
 * }
 * }</pre>
 *
 * <p>All times are nanoseconds, from 0 to {@link Long#MAX_VALUE}, on the {@link Clock} of the
 * settings. Timeouts never fire early: a deadline is rounded up to the tick of the wheel.
 *
 * <p>All methods may be called by several threads at once; each event goes to one reader.
 * After {@link #close()} every method throws {@link IllegalStateException}; a call that overlaps
 * with it may also end as after {@link #stop()}. A context that is forgotten, with its cells, is
 * closed by a collection of garbage.
 */
public final class Context implements AutoCloseable {
	/** A read without an end. */
	public static final long FOREVER = -1;

	private static final Cleaner CLEANER = Cleaner.create();

	/** Cells of a block in the process. */
	private static final int BLOCK = 256;
	/** Bytes of a mapping, of which a buffer holds 2 GiB: whole pages of any size. */
	private static final int LARGEST = 0x7fff_0000;
	/** Entries of a page of list(). */
	private static final int PAGE = 256;

	private final Resources resources = new Resources();
	private final Handle handle;
	/** Closes the handle, once. */
	private final Cleaner.Cleanable closer;
	/** The device has one block of cells, number 0, with all of them. Guarded by this. */
	private final Map<Integer, ByteBuffer> blocks = new HashMap<>();
	/** The last cell that was made for each index. Copied when it grows; written with the lock. */
	private volatile long[] places = new long[BLOCK];
	private final boolean isProcess;
	/** Whether System.nanoTime() reads the clock, as it does in OpenJDK on Linux. */
	private final boolean isNanoTime;

	private Context(Settings settings) {
		if (!isAvailable())
			throw new UnsupportedOperationException(Native.FAILURE);
		handle = new Handle(Native.open(settings.backend().flag), Native::stop, resources::free);
		closer = CLEANER.register(this, handle::close);
		try {
			if (!settings.isDefault())
				setUp(settings);
			isProcess = info().isProcess();
			isNanoTime = settings.clock() == Clock.MONOTONIC && isNanoTime();
		} catch (RuntimeException | Error e) {
			closer.clean();
			throw e;
		}
	}

	/** The resources of a context, which are freed after the last call. */
	private static final class Resources {
		private final Wakers wakers = new Wakers();
		/** Cells on the device. Held until the context is closed, so that it is unmapped after that. */
		private ByteBuffer mapping;
		/** Above the index of each cell in the mapping. */
		private int cells;

		private void free(long context) {
			Native.close(context);
			wakers.close();
			if (mapping != null)
				Native.detach(Native.address(mapping), mapping.capacity(), (long) cells * Cell.SIZE);
		}
	}

	/**
	 * Tells whether the package works on this machine: whether its native library can be loaded.
	 * The classes that open a context need it.
	 *
	 * @return false on systems other than Linux, on other processors, and if the JDK denies native
	 *         access
	 */
	public static boolean isAvailable() {
		return Native.FAILURE == null;
	}

	/** Opens a context with the defaults, as {@link #open(Settings)}. */
	public static Context open() {
		return open(Settings.DEFAULT);
	}

	/**
	 * Opens a context.
	 *
	 * @throws TwheelException if {@link Settings.Backend#KERNEL} is asked for, and the module is
	 *                         not loaded (ENOENT) or access is not permitted (EACCES); for
	 *                         settings that are out of range (EINVAL) or need a capability (EPERM)
	 * @throws UnsupportedOperationException if the package is not {@linkplain #isAvailable available}
	 */
	public static Context open(Settings settings) {
		return new Context(settings);
	}

	/** Reads the clock of deadlines, in nanoseconds. */
	public long nanoTime() {
		return isNanoTime ? System.nanoTime() : call(Native::now);
	}

	/**
	 * Arms a new timeout. A {@link Batch} arms periodic timeouts and timeouts with slack.
	 *
	 * @param delayNs from now to the deadline; 0 is due at once
	 * @param cookie  returned in the event
	 * @return its id, never 0, never used again in this context
	 * @throws TwheelException EINVAL for a negative delay, EAGAIN at a limit, ESHUTDOWN after
	 *                         {@link #stop()}, ENOMEM
	 */
	public long arm(long delayNs, long cookie) {
		return call(context -> Native.arm(context, delayNs, 0, cookie));
	}

	/**
	 * Arms a new timeout, as {@link #arm}, but not from now.
	 *
	 * @param deadlineNs absolute, on the clock of {@link #nanoTime()}; a time in the past is
	 *                   due at once
	 */
	public long armAt(long deadlineNs, long cookie) {
		return call(context -> Native.arm(context, deadlineNs, Native.ABSOLUTE, cookie));
	}

	/**
	 * Arms a timeout anew, with all its settings. After success no event of the earlier
	 * arming is read.
	 *
	 * @param delayNs from now to the new deadline
	 * @return the outcome; {@link Outcome#GONE} changes nothing
	 * @throws TwheelException as {@link #arm(long, long)}
	 */
	public Outcome mod(long id, long delayNs, long cookie) {
		return Outcome.of((int) call(context -> Native.mod(context, id, delayNs, 0, cookie)));
	}

	/** Ends a timeout. After success no event of it is read. */
	public Outcome cancel(long id) {
		return Outcome.of((int) call(context -> Native.cancel(context, id)));
	}

	/**
	 * Carries out the operations of a batch, in order, with one system call. One that fails
	 * does not stop the others. Cells that it arms must be of this context.
	 *
	 * @param batch the operations; their results are in it afterwards
	 * @return the number of operations tried, which is the size of the batch
	 */
	public int submit(Batch batch) {
		int tried = (int) call(context -> Native.submit(context, Native.address(batch.records()),
				batch.size()));
		batch.undoFailedKicks();
		return tried;
	}

	/**
	 * Takes events out of the queue, in the order in which they fired. Blocks until there is one,
	 * or until {@link #stop()}, {@link #close()} or an interrupt. An interrupt takes no event. A
	 * virtual thread leaves its carrier to others while it waits.
	 *
	 * @param events    room for the events
	 * @param timeoutNs maximum wait for the first event; 0: none; {@link #FOREVER}
	 * @return the number of events; 0 if no event can follow after {@link #stop()}
	 * @throws TimeoutException     if none came in time
	 * @throws InterruptedException if the thread is interrupted, and timeoutNs is not 0
	 * @throws TwheelException      EMFILE if there is no descriptor for the wait: each read that
	 *                              blocks at the same time needs one, which the context keeps
	 */
	public int read(Events events, long timeoutNs) throws TimeoutException, InterruptedException {
		if (timeoutNs != 0 && Thread.interrupted())
			throw new InterruptedException();
		long start = System.nanoTime();
		long context = handle.enter();
		try {
			int number = take(context, events, false);
			for (long left = timeoutNs; number == -Native.EAGAIN && left != 0; ) {
				resources.wakers.await(context, left);
				left = timeoutNs < 0 ? timeoutNs : Math.max(timeoutNs - (System.nanoTime() - start), 0);
				number = take(context, events, false);
			}
			if (number == -Native.EAGAIN)
				throw new TimeoutException("no event within " + timeoutNs + " ns");
			return number;
		} finally {
			leave();
		}
	}

	/** As read(), but an interrupt does not end it. */
	int readUninterruptibly(Events events) {
		long context = handle.enter();
		try {
			int number;
			do
				number = take(context, events, true);
			while (number < 0);
			return number;
		} finally {
			leave();
		}
	}

	/**
	 * Makes an idle cell.
	 *
	 * @throws TwheelException EAGAIN at a limit, ESHUTDOWN after {@link #stop()}, ENOMEM,
	 *                         EOPNOTSUPP if the kernel has no cells
	 */
	public Cell newCell(long cookie) {
		return newCell(new Batch(1).newCell(cookie), cookie);
	}

	/**
	 * Makes an idle cell with its own slack.
	 *
	 * @param slackNs the maximum added delay, as in {@link Batch#slack}; below a microsecond:
	 *                none, even if the context has slack
	 * @throws TwheelException as {@link #newCell(long)}
	 */
	public Cell newCell(long cookie, long slackNs) {
		return newCell(new Batch(1).newCell(cookie).slack(slackNs), cookie);
	}

	/**
	 * Passes each live timeout to an action, in no order. A timeout that is armed or ends meanwhile
	 * may be missing.
	 *
	 * @param action called without a lock; it may arm and cancel
	 */
	public void list(Consumer<? super LiveTimeout> action) {
		ByteBuffer page = Native.records(1, PAGE * LiveTimeout.SIZE + Integer.BYTES);
		int number;
		do {
			number = (int) call(context -> Native.list(context, Native.address(page), PAGE));
			for (int i = 0; i < number; i++)
				action.accept(LiveTimeout.of(page.slice(i * LiveTimeout.SIZE, LiveTimeout.SIZE)
						.order(page.order())));
		} while (number > 0);
	}

	/**
	 * Sets the clock of a context with {@link Clock#MANUAL}. Timeouts that are due are unread
	 * events when the call returns. An earlier time than the current one fires nothing.
	 *
	 * @param nowNs the new time; the clock starts at 0
	 * @throws TwheelException EINVAL for a negative time, or another clock; EOPNOTSUPP on the device
	 */
	public void setTime(long nowNs) {
		call(context -> Native.setTime(context, nowNs));
	}

	/**
	 * Ends all timeouts and cells without an event. Unread events are withdrawn.
	 *
	 * @return the number of timeouts that were pending or had an unread event
	 */
	public long cancelAll() {
		return call(context -> Native.cancelAll(context, false, 0));
	}

	/**
	 * Ends the timeouts and cells with one cookie, without an event. The cost grows with the number
	 * of all timeouts.
	 *
	 * @param cookie of the last arming of a timeout
	 * @return as {@link #cancelAll()}
	 */
	public long cancelAll(long cookie) {
		return call(context -> Native.cancelAll(context, true, cookie));
	}

	/**
	 * Stops all timeouts for good. Each pending timeout makes an event that
	 * {@link Events#isUnprocessed}, in no order. After the last event {@link #read} returns
	 * 0. A second call changes nothing.
	 */
	public void stop() {
		call(Native::stop);
	}

	/** Returns settings and fill level. */
	public Info info() {
		ByteBuffer record = Native.records(1, Info.SIZE);
		call(context -> Native.info(context, Native.address(record)));
		return Info.of(record);
	}

	/** Returns the statistics. */
	public Stats stats() {
		ByteBuffer record = Native.records(1, Stats.SIZE);
		call(context -> Native.stats(context, Native.address(record)));
		return Stats.of(record);
	}

	/**
	 * Returns the descriptor, for a program that polls it. It is readable while an event is
	 * unread, and of a wheel in the process now and then without one: then a read with the timeout
	 * 0 finds none. Do not read from it, do not close it, and do not use it after {@link #close()}.
	 */
	public int fd() {
		return (int) call(Native::fd);
	}

	/**
	 * Ends all timeouts and closes the descriptor. A read that is blocked returns. The memory
	 * of cells stays until no cell is reachable. In the process, so does the descriptor. On the
	 * device, nothing counts against a limit any more. A second call does nothing.
	 */
	@Override
	public void close() {
		closer.clean();
	}

	/** A deadline that does not overflow. */
	static long deadline(long nowNs, long delayNs) {
		if (delayNs < 0)
			throw new IllegalArgumentException("delay " + delayNs);
		long deadline = nowNs + delayNs;
		return deadline < 0 ? Long.MAX_VALUE : deadline;
	}

	/** The memory of a block of cells, in which the index of the cell determines its place. */
	synchronized ByteBuffer cells(long id) {
		int block = isProcess ? (int) id >>> Integer.numberOfTrailingZeros(BLOCK) : 0;
		return blocks.computeIfAbsent(block, number -> isProcess ? block(number) : map());
	}

	/** Makes cells with one system call; fewer at a limit. */
	long[] newCells(Batch batch) {
		long[] ids = new long[batch.size()];
		int made = 0;
		// One call until they are counted: close() leaves memory for them.
		handle.enter();
		try {
			ByteBuffer memory = cells(0);
			submit(batch);
			for (; made < ids.length; made++)
				give(ids[made] = cellId(batch, made, memory));
		} catch (TwheelException e) {
			endFrom(batch, made);
			if (made == 0)
				throw e;
		} finally {
			leave();
		}
		return Arrays.copyOf(ids, made);
	}

	/** Returns 0, or a negative errno: then the arming is undone. */
	int kick(ByteBuffer memory, int offset, long id, long deadlineNs) {
		return (int) call(context -> Native.kick(context, Native.address(memory) + offset, id,
				deadlineNs));
	}

	/** The caller uses the memory of records again afterwards, so that it is there. */
	private long call(LongUnaryOperator function) {
		long context = handle.enter();
		try {
			return function.applyAsLong(context);
		} finally {
			leave();
		}
	}

	private void leave() {
		handle.leave();
		// Or a collection would close the context during the call.
		Reference.reachabilityFence(this);
	}

	private Cell newCell(Batch batch, long cookie) {
		long id = newCells(batch)[0];
		Cell cell = new Cell(this, cells(id), id, cookie);
		CLEANER.register(cell, forget(handle, id));
		return cell;
	}

	/** Ends a forgotten cell. Static: it must not hold the context. */
	private static Runnable forget(Handle handle, long id) {
		return () -> {
			try {
				Native.cancel(handle.enter(), id);
				handle.leave();
			} catch (IllegalStateException e) {
				// The context is closed.
			}
		};
	}

	private synchronized void give(long id) {
		if ((int) id >= places.length)
			places = Arrays.copyOf(places, Math.max((int) id + 1, places.length * 2));
		places[(int) id] = id;
	}

	/** Whether no other cell was made in the place of a cell. */
	boolean hasPlace(long id) {
		return places[(int) id] == id;
	}

	private static int take(long context, Events events, boolean wait) {
		events.size(0);
		int number = Native.read(context, Native.address(events.records()), events.capacity(), wait);
		events.size(Math.max(number, 0));
		Reference.reachabilityFence(events);
		return number;
	}

	private void setUp(Settings settings) {
		ByteBuffer record = settings.record();
		call(context -> Native.setup(context, Native.address(record)));
		Reference.reachabilityFence(record);
	}

	/** The index of a cell is the low half of its id. */
	private synchronized long cellId(Batch batch, int index, ByteBuffer memory) {
		batch.outcome(index);
		long id = batch.id(index);
		if (isProcess)
			return id;
		if (Integer.toUnsignedLong((int) id) >= memory.capacity() / Cell.SIZE)
			throw new TwheelException(Native.EAGAIN, "cell: beyond the mapping");
		resources.cells = Math.max(resources.cells, (int) id + 1);
		return id;
	}

	private void endFrom(Batch batch, int index) {
		for (int i = index; i < batch.size(); i++)
			if (batch.errno(i) == 0)
				cancel(batch.id(i));
	}

	/** The kernel makes the pages when they are used. */
	private ByteBuffer map() {
		Info info = info();
		if (info.cells() == 0)
			throw new TwheelException(Native.EOPNOTSUPP, "cell: the kernel has none");
		long size = Math.min(info.cells() * Cell.SIZE, LARGEST);
		long context = handle.enter();
		try {
			ByteBuffer memory = Native.map(context, size);
			long address = Native.address(memory);
			CLEANER.register(memory, () -> Native.unmap(address, size));
			resources.mapping = memory;
			return memory;
		} finally {
			leave();
		}
	}

	/** Memory of the library: a reachable buffer counts as a call, which keeps the context. */
	private ByteBuffer block(int number) {
		ByteBuffer memory;
		long context = handle.enter();
		try {
			// Any generation but 0 will do.
			memory = Native.cells(context, 1L << 32 | (long) number * BLOCK, BLOCK);
		} catch (RuntimeException | Error e) {
			handle.leave();
			throw e;
		}
		CLEANER.register(memory, handle::leave);
		return memory;
	}

	private boolean isNanoTime() {
		long before = System.nanoTime();
		long now = call(Native::now);
		return before <= now && now <= System.nanoTime();
	}
}
