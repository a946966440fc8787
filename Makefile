# SPDX-License-Identifier: GPL-2.0
#
# What a person types. The kernel's build system reads Kbuild instead; user space
# has a makefile of its own in tools. Everything that is made lands in $(O).

O ?= build
override O := $(abspath $(O))
export O

# What to build the modules for: a kernel that tools/kernel/get knows, or with
# KDIR the build directory of any other.
KERNEL ?= stock

# A warning is an error; for a compiler that warns of more than ours, W=0.
W ?= 1
export W

MAKEFLAGS += --no-print-directory
.NOTPARALLEL:

all: setup-build modules tools

help:
	@echo 'make               modules for the distribution kernel, and the tool, in build/'
	@echo 'make modules       modules alone; KDIR=DIRECTORY for another kernel'
	@echo 'make tools         library and command line tool'
	@echo 'make demo          see it work in a test VM'
	@echo 'make vm            a shell in the test VM'
	@echo 'make install       all but the modules, to prefix=/usr/local below DESTDIR='
	@echo 'make uninstall     the same files go'
	@echo 'make deb           Debian packages, in build/deb'
	@echo 'make deb-check     install, use and remove them on Debian 12 and 13'
	@echo 'make check         all tests: builds, static, host, KUnit, device, bench-check'
	@echo 'make check-long    what takes longer: a million operations, proofs, and the packages,'
	@echo '                   on Debian 12 and 13'
	@echo 'make check-debug   KUnit, the device, its load, faults, storms and fuzz with KASAN,'
	@echo '                   lockdep, kmemleak, with KCSAN, and with PREEMPT_RT;'
	@echo '                   analysis, sanitize and valgrind'
	@echo 'make check-all     these three in one go, which takes less time'
	@echo 'make combination   ten million random operations in each of a dozen geometries'
	@echo 'make mutations     the random programs find each defect that is brought back'
	@echo 'make kunit         the KUnit suites, under User Mode Linux'
	@echo 'make kunit-smp     the same on four CPUs, in QEMU, under KASAN and lockdep'
	@echo 'make matrix        builds, KUnit and the device on all kernels, from 6.1 to the newest'
	@echo 'make travel        long timeouts, on a clock that jumps'
	@echo 'make device        the tests of the device, in the test VM; CPUS=N'
	@echo 'make python        the Python package, in the test VM; PYTHON=INTERPRETER'
	@echo 'make adapters      the adapters for libevent and libuv, in the test VM'
	@echo 'make samples       the module that uses the wheel, under User Mode Linux'
	@echo 'make library       what is installed of the library works'
	@echo 'make completion    bash and zsh complete what the tool takes'
	@echo 'make host          the tests of user space that need no device'
	@echo 'make static        checkpatch, sparse, cppcheck, kernel-doc, shellcheck, headers'
	@echo 'make analysis      coccinelle with the scripts of the kernel, clang-tidy'
	@echo 'make sanitize      the library and the tool with AddressSanitizer and UBSan'
	@echo 'make valgrind      the library by valgrind'
	@echo 'make faults        every call with each allocation and each copy in it failing in turn'
	@echo 'make storms        what nobody does on purpose, over and over: takes minutes'
	@echo 'make cells         100 million armings of cells, each accounted for: takes hours'
	@echo 'make prove         proofs of the index arithmetic and of the handshakes of cells, and that'
	@echo '                   they fail when these are broken'
	@echo 'make fuzz          random programs against the device, for long; SEED, OPERATIONS, KERNEL'
	@echo 'make bench         what it costs, beside its peers, in instructions: takes minutes'
	@echo 'make bench-native  in nanoseconds: operations inside the kernel beside timer_list and hrtimer,'
	@echo '                   in User Mode Linux; cells beside a wheel in the process: takes five minutes'
	@echo 'make bench-check   fails if twheel has become more than 5 % dearer'
	@echo 'make readme-check  follow the README from the top, on Debian 12 and 13'
	@echo 'make readme        the session and the picture of the README anew'
	@echo 'make clean         remove build/ (kernels are in ~/.cache/twheel)'

setup-%:
	@tools/setup $*

modules: $(if $(KDIR),,setup-build)
	@tools/kernel/modules $(or $(abspath $(KDIR)),$(KERNEL)) >/dev/null

tools:
	@$(MAKE) $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc)) -C tools O=$(O)/tools W=$(W)

vm: all setup-vm
	@tools/vm/run

demo: all setup-vm
	@tools/vm/demo

install: tools
	@$(MAKE) -C tools O=$(O)/tools install install-system

uninstall:
	@$(MAKE) -C tools O=$(O)/tools uninstall

deb: setup-deb
	@tools/deb

check: setup-check
	@tools/check/run

matrix: setup-matrix
	@status=0; tools/check/run matrix || status=$$?; tools/check/matrix; exit $$status

check-long: setup-check setup-prove setup-deb
	@tools/check/run packages long prove

check-debug: setup-debug
	@tools/check/run debug

check-all: setup-debug setup-prove setup-deb
	@tools/check/run debug packages long all prove

# A part that is asked for by its name runs, whether its result has been kept or not.
deb-check: setup-vm setup-deb
	@FRESH=1 tools/check/run packages

# KUnit ends a case after five minutes: so it is played ten times.
combination: setup-check
	@ROUNDS=10 tools/check/run $@ $@@um

library completion host kunit mutations travel device adapters python samples static cells: setup-check
	@FRESH=1 tools/check/run $@

kunit-smp: setup-check
	@tools/check/run kunit@kasan

analysis sanitize valgrind: setup-debug
	@FRESH=1 tools/check/run $@

# In full, and with the numbers that the README has.
faults storms: setup-check
	@STORMS=full tools/check/run $@
	@sed -n 's/^ *# \(faults\|storm\): //p' $(O)/log/$@.ktap

prove: setup-prove
	@tools/prove/run

# Guided by the code that is reached, where the kernel counts that.
fuzz: setup-check
	@tools/fuzz/run $(if $(filter file,$(origin KERNEL)),,--kernel $(KERNEL)) -- \
		--operations $(or $(OPERATIONS),10000000) $(if $(SEED),--seed $(SEED))

bench: setup-bench
	@tools/bench/run

bench-native: setup-check
	@tools/bench/native/run

bench-check: setup-bench
	@tools/check/run bench

readme-check: setup-vm setup-deb
	@FRESH=1 tools/check/run readme

readme: all setup-vm
	@tools/readme/update

clean:
	rm -rf $(O)

.PHONY: all help modules tools vm demo check check-all check-long check-debug library host kunit
.PHONY: kunit-smp travel device install uninstall completion adapters python samples static analysis
.PHONY: prove fuzz bench faults storms bench-check deb deb-check matrix readme readme-check clean
.PHONY: sanitize valgrind bench-native combination mutations cells
