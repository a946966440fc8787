// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import org.junit.jupiter.api.Tag;

@Tag("device")
class WheelExecutorTest extends ExecutorContract<WheelExecutor> {
	WheelExecutorTest() throws Exception {
		super(WheelExecutor.class);
	}
}
