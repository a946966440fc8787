// SPDX-License-Identifier: LGPL-2.1-or-later
package org.twheel;

import static java.util.concurrent.TimeUnit.HOURS;
import static java.util.concurrent.TimeUnit.MICROSECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertTrue;

import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.SplittableRandom;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

/** Each timeout ends exactly once, whatever threads do meanwhile. */
@Tag("device")
class WheelTimerRaceTest {
	private static final int THREADS = 4;
	private static final int ROUNDS = 3_000;

	private final WheelTimer timer = new WheelTimer();
	private final AtomicLong runs = new AtomicLong();
	private final AtomicLong cancelled = new AtomicLong();
	private final AtomicLong armed = new AtomicLong();
	private final AtomicInteger seeds = new AtomicInteger();

	/** Deadlines are so short that a cancel meets every stage of an expiry. */
	private Void play() {
		SplittableRandom random = new SplittableRandom(seeds.incrementAndGet());
		List<Timeout> pending = new ArrayList<>();
		for (int i = 0; i < ROUNDS; i++) {
			pending.add(timer.newTimeout(timeout -> runs.incrementAndGet(),
						     random.nextInt(2_000), MICROSECONDS));
			armed.incrementAndGet();
			if (pending.size() > random.nextInt(16)) {
				Timeout some = pending.remove(random.nextInt(pending.size()));
				if (some.cancel())
					cancelled.incrementAndGet();
			}
		}
		return null;
	}

	private void playAll(Callable<Void> player) throws Exception {
		ExecutorService threads = Executors.newFixedThreadPool(THREADS);
		List<Future<Void>> players = new ArrayList<>();
		for (int i = 0; i < THREADS; i++)
			players.add(threads.submit(player));
		for (Future<Void> one : players)
			one.get();
		threads.shutdown();
	}

	/** Starts a thread that stops a timer after so many timeouts were armed. */
	private Thread stopAfter(long number, WheelTimer which, Set<Timeout> unprocessed) {
		Thread stopper = new Thread(() -> {
			while (armed.get() < number)
				Thread.onSpinWait();
			unprocessed.addAll(which.stop());
		});
		stopper.start();
		return stopper;
	}

	@Test
	void cancel_and_expiry_share_the_timeouts() throws Exception {
		playAll(this::play);
		long end = System.nanoTime() + SECONDS.toNanos(30);
		while (timer.pendingTimeouts() > 0 && System.nanoTime() < end)
			Thread.sleep(1);
		assertTrue(timer.stop().isEmpty());
		assertEquals(THREADS * ROUNDS, armed.get());
		assertEquals(armed.get(), runs.get() + cancelled.get());
		assertEquals(0, timer.pendingTimeouts());
	}

	@Test
	void stop_shares_them_too() throws Exception {
		Set<Timeout> unprocessed = ConcurrentHashMap.newKeySet();
		Thread stopper = stopAfter(THREADS * ROUNDS / 4, timer, unprocessed);
		playAll(() -> {
			try {
				return play();
			} catch (IllegalStateException stopped) {
				return null;
			}
		});
		stopper.join();
		assertTrue(armed.get() < THREADS * ROUNDS, "it was stopped in time");
		assertEquals(armed.get(), runs.get() + cancelled.get() + unprocessed.size());
		assertTrue(unprocessed.stream().allMatch(Timeout::isCancelled));
		assertEquals(0, timer.pendingTimeouts());
	}

	/** Arms and cancels until the timer is stopped; keeps the task that was refused then. */
	private Void armUntilStopped(WheelTimer timer, Set<TimerTask> refused) {
		while (true) {
			TimerTask task = new TimerTask() {
				@Override
				public void run(Timeout timeout) {
				}
			};
			try {
				timer.newTimeout(task, 1, HOURS).cancel();
				armed.incrementAndGet();
			} catch (IllegalStateException stopped) {
				refused.add(task);
				return null;
			}
		}
	}

	@Test
	void refused_timeout_is_not_returned_by_stop() throws Exception {
		for (int i = 0; i < 100; i++) {
			WheelTimer another = new WheelTimer();
			Set<TimerTask> refused = ConcurrentHashMap.newKeySet();
			Set<Timeout> unprocessed = ConcurrentHashMap.newKeySet();
			Thread stopper = stopAfter(armed.get() + 1_000, another, unprocessed);
			playAll(() -> armUntilStopped(another, refused));
			stopper.join();
			assertEquals(0, another.pendingTimeouts());
			assertTrue(unprocessed.stream().noneMatch(timeout -> refused.contains(timeout.task())));
		}
		timer.stop();
	}
}
