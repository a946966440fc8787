// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static java.util.concurrent.TimeUnit.*;
import static org.junit.jupiter.api.Assertions.*;

import java.time.Duration;
import java.util.List;
import java.util.concurrent.*;
import org.junit.jupiter.api.Tag;
import org.junit.jupiter.api.Test;

@Tag("device")
class WheelExecutorTest extends ExecutorContract<WheelExecutor> {
	WheelExecutorTest() throws Exception {
		super(WheelExecutor.class);
	}

	@Override
	WheelExecutor makeDecorating(List<String> calls) {
		return new WheelExecutor(1) {
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

	@Test
	void subclass_with_its_own_remove_and_terminated_ends() throws Exception {
		for (boolean isAgain : new boolean[] { false, true }) {
			WheelExecutor executor = new WheelExecutor(1) {
				@Override
				public boolean remove(Runnable command) {
					assertNotNull(command);
					return super.remove(command);
				}

				@Override
				protected void terminated() {
					if (isAgain)
						shutdownNow();
				}
			};
			Future<?> far = executor.schedule(() -> { }, 1, HOURS);
			executor.schedule(() -> { }, 1, MILLISECONDS);
			executor.shutdown();
			far.cancel(false);
			assertTimeoutPreemptively(Duration.ofSeconds(60),
					() -> assertTrue(executor.awaitTermination(20, SECONDS)));
		}
	}
}
