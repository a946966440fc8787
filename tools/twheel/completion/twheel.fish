# SPDX-License-Identifier: GPL-2.0
#
# Completes twheel(1) in fish. The tool itself lists the commands and the options.

# Is the word of the COMMAND that after and every run? It is behind DURATION and their options.
function __twheel_runs
    set -l words (string join ' ' -- (commandline -opc) | string replace -ra -- ' --count \S+' '' |
        string split -n ' ' | string match -v -- '-*')
    contains -- "$words[2]" after every; or return
    test (count $words) -gt 3; and return
    test (count $words) = 3; and not string match -q -- '-*' (commandline -ct)
    and test (commandline -opc)[-1] != --count
end

function __twheel_words
    set -l words (commandline -opc)
    if test (count $words) = 1; or test "$words[2]" = help
        $words[1] --help 2>/dev/null | sed -n '/^Commands/,/^$/s/^  \([a-z]*\)  *\(.*\)/\1\t\2/p'
    else if test "$words[-1]" = --clock
        printf '%s\n' monotonic boottime realtime
    else if not $words[1] $words[2] --help 2>/dev/null | grep -q -- "^  $words[-1] [A-Z][A-Z]* "
        $words[1] $words[2] --help 2>/dev/null | sed -n 's/^  \(--[a-z-]*\) *[A-Z]*  *\(.*\)/\1\t\2/p'
        echo --help\tshow the help
    end
end

complete -c twheel -f -n 'not __twheel_runs' -a '(__twheel_words)'
complete -c twheel -F -n 'contains -- run (commandline -opc)[2]'
complete -c twheel -x -n __twheel_runs \
    -a '(__fish_complete_subcommand --fcs-skip=3 -- --count)'
