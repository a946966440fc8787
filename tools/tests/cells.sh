#!/bin/bash
# SPDX-License-Identifier: GPL-2.0
#
# Checks of the instructions that compilers generate for the cell functions in libtwheel.h.
# They must be those that the comment in the header names, and no weaker ones. Each check must
# also refuse a list of headers with weaker code. bash scripts read this file with `.`, after
# checks.sh.

: "${work:?a directory for what is made}"

# Print a function for each inline one. The first argument of cancel() is the cell, and so is the
# second of the others.
cell_functions()
{
	cat <<-EOF
	#include <libtwheel.h>

	int arm(struct twheel_ctx *ctx, struct twheel_cell *cell, uint64_t id, uint64_t ns);
	int later(struct twheel_kicks *kicks, struct twheel_cell *cell, uint64_t id, uint64_t ns);
	int cancel(struct twheel_cell *cell);
	int cancel_at(struct twheel_cell *cell, uint64_t ns);

	int arm(struct twheel_ctx *ctx, struct twheel_cell *cell, uint64_t id, uint64_t ns)
	{
		return twheel_cell_arm(ctx, cell, id, ns);
	}

	int later(struct twheel_kicks *kicks, struct twheel_cell *cell, uint64_t id, uint64_t ns)
	{
		return twheel_cell_arm_later(kicks, cell, id, ns);
	}

	int cancel(struct twheel_cell *cell)
	{
		return twheel_cell_cancel(cell);
	}

	int cancel_at(struct twheel_cell *cell, uint64_t ns)
	{
		return twheel_cell_cancel_at(cell, ns);
	}
	EOF
}

# instructions CROSS HEADERS FUNCTION OPTION...: print those of the function, in one line.
instructions()
{
	local cross=$1 headers=$2 function=$3 compiler=${CC:-gcc}

	[ -z "$cross" ] || compiler=${cross}gcc
	cell_functions | "$compiler" -Wall -Wextra -Werror -O2 -I "$headers" -I tools/lib \
		"${@:4}" -x c -c -o "$work/cells.o" - || { echo "not compiled"; return; }
	"${cross}objdump" -dr --no-show-raw-insn "$work/cells.o" |
		sed -n "/^[0-9a-f]* <$function>:/,/^\$/s/^ *[0-9a-f]*:[ \t]*//p" |
		sed 's/[ \t][ \t]*/ /g' | paste -sd ';'
}

# expect CODE FUNCTION WANTED NEVER: the code must match the first pattern and not the second.
expect()
{
	{ grep -Eq "$3" <<<"$1" && ! grep -Eq "$4" <<<"$1"; } || echo "$2: $1"
}

# For each processor: two patterns for the exchange and the load of arm() and later(), one
# for the exchange of cancel() and the compare-exchange of cancel_at(). \1 or \2 is the
# register that has the address of the cell.
#
# expect_cells CROSS HEADERS LOAD_WANTED LOAD_NEVER EXCHANGE COMPARE [OPTION]...
expect_cells()
{
	local cross=$1 headers=$2 load=$3 never=$4 exchange=$5 compare=$6 function
	local -a options=("${@:7}")

	for function in arm later; do
		expect "$(instructions "$cross" "$headers" "$function" "${options[@]}")" \
			"$function" "$exchange.*;$load" "$never"
	done
	expect "$(instructions "$cross" "$headers" cancel "${options[@]}")" cancel \
		"$exchange" "$never"
	expect "$(instructions "$cross" "$headers" cancel_at "${options[@]}")" cancel_at \
		"$compare" "$never"
}

# x86 orders a store before a later load only at a locked instruction, and xchg is one.
cells_of_x86_64()
{
	expect_cells '' "$1" '(mov|cmp) [^;]*0x8\(\1\)' \
		'(mov|cmp) [^;]*0x8\((%r[a-z0-9]+)\).*;xchg [^;]*\(\2\)' \
		'xchg [^;]*\((%r[a-z0-9]+)\)' 'lock cmpxchg [^;]*\(%r[a-z0-9]+\)' -m64
}

# Never two loads of 32 bits. The first guess for the compare-exchange may be torn.
cells_of_i686()
{
	local options

	for options in -march=i586 -march=i686 -msse2; do
		expect_cells '' "$1" '(fildll|movq|movsd) 0x8\(\2\)' \
			'lock cmpxchg8b (0x0)?\((%e..)\).*;mov 0x[8c]\(\2\)|__atomic_' \
			'lock cmpxchg8b (0x0)?\((%e..)\)' 'lock cmpxchg8b (0x0)?\(%e..\)' \
			-m32 "$options"
	done
}

# An acquiring load orders itself after a releasing store only as ldar, not as ldapr.
arm64_never='ldapr|ldxr|stxr |swp[al]? |ldr x[0-9]+, \[x[0-9]+, #8\]'

cells_of_arm64_with_lse()
{
	local options

	for options in -march=armv8.1-a -march=armv8.3-a; do
		expect_cells "$arm64" "$1" 'ldar x' "$arm64_never" 'swpal [^;]*\[x[0-9]+\]' \
			'casal [^;]*\[x[0-9]+\]' "$options"
	done
}

cells_of_arm64_without_lse()
{
	local pair='ldaxr x[0-9]+, \[x[0-9]+\];.*stlxr w[0-9]+, x[0-9]+, \[x[0-9]+\]'

	expect_cells "$arm64" "$1" 'ldar x' "$arm64_never" "$pair" "$pair" \
		-march=armv8-a -mno-outline-atomics
}

# By default the compiler calls functions that choose the instructions at run time.
cells_of_arm64_with_both()
{
	expect_cells "$arm64" "$1" 'ldar x' "$arm64_never" '<?__aarch64_swp8_acq_rel' \
		'<?__aarch64_cas8_acq_rel' -march=armv8-a -moutline-atomics
}

# weaken SED DIRECTORY: write an edited header, which must differ from ours.
weaken()
{
	mkdir -p "$2"
	sed -E "$1" tools/lib/libtwheel.h >"$2/libtwheel.h"
	! cmp -s tools/lib/libtwheel.h "$2/libtwheel.h" || echo "weaken: $1 changes nothing"
}

# right_and_no_weaker CHECK SED...: the check must accept our header and refuse each weaker one.
right_and_no_weaker()
{
	local check=$1 change found

	"$check" tools/lib
	for change in "${@:2}"; do
		weaken "$change" "$work/weaker"
		found=$("$check" "$work/weaker")
		[[ -n $found && $found != *"not compiled"* ]] || echo "$check of $change: $found"
	done
}

relaxed_load='s/(__atomic_load_n\(&cell->look, __ATOMIC_)SEQ_CST/\1RELAXED/'
plain_load='s/__atomic_load_n\(&cell->look, __ATOMIC_SEQ_CST\)/cell->look/'
# Newer compilers generate this for an acquiring load.
ldapr='".arch_extension rcpc; ldapr %0, [%1]" : "=r" (look_) : "r" (\&cell->look) : "memory"'
ldapr="({ __u64 look_; __asm__ ($ldapr); look_; })"
acquiring_load="s/__atomic_load_n\(&cell->look, [^)]*\)/$ldapr/"
relaxed_exchange='s/(__atomic_exchange_n\(.*__ATOMIC_)SEQ_CST/\1RELAXED/'
acquiring_exchange='s/(__atomic_exchange_n\(.*__ATOMIC_)SEQ_CST/\1ACQUIRE/'
plain_exchange='s/__atomic_exchange_n\((&cell->word), ([^,]*), .*;/cell->word; cell->word = \2;/'
relaxed_compare='s/__ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST/__ATOMIC_RELAXED, __ATOMIC_RELAXED/'

# takes OPTION: succeed if the compiler makes such programs, or else skip.
takes()
{
	gcc "$1" -E -x c - >/dev/null 2>&1 </dev/null || skip "no compiler with $1"
}

cells_are_exchanged_on_x86_64()
{
	takes -m64 || return
	right_and_no_weaker cells_of_x86_64 "$plain_exchange" | silent
}

cells_are_exchanged_on_i686()
{
	takes -m32 || return
	right_and_no_weaker cells_of_i686 "$plain_exchange" "$plain_load" | silent
}

# The compiler for AArch64 that is installed, or that tools/vm/kernel/get has fetched.
find_arm64()
{
	local compiler

	compiler=$(type -P aarch64-linux-gnu-gcc) && echo "${compiler%gcc}" && return
	for compiler in "${XDG_CACHE_HOME:-$HOME/.cache}"/twheel/gcc-*-aarch64-linux-gnu-*; do
		[ -e "$compiler/.complete" ] || continue
		echo "$compiler/root/usr/bin/aarch64-linux-gnu-"
		return
	done
}

cells_are_exchanged_on_arm64()
{
	local arm64 check

	arm64=$(find_arm64)
	[ -n "$arm64" ] || { skip "no compiler for AArch64"; return; }
	for check in cells_of_arm64_{with_lse,without_lse,with_both}; do
		right_and_no_weaker "$check" "$relaxed_load" "$plain_load" "$acquiring_load" \
			"$relaxed_exchange" "$acquiring_exchange" "$plain_exchange" \
			"$relaxed_compare"
	done | silent
}

# The functions are missing before the Pentium, and the library has no need of libatomic.
cells_are_missing_on_i486()
{
	takes -m32 || return
	echo '#include <libtwheel.h>' | gcc -m32 -march=i486 -dM -E -I tools/lib - |
		{ grep -F TWHEEL_HAS_CELLS || true; } | silent || return
	gcc -m32 -march=i486 -std=gnu11 -O2 -Wall -Wextra -Werror -fPIC -shared -Wl,-z,defs \
		-I tools/lib -o "$work/i486.so" tools/lib/*.c
}
