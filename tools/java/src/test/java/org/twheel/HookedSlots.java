// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.util.Map;
import java.util.concurrent.ConcurrentHashMap;

/** Slots that call back, once, at the points between which another thread may do anything. */
final class HookedSlots extends Slots<WheelTimer.WheelTimeout> {
	enum Point {
		/** Before an arming takes a slot. */
		TAKE,
		/** At the limit: the first stripe was empty, and the others have not been tried. */
		SCAN,
		/** Before the cell is armed. */
		ARM,
		/** The word has the deadline. The kernel was not called. */
		EXCHANGED,
		/** The cell is armed. */
		ARMED,
		/** Before a cancelled timeout is disarmed. */
		DISARM,
		/** Before the context is stopped. */
		STOP,
		/** The loop has ended. The context is not closed yet. */
		CLOSE,
		/** The event was read and the slot is free. The timeout has not ended. */
		EVENT,
	}

	private final Map<Point, Runnable> hooks = new ConcurrentHashMap<>();

	HookedSlots(int limit, int stripes) {
		super(Context.open(new Settings(0, 0, limit)), stripes);
	}

	void at(Point point, Runnable hook) {
		hooks.put(point, hook);
	}

	boolean hasReached(Point point) {
		return !hooks.containsKey(point);
	}

	private void reach(Point point) {
		Runnable hook = hooks.remove(point);
		if (hook != null)
			hook.run();
	}

	@Override
	Slot<WheelTimer.WheelTimeout> take() {
		reach(Point.TAKE);
		return super.take();
	}

	@Override
	Slot<WheelTimer.WheelTimeout> takeFrom(int index) {
		if (index == 1)
			reach(Point.SCAN);
		return super.takeFrom(index);
	}

	@Override
	void exchange(Slot<WheelTimer.WheelTimeout> slot, long deadlineNs) {
		reach(Point.ARM);
		super.exchange(slot, deadlineNs);
		reach(Point.EXCHANGED);
	}

	@Override
	int kickIfLate(Slot<WheelTimer.WheelTimeout> slot, long deadlineNs) {
		int error = super.kickIfLate(slot, deadlineNs);
		reach(Point.ARMED);
		return error;
	}

	@Override
	boolean disarm(Slot<WheelTimer.WheelTimeout> slot, long deadlineNs) {
		reach(Point.DISARM);
		return super.disarm(slot, deadlineNs);
	}

	@Override
	void stop() {
		reach(Point.STOP);
		super.stop();
	}

	@Override
	public void close() {
		reach(Point.CLOSE);
		super.close();
	}

	@Override
	void run(Receiver<WheelTimer.WheelTimeout> receiver) {
		super.run((timeout, isUnprocessed) -> {
			reach(Point.EVENT);
			receiver.ended(timeout, isUnprocessed);
		});
	}
}
