// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.nio.channels.AsynchronousCloseException;
import java.nio.channels.spi.AbstractInterruptibleChannel;
import java.util.ArrayDeque;
import java.util.Deque;
import java.util.concurrent.*;

/** Waits that an interrupt of the thread ends, each with a descriptor that is used again. */
final class Wakers {
	/** In the kernel, virtual threads would keep others from their carriers: these wait for them. */
	private static final ExecutorService WAITING = Executors.newCachedThreadPool(Slots::daemon);

	/** Descriptors that nobody waits for. Guarded by this. */
	private final Deque<Integer> idle = new ArrayDeque<>();

	/** The JDK closes it at an interrupt. Newer ones may do so after the end of the wait. */
	private final class Wait extends AbstractInterruptibleChannel {
		private final int waker = take();
		private boolean isOver;
		private boolean isWoken;

		@Override
		protected synchronized void implCloseChannel() {
			isWoken |= !isOver;
			if (!isOver)
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
				finish();
			}
		}

		/** Returns when the wait has ended: the context may be closed then. */
		private void awaitElsewhere(long context, long timeoutNs) throws InterruptedException {
			CompletableFuture<Void> end =
					CompletableFuture.runAsync(() -> await(context, timeoutNs), WAITING);
			try {
				end.get();
			} catch (InterruptedException e) {
				implCloseChannel();
				end.join();
				throw e;
			} catch (ExecutionException e) {
				throw (TwheelException) e.getCause();
			}
		}

		private synchronized void finish() {
			isOver = true;
			if (isWoken)
				Native.closeWaker(waker);
			else
				put(waker);
		}
	}

	/** Waits for an event of a context, or not so long. The caller reads before each wait. */
	void await(long context, long timeoutNs) throws InterruptedException {
		Wait wait = new Wait();
		if (Slots.isVirtual(Thread.currentThread()))
			wait.awaitElsewhere(context, timeoutNs);
		else
			wait.await(context, timeoutNs);
		if (Thread.interrupted())
			throw new InterruptedException();
	}

	/** Called when no thread waits. */
	void close() {
		idle.forEach(Native::closeWaker);
	}

	private synchronized int take() {
		return idle.isEmpty() ? Native.newWaker() : idle.pop();
	}

	private synchronized void put(int waker) {
		idle.push(waker);
	}
}
