// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.util.concurrent.ScheduledThreadPoolExecutor;

/** The tests of WheelExecutor state the contract of the JDK. */
class JdkExecutorTest extends ExecutorContract<ScheduledThreadPoolExecutor> {
	JdkExecutorTest() throws Exception {
		super(ScheduledThreadPoolExecutor.class);
	}
}
