// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel.bench;

import static java.util.concurrent.TimeUnit.HOURS;
import static java.util.concurrent.TimeUnit.MILLISECONDS;

import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import io.netty.util.Timer;
import io.netty.util.TimerTask;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import org.twheel.Cell;
import org.twheel.Context;
import org.twheel.WheelExecutor;
import org.twheel.WheelTimer;

/** A timer to compare. Each arms timeouts that are an hour away. */
public enum Subject {
	/** WheelTimer, without slack: the wheel has a tick of 1 ms. */
	WHEEL_TIMER {
		@Override
		Session open() {
			return netty(new WheelTimer());
		}
	},
	/** Netty's HashedWheelTimer, with a tick of 1 ms. */
	NETTY {
		@Override
		Session open() {
			return netty(new HashedWheelTimer(1, MILLISECONDS));
		}
	},
	/** WheelExecutor. */
	WHEEL_EXECUTOR {
		@Override
		Session open() {
			return executor(new WheelExecutor(1));
		}
	},
	/** The JDK's ScheduledThreadPoolExecutor, which removes what is cancelled. */
	JDK {
		@Override
		Session open() {
			ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1);
			executor.setRemoveOnCancelPolicy(true);
			return executor(executor);
		}
	},
	/** Cells that the program keeps, with a deadline that it has at hand: no clock is read. */
	CELL {
		@Override
		Session open() {
			return new Cells();
		}
	},
	/** Nothing but a reading of the clock, which all others but the cells do for each arm. */
	CLOCK {
		@Override
		Session open() {
			return new Session() {
				@Override
				public Object arm() {
					return System.nanoTime();
				}

				@Override
				public void cancel(Object timeout) {
				}

				@Override
				public void close() {
				}
			};
		}
	};

	private static final TimerTask NO_TASK = timeout -> { };
	private static final Runnable NO_COMMAND = () -> { };

	/** A subject at work; for one thread. */
	interface Session extends AutoCloseable {
		Object arm();

		void cancel(Object timeout);

		@Override
		void close();
	}

	abstract Session open();

	/** A pool, as a program would have it. */
	private static final class Cells implements Session {
		private final Context context = Context.open();
		private final long deadline = context.nanoTime() + HOURS.toNanos(1);
		private Cell[] free = new Cell[1024];
		private int size;

		@Override
		public Object arm() {
			Cell cell = size == 0 ? context.newCell(0) : free[--size];
			cell.arm(deadline);
			return cell;
		}

		@Override
		public void cancel(Object timeout) {
			Cell cell = (Cell) timeout;
			cell.cancel();
			if (size == free.length)
				free = java.util.Arrays.copyOf(free, size * 2);
			free[size++] = cell;
		}

		@Override
		public void close() {
			context.close();
		}
	}

	private static Session executor(ScheduledExecutorService executor) {
		return new Session() {
			@Override
			public Object arm() {
				return executor.schedule(NO_COMMAND, 1, HOURS);
			}

			@Override
			public void cancel(Object timeout) {
				((Future<?>) timeout).cancel(false);
			}

			@Override
			public void close() {
				executor.shutdownNow();
			}
		};
	}

	private static Session netty(Timer timer) {
		return new Session() {
			@Override
			public Object arm() {
				return timer.newTimeout(NO_TASK, 1, HOURS);
			}

			@Override
			public void cancel(Object timeout) {
				((Timeout) timeout).cancel();
			}

			@Override
			public void close() {
				timer.stop();
			}
		};
	}
}
