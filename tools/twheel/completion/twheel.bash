# SPDX-License-Identifier: GPL-2.0
# shellcheck shell=bash
#
# Completes twheel(1) in bash. The tool itself lists the commands and the options.

# _twheel TOOL WORD PREVIOUS: options with a value have its name in capitals in the help. after
# and every take a command, and run a file.
_twheel()
{
	local command=${COMP_WORDS[1]} words='' help

	help=$("$1" "$command" --help 2>/dev/null)
	if [[ $COMP_CWORD = 1 || $command = help ]]; then
		words=$("$1" --help 2>/dev/null | sed -n '/^Commands/,/^$/s/^  \([a-z]*\) .*/\1/p')
	elif [[ $3 = --fd ]]; then
		words=$(find "/proc/$$/fd" -lname /dev/twheel -printf '%f\n' 2>/dev/null)
	elif [[ $3 = --clock ]]; then
		words='monotonic boottime realtime'
	elif [[ $3 = --* ]] && grep -q "^  $3 [A-Z][A-Z]* " <<<"$help"; then
		:
	elif [[ $command = run && $2 != -* ]]; then
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -f -- "$2")
		return
	elif [[ $command = @(after|every) && $2 != -* && $COMP_CWORD -gt 2 ]]; then
		compopt -o filenames 2>/dev/null
		mapfile -t COMPREPLY < <(compgen -c -f -- "$2")
		return
	else
		words=$(sed -n 's/^  \(--[a-z-]*\) .*/\1/p; $a--help' <<<"$help")
	fi
	mapfile -t COMPREPLY < <(compgen -W "$words" -- "$2")
}

complete -F _twheel twheel
