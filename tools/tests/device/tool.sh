#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# tool.sh [PATTERN]: the tool on the device: the output and the exit status of every command. A
# busybox shell runs this in the test VM, with PATTERN the tests with such a name.
#
# Most tests are sessions, in the table below: a name, and lines like
#
#	[STATUS | VARIABLE=]COMMAND [: PATTERN [&& PATTERN]...]
#
# A command without the word twheel is one of the tool, with --fd 3 behind it: an empty context.
# The variable gets its output. The patterns must match the output: !PATTERN must not, and =NUMBER
# is the number of lines. A command with an exit status of sysexits.h prints only an error, which
# the patterns must match. The other tests are functions with an underscore in their names.

id=
tests=$(sed -n 's/^\([a-z]*_[a-z0-9_]*\)\(()\)*$/\1/p' "$0" | grep -e "${1-}")

cat >/tmp/sessions <<'EOF'
arm_prints_an_id_that_get_finds
	id=arm 1h --cookie 7
	get $id : ^id=$id cookie=7 pending remaining=59m[0-9]*s$ && =1

durations_are_read_and_printed_alike
	id=arm 5400 --every 1h30m --slack 0.002
	list : remaining=1h29m[0-9]*s every=1h30m slack=2ms$
	mod $id 7200
	get $id : pending remaining=1h59m[0-9]*s$
	twheel sleep .01 10ms 1e-4m
	twheel after 0.01 -- true
	twheel watch --interval 0.1 --count 1
	1 read --count 1 --timeout 0.01
	twheel load --timeouts 10 --spread 0.1

lateness_is_told_of_one_deadline_alone
	arm 0 --every 20ms --repeat 3
	sleep 1
	read --json : "count":3 && !lateness
	arm 0
	read --json : "lateness_ns":[0-9]*,"count":1,

mod_keeps_the_cookie
	id=arm 1h --cookie 7
	mod $id 0 : moved
	read --count 1 : ^id=$id cookie=7 lateness=

cell_is_moved_and_disarmed
	id=arm 6s --cell --cookie 7
	mod $id 1h : ^moved$
	read --timeout 7s : =0
	get $id : cookie=7 pending remaining=59m[0-9]*s cell$
	stat : ^looks +1$ && ^kicks +0$
	disarm $id : ^disarmed$
	1 disarm $id
	get $id : cookie=7 idle cell$
	get $id --json : "state":"idle" && !remaining

cell_keeps_its_id_when_it_has_fired
	id=arm 0 --cell
	read --count 1 --json : "id":"$id".*"last":false
	mod $id 0 : ^armed$
	read --count 1 : ^id=$id cookie

mod_brings_a_cell_forward
	id=arm 1h --cell
	mod $id 10ms : ^moved$
	read --count 1 : ^id=$id cookie
	stat : ^kicks +1$

mod_withdraws_the_event_of_a_cell
	id=arm 0 --cell
	ready 1
	mod $id 1h : ^withdrawn$
	1 read --count 1 --timeout 0 : =0
	stat : ^dropped +1$ && ^read +0$

mod_calls_for_what_an_exchange_cannot_change
	id=arm 1h --cell --cookie 7 --slack 2ms
	mod $id 2h
	list : cookie=7 pending remaining=1h59m[0-9]*s slack=2ms cell$
	mod $id 1h --cookie 9 : ^moved$
	get $id : cookie=9 pending remaining=59m[0-9]*s cell$
	disarm $id
	mod $id 2h --exact : ^armed$
	64 mod $id 2h --every 1s

disarm_of_another_timeout_is_wrong_usage
	id=arm 1h
	64 disarm $id : is not a cell
	get $id : pending remaining=59m[0-9]*s$

mod_of_an_ended_cell_leaves_another_with_its_index
	id=arm 1h --cell
	cancel $id
	other=arm 1h --cell
	1 mod $id 2h
	1 disarm $id
	get $other : remaining=59m[0-9]*s cell$

realtime_clock_takes_times_alone
	setup --clock realtime
	64 arm 1h : 1h: the clock is realtime.* --abs$
	id=arm 4000000000s --abs --cell
	64 mod $id 1h : the clock is realtime
	mod $id 4000000001s --abs : ^moved$

json_has_ids_and_cookies_as_strings
	id=arm 0 --cookie 18446744073709551615
	list --json : ^[{]"id":"$id","cookie":"18446744073709551615","state"
	get $id --json : ^[{]"id":"$id","cookie":"18446744073709551615","state".*"slack_ns":0,
	read --json : ^[{]"id":"$id","cookie":"18446744073709551615","expires_ns"

cancel_ends_a_cell_in_any_state
	id=arm 1h --cell
	cancel $id : ^cancelled$
	id=arm 0 --cell
	ready 1
	cancel $id : ^withdrawn$
	id=arm 1h --cell
	disarm $id
	cancel $id : ^idle$
	info : ^live +0$

read_does_not_wait_for_idle_cells
	arm 100ms --cell --cookie 1
	id=arm 1h --cell --cookie 2
	disarm $id
	read : cookie=1 lateness && =1
	info : ^live +2$

list_shows_how_a_timeout_was_armed
	arm 1h --every 2h --repeat 9 --fixed-delay --slack 3ms --cookie 7
	arm 1h --cell
	id=arm 1h --cell --cookie 3 --slack 5ms
	disarm $id
	list : cookie=7 pending remaining=59m[0-9]*s every=2h repeat=9 slack=3ms fixed-delay$
	list : cookie=0 pending remaining=59m[0-9]*s cell$ && =3
	list : ^id=$id cookie=3 idle slack=5ms cell$
	list --json : "state":"idle","interval_ns":0,.*"slack_ns":5000000,.*"cell":true

cancel_all_says_how_many
	arm 1h
	arm 2h
	arm 0
	id=arm 1h --cell
	disarm $id
	ready 1
	cancel --all : ^2 cancelled, 1 withdrawn$
	list : =0

cancel_by_cookie_leaves_the_others
	arm 1h --cookie 1
	arm 1h --cookie 2
	arm 1h --cookie 1
	cancel --all --cookie 1 : ^2 cancelled, 0 withdrawn$
	list : cookie=2 pending && =1

cancelled_timeout_is_unknown
	id=arm 1h
	cancel $id : cancelled
	1 cancel $id
	1 get $id
	1 mod $id 1h --cookie 1

stop_hands_out_what_had_not_fired
	arm 2h --cookie 2
	arm 1h --cookie 1
	stop
	read : cookie=1 unprocessed && cookie=2 unprocessed && =2

stopped_context_takes_no_timeout
	stop
	1 arm 1h
	info --json : "stopped":true
	1 read --count 1

setup_is_done_once
	setup --clock boottime --tick 200us --slots 50 --levels 5 --max 99
	info : ^clock +boottime$ && ^tick +200us$ && ^slots +64$ && ^levels +8$ && its own
	info : ^max timeouts +99$
	1 setup

setup_of_a_used_context_is_refused
	arm 1h
	1 setup --max 5

limit_is_temporary_failure
	setup --max 1
	arm 1h
	75 arm 1h : the limit of the context, 1 timeouts, is reached
	info : ^refused +1$ && ^user +[1-9][0-9]* of [0-9]* timeouts, 0 refused$
	info : ^all users +0 refused$ && ^user wheels +0 of [0-9]* bytes, 0 refused$
	info --json : "refused":1,"user_timeouts":[1-9]

stat_counts_what_was_done
	arm 0
	read --count 1
	id=arm 1h
	mod $id 2h
	cancel $id
	stat : ^armed +2$ && ^moved +1$ && ^cancelled +1$ && ^ended +1$ && ^fired +1$
	stat : ^looks +0$ && ^kicks +0$ && ^dropped +0$ && ^live +0$ && ^lateness +1  under

info_has_the_version_of_the_module
	info : ^module +[0-9]+[.][0-9.]+$
	info --json : ^[{]"module":"[0-9]+[.][0-9.]+",

stat_of_the_wheel_needs_no_descriptor
	twheel stat : ^wheel_armed +[0-9] && ^wheel_occupied .* in level 3$ && !^armed

json_is_one_object
	info --json : ^\{("[a-z_]+":("[a-z0-9.-]+"|true|false|[0-9]+|\[[0-9,]+\])[,}])+$ && =1
	stat --json : ^\{("[a-z_]+":("[a-z0-9.-]+"|true|false|[0-9]+|\[[0-9,]+\])[,}])+$ && =1

after_becomes_the_command
	7 twheel after 100ms -- sh -c 'echo -x; exit 7' : ^-x$
	127 twheel after 0 -- /no/such/command
	126 twheel after 0 -- /dev/null

every_runs_as_often_as_asked
	twheel every 20ms --count 4 -- echo run : =4
	5 twheel every 10ms --count 2 -- sh -c 'exit 5'
	127 twheel every 10ms -- /no/such/command
	sh -c 'trap "" CHLD; exec twheel every 10ms --count 2 -- true'

options_end_at_the_command_to_run
	twheel every 10ms --count 2 ls -d --color=never / : =2
	twheel every --count 2 10ms echo --count 3 : ^--count 3$
	3 twheel after 0 sh -c 'exit 3'
	twheel after 0 echo -h : ^-h$
	twheel after 0 -- echo -- : ^--$
	twheel after -- 0 echo ok : ^ok$
	64 twheel every 1s --cuont 3 ls
	64 twheel after 1s --count 3 ls

watch_of_a_context_shows_its_counters
	arm 1h
	watch --count 1 : ^context, monotonic clock && ^live 1 of [0-9] && ^armed +- +1$

wrong_descriptor_is_no_input
	66 twheel list --fd 9
	66 twheel list --fd 0
	66 twheel stop --fd 9
	66 twheel stop --fd 0
	66 twheel stat --fd 9
	66 twheel stat --fd 0
	66 twheel watch --fd 9
	66 twheel watch --fd 0

wrong_usage_is_64
	64 arm 1s --repeat 3
	64 arm 1s --fixed-delay
	64 arm 1s --every 0
	64 arm 1s --every 1s --cell
	64 cancel 5 --cookie 3
	64 cancel
	64 cancel 5 --all
	64 twheel list
	64 setup --clock sundial
	64 twheel after : DURATION is missing
	64 twheel after 1s : COMMAND is missing
	64 mod 5 : DURATION is missing
	64 twheel run : FILE is missing
	64 twheel every 0 -- true
	64 twheel watch --interval 1ms
	64 twheel stat --prometheus --json

wrong_usage_names_the_culprit
	64 twheel arm -5s : twheel arm: '-5s' is not a duration
	64 arm -.5s : twheel arm: '-[.]5s' is not a duration
	64 mod -5 1s : twheel mod: '-5' is not a number
	64 mod 3 -5s : twheel mod: '-5s' is not a duration
	64 twheel arm 1s --every -5s : twheel arm: --every: '-5s' is not a duration
	64 twheel arm 5x : twheel arm: '5x' is not a duration
	64 twheel arm -x : unknown option '-x'
	64 twheel arm 1s -xy : '-xy'
	64 twheel list --json=yes : option '--json' takes no value
	64 twheel list --fd : option '--fd' needs a value
	64 twheel arm 1s 2s : one argument too many: '2s'

misspelt_words_have_a_suggestion
	64 twheel amr 1s : twheel: 'amr' is not a command; did you mean 'arm'[?]
	64 twheel help canel : did you mean 'cancel'[?]
	64 twheel arm 1s --cokie 5 : '--cokie'; did you mean '--cookie'[?]
	64 twheel read --tiemout=5s : '--tiemout=5s'; did you mean '--timeout'[?]
	64 twheel xyzzy : twheel: 'xyzzy' is not a command && !mean

options_may_come_last_whatever_the_environment
	env POSIXLY_CORRECT=1 twheel arm 1h --fd 3
	env POSIXLY_CORRECT=1 twheel after 0 -- env : ^POSIXLY_CORRECT=1$
EOF

# status WANTED COMMAND...: check the exit status; the output goes to the file out.
status()
{
	wanted=$1
	shift
	"$@" >/tmp/out 2>/tmp/err
	status=$?
	if [ $status != "$wanted" ]; then
		echo "# $*: status $status"
		sed 's/^/# /' /tmp/out /tmp/err
		return 1
	fi
	[ $status -lt 64 ] || [ $status -gt 78 ] || { has '=0' && mv /tmp/err /tmp/out; }
}

# has PATTERN: the output of the last command matches it.
has()
{
	case $1 in
	=*) [ "$(wc -l </tmp/out)" = "${1#=}" ] && return ;;
	!*) ! grep -qE -- "${1#!}" /tmp/out && return ;;
	*) grep -qE -- "$1" /tmp/out && return ;;
	esac
	echo "# no '$1' in:"
	sed 's/^/# /' /tmp/out
	return 1
}

# patterns PATTERN: one after the other, each with && behind it.
patterns()
{
	rest=$1
	while [ -n "$rest" ]; do
		pattern=${rest%% && *} rest=${rest#* && }
		case $pattern in
		*\$id*) pattern=${pattern%%\$id*}$id${pattern#*\$id} ;;
		esac
		has "$pattern" || return
	done
}

# play NAME: the session of that name.
play()
{
	sed -n "/^$1\$/,/^\$/s/^\t//p" /tmp/sessions >/tmp/session
	while read -r line; do
		command=${line%% : *} wanted=0 variable=
		case $command in
		[0-9]*) wanted=${command%% *} command=${command#* } ;;
		[a-z]*=arm*) variable=${command%%=*} command=${command#*=} ;;
		esac
		case $command in
		*twheel* | ready* | sleep*) ;;
		*) command="twheel $command --fd 3" ;;
		esac
		eval "status $wanted $command" </dev/null || return
		[ -z "$variable" ] || eval "$variable=\$(cat /tmp/out)"
		[ "$line" = "${line%% : *}" ] || patterns "${line#* : } && " || return
	done </tmp/session
}

# The machine has only the user root so far.
users()
{
	printf '%s\n' root:x:0:0::/:/bin/sh nobody:x:65534:65534::/:/bin/sh >/etc/passwd
	printf '%s\n' root:x:0: nobody:x:65534: wheelers:x:77: >/etc/group
}

periodic_timeout_is_read_to_its_last_deadline()
{
	twheel arm 0 --every 20ms --repeat 5 --fd 3 >/tmp/id
	status 0 twheel read --json --fd 3 && has '"last":true' || return
	sed 's/.*"count":\([0-9]*\),.*/\1/' /tmp/out | awk '{ n += $1 } END { exit n != 5 }'
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

# ready: wait until an event is unread.
ready()
{
	until twheel info --fd 3 | grep -q "ready *$1"; do
		sleep 0.1
	done
}

# The tool itself holds the descriptors too, and others.
contexts_are_listed_with_their_holders()
{
	exec 4<&3 5<>/dev/twheel 6</dev/zero
	twheel arm 1h --cell --fd 3 >/tmp/id
	twheel setup --clock boottime --fd 5 && twheel arm 1h --fd 5 >/tmp/id
	status 0 twheel contexts && twheel contexts --json >/tmp/json
	exec 4<&- 5<&- 6<&-
	[ "$(wc -l </tmp/out)" = 4 ] && [ "$(wc -l </tmp/json)" = 3 ] && [ ! -s /tmp/err ] &&
		has "^ *$$  *3  .*  root  *monotonic  *1  *0  *1$" &&
		has "^ *$$  *4  .*  root  *monotonic  *1  *0  *1$" &&
		has "^ *$$  *5  .*  root  *boottime  *1  *0  *0$" || return
	mv /tmp/json /tmp/out
	has "^[{]\"pid\":$$,.*\"fd\":4,\"uid\":0,\"clock\":\"monotonic\",.*,\"cells\":1}$"
}

contexts_have_names_that_can_be_printed()
{
	printf 'a\tb\377"c\\d' >/proc/$$/comm
	status 0 twheel contexts && has ' a[?]b[?]"c[\\]d  *root  *monotonic ' &&
		status 0 twheel contexts --json && has '"command":"a[?]b[?][\\]"c[\\][\\]d",'
}

contexts_of_other_users_are_not_seen()
{
	users
	chmod 666 /dev/twheel
	twheel=$(command -v twheel)
	status 0 su -s /bin/sh nobody -c "exec 3<&- 4<>/dev/twheel; $twheel contexts; :" ||
		return
	chmod 600 /dev/twheel
	has '=2' && has ' 4  sh .* nobody  *monotonic ' &&
		grep -q 'note: only root sees the processes of others' /tmp/err
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
	END { exit wrong || samples < 15 }' "$1"
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
	status 0 twheel stat --prometheus && valid /tmp/out && has '!_context_'
}

prometheus_text_pleases_promtool()
{
	[ -x /add/promtool ] || return 77
	status 0 twheel stat --prometheus --fd 3 &&
		/add/promtool check metrics </tmp/out 2>/tmp/err && [ ! -s /tmp/err ]
}

# limits VALUE: of the timeouts of a user. A page of them can be made.
limits()
{
	echo "$1" >/sys/module/twheel_dev/parameters/max_user_timeouts
}

limit_is_named_with_its_value()
{
	limits 1
	status 75 twheel arm 1h --fd 3
	result=$?
	limits 100
	[ $result = 0 ] && has 'limit of the user, 1 timeouts [(]max_user_timeouts[)]' &&
		status 0 twheel load --timeouts 1000 --spread 100ms --threads 1 &&
		mv /tmp/err /tmp/out &&
		has '^twheel load: waiting .* of the user, 100 timeouts [(]max_user_timeouts[)]'
	result=$?
	limits 0
	return $result
}

# The group of the device sees no wheel.
prometheus_text_shows_users_without_root()
{
	users
	chmod 666 /dev/twheel
	chmod 444 /sys/class/misc/twheel/*s /sys/class/misc/twheel/version
	status 0 su -s /bin/sh nobody -c "exec 3<&-; $(command -v twheel) stat --prometheus"
	result=$?
	chmod 600 /dev/twheel
	chmod 440 /sys/class/misc/twheel/*s /sys/class/misc/twheel/version
	[ $result = 0 ] && [ ! -s /tmp/err ] && valid /tmp/out && has '!_wheel_armed' &&
		has '^twheel_user_contexts[{]uid="65534"[}] 1$' &&
		has '^twheel_user_all_refused_total[{]uid="0"[}] [0-9]+$' &&
		has '^twheel_limit[{]name="max_wheel_bytes"[}] [1-9]' &&
		has '^twheel_timeouts [0-9]+$'
}

# Each opening of the pipe in place of the attribute reads of another user.
prometheus_users_are_of_one_moment()
{
	mkfifo /tmp/users && mount --bind /tmp/users /sys/class/misc/twheel/users || return
	for uid in $(seq 99); do echo "$uid 1 1 1 1 1 1" >/tmp/users; done &
	status 0 twheel stat --prometheus
	result=$?
	kill $! 2>/dev/null
	umount /sys/class/misc/twheel/users
	[ $result = 0 ] && valid /tmp/out && [ "$(grep -c 'uid="1"' /tmp/out)" = 6 ]
}

watch_draws_pictures_into_a_pipe()
{
	twheel watch --count 2 --interval 200ms 2>/tmp/err | cat >/tmp/out
	[ "$(grep -c '^shared wheel, monotonic clock' /tmp/out)" = 2 ] && has 'slots in use' &&
		has '^wakeups ' && has '^[0-9:]{8}, every 200ms$' &&
		! grep -q "$(printf '\033')" /tmp/out
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
	mod a 3h
	disarm a
	cancel a
	arm a 1h
	mod a 5ms
	wait 10ms
	expect a fired
	EOF
	status 0 twheel run /tmp/script && has 'moved  *a'
}

# A move to a later time leaves the cell queued until the old deadline.
script_waits_for_cells_that_were_moved()
{
	for i in 1 2 3 4 5 6 7 8 9; do
		printf 'arm a%s 5ms\nmod a%s 50ms\n' $i $i
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
	printf 'every b 1h 2\ndisarm b\n' | fails 'b cannot be disarmed: it is no cell' &&
		printf 'arm b 0\nwait 9ms\nmod b 2h\n' | fails 'b cannot be moved: it has fired' &&
		printf 'arm b 1h\ndisarm b\ndisarm b\n' | fails 'it was disarmed' &&
		printf 'arm b 1h\nexpect b disarmed\n' | fails 'pending for another' &&
		printf 'every b 1h\n' >/tmp/script && status 65 twheel run /tmp/script
}

# One line each, as a compiler prints it.
script_mistakes_are_reported_before_it_runs()
{
	printf 'print ran\namr a 1s\nwait 1x\nexpect b fired\n' >/tmp/script
	status 65 twheel run /tmp/script && has '=3' &&
		has "^/tmp/script:2: 'amr' .* did you mean 'arm'[?]" &&
		has "^/tmp/script:3: '1x' is not a duration" &&
		has "^/tmp/script:4: no earlier line arms 'b'$"
}

# Half of the events are not later than p50, nearly all not later than p99.
load_prints_lateness_and_rate()
{
	status 0 twheel load --timeouts 1000 --spread 100ms &&
		has '^lateness +p50 [0-9.]*[num]*s  p99 [0-9.]*[num]*s  max [0-9.]*[num]*s$' &&
		has '^rate +[1-9][0-9]*  operations per second$' &&
		has '!^interrupted' || return
	status 0 twheel load --timeouts 1000 --spread 100ms --json &&
		has '"delivery_p50_ns":[1-9][0-9]*,"delivery_p99_ns":[1-9]' &&
		has '"operations_per_second":[1-9][0-9]*,"interrupted":false}$' &&
		tr ',' '\n' </tmp/out | awk -F : '
			/(lateness|delivery)_p50/ { p50 = $2 }
			/_p99/ { p99 = $2 }
			/(lateness|delivery)_max/ { nr++; wrong += p50 > p99 || p99 > $2 }
			END { exit wrong || nr != 2 }'
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
	interrupt --spread 9000d && has '^interrupted: ' && has '!^lateness' &&
		interrupt --spread 9000d --json && has '"interrupted":true}$' && has '!lateness'
}

# hidden COMMAND...: without the device.
hidden()
{
	mv /dev/twheel /dev/hidden
	"$@"
	result=$?
	mv /dev/hidden /dev/twheel
	return $result
}

load_that_needs_the_device_prints_nothing()
{
	hidden status 69 env TWHEEL_BACKEND=kernel twheel load
}

# An expectation reads, which changes errno.
output_that_fails_is_named()
{
	[ -c /dev/full ] || mknod /dev/full c 1 7
	printf 'arm a 1h\nexpect a pending\n' | twheel run - 2>/tmp/out >/dev/full
	[ $? = 74 ] && has 'standard output: No space left on device$' || return
	printf 'arm a 0\n' | twheel run - 2>/tmp/out >&-
	[ $? = 74 ] && has 'standard output: Bad file descriptor$'
}

# The wheel in the process has the last descriptor.
missing_descriptor_is_no_reason_for_the_process()
{
	users
	status 0 su -s /bin/sh nobody -c "exec 3<&-; ulimit -n 4; $(command -v twheel) info" &&
		mv /tmp/err /tmp/out && has 'Permission denied' && has in.the.process &&
		has '!Too many'
}

# A shell without the device makes a file of that name.
covered()
{
	: >/dev/twheel
	status 0 twheel info && has '^wheel +in the process' && status 69 twheel stat
	result=$?
	rm -f /dev/twheel
	return $result
}

tool_tells_that_the_wheel_is_in_the_process()
{
	hidden status 0 twheel info && has '^wheel +in the process' &&
		grep -q 'is the module twheel_dev loaded' /tmp/err &&
		grep -q 'wheel in the process' /tmp/err &&
		hidden status 0 twheel sleep 1ms && [ ! -s /tmp/err ] &&
		hidden status 69 twheel stat &&
		hidden covered && hidden status 69 twheel arm 1ms &&
		has 'is the module twheel_dev loaded' &&
		status 0 env TWHEEL_BACKEND=process twheel info &&
		has '^wheel +in the process' && has '!^user' && [ ! -s /tmp/err ]
}

help_is_shown_for_every_command()
{
	status 0 twheel help && has '^Usage: twheel COMMAND' || return
	commands=$(sed -n '/^Commands/,/^$/s/^  \([a-z]*\) .*/\1/p' /tmp/out)
	[ "$(echo "$commands" | wc -l)" -ge 18 ] || return
	for command in $commands; do
		twheel "$command" --help >/tmp/help &&
			status 0 twheel help "$command" && has "^Usage: twheel $command " &&
			cmp -s /tmp/help /tmp/out && has '!.{81}' || return
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
	status 77 su -s /bin/sh nobody -c "$(command -v twheel) stat"
	chown 0:0 /dev/twheel && chmod 600 /dev/twheel
}

denied_access_names_the_group()
{
	users
	denied 77 660 && has 'Permission denied: members of the group wheelers' &&
		has "'usermod -aG wheelers USER'" && denied 0 600 &&
		has 'Permission denied: root alone'
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
	if grep -qx "$test" /tmp/sessions; then
		play "$test"
	else
		$test
	fi
	case $? in
	0) ;;
	77) skip=" # SKIP" ;;
	*) verdict="not ok" ;;
	esac
	echo "$verdict $number $test$skip"
	exec 3<&-
done
