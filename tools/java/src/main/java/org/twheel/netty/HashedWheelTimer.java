// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel.netty;

import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import org.twheel.WheelTimer;

/**
 * A WheelTimer with the name and the constructors of Netty's timer, for programs that change an
 * import and nothing else. The duration of a tick, 100 ms by default, becomes the slack. The number
 * of ticks and the detection of leaks have no counterpart.
 */
public class HashedWheelTimer extends WheelTimer {
	/** As {@link WheelTimer#WheelTimer(long, TimeUnit)}. */
	public HashedWheelTimer() {
		this(Executors.defaultThreadFactory());
	}

	/** As {@link WheelTimer#WheelTimer(long, TimeUnit)}. */
	public HashedWheelTimer(long tickDuration, TimeUnit unit) {
		this(Executors.defaultThreadFactory(), tickDuration, unit);
	}

	/** As {@link WheelTimer#WheelTimer(long, TimeUnit)}. */
	public HashedWheelTimer(long tickDuration, TimeUnit unit, int ticksPerWheel) {
		this(tickDuration, unit);
	}

	/** As {@link WheelTimer#WheelTimer(ThreadFactory, long, TimeUnit, long, Executor)}. */
	public HashedWheelTimer(ThreadFactory threads) {
		this(threads, 100, TimeUnit.MILLISECONDS);
	}

	/** As {@link WheelTimer#WheelTimer(ThreadFactory, long, TimeUnit, long, Executor)}. */
	public HashedWheelTimer(ThreadFactory threads, long tickDuration, TimeUnit unit) {
		this(threads, tickDuration, unit, 512);
	}

	/** As {@link WheelTimer#WheelTimer(ThreadFactory, long, TimeUnit, long, Executor)}. */
	public HashedWheelTimer(ThreadFactory threads, long tickDuration, TimeUnit unit, int ticksPerWheel) {
		this(threads, tickDuration, unit, ticksPerWheel, true);
	}

	/** As {@link WheelTimer#WheelTimer(ThreadFactory, long, TimeUnit, long, Executor)}. */
	public HashedWheelTimer(ThreadFactory threads, long tickDuration, TimeUnit unit, int ticksPerWheel,
				boolean leakDetection) {
		this(threads, tickDuration, unit, ticksPerWheel, leakDetection, -1);
	}

	/** As {@link WheelTimer#WheelTimer(ThreadFactory, long, TimeUnit, long, Executor)}. */
	public HashedWheelTimer(ThreadFactory threads, long tickDuration, TimeUnit unit, int ticksPerWheel,
				boolean leakDetection, long maxPendingTimeouts) {
		this(threads, tickDuration, unit, ticksPerWheel, leakDetection, maxPendingTimeouts,
		     Runnable::run);
	}

	/** As {@link WheelTimer#WheelTimer(ThreadFactory, long, TimeUnit, long, Executor)}. */
	public HashedWheelTimer(ThreadFactory threads, long tickDuration, TimeUnit unit, int ticksPerWheel,
				boolean leakDetection, long maxPendingTimeouts, Executor taskExecutor) {
		super(threads, tickDuration, unit, maxPendingTimeouts, taskExecutor);
	}
}
