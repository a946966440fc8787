// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel.bench;

import java.io.BufferedReader;
import java.io.File;
import java.io.FileReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.lang.management.ManagementFactory;
import java.lang.management.ThreadInfo;
import java.lang.management.ThreadMXBean;
import java.util.List;
import java.util.Locale;
import java.util.regex.Pattern;

/**
 * Memory of a pending timeout, in the heap and outside of it, and the cost of an idle timer.
 * Prints a line for each subject. Needs a heap of fixed size, touched at the start.
 */
final class Footprint {
	private static final int TIMEOUTS = 200_000;
	private static final int IDLE_SECONDS = 10;
	/** The names of threads of Executors.defaultThreadFactory(), and of the package. */
	private static final Pattern THREADS = Pattern.compile("pool-.*|twheel");

	private static final List<Subject> SUBJECTS = List.of(Subject.WHEEL_TIMER, Subject.NETTY,
			Subject.WHEEL_EXECUTOR, Subject.JDK);

	private Footprint() {
	}

	public static void main(String... arguments) throws InterruptedException {
		for (Subject subject : SUBJECTS) {
			// Code and classes are in place at the second time.
			measureMemory(subject, 2_000);
			String memory = measureMemory(subject, TIMEOUTS);
			System.out.println("footprint " + subject + " " + memory + " " + measureIdle(subject));
		}
	}

	private static String measureMemory(Subject subject, int number) throws InterruptedException {
		Object[] timeouts = new Object[number];
		try (Subject.Session session = subject.open()) {
			session.cancel(session.arm());
			long heap = heap();
			long free = free();
			for (int i = 0; i < number; i++)
				timeouts[i] = session.arm();
			long heapAfter = heap();
			return String.format(Locale.ROOT, "heap %.0f outside %.0f", (heapAfter - heap) / (double) number,
					     (free - free()) / (double) number);
		}
	}

	private static String measureIdle(Subject subject) throws InterruptedException {
		try (Subject.Session session = subject.open()) {
			session.arm();
			Thread.sleep(1000);
			long cpu = cpu();
			long switches = switches();
			Thread.sleep(IDLE_SECONDS * 1000L);
			return String.format(Locale.ROOT, "wakeups %.1f cpu_ms %.2f",
					     (switches() - switches) / (double) IDLE_SECONDS,
					     (cpu() - cpu) / 1e6 / IDLE_SECONDS);
		}
	}

	/** Bytes in the heap, after the timers have had time for the work that they defer. */
	private static long heap() throws InterruptedException {
		Runtime runtime = Runtime.getRuntime();
		for (int i = 0; i < 3; i++) {
			Thread.sleep(200);
			System.gc();
		}
		return runtime.totalMemory() - runtime.freeMemory();
	}

	/** The kernel of the machine has no sockets, and so the JDK has no channels. */
	private static List<String> lines(String file) {
		try (BufferedReader reader = new BufferedReader(new FileReader(file))) {
			return reader.lines().toList();
		} catch (IOException e) {
			throw new UncheckedIOException(e);
		}
	}

	private static long field(String file, String name) {
		return lines(file).stream().filter(line -> line.startsWith(name + ":"))
				.mapToLong(line -> Long.parseLong(line.replaceAll("\\D", ""))).sum();
	}

	/** Free memory of the machine, in which nothing else runs. */
	private static long free() {
		return field("/proc/meminfo", "MemFree") * 1024;
	}

	/** How often the threads of the subjects have slept. */
	private static long switches() {
		long sum = 0;
		for (File thread : new File("/proc/self/task").listFiles())
			if (THREADS.matcher(lines(thread + "/comm").get(0)).matches())
				sum += field(thread + "/status", "voluntary_ctxt_switches");
		return sum;
	}

	/** Nanoseconds of CPU time of these threads. */
	private static long cpu() {
		ThreadMXBean threads = ManagementFactory.getThreadMXBean();
		long sum = 0;
		for (ThreadInfo thread : threads.getThreadInfo(threads.getAllThreadIds()))
			if (thread != null && THREADS.matcher(thread.getThreadName()).matches())
				sum += threads.getThreadCpuTime(thread.getThreadId());
		return sum;
	}
}
