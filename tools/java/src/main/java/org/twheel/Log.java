// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.lang.System.Logger.Level;

/** The log of the package. */
final class Log {
	private static final System.Logger LOGGER = System.getLogger("org.twheel");

	private Log() {
	}

	/** Does not throw, even if a handler of the log does: the thread has other tasks, too. */
	static void warn(String text, Throwable cause) {
		try {
			LOGGER.log(Level.WARNING, text, cause);
		} catch (Throwable t) {
			// There is nobody left to tell.
		}
	}
}
