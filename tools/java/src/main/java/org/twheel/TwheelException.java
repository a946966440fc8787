// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

/** A call of the kernel that failed, with its error number. */
public final class TwheelException extends RuntimeException {
	private static final long serialVersionUID = 1;

	private final int errno;

	/**
	 * Makes an exception.
	 *
	 * @param errno   the error number, positive
	 * @param message the name of the call and the text of the error
	 */
	TwheelException(int errno, String message) {
		super(message);
		this.errno = errno;
	}

	/**
	 * Returns the error number of the call.
	 *
	 * @return errno, for example 2 (ENOENT) if the module is not loaded, 11 (EAGAIN) at a limit
	 *         of timeouts, 108 (ESHUTDOWN) after {@link Context#stop()}
	 */
	public int errno() {
		return errno;
	}
}
