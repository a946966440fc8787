#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Functions that build the Java package and run its classes in the test VM. bash scripts read
# this file with `.`.
: "${top:?}" "${build:?}"

# java_package [OPTION]...: build the jar and run the tests that need no device. Maven resets
# colours even if its output is no terminal. It compiles all classes again, because a copy of the
# checkout has other dates.
java_package()
{
	rm -rf "$build/java"/{classes,lib,test-classes}
	mvn -B -q -ntp -f "$top/tools/java/pom.xml" "-Dout=$build/java" "$@" package |
		sed 's/\x1b\[[0-9;]*m//g'
}

# The main class that runs the test classes whose names follow its arguments.
junit=(org.junit.platform.console.ConsoleLauncher execute --disable-banner --disable-ansi-colors
	--fail-if-no-tests)

# java_tests COMMAND CLASSPATH CLASS...: run tests on a wheel in the process. COMMAND is a Java
# runtime. CLASSPATH has the libraries that come before those of the build.
java_tests()
{
	local java=$build/java command=$1 path=$2
	shift 2

	TWHEEL_BACKEND=process "$command" -cp "$path$java/test-classes:$java/classes:$java/lib/*" \
		"${junit[@]}" "${@/#/--select-class=}"
}

# java_runtime DIRECTORY: make a runtime with only the modules needed. The VM also copies the
# libraries of executable files, so this function makes the libraries executable.
java_runtime()
{
	jlink --add-modules java.base,java.logging,jdk.management,jdk.unsupported --strip-debug \
		--no-header-files --no-man-pages --output "$1"
	find "$1/lib" -name '*.so' -exec chmod +x {} +
	"$1/bin/java" -Xshare:dump >/dev/null
}

# java_machine WORK KERNEL LOG SECONDS [OPTION]... CLASS ARGUMENT...: run a main class of the
# package or of its tests in the test VM.
java_machine()
{
	local work=$1 kernel=$2 log=$3 seconds=$4
	shift 4

	[ -d "$work/jre" ] || java_runtime "$work/jre"
	mkdir -p "$work/java" &&
		cp -r "$build/java"/{classes,test-classes,lib} "$work/java" &&
		"$top/tools/vm/run" --kernel "$kernel" --mem 2G --timeout "$seconds" --log "$log" \
			--add "$work/jre" --add "$work/java" -- \
			/add/jre/bin/java -XX:+UseSerialGC -XX:-UsePerfData -Xmx512m \
			-cp '/add/java/test-classes:/add/java/classes:/add/java/lib/*' "$@"
}
