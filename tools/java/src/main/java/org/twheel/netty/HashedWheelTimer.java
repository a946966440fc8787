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
 * of ticks and the detection of leaks have no counterpart. See the constructors of WheelTimer.
 */
public class HashedWheelTimer extends WheelTimer {
	public HashedWheelTimer() {
		this(Executors.defaultThreadFactory());
	}

	public HashedWheelTimer(long tickDuration, TimeUnit unit) {
		this(Executors.defaultThreadFactory(), tickDuration, unit);
	}

	public HashedWheelTimer(long tickDuration, TimeUnit unit, int ticksPerWheel) {
		this(tickDuration, unit);
	}

	public HashedWheelTimer(ThreadFactory threads) {
		this(threads, 100, TimeUnit.MILLISECONDS);
	}

	public HashedWheelTimer(ThreadFactory threads, long tickDuration, TimeUnit unit) {
		this(threads, tickDuration, unit, 512);
	}

	public HashedWheelTimer(ThreadFactory threads, long tickDuration, TimeUnit unit, int ticksPerWheel) {
		this(threads, tickDuration, unit, ticksPerWheel, true);
	}

	public HashedWheelTimer(ThreadFactory threads, long tickDuration, TimeUnit unit, int ticksPerWheel,
				boolean leakDetection) {
		this(threads, tickDuration, unit, ticksPerWheel, leakDetection, -1);
	}

	public HashedWheelTimer(ThreadFactory threads, long tickDuration, TimeUnit unit, int ticksPerWheel,
				boolean leakDetection, long maxPendingTimeouts) {
		this(threads, tickDuration, unit, ticksPerWheel, leakDetection, maxPendingTimeouts,
		     Runnable::run);
	}

	public HashedWheelTimer(ThreadFactory threads, long tickDuration, TimeUnit unit, int ticksPerWheel,
				boolean leakDetection, long maxPendingTimeouts, Executor taskExecutor) {
		super(threads, tickDuration, unit, maxPendingTimeouts, taskExecutor);
	}
}
