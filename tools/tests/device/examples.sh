#!/bin/sh
# SPDX-License-Identifier: GPL-2.0
#
# The examples of the documentation run and exit with success. Servers have a test mode,
# with $EXAMPLE_CONNECTIONS connections on slow machines. The counters of rpc_client are
# consistent. A busybox shell runs this in the test VM.

examples()
{
	find /add/examples -type f | sort
}

# rpc_client_adds_up PROGRAM REQUESTS MS: each request ends in one way, and each timeout
# that has fired is read or withdrawn. Apart from the first arm of each cell, only the one
# after a look can need a call. With a long timeout few looks find an idle cell.
rpc_client_adds_up()
{
	"$@" >/tmp/counts || return
	cat /tmp/counts
	awk -v "requests=$2" -v "ms=$3" -v cells=10000 '
		{ nr[$1] = $2 }
		$1 == "fired" { withdrawn = $5 }
		function wrong(what) { print "wrong: " what; status = 1 }
		END {
			if (nr["requests"] != requests)
				wrong("requests")
			if (nr["answered"] + nr["timeouts"] != requests)
				wrong("answered + timeouts")
			if (nr["timeouts"] + withdrawn != nr["fired"])
				wrong("timeouts + withdrawn")
			if (nr["timeouts"] < int(requests / 2 / 5000) * 2)
				wrong("timeouts: more were lost")
			if (nr["looks"] < nr["fired"])
				wrong("looks")
			if (nr["kicks"] > cells + nr["looks"])
				wrong("kicks: more than looks")
			if (ms >= 5000 && nr["kicks"] > cells + nr["fired"] + requests / 50)
				wrong("kicks")
			if (nr["calls"] > nr["kicks"] + 3 * nr["timeouts"] + 1)
				wrong("calls")
			exit status
		}' /tmp/counts
}

# Once with the default, and once with a timeout so short that answers and expiries race.
run_rpc_client()
{
	requests=${EXAMPLE_CONNECTIONS:+20000}
	rpc_client_adds_up "$1" "${requests:-200000}" 5000 &&
		rpc_client_adds_up "$1" "${requests:-200000}" 15
}

run_example()
{
	case $1 in
	*.sh) sh "$1" ;;
	*.twheel) twheel run "$1" ;;
	*/rpc_client) run_rpc_client "$1" ;;
	*_server) "$1" --self-test ${EXAMPLE_CONNECTIONS:+"$EXAMPLE_CONNECTIONS"} ;;
	*) "$1" ;;
	esac
}

echo "KTAP version 1"
echo "1..$(examples | wc -l)"
number=0
for example in $(examples); do
	number=$((number + 1))
	verdict=ok
	run_example "$example" >/tmp/output 2>&1 </dev/null || verdict="not ok"
	sed 's/^/# /' /tmp/output
	name=${example##*/}
	echo "$verdict $number example_${name%.*}_runs"
done
