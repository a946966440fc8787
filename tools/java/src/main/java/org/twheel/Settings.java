// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.nio.ByteBuffer;
import java.util.Objects;

/**
 * Settings of a new context; 0 is the default of each.
 *
 * @param tickNs      length of a tick in nanoseconds; the default is that of the module,
 *                    1 ms. Another tick makes a private wheel
 * @param slackNs     delay in nanoseconds that every timeout allows, to share the wakeup of
 *                    others; rounded down to microseconds, at most 71 minutes
 * @param maxTimeouts limit of live timeouts; a cell counts, armed or not
 * @param backend     the device, or a wheel in the process
 * @param clock       the clock of deadlines; the default is {@link Clock#MONOTONIC}
 */
public record Settings(long tickNs, long slackNs, int maxTimeouts, Backend backend, Clock clock) {
	/**
	 * What a context is of. The environment variable TWHEEL_BACKEND, {@code kernel} or {@code
	 * process}, overrides it. {@link Info#isProcess} tells the result.
	 */
	public enum Backend {
		/** The device; if it is missing or not permitted, a wheel in the process. */
		ANY(0),
		/** The device, or an exception. */
		KERNEL(Native.KERNEL),
		/** A wheel in the process. */
		PROCESS(Native.PROCESS);

		final int flag;

		Backend(int flag) {
			this.flag = flag;
		}
	}

	/** The defaults. */
	public static final Settings DEFAULT = new Settings(0, 0, 0);

	static final int SIZE = 56;

	private static final int TICK = 0;
	private static final int CLOCK = 8;
	private static final int MAX_TIMEOUTS = 20;
	private static final int FLAGS = 24;
	private static final int SLACK = 28;

	/**
	 * Checks the ranges: no number is negative, and nothing is null.
	 *
	 * @throws IllegalArgumentException for any other value
	 */
	public Settings {
		Objects.requireNonNull(backend, "backend");
		Objects.requireNonNull(clock, "clock");
		if (tickNs < 0 || slackNs < 0 || slackNs / 1000 > 0xffff_ffffL || maxTimeouts < 0)
			throw new IllegalArgumentException("out of range: tick " + tickNs +
					" ns, slack " + slackNs + " ns, at most " + maxTimeouts + " timeouts");
	}

	/** Settings for any backend, on the default clock. */
	public Settings(long tickNs, long slackNs, int maxTimeouts) {
		this(tickNs, slackNs, maxTimeouts, Backend.ANY, Clock.MONOTONIC);
	}

	boolean isDefault() {
		return tickNs == 0 && slackNs == 0 && maxTimeouts == 0 && clock == Clock.MONOTONIC;
	}

	ByteBuffer record() {
		return Native.records(1, SIZE).putLong(TICK, tickNs).putInt(CLOCK, clock.id)
				.putInt(MAX_TIMEOUTS, maxTimeouts).putInt(FLAGS, clock.setup)
				.putInt(SLACK, (int) (slackNs / 1000));
	}
}
