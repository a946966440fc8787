// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static org.junit.jupiter.api.Assertions.*;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** The package on a machine without the module. */
class NoDeviceTest {
	@BeforeEach
	void requireChoice() {
		assumeTrue(System.getenv("TWHEEL_BACKEND") == null, "TWHEEL_BACKEND overrides the choice");
		assumeTrue(!new File("/dev/twheel").exists(), "there is a device");
	}

	@Test
	void open_makes_a_wheel_in_the_process() {
		try (Context context = Context.open()) {
			assertTrue(context.info().isProcess());
		}
	}

	/** A class whose initializer fails could not be used any more. */
	@Test
	void each_open_of_the_device_names_it_and_the_module() {
		Settings settings = new Settings(0, 0, 0, Settings.Backend.KERNEL,
				Clock.MONOTONIC);
		for (int i = 0; i < 2; i++) {
			TwheelException e = assertThrows(TwheelException.class, () -> Context.open(settings));
			assertEquals(Native.ENOENT, e.errno());
			assertTrue(e.getMessage().matches(".*/dev/twheel.*modprobe twheel_dev.*"), e.getMessage());
		}
	}
}
