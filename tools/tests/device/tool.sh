#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# tool.sh [PATTERN]: the tool on the device, in the test VM, as KTAP: with PATTERN the tests with
# such a name. They are dialogues in /add/tool.txt: after a line "== NAME", commands behind "$ ",
# what each prints, and behind it the exit status in brackets if that is not 0. `t` is the tool
# with --fd 3, an empty context. A part of a time that varies is shown as "_".

# shellcheck source=tools/tests/ktap.sh
. /ktap.sh
dialogues=/add/tool.txt

t()
{
	twheel "$@" --fd 3
}

# ready NUMBER: wait until so many events are unread.
ready()
{
	until t info | grep -q "ready *$1"; do
		sleep 0.1
	done
}

# Screens of watch, and wait for so many.
shown()
{
	grep -c '^shared wheel' /tmp/watch
}

screens()
{
	until [ "$(shown)" -ge "$1" ]; do
		sleep 0.1
	done
}

# Tenths of a second
tenths()
{
	sed -E 's/\.(.).*/\1/' /proc/uptime
}

# Print the commands on standard input, and what they print now.
answers()
{
	while IFS= read -r line; do
		echo "$ $line"
		eval "$line" </dev/null >/tmp/out 2>&1
		status=$?
		sed -i '/^Try /d' /tmp/out
		if [ $status = 0 ]; then cat /tmp/out; else echo "$(cat /tmp/out) [$status]"; fi
	done | sed -E 's/((remaining=|another )([0-9]+h)?([0-9]+m)?)[0-9.]+[mun]?s/\1_/
		s/lateness=[^ ]*/lateness=_/
		s/("(expires|fired|lateness|remaining)_ns":)[0-9]+/\1_/g'
}

# play NAME: compare a dialogue with the file.
play()
{
	sed -n "/^== $1\$/,/^== /{/^== /d; /^\$/d; p}" $dialogues >/tmp/wanted
	sed -n 's/^\$ //p' /tmp/wanted | answers | diff -U 3 /tmp/wanted -
}

# The machine has only the user root so far.
users()
{
	printf '%s\n' root:x:0:0::/:/bin/sh nobody:x:65534:65534::/:/bin/sh >/etc/passwd
	printf '%s\n' root:x:0: nobody:x:65534: wheelers:x:77: >/etc/group
}

# nobody COMMAND: a shell of another user, who has no context, runs it.
nobody()
{
	su -s /bin/sh nobody -c "exec 3<&-; PATH=$PATH; $1"
}

# interrupt ARGUMENT...: interrupt a load after a second. Children of a shell get no Ctrl-C.
interrupt()
{
	twheel load --timeouts 1000 --spread 9000d "$@" >/tmp/load 2>/tmp/err &
	pid=$!
	sleep 1
	# SIGTERM has a handler.
	until grep -q '^SigCgt:.*[4-7c-f]...$' /proc/$pid/status; do
		kill -0 $pid || return
		sleep 0.1
	done
	kill -TERM $pid
	wait $pid
	[ $? = 130 ]
}

names=$(sed -n 's/^== //p' $dialogues)
# shellcheck disable=SC2046 # several words
set -- $(echo "$names" | grep -e "${1-}")
if [ $# = 0 ]; then
	echo "$names" >&2
	exit 64
fi
echo "KTAP version 1"
echo "1..$#"
for test; do
	exec 3<>/dev/twheel
	check "$test" play "$test"
	exec 3<&-
done
