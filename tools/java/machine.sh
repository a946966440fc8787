#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Builds the Java package, and runs its classes in the test VM. For bash, by way of `.`.
: "${top:?}" "${build:?}"

# Builds, runs the tests that need no device, and makes the jar. Maven resets the colours of
# what is no terminal, too.
java_package()
{
	mvn -B -q -ntp -f "$top/tools/java/pom.xml" "-Dout=$build/java" package |
		sed 's/\x1b\[[0-9;]*m//g'
}

# java_runtime DIRECTORY: a runtime with the modules that are needed alone. The VM takes the
# libraries of executable files along, so the libraries are made executable.
java_runtime()
{
	jlink --add-modules java.base,java.logging,jdk.management,jdk.unsupported --strip-debug \
		--no-header-files --no-man-pages --output "$1"
	find "$1/lib" -name '*.so' -exec chmod +x {} +
	"$1/bin/java" -Xshare:dump >/dev/null
}

# java_machine WORK KERNEL LOG SECONDS [OPTION]... CLASS ARGUMENT...: runs a main class of the
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
