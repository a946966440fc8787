// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.util.concurrent.Callable;

/** Waits for a state that comes soon. */
final class Patience {
	/** At most 20 s, and longer if the machine stands still. */
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
