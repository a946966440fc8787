// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.LongConsumer;

/**
 * The native half of a context, which calls in other threads may be using when it is
 * closed. Close stops the context, so that a blocked read returns. The last call that
 * leaves frees it.
 */
final class Handle implements AutoCloseable {
	private final long pointer;
	private final LongConsumer stop;
	private final LongConsumer free;
	private final AtomicBoolean closed = new AtomicBoolean();
	/** Calls in progress, and one for the owner; 0: freed. */
	private final AtomicInteger users = new AtomicInteger(1);

	Handle(long pointer, LongConsumer stop, LongConsumer free) {
		this.pointer = pointer;
		this.stop = stop;
		this.free = free;
	}

	/** Returns the pointer, which stays valid until leave(). */
	long enter() {
		int now = users.get();
		while (now > 0 && !closed.get()) {
			if (users.compareAndSet(now, now + 1))
				return pointer;
			now = users.get();
		}
		throw new IllegalStateException("the context is closed");
	}

	void leave() {
		if (users.decrementAndGet() == 0)
			free.accept(pointer);
	}

	@Override
	public void close() {
		if (!closed.compareAndSet(false, true))
			return;
		try {
			stop.accept(pointer);
		} finally {
			leave();
		}
	}
}
