// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static java.util.concurrent.TimeUnit.HOURS;
import static java.util.concurrent.TimeUnit.MILLISECONDS;
import static org.junit.jupiter.api.Assertions.assertTrue;

import java.io.File;
import java.lang.ref.WeakReference;
import java.net.URL;
import java.net.URLClassLoader;
import org.junit.jupiter.api.Test;

/** An application that has stopped its timers can be unloaded, with the package. */
class ClassLoaderTest {
	/** The application; public for its class loader. */
	public static final class Application implements Runnable {
		@Override
		public void run() {
			try (Context context = Context.open(new Settings(0, 1000, 0))) {
				context.newCell(1).armAfter(1);
			}
			new Deadlines().close();
			WheelTimer timer = new WheelTimer();
			WheelExecutor executor = new WheelExecutor(2);
			try {
				executor.schedule(() -> timer.newTimeout(timeout -> { }, 1, HOURS).cancel(), 1, MILLISECONDS)
						.get();
			} catch (Exception e) {
				throw new AssertionError(e);
			} finally {
				executor.shutdownNow();
				timer.stop();
			}
		}
	}

	private static WeakReference<ClassLoader> deploy() throws Exception {
		String[] files = System.getProperty("java.class.path").split(File.pathSeparator);
		URL[] urls = new URL[files.length];
		for (int i = 0; i < files.length; i++)
			urls[i] = new File(files[i]).toURI().toURL();
		try (URLClassLoader loader = new URLClassLoader(urls, ClassLoader.getPlatformClassLoader())) {
			Class<?> type = loader.loadClass(Application.class.getName());
			((Runnable) type.getConstructor().newInstance()).run();
			return new WeakReference<>(loader);
		}
	}

	@Test
	void class_loader_is_collected() throws Exception {
		WeakReference<ClassLoader> loader = deploy();
		assertTrue(Patience.await(() -> {
			System.gc();
			return loader.get() == null;
		}));
	}
}
