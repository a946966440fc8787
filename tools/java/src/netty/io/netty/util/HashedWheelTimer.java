// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package io.netty.util;

import java.util.Set;
import java.util.concurrent.Executor;
import java.util.concurrent.Executors;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.TimeUnit;
import org.twheel.WheelTimer;

/**
 * A WheelTimer with the name and the constructors of Netty's timer, for Netty's own test. The
 * duration of a tick becomes the slack. The number of ticks and the detection of leaks have no
 * counterpart.
 */
public final class HashedWheelTimer implements Timer {
	private final WheelTimer timer;

	public HashedWheelTimer() {
		this(100, TimeUnit.MILLISECONDS);
	}

	public HashedWheelTimer(long tickDuration, TimeUnit unit) {
		this(Executors.defaultThreadFactory(), tickDuration, unit, 512);
	}

	public HashedWheelTimer(ThreadFactory threads, long tickDuration, TimeUnit unit, int ticks) {
		this(threads, tickDuration, unit, ticks, true, -1);
	}

	public HashedWheelTimer(ThreadFactory threads, long tickDuration, TimeUnit unit, int ticks,
				boolean detectsLeaks, long maxPendingTimeouts) {
		this(threads, tickDuration, unit, ticks, detectsLeaks, maxPendingTimeouts, Runnable::run);
	}

	public HashedWheelTimer(ThreadFactory threads, long tickDuration, TimeUnit unit, int ticks,
				boolean detectsLeaks, long maxPendingTimeouts, Executor executor) {
		timer = new WheelTimer(threads, tickDuration, unit, maxPendingTimeouts, executor);
	}

	@Override
	public Timeout newTimeout(TimerTask task, long delay, TimeUnit unit) {
		return timer.newTimeout(task, delay, unit);
	}

	@Override
	public Set<Timeout> stop() {
		return timer.stop();
	}

	public long pendingTimeouts() {
		return timer.pendingTimeouts();
	}
}
