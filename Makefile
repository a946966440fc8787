# SPDX-License-Identifier: GPL-2.0
#
# What a person types. The kernel's build system reads Kbuild instead; user space
# has a makefile of its own in tools. Everything that is made lands in $(O).

O ?= build

# The kernel to build the modules for: one that tools/vm/kernel/get knows, or with KDIR the
# build directory of any other. On systems other than Debian for amd64, tools/setup finds one.
KERNEL ?= stock
KDIR ?= $(if $(filter file,$(origin KERNEL)),$(shell tools/setup --kdir))

# make and the shell would split such a path.
$(foreach path,CURDIR O DESTDIR,$(if $(word 2,$($(path))),$(error $(path)='$($(path))' has a blank)))

override O := $(abspath $(or $(O),build))
ifneq ($(filter-out help% clean uninstall dkms% setup-%,$(or $(MAKECMDGOALS),all)),)
# Targets remove directories below $(O), so it is one that was new or empty at first.
ifeq ($(shell mkdir -p '$(O)' && cd '$(O)' && { [ '$(O)' = '$(CURDIR)/build' ] || [ -e .twheel ] || \
	[ -z "$$(ls -A)" ]; } && : >.twheel && echo yes),)
$(error $(O) cannot be written, or has other files: use 'make O=DIRECTORY' with an empty one)
endif
endif
export O

# A warning is an error, but not for a compiler that may warn of more than Debian's.
ifeq ($(origin W),undefined)
W := $(if $(KDIR),0,1)
endif
export W

MAKEFLAGS += --no-print-directory
.NOTPARALLEL:

all: setup-build modules tools

# The targets that a user needs; help-all has the rest.
help:
	@echo 'make            the modules for the distribution kernel, and the tool, in build/'
	@echo 'make demo       a demonstration in a test VM'
	@echo 'make modules    the modules alone; KDIR=DIRECTORY for another kernel'
	@echo 'make install    all but the modules, to prefix=/usr/local below DESTDIR='
	@echo 'make uninstall  removes these files'
	@echo 'make deb        Debian packages, in build/deb'
	@echo 'make check      the tests'
	@echo 'make clean      removes build/ (kernels stay in ~/.cache/twheel)'
	@echo
	@echo "'make help-all' lists the targets for development."

help-all:
	@echo 'make tools         the library and the command line tool'
	@echo 'make dist          a tarball of the sources, in build/'
	@echo 'make vm            a shell in the test VM'
	@echo 'make dkms          the modules for this kernel and the next ones, by DKMS, as root'
	@echo 'make dkms-uninstall  removes these modules'
	@echo
	@echo 'make check PARTS="PART..."   some of the tests; tools/tests/run --help has the parts'
	@echo 'make check-long    long tests: a million operations, proofs, and the packages on'
	@echo '                   Debian 12 and 13'
	@echo 'make check-debug   KUnit, device, load, faults, storms and fuzz with KASAN, lockdep and'
	@echo '                   kmemleak, with KCSAN, and with PREEMPT_RT; analysis, sanitize, valgrind,'
	@echo '                   threads'
	@echo 'make check-all     check, check-long and check-debug, faster than one after the other'
	@echo 'make deb-check     install, use and remove the packages on Debian 12 and 13'
	@echo 'make publish-check  what PyPI, Maven Central, crates.io and Debian take, without uploading'
	@echo 'make release       check that this commit can be released, for some hours'
	@echo 'make readme-check  follow the README from the top, on Debian 12 and 13'
	@echo
	@echo 'make static        checkpatch, sparse, kernel-doc, shellcheck, codespell'
	@echo 'make analysis      coccinelle with the scripts of the kernel, clang-tidy'
	@echo 'make kunit         the KUnit suites, in User Mode Linux'
	@echo 'make device        tests of the device, in the test VM; CPUS=N'
	@echo 'make library       tests of the library as it is installed, and of the completion'
	@echo 'make python        tests of the Python package, in the test VM; PYTHON=INTERPRETER'
	@echo 'make java          tests of the Java package, with Maven and in the test VM'
	@echo 'make rust          tests of the Rust crate, in the test VM; CARGO=PROGRAM'
	@echo 'make matrix        builds, KUnit and the device on all kernels, from 5.10 to the newest'
	@echo 'make patches       a series for the newest kernel, in build/patches; TREE=DIRECTORY'
	@echo
	@echo 'make mutations     check that random programs find each defect that is brought back'
	@echo 'make races         random calls and exchanges in several threads, for minutes'
	@echo 'make faults        every call, with each allocation and each copy in it failing in turn'
	@echo 'make storms        stress: unload, hotplug, bursts, suspend: takes minutes'
	@echo 'make fuzz          random programs against the device; SEED, OPERATIONS, KERNEL'
	@echo 'make sanitize      the library and the tool with AddressSanitizer and UBSan'
	@echo 'make valgrind      the library with valgrind'
	@echo 'make threads       the library with ThreadSanitizer'
	@echo 'make prove         proofs of the index arithmetic and of the handshakes of cells'
	@echo
	@echo 'make bench         costs beside the peers, in instructions: takes minutes'
	@echo 'make bench-native  costs in nanoseconds, in User Mode Linux: takes five minutes'
	@echo 'make scenarios     whole programs with twheel and with its peers: takes ten minutes'
	@echo 'make bench-java    the Java timers beside those of Netty and the JDK: takes minutes'
	@echo 'make bench-rust    sleeps of tokio beside those of the crate'
	@echo 'make bench-cplusplus  timers of twheel.hpp beside asio::steady_timer'
	@echo 'make bench-python  costs of timeouts in Python, beside those of its standard library'
	@echo 'make bench-check   fails if an operation of twheel costs 5 % more than before'

# YES=1: without asking
setup-%:
	@tools/setup $(if $(YES),-y) $*

modules: $(if $(filter file,$(origin KDIR)),setup-build)
	@tools/vm/kernel/modules $(or $(abspath $(KDIR)),$(KERNEL)) >/dev/null

tools:
	@$(MAKE) $(if $(findstring -j,$(MAKEFLAGS)),,-j$(shell nproc)) -C tools O='$(O)/tools' W=$(W)

vm: demo-build
	@tools/vm/run

# Silent: what runs in the machine is to be seen.
demo-build: setup-vm setup-build
	@echo 'Building the modules and the tool ...'
	@tools/vm/kernel/modules $(KERNEL) >/dev/null
	@$(MAKE) -s -j$(shell nproc) -C tools O='$(O)/tools' W=$(W) products '$(O)/tools/examples/lease'

# On a terminal the machine uses it, so that the tool draws its progress bar.
demo: demo-build
	@echo "Booting the distribution's kernel in a virtual machine ..."
	@tools/vm/run --cpus 2 $$([ ! -t 0 ] || [ ! -t 1 ] || echo --tty) --add tools/vm/demo.sh \
		--add '$(O)/tools/examples/lease' -- sh /add/demo.sh

# A relative DESTDIR is relative to this directory.
staged = $(if $(DESTDIR),DESTDIR='$(if $(filter /%,$(DESTDIR)),,$(CURDIR)/)$(DESTDIR)')

install:
	@$(MAKE) -s -j$(shell nproc) -C tools O='$(O)/tools' W=$(W) $(staged) install install-system

uninstall:
	@$(MAKE) -C tools O='$(O)/tools' $(staged) uninstall
	@[ -n "$(DESTDIR)" ] || [ ! -e /var/lib/dkms/twheel ] || \
		echo "DKMS still has the modules: 'make dkms-uninstall' removes them"

dkms: setup-dkms
	@tools/packaging/dkms install

dkms-uninstall:
	@tools/packaging/dkms uninstall

dist:
	@tools/packaging/dist

publish-check: setup-java setup-rust setup-deb-check
	@tools/packaging/publish-check

# The tarball makes the same tarball again, whoever unpacks it and when.
release: unpacked = $(O)/release/twheel-*
release:
	@[ -z "$$(git status --porcelain)" ] || { echo 'release: commit your changes first' >&2; exit 1; }
	@rm -rf '$(O)/release' && mkdir '$(O)/release'
	@tarball=$$(tools/packaging/dist) && \
		(umask 077; tar --no-same-permissions -xmf "$$tarball" -C '$(O)/release') && \
		cmp "$$tarball" "$$(O= $(unpacked)/tools/packaging/dist)"
	@$(MAKE) -C $(unpacked) O= check
	@rm -r '$(O)/release'
	@$(MAKE) check-all matrix readme-check publish-check

deb: setup-deb
	@tools/packaging/deb

check: setup-check
	@tools/tests/run $(PARTS)

matrix: setup-matrix
	@tools/tests/run matrix

check-long: setup-check setup-prove setup-deb-check
	@tools/tests/run packages long prove

check-debug: setup-debug
	@tools/tests/run debug

# The longest first, and those that wait.
check-all: setup-debug setup-prove setup-deb-check setup-java setup-rust
	@tools/tests/run packages mutations device-4 prove rust host java debug long scenarios all

deb-check: setup-vm setup-deb-check
	@tools/tests/run packages

kunit library mutations python static races: setup-check
	@tools/tests/run $@

device: setup-check
	@tools/tests/run $(addprefix device-,$(or $(CPUS),4 1))

java: setup-check setup-java
rust: setup-check setup-rust
java rust:
	@tools/tests/run $@

analysis sanitize valgrind threads: setup-debug
	@tools/tests/run $@

# In full, with the numbers of doc/testing.md.
faults storms: setup-check
	@STORMS=full tools/tests/run $@
	@sed -n 's/^ *# \(faults\|storm\): //p' '$(O)/log/$@.ktap'

prove: setup-prove
	@tools/tests/run $@

patches: setup-check
	@tools/patches $(and $(TREE),'$(TREE)')

# Guided by the code that is reached, where the kernel counts that.
fuzz: setup-check
	@tools/fuzz/run $(if $(filter file,$(origin KERNEL)),,$(KERNEL)) -- \
		--operations $(or $(OPERATIONS),10000000) $(if $(SEED),--seed $(SEED))

bench: setup-bench
	@tools/bench/run

scenarios: setup-bench
	@tools/bench/run scenarios

bench-native: setup-check
	@tools/bench/run native

bench-java: setup-java
	@tools/java/bench

bench-python: setup-check tools
	@cd tools/python && python=$(or $(PYTHON),/usr/bin/python3) && \
		$$python -W ignore setup.py -q build -b '$(O)/python' --build-lib '$(O)/python/lib' && \
		PYTHONPATH='$(O)/python/lib':. PYTHONDONTWRITEBYTECODE=1 \
		$$python -P -m tests.cost $(NUMBER)

bench-cplusplus: setup-check tools
	@$(CXX) -std=c++17 -O2 -DASIO_STANDALONE -Itools/lib -o '$(O)/tools/costs' \
		tools/bench/costs.cpp '$(O)/tools/libtwheel.a' -pthread
	@TWHEEL_BACKEND=process '$(O)/tools/costs'

bench-rust: setup-check setup-rust
	@cd tools/rust && export CARGO_TARGET_DIR='$(O)/rust/target' && \
		TWHEEL_BACKEND=process cargo bench -q --locked --bench timers && \
		cargo tree -q --locked --depth 0 -i tokio && rustc --version

bench-check: setup-bench
	@tools/tests/run bench

readme-check: setup-vm setup-deb-check
	@tools/tests/run readme

# Never $(O): in `make O=$HOME clean` that is a home.
clean:
	@[ '$(O)' = '$(CURDIR)/build' ] || { echo 'make clean removes build/ alone, not $(O)' >&2; exit 1; }
	@rm -rf build

.PHONY: all help help-all modules tools vm dist dkms dkms-uninstall demo-build demo check check-all check-long check-debug kunit device install uninstall
.PHONY: python static analysis prove fuzz patches bench faults storms bench-check deb deb-check matrix readme-check publish-check release clean sanitize
.PHONY: valgrind threads java rust bench-cplusplus bench-java bench-native bench-python bench-rust mutations races scenarios library
