// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.spi.AbstractInterruptibleChannel;
import java.util.ArrayDeque;
import java.util.Deque;

/** Waits that an interrupt of the thread ends, each with a descriptor that is used again. */
final class Wakers {
	/** Descriptors that nobody waits for. Guarded by this. */
	private final Deque<Integer> idle = new ArrayDeque<>();

	/** What the JDK closes at an interrupt: newer ones perhaps after the end of the wait. */
	private static final class Wait extends AbstractInterruptibleChannel {
		private final int waker;
		private boolean isOver;
		private boolean isWoken;

		private Wait(int waker) {
			this.waker = waker;
		}

		@Override
		protected synchronized void implCloseChannel() {
			if (isOver)
				return;
			isWoken = true;
			Native.wake(waker);
		}

		private void await(long context, long timeoutNs) {
			begin();
			try {
				Native.await(context, waker, timeoutNs);
			} finally {
				try {
					end(true);
				} catch (AsynchronousCloseException e) {
					// The thread keeps its interrupt.
				}
			}
		}

		/** Whether nothing was written to the descriptor, and nothing will be. */
		private synchronized boolean isUntouched() {
			isOver = true;
			return !isWoken;
		}
	}

	/** Waits for an event of a context, or not so long. The caller reads before each wait. */
	void await(long context, long timeoutNs) throws InterruptedException {
		int waker = take();
		Wait wait = new Wait(waker);
		try {
			wait.await(context, timeoutNs);
		} finally {
			if (wait.isUntouched())
				put(waker);
			else
				Native.closeWaker(waker);
		}
		if (Thread.interrupted())
			throw new InterruptedException();
	}

	/** Called when no thread waits. */
	void close() {
		while (!idle.isEmpty())
			Native.closeWaker(idle.pop());
	}

	private synchronized int take() {
		return idle.isEmpty() ? Native.newWaker() : idle.pop();
	}

	private synchronized void put(int waker) {
		idle.push(waker);
	}
}
