// SPDX-License-Identifier: LGPL-2.1-or-later
package org.twheel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;
import static org.junit.jupiter.api.Assumptions.assumeFalse;

import java.io.File;
import org.junit.jupiter.api.Test;

/** The package on a machine without the module. */
class NoDeviceTest {
	/** A class whose initializer fails could not be used any more. */
	@Test
	void each_open_tells_that_the_device_is_missing() {
		assumeFalse(new File("/dev/twheel").exists());
		for (int i = 0; i < 2; i++) {
			assertEquals(Native.ENOENT, assertThrows(TwheelException.class, Context::open).errno());
			assertEquals(Native.ENOENT, assertThrows(TwheelException.class, WheelTimer::new).errno());
		}
	}
}
