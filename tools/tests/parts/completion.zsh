# SPDX-License-Identifier: GPL-2.0
#
# completion.zsh WORDS LAST: what zsh shows for WORDS on Tab, up to the word LAST, with the
# function in tools/twheel/completion: by an interactive zsh, on a terminal that is made for it.
zmodload zsh/zpty
zpty shell zsh -f -i
zpty -w shell 'PS1=; stty -echo cols 200 rows 100; fpath=(tools/twheel/completion $fpath)'
zpty -w shell 'autoload -U compinit; compinit -D; print ready-$((1))'
zpty -r -m shell shown '*ready-1*'
zpty -n -w shell "$1"$'\t\t'
zpty -r -m shell shown "*$2 *-- *"
print -r -- ${shown//$'\e'\[[0-9;?]#[A-Za-z]/}
