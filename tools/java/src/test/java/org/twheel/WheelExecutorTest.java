// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static java.util.concurrent.TimeUnit.SECONDS;
import static org.junit.jupiter.api.Assertions.*;

import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.Timeout;

@Tag("device")
class WheelExecutorTest extends ExecutorContract<WheelExecutor> {
	WheelExecutorTest() throws Exception {
		super(WheelExecutor.class);
	}

	@Test
	@Timeout(60)
	void subclass_with_its_own_terminated_ends() throws InterruptedException {
		WheelExecutor executor = new WheelExecutor(1) {
			@Override
			protected void terminated() {
			}
		};
		executor.shutdown();
		assertTrue(executor.awaitTermination(20, SECONDS));
	}
}
