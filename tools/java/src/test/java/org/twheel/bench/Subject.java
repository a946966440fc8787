// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel.bench;

import static java.util.concurrent.TimeUnit.HOURS;
import static java.util.concurrent.TimeUnit.MILLISECONDS;

import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.twheel.*;

/** A timer to compare. Each arms timeouts that are an hour away. */
public enum Subject {
	/** WheelTimer, without slack: the wheel has a tick of 1 ms. */
	WHEEL_TIMER(() -> netty(new WheelTimer())),
	/** Netty's HashedWheelTimer, with a tick of 1 ms. */
	NETTY(() -> netty(new HashedWheelTimer(1, MILLISECONDS))),
	/** WheelExecutor. */
	WHEEL_EXECUTOR(() -> executor(new WheelExecutor(1))),
	/** The JDK's ScheduledThreadPoolExecutor, which removes what is cancelled. */
	JDK(() -> {
		ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1);
		executor.setRemoveOnCancelPolicy(true);
		return executor(executor);
	}),
	/** java.util.Timer, in which a cancelled task stays until it is due. */
	TIMER(() -> {
		Timer timer = new Timer(true);
		return new Session(() -> {
			TimerTask task = new TimerTask() {
				@Override
				public void run() {
				}
			};
			timer.schedule(task, HOURS.toMillis(1));
			return task;
		}, task -> ((TimerTask) task).cancel(), null, timer::cancel);
	}),
	/** Cells that the program keeps. */
	CELL(() -> {
		Context context = Context.open();
		return pool(() -> context.newCell(0), cell -> ((Cell) cell).cancel(),
			    cell -> ((Cell) cell).armAfter(HOURS.toNanos(1)), context::close);
	}),
	/** Deadlines that the program keeps. */
	DEADLINE(() -> {
		Deadlines set = new Deadlines();
		return pool(() -> set.newDeadline(Runnable::run, () -> { }),
			    deadline -> ((Deadline) deadline).cancel(),
			    deadline -> ((Deadline) deadline).reset(HOURS.toNanos(1)), set::close);
	}),
	/** Nothing but a reading of the clock, which all others do for each arm. */
	CLOCK(() -> new Session(System::nanoTime, timeout -> { }, null, () -> { }));

	private final Supplier<Session> open;

	Subject(Supplier<Session> open) {
		this.open = open;
	}

	/** A subject at work; for one thread. Without a move, it cancels and arms. */
	record Session(Supplier<Object> arm, Consumer<Object> cancel, Consumer<Object> move,
		       Runnable end) implements AutoCloseable {
		/** Returns what is pending afterwards. */
		Object moved(Object timeout) {
			if (move == null) {
				cancel.accept(timeout);
				return arm.get();
			}
			move.accept(timeout);
			return timeout;
		}

		@Override
		public void close() {
			end.run();
		}
	}

	Session open() {
		return open.get();
	}

	/** A pool of timeouts that can be armed again, as a program would have it. */
	private static Session pool(Supplier<Object> make, Consumer<Object> cancel, Consumer<Object> arm,
				    Runnable close) {
		ArrayDeque<Object> free = new ArrayDeque<>();
		return new Session(() -> {
			Object timeout = free.isEmpty() ? make.get() : free.pop();
			arm.accept(timeout);
			return timeout;
		}, timeout -> {
			cancel.accept(timeout);
			free.push(timeout);
		}, arm, close);
	}

	private static Session executor(ScheduledExecutorService executor) {
		return new Session(() -> executor.schedule(() -> { }, 1, HOURS),
				   task -> ((Future<?>) task).cancel(false), null, executor::shutdownNow);
	}

	private static Session netty(io.netty.util.Timer timer) {
		return new Session(() -> timer.newTimeout(timeout -> { }, 1, HOURS),
				   timeout -> ((Timeout) timeout).cancel(), null, timer::stop);
	}
}
