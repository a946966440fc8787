# SPDX-License-Identifier: GPL-2.0
#
# completion.zsh WORDS LAST: print what zsh shows when Tab is pressed after WORDS, up to the
# word LAST. An interactive zsh runs the function in tools/twheel/completion on a terminal of
# its own.
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; stty -echo cols 200 rows 100; fpath=(tools/twheel/completion $fpath)'
zpty -w shell 'autoload -U compinit; compinit -D -u; print ready-$((1))'
zpty -r -m shell shown '*ready-1*'
zpty -n -w shell "$1"$'\t\t'
zpty -r -m shell shown "*$2 *-- *"
print -r -- ${shown//$'\e'\[[0-9;?]#[A-Za-z]/}
