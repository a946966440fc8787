// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static java.util.concurrent.TimeUnit.NANOSECONDS;
import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.*;

import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicReference;
import java.util.function.Consumer;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/** An executor with two slots, and one thread that runs tasks. */
class WheelExecutorSlotsTest {
	private static final int LIMIT = 2;

	/**
	 * Throws, once, instead of arming a cell. Calls back, once, when events have been read, and
	 * before a slot is put back and after it.
	 */
	private static final class FailingSlots extends ManualSlots<WheelExecutor.Task<?>> {
		private Runnable afterError;
		private final AtomicReference<Runnable> afterRead = new AtomicReference<>(() -> { });
		private final AtomicReference<Runnable> beforePut = new AtomicReference<>(() -> { });
		private final AtomicReference<Runnable> afterPut = new AtomicReference<>(() -> { });
		/** Numbers of reads: those that have returned, and those whose events have been handled. */
		private volatile int returned;
		private volatile int handled;
		private int walks;

		FailingSlots() {
			super(LIMIT);
		}

		@Override
		int read(Events events) {
			handled = returned;
			int number = super.read(events);
			returned = handled + 1;
			afterRead.getAndSet(() -> { }).run();
			return number;
		}

		@Override
		void put(Slot<WheelExecutor.Task<?>> slot) {
			try {
				beforePut.getAndSet(() -> { }).run();
			} finally {
				super.put(slot);
			}
			afterPut.getAndSet(() -> { }).run();
		}

		@Override
		void forEach(Consumer<WheelExecutor.Task<?>> action) {
			walks++;
			super.forEach(action);
		}

		@Override
		void exchange(Slot<WheelExecutor.Task<?>> slot, long deadlineNs) {
			if (afterError != null)
				throw new OutOfMemoryError("for the test");
			super.exchange(slot, deadlineNs);
		}

		@Override
		void arm(Slot<WheelExecutor.Task<?>> slot, long deadlineNs, WheelExecutor.Task<?> entry,
			 boolean keep) {
			try {
				super.arm(slot, deadlineNs, entry, keep);
			} catch (OutOfMemoryError e) {
				Runnable action = afterError;
				afterError = null;
				action.run();
				throw e;
			}
		}
	}

	private final FailingSlots slots = new FailingSlots();
	private final WheelExecutor executor =
			new WheelExecutor(1, Executors.defaultThreadFactory(), new ThreadPoolExecutor.AbortPolicy(),
				  () -> slots) {
		@Override
		protected <V> RunnableScheduledFuture<V> decorateTask(Callable<V> unused,
				RunnableScheduledFuture<V> task) {
			return wraps ? ExecutorContract.decorated(task, new ArrayList<>()) : task;
		}
	};
	private boolean wraps;
	private final BlockingQueue<String> ran = new LinkedBlockingQueue<>();

	@AfterEach
	void end() throws InterruptedException {
		executor.shutdownNow();
		assertTrue(executor.awaitTermination(20, SECONDS));
	}

	private ScheduledFuture<?> schedule(String name, long delayNs) {
		return executor.schedule(() -> ran.add(name), delayNs, NANOSECONDS);
	}

	/** Only a failure takes the whole wait. */
	private String next() throws InterruptedException {
		return ran.poll(20, SECONDS);
	}

	private CountDownLatch keepThreadBusy() {
		CountDownLatch go = new CountDownLatch(1);
		executor.execute(() -> assertDoesNotThrow(() -> go.await(20, SECONDS)));
		assertTrue(Patience.await(executor.getQueue()::isEmpty));
		return go;
	}

	/** Sets the clock, and waits until the reader has handed over the task that fires. */
	private void fire(long nowNs) {
		int before = slots.returned;
		slots.setTime(nowNs);
		assertTrue(Patience.await(() -> slots.handled > before));
	}

	@Test
	void tasks_that_wait_for_a_thread_begin_in_the_order_of_their_deadlines() throws Exception {
		CountDownLatch go = keepThreadBusy();
		schedule("second", 9);
		fire(9);
		slots.setTime(0);
		// It takes the slot of the second, whose deadlines are later now.
		schedule("none", 1_000);
		schedule("first", 5);
		fire(5);
		go.countDown();
		assertEquals("first", next());
		assertEquals("second", next());
	}

	/** The slot of the task that failed has been armed for another, with the same deadline. */
	@Test
	void cancel_of_a_task_that_was_not_armed_spares_another() throws Exception {
		slots.afterError = () -> {
			schedule("other", 7);
			executor.shutdown();
		};
		assertThrows(OutOfMemoryError.class,
			     () -> executor.scheduleAtFixedRate(() -> { }, 7, 7, NANOSECONDS));
		slots.setTime(7);
		assertEquals("other", next());
	}

	/** While it runs, another task is refused at the limit: the slot is not free. */
	@Test
	void periodic_task_goes_on_at_the_limit() throws Exception {
		ScheduledFuture<?> periodic = executor.scheduleAtFixedRate(() -> {
			try {
				schedule("stranger", 1_000);
				ran.add("armed");
			} catch (RejectedExecutionException e) {
				ran.add("refused");
			}
		}, 5, 5, NANOSECONDS);
		schedule("pending", 2_000);
		for (int i = 1; i <= 3; i++) {
			slots.setTime(i * 5);
			assertEquals("refused", next());
			awaitArmed(LIMIT);
		}
		assertFalse(periodic.isDone());
	}

	private void awaitArmed(int number) {
		assertTrue(Patience.await(() -> slots.armed() == number));
	}

	/** All ways in which a periodic task ends. None loses its slot, or puts it back twice. */
	@Test
	void ended_periodic_task_frees_its_slot() throws Exception {
		cancelInItsRun();
		assertSlotsAreFree();
		failInItsRun();
		assertSlotsAreFree();
		executor.scheduleAtFixedRate(() -> { }, 1_000, 1, SECONDS).cancel(false);
		assertSlotsAreFree();
		// It waits for the thread, or the reader has its event.
		for (int i = 0; i < 4; i++) {
			CountDownLatch go = keepThreadBusy();
			ScheduledFuture<?> due = executor.scheduleAtFixedRate(() -> { }, 9, 9, NANOSECONDS);
			boolean isCancel = i % 2 == 0;
			Runnable end = () ->
				assertTrue(isCancel ? due.cancel(false) : executor.remove((Runnable) due));
			if (i < 2)
				slots.afterRead.set(end);
			fire(slots.nanoTime() + 9);
			if (i >= 2)
				end.run();
			assertTrue(executor.getQueue().isEmpty());
			go.countDown();
			assertSlotsAreFree();
		}
	}

	private void cancelInItsRun() throws Exception {
		List<ScheduledFuture<?>> self = new ArrayList<>();
		self.add(executor.scheduleAtFixedRate(() -> {
			ran.add("run");
			self.get(0).cancel(false);
		}, 5, 5, NANOSECONDS));
		slots.setTime(5);
		assertEquals("run", next());
		assertThrows(CancellationException.class, () -> self.get(0).get(20, SECONDS));
	}

	private void failInItsRun() {
		ScheduledFuture<?> failing = executor.scheduleAtFixedRate(() -> {
			throw new IllegalArgumentException("for the test");
		}, 100, 5, NANOSECONDS);
		slots.setTime(105);
		assertThrows(ExecutionException.class, () -> failing.get(20, SECONDS));
	}

	/** The thread of the pool frees the slot after the task has ended: it runs a task after that. */
	private void assertSlotsAreFree() throws Exception {
		executor.submit(() -> { }).get(20, SECONDS);
		List<ScheduledFuture<?>> all = new ArrayList<>();
		for (int i = 0; i < LIMIT; i++)
			all.add(schedule("none", 1_000_000));
		assertEquals(LIMIT, slots.armed());
		assertThrows(RejectedExecutionException.class, () -> schedule("none", 1_000_000));
		all.forEach(future -> future.cancel(false));
		assertEquals(0, slots.armed());
	}

	@Test
	void task_that_runs_is_not_in_the_queue() throws Exception {
		for (int i = 0; i < 1000; i++) {
			BlockingQueue<Boolean> found = new LinkedBlockingQueue<>();
			Runnable look = () -> found.add(executor.getQueue().isEmpty() &&
				!executor.getQueue().iterator().hasNext());
			Future<?> task = i < 500 ? executor.schedule(look, i % 2, NANOSECONDS) :
				executor.scheduleAtFixedRate(look, i % 2, 1_000_000, NANOSECONDS);
			slots.setTime(slots.nanoTime() + 1);
			assertTrue(found.poll(20, SECONDS));
			task.cancel(false);
		}
	}

	@Test
	void cancelled_task_may_stay_until_its_deadline() {
		assertTrue(executor.getRemoveOnCancelPolicy());
		executor.setRemoveOnCancelPolicy(false);
		schedule("cancelled", 9).cancel(false);
		assertEquals(1, executor.getQueue().size());
		slots.setTime(9);
		assertTrue(Patience.await(executor.getQueue()::isEmpty));
		assertTrue(ran.isEmpty());
	}

	@Test
	void executor_has_a_thread_at_least() {
		assertThrows(IllegalArgumentException.class, () -> executor.setCorePoolSize(0));
		assertThrows(IllegalArgumentException.class, () -> new WheelExecutor(0));
		assertEquals(1, executor.getCorePoolSize());
	}

	@Test
	void periodic_task_that_the_queue_removes_frees_its_slot() throws Exception {
		List<Consumer<BlockingQueue<Runnable>>> removals = List.of(Queue::remove, Queue::poll,
			Queue::clear, queue -> queue.removeIf(task -> true),
			queue -> queue.drainTo(new ArrayList<>()));
		for (Consumer<BlockingQueue<Runnable>> removal : removals) {
			CountDownLatch go = keepThreadBusy();
			executor.scheduleAtFixedRate(() -> { }, 9, 9, NANOSECONDS);
			fire(slots.nanoTime() + 9);
			removal.accept(executor.getQueue());
			go.countDown();
			assertSlotsAreFree();
		}
	}

	/** It waits for its deadline, or for a thread, among others whose order it would change. */
	@Test
	void run_of_a_periodic_task_by_its_user_does_nothing() throws Exception {
		CountDownLatch go = keepThreadBusy();
		ScheduledFuture<?> due = executor.scheduleAtFixedRate(() -> ran.add("run"), 9, 9, NANOSECONDS);
		((Runnable) due).run();
		fire(9);
		((Runnable) due).run();
		assertTrue(ran.isEmpty());
		go.countDown();
		assertEquals("run", next());
	}

	/** The reader has read its event, and then frees its slot. */
	@Test
	void task_that_has_fired_is_in_the_queue_until_it_is_removed() throws Exception {
		CountDownLatch go = keepThreadBusy();
		List<Object> seen = new CopyOnWriteArrayList<>();
		Runnable look = () -> seen.add(List.copyOf(executor.getQueue()));
		Future<?> due = schedule("due", 9);
		slots.afterRead.set(look);
		slots.beforePut.set(look);
		fire(9);
		Runnable gone = (Runnable) schedule("gone", 1);
		slots.afterRead.set(() -> seen.addAll(List.of(executor.remove(gone), executor.remove(gone))));
		fire(10);
		look.run();
		assertEquals(List.of(List.of(due), List.of(due), true, false, List.of(due)), seen);
		go.countDown();
		assertSlotsAreFree();
		assertEquals(List.of("due"), List.copyOf(ran));
	}

	/** The reader still has the lock of the task. */
	@Test
	void task_that_a_thread_has_found_is_not_removed() throws Exception {
		Thread thread = executor.submit(Thread::currentThread).get(20, SECONDS);
		List<Object> seen = new CopyOnWriteArrayList<>();
		Runnable task = (Runnable) schedule("due", 9);
		slots.afterPut.set(() -> {
			assertTrue(Patience.await(() -> thread.getState() == Thread.State.BLOCKED));
			seen.add(executor.getQueue().contains(task));
			seen.add(executor.remove(task));
		});
		fire(9);
		assertEquals(List.of(false, false), seen);
		assertEquals("due", next());
	}

	@Test
	void shutdown_finds_tasks_that_have_fired() {
		keepThreadBusy();
		Future<?> periodic = executor.scheduleAtFixedRate(() -> { }, 9, 9, NANOSECONDS);
		Future<?> last = schedule("last", 9);
		List<Object> seen = new CopyOnWriteArrayList<>();
		slots.afterRead.set(() -> {
			executor.shutdown();
			seen.addAll(List.of(periodic.isCancelled(), executor.shutdownNow(), slots.isClosed()));
		});
		slots.setTime(9);
		assertTrue(Patience.await(() -> !seen.isEmpty()));
		assertEquals(List.of(true, List.of(last), true), seen);
	}

	/** For each task, a walk would take too long. */
	@Test
	void shutdown_walks_through_the_slots_once() {
		wraps = true;
		List<?> tasks = List.of(schedule("none", 9), schedule("none", 9));
		assertEquals(tasks, executor.shutdownNow());
		assertFalse(executor.remove(null));
		assertEquals(1, slots.walks);
	}

	@Test
	void task_fails_if_the_reader_has_no_memory() throws Exception {
		CountDownLatch go = keepThreadBusy();
		ScheduledFuture<?> task = schedule("none", 9);
		slots.beforePut.set(() -> {
			throw new OutOfMemoryError("for the test");
		});
		fire(9);
		assertThrows(ExecutionException.class, task::get);
		go.countDown();
		assertSlotsAreFree();
	}

	/** So does one that a thread has taken, if beforeExecute() of a subclass throws. */
	@Test
	void periodic_task_that_was_taken_and_has_not_run_frees_its_slot_when_it_is_cancelled()
			throws Exception {
		CountDownLatch go = keepThreadBusy();
		ScheduledFuture<?> due = executor.scheduleAtFixedRate(() -> { }, 9, 9, NANOSECONDS);
		slots.setTime(9);
		assertSame(due, executor.getQueue().take());
		due.cancel(false);
		go.countDown();
		assertSlotsAreFree();
	}

	/** On other clocks than that of System.nanoTime(), a closed context has no time. */
	@Test
	void fixed_delay_after_the_end_of_the_executor_cancels_its_task() {
		ScheduledFuture<?> last =
				executor.scheduleWithFixedDelay(executor::shutdownNow, 5, 5, NANOSECONDS);
		slots.setTime(5);
		assertThrows(CancellationException.class, () -> last.get(20, SECONDS));
	}
}
