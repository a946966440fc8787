// SPDX-License-Identifier: MIT OR LGPL-2.1-or-later
package org.twheel;

import static org.junit.platform.engine.discovery.DiscoverySelectors.selectClass;

import java.io.PrintStream;
import java.util.Arrays;
import java.util.stream.Collectors;
import org.junit.platform.engine.TestExecutionResult;
import org.junit.platform.engine.support.descriptor.MethodSource;
import org.junit.platform.launcher.*;
import org.junit.platform.launcher.core.LauncherDiscoveryRequestBuilder;
import org.junit.platform.launcher.core.LauncherFactory;

/** Runs the test classes that its arguments name, and reports as KTAP. */
final class Ktap implements TestExecutionListener {
	private final PrintStream out;
	private int number;
	private int failed;

	private Ktap(PrintStream out) {
		this.out = out;
	}

	/** The exit status is 0 if all tests have passed. */
	public static void main(String... classes) throws ReflectiveOperationException {
		LauncherDiscoveryRequestBuilder request = LauncherDiscoveryRequestBuilder.request();
		for (String name : classes)
			request.selectors(selectClass(Class.forName(name)));
		System.exit(new Ktap(System.out).run(request.build()) ? 0 : 1);
	}

	private boolean run(LauncherDiscoveryRequest request) {
		Launcher launcher = LauncherFactory.create();
		TestPlan plan = launcher.discover(request);
		out.println("KTAP version 1");
		out.println("1.." + plan.countTestIdentifiers(TestIdentifier::isTest));
		launcher.execute(plan, this);
		return number > 0 && failed == 0;
	}

	/** A class that fails before its tests is a failure, too. */
	@Override
	public void executionFinished(TestIdentifier test, TestExecutionResult result) {
		boolean success = result.getStatus() == TestExecutionResult.Status.SUCCESSFUL;
		if (result.getStatus() == TestExecutionResult.Status.ABORTED) {
			executionSkipped(test, result.getThrowable().map(Throwable::getMessage).orElse(""));
			return;
		}
		result.getThrowable().ifPresent(this::explain);
		if (test.isTest() || !success)
			report(test, success, "");
	}

	@Override
	public void executionSkipped(TestIdentifier test, String reason) {
		report(test, true, " # SKIP " + reason);
	}

	private void report(TestIdentifier test, boolean success, String remark) {
		failed += success ? 0 : 1;
		out.println((success ? "ok " : "not ok ") + ++number + " " + name(test) + remark);
	}

	private void explain(Throwable failure) {
		String lines = Arrays.stream(failure.getStackTrace()).limit(12)
				.map(frame -> "#   at " + frame).collect(Collectors.joining("\n"));
		out.println("# " + failure.toString().replace("\n", "\n# ") + "\n" + lines);
	}

	private static String name(TestIdentifier test) {
		return test.getSource().filter(MethodSource.class::isInstance).map(MethodSource.class::cast)
				.map(source -> source.getJavaClass().getSimpleName() + "." + source.getMethodName())
				.orElse(test.getDisplayName());
	}
}
