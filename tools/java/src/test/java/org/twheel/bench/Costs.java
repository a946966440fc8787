// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel.bench;

import static java.util.concurrent.TimeUnit.HOURS;
import static java.util.concurrent.TimeUnit.MILLISECONDS;

import io.netty.util.HashedWheelTimer;
import io.netty.util.Timeout;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadMXBean;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.*;
import java.util.concurrent.*;
import java.util.function.Consumer;
import java.util.function.Supplier;
import org.twheel.*;

/**
 * The costs of a timer: a row of the table of README.md, for which each has a Java of its own.
 *
 * <p>Nanoseconds of CPU time of the thread that arms and cancels: the median of many rounds, between
 * which it sleeps, so that the thread of the timer can do its work, which is not counted. Timeouts
 * are an hour away.
 */
public final class Costs {
	private static final int PENDING = 10_000;
	private static final int WARM_UP = 150;
	private static final int ROUNDS = 50;
	private static final int[] WAVES = { 1_000, 10_000, 50_000, 200_000 };
	private static final ThreadMXBean THREADS = ManagementFactory.getThreadMXBean();

	private final Supplier<Object> arm;
	private final Consumer<Object> cancel;
	/** Without a call for it, a move is a cancel and an arm. */
	private final Consumer<Object> move;

	private Costs(Supplier<Object> arm, Consumer<Object> cancel, Consumer<Object> move) {
		this.arm = arm;
		this.cancel = cancel;
		this.move = move;
	}

	private static Costs of(String name) {
		return switch (name) {
			case "WheelTimer" -> netty(new WheelTimer());
			// It gets the tick that the wheel has.
			case "HashedWheelTimer" -> netty(new HashedWheelTimer(1, MILLISECONDS));
			case "WheelExecutor" -> executor(new WheelExecutor(1));
			case "ScheduledThreadPoolExecutor" -> {
				ScheduledThreadPoolExecutor executor = new ScheduledThreadPoolExecutor(1);
				executor.setRemoveOnCancelPolicy(true);
				yield executor(executor);
			}
			case "Deadline" -> {
				Deadlines set = new Deadlines();
				yield pool(() -> set.newDeadline(Runnable::run, () -> { }),
					   deadline -> ((Deadline) deadline).cancel(),
					   deadline -> ((Deadline) deadline).reset(HOURS.toNanos(1)));
			}
			case "Cell" -> {
				Context context = Context.open();
				yield pool(() -> context.newCell(0), cell -> ((Cell) cell).cancel(),
					   cell -> ((Cell) cell).armAfter(HOURS.toNanos(1)));
			}
			default -> throw new IllegalArgumentException(name);
		};
	}

	private static Costs netty(io.netty.util.Timer timer) {
		return new Costs(() -> timer.newTimeout(timeout -> { }, 1, HOURS),
				 timeout -> ((Timeout) timeout).cancel(), null);
	}

	private static Costs executor(ScheduledExecutorService executor) {
		return new Costs(() -> executor.schedule(() -> { }, 1, HOURS),
				 task -> ((Future<?>) task).cancel(false), null);
	}

	/** Timeouts that can be armed again wait in a pool, as those of a program would. */
	private static Costs pool(Supplier<Object> make, Consumer<Object> cancel, Consumer<Object> arm) {
		ArrayDeque<Object> free = new ArrayDeque<>();
		return new Costs(() -> {
			Object timeout = free.isEmpty() ? make.get() : free.pop();
			arm.accept(timeout);
			return timeout;
		}, timeout -> {
			cancel.accept(timeout);
			free.push(timeout);
		}, arm);
	}

	private void arm(Object[] timeouts, int from) {
		for (int i = from; i < timeouts.length; i++)
			timeouts[i] = arm.get();
	}

	private void cancel(Object[] timeouts) {
		for (Object timeout : timeouts)
			cancel.accept(timeout);
	}

	private void move(Object[] timeouts) {
		for (int i = 0; i < timeouts.length; i++) {
			if (move != null) {
				move.accept(timeouts[i]);
			} else {
				cancel.accept(timeouts[i]);
				timeouts[i] = arm.get();
			}
		}
	}

	/** Nanoseconds for each timeout of a round. */
	private static double timed(Object[] timeouts, Runnable work) throws InterruptedException {
		long begin = THREADS.getCurrentThreadCpuTime();
		work.run();
		long end = THREADS.getCurrentThreadCpuTime();
		MILLISECONDS.sleep(20);
		return (double) (end - begin) / timeouts.length;
	}

	private static void print(double[] rounds, int from) {
		Arrays.sort(rounds, from, rounds.length);
		System.out.printf(" %.0f |", rounds[(from + rounds.length) / 2]);
	}

	/** Bytes in use, of the heap and outside of it: the heap has all its pages from the start. */
	private static long memory() throws Exception {
		MILLISECONDS.sleep(20);
		for (int i = 0; i < 3; i++)
			System.gc();
		long heap = ManagementFactory.getMemoryMXBean().getHeapMemoryUsage().getUsed();
		String[] pages = Files.readString(Path.of("/proc/self/statm")).split(" ");
		return heap + 4096 * Long.parseLong(pages[1]);
	}

	private long bytesOfEach() throws Exception {
		Object[] many = new Object[WAVES[WAVES.length - 1]];
		for (int i = 0; i < PENDING; i++)
			many[i] = arm.get();
		long before = memory();
		arm(many, PENDING);
		long bytes = memory() - before;
		cancel(many);
		return bytes / (many.length - PENDING);
	}

	/** Arms and cancels all timeouts of a wave. */
	private void wave(int length) throws InterruptedException {
		Object[] wave = new Object[length];
		double[] costs = new double[WARM_UP * 1000 / length + 15];
		for (int i = 0; i < costs.length; i++)
			costs[i] = timed(wave, () -> {
				arm(wave, 0);
				cancel(wave);
			});
		print(costs, costs.length - 15);
	}

	/** The argument is the class of a timer. */
	public static void main(String... arguments) throws Exception {
		Costs timer = of(arguments[0]);
		Object[] timeouts = new Object[PENDING];
		double[][] rounds = new double[3][WARM_UP + ROUNDS];
		for (int i = 0; i < rounds[0].length; i++) {
			rounds[0][i] = timed(timeouts, () -> timer.arm(timeouts, 0));
			rounds[2][i] = timed(timeouts, () -> timer.move(timeouts));
			rounds[1][i] = timed(timeouts, () -> timer.cancel(timeouts));
		}
		System.out.printf("| %s |", arguments[0]);
		for (double[] costs : rounds)
			print(costs, WARM_UP);
		long bytes = timer.bytesOfEach();
		for (int length : WAVES)
			timer.wave(length);
		System.out.printf(" %d |%n", bytes);
		System.exit(0);
	}
}
