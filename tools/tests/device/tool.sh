#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The tool on the device: the output and the exit status of every command. A busybox shell
# runs this in the test VM.

# A test is a function with an underscore in its name; descriptor 3 is an empty context.
tests=$(sed -n 's/^\([a-z]*_[a-z0-9_]*\)()$/\1/p' "$0")

# status WANTED COMMAND...: check the exit status; the output goes to the file out.
status()
{
	wanted=$1
	shift
	"$@" >/tmp/out 2>/tmp/err
	status=$?
	[ $status = "$wanted" ] && return
	echo "# $*: status $status"
	sed 's/^/# /' /tmp/out /tmp/err
	return 1
}

# has PATTERN: the output of the last command matches it.
has()
{
	grep -qE -- "$1" /tmp/out && return
	echo "# no '$1' in:"
	sed 's/^/# /' /tmp/out
	return 1
}

# The machine has only the user root so far.
users()
{
	printf '%s\n' root:x:0:0::/:/bin/sh nobody:x:65534:65534::/:/bin/sh >/etc/passwd
	printf '%s\n' root:x:0: nobody:x:65534: wheelers:x:77: >/etc/group
}

arm_prints_an_id_that_get_finds()
{
	id=$(twheel arm 1h --cookie 7 --fd 3)
	status 0 twheel get "$id" --fd 3 && has "^id=$id cookie=7 remaining=59m[0-9]*s$"
}

# A number without a unit means seconds, for all commands and in scripts.
durations_are_read_and_printed_alike()
{
	id=$(twheel arm 5400 --every 1h30m --slack 0.002 --fd 3)
	status 0 twheel list --fd 3 && has 'remaining=1h29m[0-9]*s every=1h30m slack=2ms$' || return
	status 0 twheel mod "$id" 7200 --fd 3 && status 0 twheel get "$id" --fd 3 &&
		has 'remaining=1h59m[0-9]*s$' || return
	printf 'arm a 0.02\nwait 0.03\nexpect a fired\n' >/tmp/script
	status 0 twheel run /tmp/script && status 0 twheel sleep 0.01 10ms &&
		status 0 twheel after 0.01 -- true &&
		status 0 twheel watch --interval 0.1 --count 1 &&
		status 1 twheel read --count 1 --timeout 0.01 --fd 3 &&
		status 0 twheel load --timeouts 10 --spread 0.1
}

periodic_timeout_is_read_to_its_last_deadline()
{
	twheel arm 0 --every 20ms --repeat 5 --fd 3 >/tmp/id
	status 0 twheel read --json --fd 3 && has '"last":true' || return
	sed 's/.*"count":\([0-9]*\),.*/\1/' /tmp/out | awk '{ n += $1 } END { exit n != 5 }'
}

lateness_is_told_of_one_deadline_alone()
{
	twheel arm 0 --every 20ms --repeat 3 --fd 3 >/tmp/id
	sleep 1
	status 0 twheel read --json --fd 3 && has '"count":3' || return
	! has lateness >/dev/null || return
	twheel arm 0 --fd 3 >/tmp/id
	status 0 twheel read --json --fd 3 && has '"lateness_ns":[0-9]*,"count":1,'
}

read_ends_when_the_rest_is_cancelled()
{
	twheel arm 1h --fd 3 >/tmp/id
	twheel read --fd 3 >/tmp/out 2>/tmp/err &
	pid=$!
	sleep 1
	twheel cancel --all --fd 3 >/tmp/id
	wait $pid
}

mod_keeps_the_cookie()
{
	id=$(twheel arm 1h --cookie 7 --fd 3)
	status 0 twheel mod "$id" 0 --fd 3 && has moved || return
	status 0 twheel read --count 1 --fd 3 && has "^id=$id cookie=7 lateness="
}

# The kernel looks at the old deadline, finds the new one and makes no event.
cell_is_moved_and_disarmed()
{
	id=$(twheel arm 6s --cell --cookie 7 --fd 3)
	status 0 twheel move "$id" 1h --fd 3 && has '^moved$' || return
	status 0 twheel read --timeout 7s --fd 3 && [ ! -s /tmp/out ] || return
	status 0 twheel get "$id" --fd 3 && has 'cookie=7 remaining=59m[0-9]*s$' || return
	status 0 twheel stat --fd 3 && has '^looks  *1$' && has '^kicks  *0$' || return
	status 0 twheel disarm "$id" --fd 3 && has '^disarmed$' || return
	status 1 twheel disarm "$id" --fd 3 && status 0 twheel get "$id" --fd 3 && has ' idle$' &&
		status 0 twheel get "$id" --json --fd 3 && has '"idle":true' &&
		! grep -q remaining /tmp/out
}

cell_keeps_its_id_when_it_has_fired()
{
	id=$(twheel arm 0 --cell --fd 3)
	status 0 twheel read --count 1 --json --fd 3 && has "\"id\":\"$id\".*\"last\":false" ||
		return
	status 0 twheel move "$id" 0 --fd 3 && has '^armed$' || return
	status 0 twheel read --count 1 --fd 3 && has "^id=$id "
}

# This needs a KICK.
move_brings_a_cell_forward()
{
	id=$(twheel arm 1h --cell --fd 3)
	status 0 twheel move "$id" 10ms --fd 3 && has '^moved$' || return
	status 0 twheel read --count 1 --fd 3 && has "^id=$id " || return
	status 0 twheel stat --fd 3 && has '^kicks  *1$'
}

# ready: wait until an event is unread.
ready()
{
	until twheel info --fd 3 | grep -q "ready *$1"; do
		sleep 0.1
	done
}

move_withdraws_an_event()
{
	id=$(twheel arm 0 --cell --fd 3)
	ready 1
	status 0 twheel move "$id" 1h --fd 3 && has '^withdrawn$' || return
	status 1 twheel read --count 1 --timeout 0 --fd 3 && [ ! -s /tmp/out ] || return
	status 0 twheel stat --fd 3 && has '^dropped  *1$' && has '^read  *0$'
}

mod_of_a_cell_needs_its_option()
{
	cell=$(twheel arm 1h --cell --fd 3)
	other=$(twheel arm 1h --fd 3)
	status 64 twheel mod "$cell" 2h --fd 3 && status 64 twheel mod "$other" 2h --cell --fd 3 &&
		status 0 twheel mod "$cell" 2h --cell --cookie 9 --fd 3 && has '^moved$' || return
	status 0 twheel get "$cell" --fd 3 && has 'cookie=9 remaining=1h59m[0-9]*s$' || return
	status 0 twheel disarm "$cell" --fd 3 &&
		status 0 twheel mod "$cell" 1h --cell --fd 3 && has '^armed$'
}

move_of_another_timeout_is_wrong_usage()
{
	id=$(twheel arm 1h --fd 3)
	status 64 twheel move "$id" 2h --fd 3 && status 1 twheel disarm "$id" --fd 3 || return
	status 0 twheel get "$id" --fd 3 && has 'remaining=59m[0-9]*s$'
}

# Another timeout may have the same index; it is left alone.
move_of_an_ended_cell_is_no()
{
	id=$(twheel arm 1h --cell --fd 3)
	status 0 twheel cancel "$id" --fd 3 || return
	other=$(twheel arm 1h --cell --fd 3)
	status 1 twheel move "$id" 2h --fd 3 && status 1 twheel disarm "$id" --fd 3 || return
	status 0 twheel get "$other" --fd 3 && has 'remaining=59m[0-9]*s$'
}

cancel_ends_a_cell_in_any_state()
{
	id=$(twheel arm 1h --cell --fd 3)
	status 0 twheel cancel "$id" --fd 3 && has '^cancelled$' || return
	id=$(twheel arm 0 --cell --fd 3)
	ready 1
	status 0 twheel cancel "$id" --fd 3 && has '^withdrawn$' || return
	id=$(twheel arm 1h --cell --fd 3)
	twheel disarm "$id" --fd 3 >/tmp/out
	status 0 twheel cancel "$id" --fd 3 && has '^idle$' || return
	status 0 twheel info --fd 3 && has '^live  *0$'
}

read_does_not_wait_for_idle_cells()
{
	twheel arm 100ms --cell --cookie 1 --fd 3 >/tmp/id
	id=$(twheel arm 1h --cell --cookie 2 --fd 3)
	twheel disarm "$id" --fd 3 >/tmp/out
	status 0 twheel read --fd 3 && [ "$(wc -l </tmp/out)" = 1 ] && has 'cookie=1 ' || return
	status 0 twheel info --fd 3 && has '^live  *2$'
}

list_shows_how_a_timeout_was_armed()
{
	twheel arm 1h --every 2h --repeat 9 --fixed-delay --slack 3ms --cookie 7 --fd 3 >/tmp/id
	twheel arm 1h --cell --fd 3 >/tmp/id
	id=$(twheel arm 1h --cell --cookie 3 --slack 5ms --fd 3)
	twheel disarm "$id" --fd 3 >/tmp/id
	status 0 twheel list --fd 3 && [ "$(wc -l </tmp/out)" = 3 ] || return
	has 'cookie=7 pending remaining=59m[0-9]*s every=2h repeat=9 slack=3ms fixed-delay$' &&
		has 'cookie=0 pending remaining=59m[0-9]*s cell$' &&
		has "^id=$id cookie=3 idle slack=5ms cell$" || return
	status 0 twheel list --json --fd 3 &&
		has '"state":"idle","interval_ns":0,.*"slack_ns":5000000,.*"cell":true'
}

cancel_all_says_how_many()
{
	for ns in 1h 2h 0; do
		twheel arm $ns --fd 3 >/tmp/id
	done
	id=$(twheel arm 1h --cell --fd 3)
	twheel disarm "$id" --fd 3 >/tmp/id
	ready 1
	status 0 twheel cancel --all --fd 3 && has '^2 cancelled, 1 withdrawn$' || return
	status 0 twheel list --fd 3 && [ ! -s /tmp/out ]
}

cancel_by_cookie_leaves_the_others()
{
	for cookie in 1 2 1; do
		twheel arm 1h --cookie $cookie --fd 3 >/tmp/id
	done
	status 0 twheel cancel --all --cookie 1 --fd 3 && has '^2 cancelled, 0 withdrawn$' ||
		return
	status 0 twheel list --fd 3 && [ "$(wc -l </tmp/out)" = 1 ] && has 'cookie=2 '
}

cancelled_timeout_is_unknown()
{
	id=$(twheel arm 1h --fd 3)
	status 0 twheel cancel "$id" --fd 3 && has cancelled || return
	status 1 twheel cancel "$id" --fd 3 && status 1 twheel get "$id" --fd 3 &&
		status 1 twheel mod "$id" 1h --cookie 1 --fd 3
}

stop_hands_out_what_had_not_fired()
{
	twheel arm 2h --cookie 2 --fd 3 >/tmp/id
	twheel arm 1h --cookie 1 --fd 3 >/tmp/id
	status 0 twheel stop --fd 3 && status 0 twheel read --fd 3 || return
	[ "$(sed 's/.*\(cookie=.\) \([a-z]*\) .*/\1 \2/' /tmp/out | sort | tr '\n' ' ')" = \
		"cookie=1 unprocessed cookie=2 unprocessed " ]
}

stopped_context_takes_no_timeout()
{
	status 0 twheel stop --fd 3 && status 1 twheel arm 1h --fd 3 &&
		status 0 twheel info --json --fd 3 && has '"stopped":true' || return
	status 1 twheel read --count 1 --fd 3
}

setup_is_done_once()
{
	status 0 twheel setup --clock boottime --tick 200us --slots 50 --levels 5 --max 99 \
		--fd 3 && status 0 twheel info --fd 3 &&
		has '^clock  *boottime$' && has '^tick  *200us$' &&
		has '^slots  *64$' && has '^levels  *8$' && has '^max timeouts  *99$' &&
		has 'its own' && status 1 twheel setup --fd 3
}

setup_of_a_used_context_is_refused()
{
	twheel arm 1h --fd 3 >/tmp/id
	status 1 twheel setup --max 5 --fd 3
}

limit_is_temporary_failure()
{
	status 0 twheel setup --max 1 --fd 3 && status 0 twheel arm 1h --fd 3 &&
		status 75 twheel arm 1h --fd 3 && status 0 twheel info --fd 3 || return
	has '^refused  *1$' && has '^user  *[1-9][0-9]* of [0-9]* timeouts, 0 refused$' &&
		has '^all users  *0 refused$' &&
		has '^user wheels  *0 of [0-9]* bytes, 0 refused$' &&
		status 0 twheel info --json --fd 3 && has '"refused":1,"user_timeouts":[1-9]'
}

stat_counts_what_was_done()
{
	twheel arm 0 --fd 3 >/tmp/id
	twheel read --count 1 --fd 3 >/tmp/out
	id=$(twheel arm 1h --fd 3)
	twheel mod "$id" 2h --fd 3 >/tmp/out
	twheel cancel "$id" --fd 3 >/tmp/out
	status 0 twheel stat --fd 3 && has '^armed  *2$' && has '^moved  *1$' &&
		has '^cancelled  *1$' && has '^ended  *1$' && has '^fired  *1$' &&
		has '^looks  *0$' && has '^kicks  *0$' && has '^dropped  *0$' &&
		has '^live  *0$' && has '^lateness  *1  under '
}

stat_of_the_wheel_needs_no_descriptor()
{
	status 0 twheel stat && has '^wheel_armed ' && has '^wheel_occupied .* in level 3$' &&
		! grep -q '^armed' /tmp/out
}

# The first line of each context contains the values. The tool itself holds the descriptors
# too.
contexts_are_listed_with_their_holders()
{
	exec 4<&3 5<>/dev/twheel
	twheel arm 1h --cell --fd 3 >/tmp/id
	twheel setup --clock boottime --fd 5 && twheel arm 1h --fd 5 >/tmp/id
	status 0 twheel contexts && twheel contexts --json >/tmp/json
	exec 4<&- 5<&-
	[ "$(wc -l </tmp/out)" = 4 ] && [ "$(wc -l </tmp/json)" = 3 ] && [ ! -s /tmp/err ] &&
		has "^ *1  *$$  *3  .*  monotonic  *1  *0  *1$" &&
		has "^ *1  *$$  *4  [a-z.]*$" &&
		has "^ *2  *$$  *5  .*  boottime  *1  *0  *0$" || return
	mv /tmp/json /tmp/out
	has "^[{]\"context\":1,\"pid\":$$,.*\"fd\":4,\"clock\":\"monotonic\",.*\"cells\":1}$"
}

contexts_of_other_users_are_counted()
{
	users
	chmod 666 /dev/twheel
	twheel=$(command -v twheel)
	status 0 su -s /bin/sh nobody -c "exec 3<&- 4<>/dev/twheel; $twheel contexts; :" ||
		return
	chmod 600 /dev/twheel
	[ "$(wc -l </tmp/out)" = 2 ] && has ' 4  sh .* monotonic ' &&
		grep -qE 'note: [1-9][0-9]* process.* not shown' /tmp/err
}

# As far as a shell can check.
json_is_one_object()
{
	for command in info stat; do
		status 0 twheel $command --json --fd 3 && [ "$(wc -l </tmp/out)" = 1 ] &&
			has '^\{("[a-z_]+":("[a-z0-9.-]+"|true|false|[0-9]+|\[[0-9,]+\])[,}])+$' ||
			return
	done
}

# Each metric appears once, with HELP and TYPE in this order and then its samples. A counter
# ends in _total. The buckets of a histogram do not decrease, and the last one equals the
# count.
valid()
{
	awk -v labels='[{]([a-z]+="[^"]*",?)+[}]' '
	function bad(why) { print "# " FILENAME ":" NR ": " why ": " $0; wrong = 1 }
	/^# HELP / {
		name = $3
		if (name in known || name !~ /^twheel_[a-z_]+$/ || NF < 4) bad("help")
		known[name] = 1
		next
	}
	/^# TYPE / {
		type = $4
		if ($3 != name || type !~ /^(counter|gauge|histogram)$/ || NF != 4) bad("type")
		if ((type == "counter") != (name ~ /_total$/)) bad("suffix")
		last = -1
		next
	}
	{
		sample = $1
		sub(labels, "", sample)
		if (NF != 2 || $2 !~ /^[0-9]+$/ || sample ~ /[^a-z_]/) bad("sample")
		samples++
		if (type != "histogram") {
			if (sample != name) bad("name")
		} else if (sample == name "_bucket") {
			if ($1 !~ /le="([0-9]+[.][0-9]+|[+]Inf)"[}]$/ || $2 < last) bad("bucket")
			last = $2
		} else if (sample != name "_count" || $2 != last) {
			bad("count")
		}
	}
	END { exit wrong || samples < 20 }' "$1"
}

prometheus_text_is_well_formed()
{
	twheel arm 0 --fd 3 >/tmp/id
	twheel read --count 1 --fd 3 >/tmp/id
	twheel arm 1h --fd 3 >/tmp/id
	status 0 twheel stat --prometheus --fd 3 && valid /tmp/out || return
	has '^twheel_context_armed_total 2$' && has '^twheel_context_live 1$' &&
		has '^twheel_context_lateness_seconds_bucket[{]le="0.001048575"[}] [01]$' &&
		has '^twheel_context_lateness_seconds_count 1$' &&
		has '^twheel_wheel_armed_total[{]wheel="dev.[0-9]*"[}] [1-9]' &&
		has '^twheel_wheel_slots[{]wheel="dev.[0-9]*",level="3"[}] [1-9]' || return
	status 0 twheel stat --prometheus && valid /tmp/out && ! has _context_ >/dev/null &&
		status 64 twheel stat --prometheus --json
}

prometheus_text_pleases_promtool()
{
	[ -x /add/promtool ] || return 77
	status 0 twheel stat --prometheus --fd 3 &&
		/add/promtool check metrics </tmp/out 2>/tmp/err && [ ! -s /tmp/err ]
}

after_becomes_the_command()
{
	status 7 twheel after 100ms -- sh -c 'echo -x; exit 7' && has '^-x$'
}

after_of_no_command_is_127()
{
	status 127 twheel after 0 -- /no/such/command && status 126 twheel after 0 -- /dev/null
}

every_runs_as_often_as_asked()
{
	status 0 twheel every 20ms --count 4 -- echo run && [ "$(wc -l </tmp/out)" = 4 ]
}

every_has_the_status_of_the_last_run()
{
	status 5 twheel every 10ms --count 2 -- sh -c 'exit 5'
}

every_stops_when_there_is_no_command()
{
	status 127 twheel every 10ms -- /no/such/command
}

every_runs_where_nobody_hears_of_children()
{
	status 0 sh -c 'trap "" CHLD; exec twheel every 10ms --count 2 -- true'
}

# As with env and timeout. The tool's own options may be before and after the duration.
options_end_at_the_command_to_run()
{
	status 0 twheel every 10ms --count 2 ls -d --color=never / &&
		[ "$(wc -l </tmp/out)" = 2 ] &&
		status 0 twheel every --count 2 10ms echo --count 3 && has '^--count 3$' &&
		status 3 twheel after 0 sh -c 'exit 3' && status 0 twheel after 0 echo -h &&
		has '^-h$' && status 0 twheel after 0 -- echo -- && has '^--$' &&
		status 0 twheel after -- 0 echo ok && has '^ok$' &&
		status 64 twheel every 1s --cuont 3 ls && status 64 twheel after 1s --count 3 ls
}

watch_draws_pictures_into_a_pipe()
{
	twheel watch --count 2 --interval 200ms 2>/tmp/err | cat >/tmp/out
	[ "$(grep -c '^shared wheel, monotonic clock' /tmp/out)" = 2 ] && has 'slots in use' &&
		has '^wakeups ' && has '^[0-9:]{8}, every 200ms$' &&
		! grep -q "$(printf '\033')" /tmp/out
}

watch_of_a_context_shows_its_counters()
{
	twheel arm 1h --fd 3 >/tmp/id
	status 0 twheel watch --count 1 --fd 3 && has '^context, monotonic clock' &&
		has '^live 1 of ' && has '^armed  *-  *1$'
}

watch_ends_well_when_interrupted()
{
	rm /tmp/out
	twheel watch --interval 1h >/tmp/out 2>/tmp/err &
	pid=$!
	until [ -s /tmp/out ]; do
		sleep 0.1
	done
	kill -TERM $pid
	wait $pid
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
	wait $pid || return
	[ "$(grep -c '^shared wheel' /tmp/out)" -lt 20 ]
}

script_moves_and_repeats()
{
	cat >/tmp/script <<-EOF
	arm a 1s
	every b 10ms 3
	move a 1h
	wait 1500ms
	expect a pending
	expect b fired
	move a 10ms
	wait 20ms
	expect a fired
	EOF
	status 0 twheel run /tmp/script && [ "$(grep -c 'moved  *a' /tmp/out)" = 2 ]
}

# Each twice, from each state.
script_knows_what_became_of_each_arming()
{
	cat >/tmp/script <<-EOF
	arm a 0
	arm b 0
	arm c 1h
	arm d 1h
	wait 20ms
	disarm c
	cancel d
	expect a fired
	expect b fired
	expect c disarmed
	expect d cancelled
	arm a 1h
	every b 5ms 2
	arm c 5ms
	arm d 5ms
	wait 30ms
	expect a pending
	expect b fired
	expect c fired
	expect d fired
	mod a 2h
	move a 3h
	disarm a
	cancel a
	arm a 5ms
	wait 10ms
	expect a fired
	EOF
	status 0 twheel run /tmp/script
}

# A move to a later time leaves the cell queued until the old deadline.
script_waits_for_cells_that_were_moved()
{
	for i in 1 2 3 4 5 6 7 8 9; do
		printf 'arm a%s 5ms\nmove a%s 50ms\n' $i $i
	done >/tmp/script
	echo wait 50ms >>/tmp/script
	for i in 1 2 3 4 5 6 7 8 9; do
		echo expect a$i fired
	done >>/tmp/script
	status 0 twheel run /tmp/script
}

# fails REASON: run the script in the file and check its error.
fails()
{
	cat >/tmp/script
	status 1 twheel run /tmp/script && grep -q "$1" /tmp/err
}

script_that_does_not_come_out_fails()
{
	printf 'every b 1h 2\nmove b 2h\n' | fails 'b cannot be moved: it is no cell' &&
		printf 'arm b 0\nwait 9ms\nmove b 2h\n' | fails 'b cannot be moved: it has fired' &&
		printf 'arm b 1h\ndisarm b\ndisarm b\n' | fails 'it was disarmed' &&
		printf 'arm b 1h\nexpect b disarmed\n' | fails 'pending for another' &&
		printf 'every b 1h\n' >/tmp/script && status 65 twheel run /tmp/script
}

# One line each, as a compiler prints it.
script_mistakes_are_reported_before_it_runs()
{
	printf 'print ran\namr a 1s\nwait 1x\nexpect b fired\n' >/tmp/script
	status 65 twheel run /tmp/script && [ ! -s /tmp/out ] && [ "$(wc -l </tmp/err)" = 3 ] &&
		grep -q "^/tmp/script:2: 'amr' .* did you mean 'arm'?" /tmp/err &&
		grep -q "^/tmp/script:3: '1x' is not a duration" /tmp/err &&
		grep -q "^/tmp/script:4: no earlier line arms 'b'$" /tmp/err
}

load_prints_rate_and_cpu_time()
{
	status 0 twheel load --timeouts 1000 --spread 100ms &&
		has '^rate  *[1-9][0-9]*  operations per second$' &&
		has '^cpu  *[0-9.]*[mu]*s  user [0-9.]*[mu]*s  system [0-9.]*[mu]*s$' &&
		! has '^interrupted' >/dev/null || return
	status 0 twheel load --timeouts 1000 --spread 100ms --json &&
		has '"operations_per_second":[1-9][0-9]*,"cpu_user_ns":[0-9]*,"cpu_system_ns":' &&
		has '"interrupted":false}$'
}

# interrupt ARGUMENT...: interrupt a load after a second. Children of a shell get no Ctrl-C.
interrupt()
{
	twheel load --timeouts 1000 --spread 1h "$@" >/tmp/out 2>/tmp/err &
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

load_says_that_it_was_interrupted()
{
	interrupt && has '^interrupted: ' && interrupt --json && has '"interrupted":true}$'
}

load_without_a_device_prints_nothing()
{
	mv /dev/twheel /dev/hidden
	status 69 twheel load
	result=$?
	mv /dev/hidden /dev/twheel
	[ $result = 0 ] && [ ! -s /tmp/out ]
}

wrong_descriptor_is_no_input()
{
	for command in list stop stat watch; do
		status 66 twheel $command --fd 9 || return
		status 66 twheel $command --fd 0 </dev/null || return
	done
}

wrong_usage_is_64()
{
	status 64 twheel arm 1s --repeat 3 --fd 3 && status 64 twheel arm 1s --fixed-delay --fd 3 &&
		status 64 twheel arm 1s --every 0 --fd 3 &&
		status 64 twheel arm 1s --every 1s --cell --fd 3 &&
		status 64 twheel cancel 5 --cookie 3 --fd 3 && status 64 twheel cancel --fd 3 &&
		status 64 twheel cancel 5 --all --fd 3 && status 64 twheel list &&
		status 64 twheel setup --clock sundial --fd 3 && status 64 twheel after 1s &&
		status 64 twheel every 0 -- true && status 64 twheel watch --interval 1ms
}

# says TEXT COMMAND...: the command exits with a usage error and prints the text on standard
# error.
says()
{
	text=$1
	shift
	status 64 "$@" || return
	grep -qF -- "$text" /tmp/err && return
	echo "# no '$text' in:"
	sed 's/^/# /' /tmp/err
	return 1
}

wrong_usage_names_the_culprit()
{
	says "twheel arm: '-5s' is not a duration" twheel arm -5s &&
		says "twheel arm: '-.5s' is not a duration" twheel arm --fd 3 -.5s &&
		says "twheel mod: '-5' is not a number" twheel mod -5 1s --fd 3 &&
		says "twheel mod: '-5s' is not a duration" twheel mod 3 -5s --fd 3 &&
		says "twheel arm: --every: '-5s' is not a duration" twheel arm 1s --every -5s &&
		says "twheel arm: '5x' is not a duration" twheel arm 5x &&
		says "unknown option '-x'" twheel arm -x && says "'-xy'" twheel arm 1s -xy &&
		says "option '--json' takes no value" twheel list --json=yes &&
		says "option '--fd' needs a value" twheel list --fd &&
		says "one argument too many: '2s'" twheel arm 1s 2s
}

misspelt_words_have_a_suggestion()
{
	says "twheel: 'amr' is not a command; did you mean 'arm'?" twheel amr 1s &&
		says "did you mean 'cancel'?" twheel help canel &&
		says "'--cokie'; did you mean '--cookie'?" twheel arm 1s --cokie 5 &&
		says "'--tiemout=5s'; did you mean '--timeout'?" twheel read --tiemout=5s &&
		says "twheel: 'xyzzy' is not a command" twheel xyzzy && ! grep -q mean /tmp/err
}

help_is_shown_for_every_command()
{
	status 0 twheel help && has '^Usage: twheel COMMAND' || return
	commands=$(sed -n '/^Commands/,/^$/s/^  \([a-z]*\) .*/\1/p' /tmp/out)
	[ "$(echo "$commands" | wc -l)" -ge 19 ] || return
	for command in $commands; do
		twheel "$command" --help >/tmp/help &&
			status 0 twheel help "$command" && has "^Usage: twheel $command " &&
			cmp -s /tmp/help /tmp/out && ! has '.{81}' >/dev/null || return
	done
}

version_has_a_letter()
{
	twheel --version >/tmp/version &&
		status 0 twheel -V && cmp -s /tmp/version /tmp/out && has '^twheel [0-9]+[.]'
}

# denied GROUP MODE: open the device, which has this group and mode, as another user.
denied()
{
	chown "0:$1" /dev/twheel && chmod "$2" /dev/twheel || return
	status 77 su -s /bin/sh nobody -c "$(command -v twheel) info"
	chown 0:0 /dev/twheel && chmod 600 /dev/twheel && [ ! -s /tmp/out ]
}

denied_access_names_the_group()
{
	users
	denied 77 660 && grep -q 'Permission denied: members of the group wheelers' /tmp/err &&
		grep -q "'usermod -aG wheelers USER'" /tmp/err &&
		denied 0 600 && grep -q 'Permission denied: root alone' /tmp/err
}

options_may_come_last_whatever_the_environment()
{
	status 0 env POSIXLY_CORRECT=1 twheel arm 1h --fd 3 &&
		status 0 env POSIXLY_CORRECT=1 twheel after 0 -- env && has '^POSIXLY_CORRECT=1$'
}

echo "KTAP version 1"
# shellcheck disable=SC2086 # several words
set -- $tests
echo "1..$#"
number=0
for test; do
	number=$((number + 1))
	exec 3<>/dev/twheel
	verdict=ok
	skip=
	$test
	case $? in
	0) ;;
	77) skip=" # SKIP" ;;
	*) verdict="not ok" ;;
	esac
	echo "$verdict $number $test$skip"
	exec 3<&-
done
