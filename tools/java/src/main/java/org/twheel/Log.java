// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.lang.System.Logger.Level;

/** The log of the package. */
final class Log {
	private Log() {
	}

	/** Does not throw, even if the logger or a handler does: the thread has other tasks, too. */
	static void warn(String text, Throwable cause) {
		try {
			System.getLogger("org.twheel").log(Level.WARNING, text, cause);
		} catch (Throwable t) {
			// There is nobody left to tell.
		}
	}
}
