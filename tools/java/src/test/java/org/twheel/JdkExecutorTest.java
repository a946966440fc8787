// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.util.List;
import java.util.concurrent.*;

/** The tests of WheelExecutor state the contract of the JDK. */
class JdkExecutorTest extends ExecutorContract<ScheduledThreadPoolExecutor> {
	JdkExecutorTest() throws Exception {
		super(ScheduledThreadPoolExecutor.class);
	}

	@Override
	ScheduledThreadPoolExecutor makeDecorating(List<String> calls) {
		return new ScheduledThreadPoolExecutor(1) {
			@Override
			protected <V> RunnableScheduledFuture<V> decorateTask(Runnable runnable,
									      RunnableScheduledFuture<V> task) {
				return decorated(task, calls);
			}

			@Override
			protected <V> RunnableScheduledFuture<V> decorateTask(Callable<V> callable,
									      RunnableScheduledFuture<V> task) {
				return decorated(task, calls);
			}
		};
	}
}
