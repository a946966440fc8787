# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Completes twheel(1) in bash. The tool itself lists the commands and the options.

_twheel_commands()
{
	"$1" --help 2>/dev/null | sed -n '/^Commands/,/^$/s/^  \([a-z]*\) .*/\1/p'
}

_twheel_options()
{
	"$1" "$2" --help 2>/dev/null | sed -n 's/^  \(--[a-z-]*\) .*/\1/p; $a--help'
}

# _twheel_takes_value TOOL COMMAND WORD: is WORD an option with a value, which help has in
# capitals?
_twheel_takes_value()
{
	[[ $3 == --* ]] && "$1" "$2" --help 2>/dev/null | grep -q "^  $3 [A-Z][A-Z]* "
}

# The descriptors of this shell that are contexts.
_twheel_descriptors()
{
	find "/proc/$$/fd" -lname /dev/twheel -printf '%f\n' 2>/dev/null
}

# Index of the COMMAND that after and every run: behind DURATION and the options of both.
_twheel_command_index()
{
	local i duration=

	[[ ${COMP_WORDS[1]} == @(after|every) ]] || return
	for ((i = 2; i <= COMP_CWORD; i++)); do
		case ${COMP_WORDS[i]} in
		--) ((++i)); [[ $duration ]] || { duration=1; ((++i)); }; break ;;
		--count) ((++i)) ;;
		-*) ;;
		*) [[ ! $duration ]] || break; duration=1 ;;
		esac
	done
	((i <= COMP_CWORD)) && echo "$i"
}

# The words of such a COMMAND: its name, then files.
_twheel_foreign()
{
	local i

	i=$(_twheel_command_index) || return
	if ((i == COMP_CWORD)); then
		compgen -c -- "$1"
	else
		compgen -f -- "$1"
	fi
	return 0
}

_twheel_words()
{
	case $COMP_CWORD:${COMP_WORDS[1]}:$3 in
	1:*) _twheel_commands "$1"; echo --help; echo --version ;;
	2:help:*) _twheel_commands "$1" ;;
	*:*:--fd) _twheel_descriptors ;;
	*:*:--clock) printf '%s\n' monotonic boottime realtime ;;
	*:run:*) compgen -f -- "$2"; _twheel_options "$1" run ;;
	*) _twheel_takes_value "$1" "${COMP_WORDS[1]}" "$3" || _twheel_options "$1" "${COMP_WORDS[1]}" ;;
	esac
}

# Can the word be a file? Then bash quotes it, and appends a / to a directory.
_twheel_wants_file()
{
	[[ ${COMP_WORDS[1]} == run ]] || _twheel_command_index >/dev/null
}

_twheel()
{
	! _twheel_wants_file || compopt -o filenames 2>/dev/null
	mapfile -t COMPREPLY < <(_twheel_foreign "$2" ||
		_twheel_words "$@" | while IFS= read -r word; do
			[[ $word != "$2"* ]] || printf '%s\n' "$word"
		done)
}

complete -F _twheel twheel
