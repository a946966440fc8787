// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static java.util.concurrent.TimeUnit.*;
import static org.junit.jupiter.api.Assertions.*;
import static org.twheel.Patience.await;

import io.netty.util.Timeout;
import io.netty.util.TimerTask;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Stream;
import org.junit.jupiter.api.*;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;
import org.twheel.HookedSlots.Point;

/** Each timeout ends exactly once, in any interleaving of threads. */
@Tag("device")
class WheelTimerRaceTest {
	private static final int THREADS = 4;
	private static final int ROUNDS = 3_000;
	/** The limit of the timer with hooks, and of its context. */
	private static final int LIMIT = 4;
	private static final TimerTask NOTHING = timeout -> { };

	private final WheelTimer timer = new WheelTimer();
	private final HookedSlots slots = new HookedSlots(LIMIT, 2);
	private final WheelTimer hooked = new WheelTimer(slots, LIMIT, Runnable::run);
	private final AtomicLong runs = new AtomicLong();
	private final AtomicLong cancelled = new AtomicLong();
	private final AtomicLong armed = new AtomicLong();
	private final AtomicInteger seeds = new AtomicInteger();

	@AfterEach
	void stop() {
		timer.stop();
		hooked.stop();
	}

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
		for (Future<Void> one : threads.invokeAll(Collections.nCopies(THREADS, player)))
			one.get();
		threads.shutdown();
	}

	@Test
	void cancel_and_expiry_share_the_timeouts() throws Exception {
		playAll(this::play);
		assertTrue(await(() -> timer.pendingTimeouts() == 0));
		assertTrue(timer.stop().isEmpty());
		assertEquals(THREADS * ROUNDS, armed.get());
		assertEquals(armed.get(), runs.get() + cancelled.get());
		assertEquals(0, timer.pendingTimeouts());
	}

	@Test
	void stop_shares_them_too() throws Exception {
		FutureTask<Set<Timeout>> stopper = new FutureTask<>(() -> {
			while (armed.get() < THREADS * ROUNDS / 4)
				Thread.onSpinWait();
			return timer.stop();
		});
		new Thread(stopper).start();
		playAll(() -> {
			try {
				while (true)
					play();
			} catch (IllegalStateException stopped) {
				return null;
			}
		});
		Set<Timeout> unprocessed = stopper.get();
		assertEquals(armed.get(), runs.get() + cancelled.get() + unprocessed.size());
		assertTrue(unprocessed.stream().allMatch(Timeout::isCancelled));
		assertEquals(0, timer.pendingTimeouts());
	}

	private Timeout armHour() {
		return hooked.newTimeout(NOTHING, 1, HOURS);
	}

	private List<Timeout> armHours(int number) {
		return Stream.generate(this::armHour).limit(number).toList();
	}

	/** Nothing is pending: no place is lost, and none is there twice. */
	private void assertAllPlacesAreFree() {
		assertEquals(0, hooked.pendingTimeouts());
		List<Timeout> all = armHours(LIMIT);
		assertThrows(RejectedExecutionException.class, this::armHour);
		assertEquals(LIMIT, hooked.pendingTimeouts());
		assertEquals(Set.copyOf(all), hooked.stop());
		assertEquals(0, hooked.pendingTimeouts());
	}

	/** The loop has ended all timeouts that were due. */
	private void awaitTheLoop() {
		CountDownLatch ran = new CountDownLatch(1);
		hooked.newTimeout(timeout -> ran.countDown(), 1, MILLISECONDS);
		assertTrue(await(() -> ran.getCount() == 0));
	}

	private static Thread inStripe(int stripe, Runnable steps) {
		return new Thread(steps) {
			@Override
			public long getId() {
				return stripe;
			}
		};
	}

	private static void runIn(int stripe, Runnable steps) throws Exception {
		FutureTask<Void> result = new FutureTask<>(steps, null);
		inStripe(stripe, result).start();
		result.get();
	}

	@Test
	void places_of_another_stripe_are_used_up_to_the_limit() throws Exception {
		runIn(0, () -> armHours(LIMIT).forEach(Timeout::cancel));
		runIn(1, this::assertAllPlacesAreFree);
	}

	/** The last place moves from stripe 1, which was not tried yet, to stripe 0, which was. */
	@Test
	void place_that_moves_during_the_search_is_not_missed() throws Exception {
		HookedSlots many = new HookedSlots(65, 2);
		WheelTimer other = new WheelTimer(many, 65, Runnable::run);
		List<Timeout> ofStripe = new ArrayList<>();
		runIn(1, () -> {
			for (int i = 0; i < 64; i++)
				ofStripe.add(other.newTimeout(NOTHING, 1, HOURS));
		});
		runIn(0, () -> ofStripe.add(other.newTimeout(NOTHING, 1, HOURS)));
		ofStripe.get(0).cancel();
		Thread mover = inStripe(1, () -> {
			ofStripe.get(64).cancel();
			other.newTimeout(NOTHING, 1, HOURS);
		});
		many.at(Point.SCAN, () -> {
			mover.start();
			assertTrue(await(() -> mover.getState() == Thread.State.BLOCKED ||
					!mover.isAlive()));
		});
		runIn(0, () -> other.newTimeout(NOTHING, 1, HOURS));
		mover.join();
		assertEquals(65, other.pendingTimeouts());
		assertEquals(65, other.stop().size());
	}

	@Test
	void arming_in_progress_holds_its_place() {
		armHours(LIMIT - 1);
		slots.at(Point.TAKE, () -> assertThrows(RejectedExecutionException.class, this::armHour));
		armHour();
		assertEquals(LIMIT, hooked.stop().size());
	}

	@Test
	void place_of_a_cancelled_timeout_is_free_before_it_is_counted_as_free() {
		List<Timeout> all = armHours(LIMIT);
		AtomicLong counted = new AtomicLong();
		slots.at(Point.DISARM, () -> counted.set(hooked.pendingTimeouts()));
		all.forEach(Timeout::cancel);
		assertEquals(LIMIT, counted.get());
		assertAllPlacesAreFree();
	}

	@Test
	void second_cancel_gives_no_place_back() {
		Timeout timeout = armHour();
		slots.at(Point.DISARM, () -> assertFalse(timeout.cancel()));
		assertTrue(timeout.cancel());
		assertFalse(timeout.cancel());
		assertAllPlacesAreFree();
	}

	@Test
	void expiry_during_a_cancel_gives_no_place_back() {
		Set<Timeout> ran = ConcurrentHashMap.newKeySet();
		Timeout timeout = null;
		boolean won = false;
		// The machine may stand still before the cancel.
		for (int tries = 0; !won && tries < 20; tries++) {
			slots.at(Point.EVENT, () -> { });
			timeout = hooked.newTimeout(ran::add, 100, MILLISECONDS);
			slots.at(Point.DISARM, () -> {
				assertTrue(await(() -> slots.hasReached(Point.EVENT)));
				awaitTheLoop();
			});
			won = timeout.cancel();
		}
		assertTrue(won);
		assertFalse(ran.contains(timeout));
		assertAllPlacesAreFree();
	}

	/** The next arming has the slot already, when the timeout before is cancelled. */
	@Test
	void cancel_during_an_expiry_spares_the_next_timeout() {
		List<Timeout> ends = new ArrayList<>();
		AtomicLong pending = new AtomicLong(-1);
		CompletableFuture<Timeout> timeout = new CompletableFuture<>();
		slots.at(Point.EVENT, () -> {
			ends.add(armHour());
			pending.set(timeout.join().cancel() ? hooked.pendingTimeouts() : 0);
		});
		timeout.complete(hooked.newTimeout(unused -> runs.incrementAndGet(), 100, MILLISECONDS));
		assertTrue(await(() -> pending.get() >= 0));
		awaitTheLoop();
		assertEquals(0, runs.get());
		assertEquals(1, pending.get());
		assertEquals(1, hooked.pendingTimeouts());
		assertEquals(Set.copyOf(ends), hooked.stop());
	}

	@ParameterizedTest
	@EnumSource(names = { "TAKE", "ARM" })
	void stop_before_the_cell_is_armed_refuses_the_timeout(Point point) {
		slots.at(point, () -> assertTrue(hooked.stop().isEmpty()));
		assertThrows(IllegalStateException.class, this::armHour);
		assertEquals(0, hooked.pendingTimeouts());
	}

	@ParameterizedTest
	@EnumSource(names = { "EXCHANGED", "ARMED" })
	void stop_after_the_cell_is_armed_returns_the_timeout(Point point) {
		Set<Timeout> unprocessed = new HashSet<>();
		slots.at(point, () -> unprocessed.addAll(hooked.stop()));
		Timeout timeout = armHour();
		assertEquals(Set.of(timeout), unprocessed);
		assertTrue(timeout.isCancelled());
		assertEquals(0, hooked.pendingTimeouts());
	}

	/** The context is stopped before the word has the deadline, and closed before the kick. */
	@Test
	void timeout_whose_word_the_stop_has_not_seen_is_refused() throws Exception {
		FutureTask<Set<Timeout>> stopper = new FutureTask<>(hooked::stop);
		CountDownLatch exchanged = new CountDownLatch(1);
		slots.at(Point.CLOSE, () -> await(() -> exchanged.getCount() == 0));
		slots.at(Point.ARM, () -> {
			new Thread(stopper).start();
			assertTrue(await(() -> slots.hasReached(Point.CLOSE)));
		});
		slots.at(Point.EXCHANGED, () -> {
			exchanged.countDown();
			assertTrue(await(stopper::isDone));
		});
		assertThrows(IllegalStateException.class, this::armHour);
		assertEquals(0, hooked.pendingTimeouts());
		assertEquals(Set.of(), stopper.get());
	}

	/** The timer is marked as stopped, and its context is not stopped yet. */
	@Test
	void timeout_that_is_armed_while_stop_begins_is_returned() throws Exception {
		CountDownLatch armed = new CountDownLatch(1);
		FutureTask<Set<Timeout>> stopper = new FutureTask<>(hooked::stop);
		slots.at(Point.STOP, () -> await(() -> armed.getCount() == 0));
		slots.at(Point.TAKE, () -> {
			new Thread(stopper).start();
			assertTrue(await(() -> slots.hasReached(Point.STOP)));
		});
		Timeout timeout = armHour();
		armed.countDown();
		assertEquals(Set.of(timeout), stopper.get());
		assertEquals(0, hooked.pendingTimeouts());
	}

	@Test
	void stop_does_not_return_a_timeout_that_is_cancelled_meanwhile() {
		Timeout before = armHour();
		slots.at(Point.DISARM, () -> assertTrue(hooked.stop().isEmpty()));
		assertTrue(before.cancel());
		assertEquals(0, hooked.pendingTimeouts());
	}

	@Test
	void stop_does_not_return_a_timeout_that_is_cancelled_when_its_event_was_read() {
		Timeout timeout = armHour();
		AtomicLong cancels = new AtomicLong();
		slots.at(Point.EVENT, () -> cancels.set(timeout.cancel() ? 1 : 0));
		assertTrue(hooked.stop().isEmpty());
		assertEquals(1, cancels.get());
		assertEquals(0, hooked.pendingTimeouts());
	}

	/** A cell that the last error left armed would make an event. */
	@Test
	void error_during_an_arming_leaks_no_place_and_leaves_no_cell_armed() {
		slots.at(Point.EVENT, () -> { });
		for (Point point : List.of(Point.TAKE, Point.ARM, Point.ARMED)) {
			slots.at(point, () -> {
				throw new OutOfMemoryError("for the test");
			});
			assertThrows(OutOfMemoryError.class, this::armHour);
		}
		armHours(LIMIT).forEach(Timeout::cancel);
		assertTrue(hooked.stop().isEmpty());
		assertFalse(slots.hasReached(Point.EVENT));
	}

	/**
	 * The thread that arms stands still before it looks whether a kick is needed. Meanwhile its task
	 * has run, the slot has fired again for another, and the context is closed.
	 */
	@Test
	void timeout_whose_task_has_run_is_not_refused_by_a_stop() {
		// The kernel looks at its cell before the next arming is due.
		hooked.newTimeout(NOTHING, 100, MILLISECONDS).cancel();
		slots.at(Point.EXCHANGED, () -> {
			assertTrue(await(() -> runs.get() == 1), "run");
			hooked.newTimeout(unused -> runs.incrementAndGet(), 1, MILLISECONDS);
			assertTrue(await(() -> runs.get() == 2), "next");
			hooked.stop();
		});
		assertTrue(hooked.newTimeout(unused -> runs.incrementAndGet(), 200, MILLISECONDS).isExpired());
		assertEquals(0, hooked.pendingTimeouts());
	}
}
