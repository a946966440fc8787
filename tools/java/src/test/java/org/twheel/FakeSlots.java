// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.lang.invoke.MethodHandles;
import java.lang.invoke.VarHandle;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;
import java.util.*;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.IntStream;
import java.util.stream.Stream;

/**
 * Slots without a kernel: the test decides which cells fire, in which order, and what time it
 * is. No arming needs a kick. The first index of a cell is 0.
 */
class FakeSlots<E> extends Slots<E> {
	private static final VarHandle WORD =
			MethodHandles.byteBufferViewVarHandle(long[].class, ByteOrder.nativeOrder());
	/** The flag of an event that stop() has made. */
	private static final int UNPROCESSED = 1 << 1;

	private record Event(int cell, long deadlineNs, int flags) {
	}

	private final int limit;
	private final ByteBuffer memory;
	/** The cells that there are not. */
	private final Queue<Integer> vacant = new ConcurrentLinkedQueue<>();
	/** Unread events, each list of those that fired together. */
	private final Queue<List<Event>> fired = new ConcurrentLinkedQueue<>();
	private volatile boolean isStopped;
	volatile long nowNs;
	volatile boolean isClosed;

	FakeSlots(int limit) {
		super(null, 1);
		this.limit = limit;
		memory = Native.records(limit, Cell.SIZE);
		for (int cell = 0; cell < limit; cell++) {
			WORD.setVolatile(memory, cell * Cell.SIZE, Cell.IDLE);
			vacant.add(cell);
		}
	}

	/** Number of cells that there are. */
	int live() {
		return limit - vacant.size();
	}

	long word(int cell) {
		return (long) WORD.getVolatile(memory, cell * Cell.SIZE);
	}

	void setWord(int cell, long word) {
		WORD.setVolatile(memory, cell * Cell.SIZE, word);
	}

	private boolean change(int cell, long from, long to) {
		return WORD.compareAndSet(memory, cell * Cell.SIZE, from, to);
	}

	/** The armed cells, by index. */
	List<Integer> armed() {
		return IntStream.range(0, limit).filter(cell -> word(cell) >= 0).boxed().toList();
	}

	/** Makes cells fire. The next read takes their events, in this order, and all before them. */
	void fire(Integer... cells) {
		add(List.of(cells), 0);
	}

	/** Lets a cell fire that has this deadline. */
	void fireAt(long deadlineNs) {
		fire(armed().stream().filter(cell -> word(cell) == deadlineNs).findFirst().orElseThrow());
	}

	private void add(List<Integer> cells, int flags) {
		List<Event> events = new ArrayList<>();
		for (int cell : cells) {
			long deadlineNs = word(cell);
			if (deadlineNs >= 0 && change(cell, deadlineNs, Cell.FIRED))
				events.add(new Event(cell, deadlineNs, flags));
		}
		fired.add(events);
	}

	@Override
	int read(Events events) {
		events.size(0);
		for (boolean isOver = false; events.size() == 0 && !isOver; ) {
			Stall.await(() -> isStopped || !fired.isEmpty());
			isOver = isStopped;
			for (List<Event> next; (next = fired.poll()) != null; )
				next.forEach(event -> put(events, event));
		}
		return events.size();
	}

	/** Puts in an event that was not withdrawn. */
	private void put(Events events, Event event) {
		if (!change(event.cell, Cell.FIRED, Cell.IDLE))
			return;
		int at = events.size() * Events.SIZE;
		events.records().putLong(at, event.cell).putLong(at + 16, event.deadlineNs)
				.putInt(at + 40, event.flags);
		events.size(events.size() + 1);
	}

	@Override
	void stop() {
		add(armed(), UNPROCESSED);
		isStopped = true;
	}

	@Override
	ByteBuffer cells(long id) {
		return memory;
	}

	@Override
	long[] newCells(int number) {
		long[] ids = Stream.generate(vacant::poll).limit(number).takeWhile(Objects::nonNull)
				.mapToLong(cell -> 1L << 32 | cell).toArray();
		if (ids.length == 0)
			throw new TwheelException(Native.EAGAIN, "cell: for the test");
		return ids;
	}

	@Override
	void endCell(long id) {
		vacant.add((int) id);
	}

	@Override
	long nanoTime() {
		return nowNs;
	}

	@Override
	public void close() {
		isClosed = true;
	}
}
