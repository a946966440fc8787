// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static org.junit.jupiter.api.Assertions.assertEquals;
import static org.junit.jupiter.api.Assertions.assertThrows;

import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.Test;

/** When the native half of a context is stopped and freed. */
class HandleTest {
	private final List<String> calls = new ArrayList<>();

	private void free(long pointer) {
		calls.add("free " + pointer);
	}

	@Test
	void last_call_that_leaves_frees_it_once() {
		Handle handle = new Handle(42, pointer -> calls.add("stop " + pointer), this::free);
		assertEquals(42, handle.enter());
		handle.close();
		handle.close();
		assertEquals(List.of("stop 42"), calls);
		assertThrows(IllegalStateException.class, handle::enter);
		handle.leave();
		assertEquals(List.of("stop 42", "free 42"), calls);
	}

	@Test
	void stop_that_fails_leaks_nothing() {
		Handle handle = new Handle(42, pointer -> {
			throw new TwheelException(Native.EINTR, "stop: for the test");
		}, this::free);
		assertThrows(TwheelException.class, handle::close);
		assertEquals(List.of("free 42"), calls);
	}
}
