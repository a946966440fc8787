// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.*;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.ThreadFactory;
import org.junit.jupiter.api.Test;

/** Threads of the user that are virtual, more than there are CPUs. */
class VirtualThreadTest {
	private static final int NUMBER = Runtime.getRuntime().availableProcessors() + 1;

	private static ThreadFactory virtual() throws ReflectiveOperationException {
		assumeTrue(Runtime.version().feature() >= 21, "this JDK has no virtual threads");
		Object builder = Thread.class.getMethod("ofVirtual").invoke(null);
		return (ThreadFactory) Class.forName("java.lang.Thread$Builder").getMethod("factory")
				.invoke(builder);
	}

	@Test
	void read_leaves_its_carrier_and_ends_with_an_interrupt() throws Exception {
		ThreadFactory factory = virtual();
		List<Thread> readers = new ArrayList<>();
		CountDownLatch left = new CountDownLatch(NUMBER + 1);
		try (Context context = Context.open()) {
			for (int i = 0; i < NUMBER; i++) {
				readers.add(factory.newThread(() -> {
					assertThrows(InterruptedException.class,
						     () -> context.read(new Events(1), Context.FOREVER));
					left.countDown();
				}));
				readers.get(i).start();
			}
			factory.newThread(() -> {
				readers.forEach(Thread::interrupt);
				left.countDown();
			}).start();
			assertTrue(left.await(20, SECONDS));
		}
	}

	@Test
	void carriers_are_left_to_other_threads() throws Exception {
		ThreadFactory factory = virtual();
		List<WheelExecutor> executors = new ArrayList<>();
		List<WheelTimer> timers = new ArrayList<>();
		CountDownLatch left = new CountDownLatch(2 * NUMBER + 1);
		for (int i = 0; i < NUMBER; i++) {
			executors.add(new WheelExecutor(2, factory));
			timers.add(new WheelTimer(factory, 0, SECONDS, 0, Runnable::run));
		}
		for (int i = 0; i < NUMBER; i++) {
			executors.get(i).schedule(left::countDown, 1, MILLISECONDS);
			timers.get(i).newTimeout(timeout -> left.countDown(), 1, MILLISECONDS);
		}
		factory.newThread(left::countDown).start();
		assertTrue(left.await(20, SECONDS));
		executors.forEach(WheelExecutor::shutdownNow);
		timers.forEach(WheelTimer::stop);
	}
}
