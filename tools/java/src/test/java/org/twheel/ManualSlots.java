// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.nio.ByteBuffer;
import java.util.Random;
import java.util.concurrent.atomic.AtomicInteger;

/** Slots on a clock that the test sets, with a tick of 1 ns. The events of a read are shuffled. */
class ManualSlots<E> extends Slots<E> {
	private final Context context;
	private final Random random = new Random(1);

	ManualSlots(int limit) {
		this(Context.open(new Settings(1, 0, limit, Settings.Backend.PROCESS, Clock.MANUAL)));
	}

	private ManualSlots(Context context) {
		super(context, 1);
		this.context = context;
	}

	/** Sets the clock. Timeouts that are due then fire. */
	void setTime(long nowNs) {
		context.setTime(nowNs);
	}

	/** Number of cells that there are. */
	long live() {
		return context.info().live();
	}

	/** Number of cells that are armed. */
	int armed() {
		AtomicInteger armed = new AtomicInteger();
		context.list(cell -> armed.addAndGet(cell.state() == LiveTimeout.State.PENDING ? 1 : 0));
		return armed.get();
	}

	boolean isClosed() {
		try {
			return context.fd() < 0;
		} catch (IllegalStateException e) {
			return true;
		}
	}

	@Override
	int read(Events events) {
		int number = super.read(events);
		ByteBuffer records = events.records();
		for (int i = 1; i < number; i++) {
			int other = random.nextInt(i + 1);
			for (int at = 0; at < Events.SIZE; at += Long.BYTES) {
				long word = records.getLong(i * Events.SIZE + at);
				records.putLong(i * Events.SIZE + at, records.getLong(other * Events.SIZE + at));
				records.putLong(other * Events.SIZE + at, word);
			}
		}
		return number;
	}
}
