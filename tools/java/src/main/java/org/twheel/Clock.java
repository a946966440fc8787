// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

/** The clock of a context. */
public enum Clock {
	/** CLOCK_MONOTONIC, which System.nanoTime() reads. It stands still in suspend. */
	MONOTONIC(1, 1),
	/** CLOCK_BOOTTIME, which goes on in suspend: what was due meanwhile fires at the resume. */
	BOOTTIME(7, 1),
	/**
	 * CLOCK_REALTIME, which can be set. Arm with absolute times alone: cells,
	 * {@link Batch#armAt} and {@link Batch#modAt}.
	 */
	REALTIME(0, 1),
	/** A clock that {@link Context#setTime} moves, for tests. Of a wheel in the process alone. */
	MANUAL(0, 1 << 31);

	/** The clockid_t. */
	final int id;
	/** The flag of the setup. */
	final int setup;

	Clock(int id, int setup) {
		this.id = id;
		this.setup = setup;
	}

	static Clock of(int id) {
		return id == BOOTTIME.id ? BOOTTIME : id == REALTIME.id ? REALTIME : MONOTONIC;
	}
}
