// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel.bench;

import java.util.concurrent.TimeUnit;
import org.openjdk.jmh.annotations.*;

/**
 * Time for an arm and for a cancel, in nanoseconds, with up to 10,000 timeouts pending. One
 * thread arms and cancels; the thread of the subject may use another CPU. An iteration is
 * 10,000 operations, short enough that other work on the machine seldom interrupts it.
 */
@State(Scope.Benchmark)
@OutputTimeUnit(TimeUnit.NANOSECONDS)
@BenchmarkMode(Mode.SingleShotTime)
@Fork(1)
@Warmup(iterations = 200)
@Measurement(iterations = 100)
public class ArmCancel {
	private static final int PENDING = 10_000;

	@Param
	Subject subject;

	private Subject.Session session;
	private final Object[] timeouts = new Object[PENDING];

	@Setup(Level.Trial)
	public void open() {
		session = subject.open();
		armAll();
	}

	@TearDown(Level.Trial)
	public void close() {
		session.close();
	}

	private void armAll() {
		for (int i = 0; i < PENDING; i++)
			timeouts[i] = session.arm().get();
	}

	private void cancelAll() {
		for (int i = 0; i < PENDING; i++)
			session.cancel().accept(timeouts[i]);
	}

	/** For arm(): none is pending, and the work of the cancels is done. */
	@State(Scope.Benchmark)
	public static class Disarmed {
		@Setup(Level.Invocation)
		public void cancel(ArmCancel all) throws InterruptedException {
			all.cancelAll();
			TimeUnit.MILLISECONDS.sleep(20);
		}
	}

	/** For cancel(): all are pending, and the work of the arms is done. */
	@State(Scope.Benchmark)
	public static class Armed {
		@Setup(Level.Invocation)
		public void arm(ArmCancel all) throws InterruptedException {
			all.armAll();
			TimeUnit.MILLISECONDS.sleep(20);
		}
	}

	@Benchmark
	@OperationsPerInvocation(PENDING)
	public void arm(Disarmed before) {
		armAll();
	}

	@Benchmark
	@OperationsPerInvocation(PENDING)
	public void cancel(Armed before) {
		cancelAll();
	}

	/** Each timeout is moved, or cancelled and another armed, so that 10,000 stay pending. */
	@Benchmark
	@OperationsPerInvocation(PENDING)
	public void move() {
		for (int i = 0; i < PENDING; i++)
			timeouts[i] = session.moved(timeouts[i]);
	}
}
