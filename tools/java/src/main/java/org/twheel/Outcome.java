// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

/** The state in which a call that moves or cancels a timeout found it. */
public enum Outcome {
	/** It was pending. */
	PENDING,
	/** It had fired. Its event was unread and will not be read. */
	WITHDRAWN,
	/** It was an idle cell: not armed, or its event was read before. */
	IDLE,
	/** It does not exist: its last event was read, or it was cancelled before. */
	GONE;

	private static final Outcome[] BY_RESULT = { PENDING, WITHDRAWN, IDLE };

	/** The outcome for a return value of the kernel: 0, 1, 2 or -ENOENT. */
	static Outcome of(int result) {
		return result == -Native.ENOENT ? GONE : BY_RESULT[result];
	}

	/** The outcome for the old word of a cell. */
	static Outcome ofWord(long word) {
		if (word >= 0)
			return PENDING;
		return word == Cell.FIRED ? WITHDRAWN : IDLE;
	}
}
