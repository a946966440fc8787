#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# The cache outside the checkout, which all checkouts of the user share. bash scripts read this file
# with `.`. A name in the cache contains everything that determines the content, so entries never
# become outdated. This includes the path of the cache where the content refers to it: if the cache
# was moved, entries are made again.
#
# An entry is valid only if its stamp exists, which is written last. A lock prevents two runs from
# making the same entry at once.

cache=${XDG_CACHE_HOME:-$HOME/.cache}/twheel

# cached NAME COMMAND...: print the directory NAME of the cache. COMMAND fills it, as its current
# directory, unless that is already done. The remains of a killed run are removed.
cached()
{
	local dir=$cache/$1

	echo "$dir"
	[ -e "$dir/.complete" ] && return
	mkdir -p "$cache"
	(
		flock 9
		[ -e "$dir/.complete" ] && exit
		rm -rf "$dir"
		mkdir -p "$dir"
		# The caller may have switched off that a shell ends at an error.
		cd "$dir" && "${@:2}" 9>&- >&2 && touch .complete
	) 9>"$dir.lock"
}
