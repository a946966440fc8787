#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# tool.sh [PATTERN]: the tool on the device, in the test VM, as KTAP: with PATTERN the tests with
# such a name. Those in /add/tool.txt are dialogues: after a line "== NAME", commands behind "$ ",
# what each prints, and behind it the exit status in brackets if that is not 0. `t` is the tool
# with --fd 3, an empty context. A part of a time that varies is shown as "_". The other tests are
# functions with an underscore in their names.

# shellcheck source=tools/tests/ktap.sh
. /ktap.sh
dialogues=/add/tool.txt
tests=$(sed -n 's/^== //p; s/^\([a-z]*_[a-z0-9_]*\)()$/\1/p' $dialogues "$0" | grep -e "${1-}")

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
	sed -n "/^== $1\$/,/^\$/{/^==/d; /^\$/d; p}" $dialogues >/tmp/wanted
	sed -n 's/^\$ //p' /tmp/wanted | answers >/tmp/answers
	diff -U 3 /tmp/wanted /tmp/answers
}

# has PATTERN: the output of the last command matches it.
has()
{
	case $1 in
	!*) ! grep -qE -- "${1#!}" /tmp/out && return ;;
	*) grep -qE -- "$1" /tmp/out && return ;;
	esac
	echo "no '$1' in:"
	cat /tmp/out
	return 1
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

# Each opening of the pipe in place of the table reads of another user.
prometheus_users_are_of_one_moment()
{
	mkfifo /tmp/users && mount --bind /tmp/users /sys/kernel/debug/twheel_users || return
	for uid in $(seq 99); do echo "$uid 1 1 1 1 1 1" >/tmp/users; done &
	twheel stat --prometheus >/tmp/out
	result=$?
	kill $! 2>/dev/null
	umount /sys/kernel/debug/twheel_users
	[ $result = 0 ] && [ "$(grep -c 'uid="1"' /tmp/out)" = 6 ]
}

watch_shows_rates_in_a_pipe()
{
	twheel arm 0 --every 1ms --fd 3 >/tmp/id
	{ twheel read --fd 3 & } >/tmp/read
	twheel watch --count 2 --interval 2s --fd 3 2>/tmp/err | cat >/tmp/out
	kill $!
	[ "$(grep -cE '^context [0-9:]{8}, every 2s$' /tmp/out)" = 2 ] &&
		[ "$(grep -cE '^fired +[0-9]+( +[1-9][0-9]*/s)?$' /tmp/out)" = 2 ] &&
		has '^fired .*/s$' && has '^live +1 *$' && has '^wheel_occupied .* in level 3$' &&
		has '^lateness +[0-9]+ +[0-9]+/s  under ' &&
		! grep -q "$(printf '\033')" /tmp/out
}

watch_makes_up_for_nothing()
{
	twheel watch --interval 100ms >/tmp/out 2>/tmp/err &
	pid=$!
	sleep 0.5
	kill -STOP $pid
	sleep 3
	kill -CONT $pid
	sleep 0.5
	kill -TERM $pid
	shown=$(grep -c '^shared wheel' /tmp/out)
	[ "$shown" -ge 2 ] && [ "$shown" -lt 20 ]
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

help_is_shown_for_every_command()
{
	twheel help >/tmp/out && has '^Usage: twheel COMMAND' || return
	commands=$(sed -n '/^Commands/,/^$/s/^  \([a-z]*\) .*/\1/p' /tmp/out)
	[ "$(echo "$commands" | wc -l)" -ge 17 ] || return
	for command in $commands; do
		twheel "$command" --help >/tmp/help &&
			twheel help "$command" >/tmp/out && has "^Usage: twheel $command " &&
			cmp -s /tmp/help /tmp/out && has '!.{81}' || return
	done
}

if [ ! "$tests" ]; then
	sed -n 's/^== //p; s/^\([a-z]*_[a-z0-9_]*\)()$/\1/p' $dialogues "$0" >&2
	exit 64
fi
echo "KTAP version 1"
# shellcheck disable=SC2086 # several words
set -- $tests
echo "1..$#"
for test; do
	exec 3<>/dev/twheel
	if grep -qx "== $test" $dialogues; then
		check "$test" play "$test"
	else
		check "$test" "$test"
	fi
	exec 3<&-
done
