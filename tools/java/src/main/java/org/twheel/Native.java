// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import java.io.File;
import java.io.FileOutputStream;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.nio.ByteBuffer;
import java.nio.ByteOrder;

/**
 * The calls of libtwheel. A context is the address of its {@code struct twheel_ctx}. A
 * call that fails throws {@link TwheelException}.
 */
final class Native {
	static final int ENOENT = 2;
	static final int EINTR = 4;
	static final int EAGAIN = 11;
	static final int EINVAL = 22;
	static final int EOPNOTSUPP = 95;
	static final int ESHUTDOWN = 108;

	/** Flags of an arming. */
	static final int ABSOLUTE = 1;
	static final int FIXED_DELAY = 1 << 1;
	static final int CELL = 1 << 2;
	static final int EXACT = 1 << 3;

	/** Flags of open(). */
	static final int KERNEL = 1 << 2;
	static final int PROCESS = 1 << 3;

	/** The system property that names a library to use instead of the one in the jar. */
	static final String LIBRARY = "org.twheel.library";

	/** Why the library cannot be used, or null. A class whose initializer fails says it once only. */
	static final String FAILURE = load();

	private Native() {
	}

	/** Opens a context; backend is KERNEL, PROCESS or 0. */
	static native long open(int backend);

	static native void close(long context);

	static native int fd(long context);

	static native long now(long context);

	static native int setup(long context, long setup);

	static native int info(long context, long info);

	static native int stats(long context, long stats);

	static native long arm(long context, long expiresNs, int flags, long cookie);

	/** Returns -ENOENT if the timeout does not exist. */
	static native int mod(long context, long id, long expiresNs, int flags, long cookie);

	/** Returns -ENOENT if the timeout does not exist. */
	static native int cancel(long context, long id);

	static native int submit(long context, long operations, int number);

	/** All, or those with the cookie. */
	static native long cancelAll(long context, boolean hasCookie, long cookie);

	static native int stop(long context);

	static native int setTime(long context, long nowNs);

	/** Memory for the entries, and behind them for the position, which is 0 at first. */
	static native int list(long context, long entries, int number);

	/** Waits for an event if asked to. Returns -EAGAIN or -EINTR instead of throwing them. */
	static native int read(long context, long events, int capacity, boolean wait);

	/** Waits for an event or a wake, or not so long. */
	static native void await(long context, int waker, long timeoutNs);

	/** A descriptor that ends the await() to which it is given, and any later one. */
	static native int newWaker();

	static native void wake(int waker);

	static native void closeWaker(int waker);

	static native ByteBuffer map(long context, long size);

	static native void unmap(long address, long size);

	/** Puts memory of the process in the place of a mapping: idle cells as far as they are used. */
	static native void detach(long cells, long size, long used);

	/** Memory of the library, of a context in the process: cells from the id on. */
	static native ByteBuffer cells(long context, long id, int number);

	/** Returns a negative errno instead of throwing it. The arming is undone then. */
	static native int kick(long context, long cell, long id, long expiresNs);

	static native long address(ByteBuffer buffer);

	/** Sizes of op, event, info, setup, cell, stats and list_entry. */
	static native int[] sizes();

	/** Memory for one record or more, zeroed. */
	static ByteBuffer records(int number, int size) {
		if (number < 1)
			throw new IllegalArgumentException("capacity " + number);
		return ByteBuffer.allocateDirect(Math.multiplyExact(number, size))
				.order(ByteOrder.nativeOrder());
	}

	private static String load() {
		String path = System.getProperty(LIBRARY);
		try {
			if (path != null)
				System.load(path);
			else
				loadFromJar();
			return null;
		} catch (IOException e) {
			return "the native library cannot be copied from the jar: " + e.getMessage();
		} catch (LinkageError e) {
			return "no native library for " + System.getProperty("os.name") + " on " +
					System.getProperty("os.arch") + ": " + e.getMessage();
		} catch (IllegalCallerException e) {
			return e.getMessage() + "; --enable-native-access permits it";
		}
	}

	/**
	 * A library is loaded from a file. That file can go as soon as it is loaded. Files of
	 * java.nio need a kernel with sockets, which not every small system has.
	 */
	private static void loadFromJar() throws IOException {
		String name = "libtwheel-java-" + System.getProperty("os.arch") + ".so";
		try (InputStream library = Native.class.getResourceAsStream(name)) {
			if (library == null)
				throw new UnsatisfiedLinkError("the jar has no " + name);
			File file = File.createTempFile("libtwheel-java", ".so");
			try (OutputStream copy = new FileOutputStream(file)) {
				library.transferTo(copy);
				System.load(file.getPath());
			} finally {
				file.delete();
			}
		}
	}
}
