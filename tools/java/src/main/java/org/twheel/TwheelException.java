// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

/** A call of the kernel that failed, with its error number. */
public final class TwheelException extends RuntimeException {
	private static final long serialVersionUID = 1;

	/** Positive. */
	private final int errno;

	/** The message is the name of the call and the text of the error. */
	TwheelException(int errno, String message) {
		super(message);
		this.errno = errno;
	}

	/** Why an operation on a timeout failed. */
	static String text(int errno) {
		return switch (errno) {
			case Native.ENOENT -> "it has ended";
			case Native.EAGAIN -> "a limit of timeouts is reached";
			case Native.ESHUTDOWN -> "the context is stopped";
			default -> "errno " + errno;
		};
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
