// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static org.junit.jupiter.api.Assertions.assertTrue;

import java.util.concurrent.Callable;

/** Tells whether the machine stood still during steps that must end before a deadline. */
final class Stall {
	private static final int TRIES = 20;

	private final long limitNs;
	private long start = System.nanoTime();
	private int tries;

	/** The limit is at most the shortest delay that the steps arm. */
	Stall(long limitMs) {
		limitNs = limitMs * 1_000_000;
	}

	/** Whether the steps since the last call reached the limit. The test then repeats them. */
	boolean happened() {
		boolean isLate = System.nanoTime() - start >= limitNs;
		assertTrue(!isLate || ++tries < TRIES, "each try took " + limitNs + " ns or more");
		start = System.nanoTime();
		return isLate;
	}

	/** Waits for a state; at most 20 s, and longer if the machine stands still. */
	static boolean await(Callable<Boolean> condition) {
		try {
			for (int i = 0; i < 20_000 && !condition.call(); i++)
				Thread.sleep(1);
			return condition.call();
		} catch (Exception e) {
			throw new AssertionError(e);
		}
	}
}
