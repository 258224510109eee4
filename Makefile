# One Makefile. `make help` lists what it does.
#
#   SAN=1         ASan + UBSan with leaks on (the agent: UBSan), in build-san/
#   WALLS_TEST=1  walls can be taken away by tests, in build-walls/
#   CC=clang, DESTDIR, PREFIX, V=1 as usual

PREFIX  ?= /usr/local
DESTDIR ?=
B       := build$(if $(SAN),-san)$(if $(WALLS_TEST),-walls)$(if $(findstring clang,$(CC)),-clang)
Q       := $(if $(V),,@)
comma   := ,
MAKEFLAGS += --no-builtin-rules

WARN    := -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes \
	   -Wstrict-prototypes -Wformat=2 -Wswitch-enum -Wpointer-arith \
	   -Wwrite-strings $(if $(CI),-Werror)
# Debian 12's clang knows neither. With sanitizers what is not set stays so.
HARDEN_GCC := $(if $(SAN)$(findstring clang,$(CC)),,\
	-ftrivial-auto-var-init=zero -fzero-call-used-regs=used-gpr)
HARDEN  := -fstack-protector-strong -fstack-clash-protection -fPIE \
	   -fcf-protection=full -fno-strict-overflow -fno-strict-aliasing \
	   -fno-delete-null-pointer-checks $(HARDEN_GCC)
CPPFLAGS += -D_GNU_SOURCE -Isrc -I$(B)/gen $(if $(WALLS_TEST),-DWALLS_TEST) \
	    $(if $(SAN),-DSANITIZED,-D_FORTIFY_SOURCE=3)
# Builds that only tests use are made in half the time.
CFLAGS  ?= $(if $(SAN)$(WALLS_TEST),-O1 -g1,-O2 -g)
CFLAGS  += -std=gnu11 $(WARN) $(HARDEN)
LDFLAGS += -pie -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code \
	   -Wl,--as-needed
SAN_DAEMON := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
SAN_STATIC := $(if $(SAN),-fsanitize=undefined -fsanitize-undefined-trap-on-error)

# The kernel's headers are glibc's neighbours.
STATIC_CC  := musl-gcc -idirafter /usr/include \
	      -idirafter /usr/include/$(shell uname -m)-linux-gnu

# Static and position independent; musl-gcc does not know how to start that.
MUSL       := /usr/lib/$(shell uname -m)-linux-musl
STATIC_LD   = $(filter-out -pie,$(LDFLAGS)) -static -nostartfiles \
	      -Wl,-pie,--no-dynamic-linker,-z,text
STATIC_FIRST = $(MUSL)/rcrt1.o $(MUSL)/crti.o $(shell $(CC) -print-file-name=crtbeginS.o)
STATIC_LAST  = $(shell $(CC) -print-file-name=crtendS.o) $(MUSL)/crtn.o

# Programs: the directory with the main(), the name, the libraries.
DYN     := cli daemon api warden gate scribe worker fetch
NAME_cli    := carrel
NAME_daemon := carreld
NAME_api    := carrel-api
NAME_warden := carrel-warden
NAME_scribe := carrel-scribe
NAME_gate   := carrel-gate
NAME_worker := carrel-worker
NAME_fetch  := carrel-fetch
LIBS_cli    := -Wl,-Bstatic -ljansson -lsodium -Wl,-Bdynamic -lm
LIBS_api    := -ljansson -lsqlite3 -lssl -lcrypto -lsodium -lz -lm
LIBS_scribe := -lsodium
LIBS_gate   := -lssl -lcrypto -lcares -lsodium
LIBS_worker := -larchive -ljansson
LIBS_fetch  := -lcurl -ljansson
ROLES   := carrel-api carrel-warden carrel-gate carrel-scribe carrel-worker carrel-fetch carrel-agent carrel-sudo carrel-relay

ALL_SRC := $(shell find src -name '*.c' 2>/dev/null)
LIB_SRC := $(filter-out $(foreach p,$(DYN) agent guest relay qemu,src/$(p)/%),$(ALL_SRC))
PART_SRC := $(filter-out $(LIB_SRC) %/main.c src/agent/sudo_% src/qemu/%,$(ALL_SRC))
POLICIES := $(patsubst src/seccomp/%.policy,%,$(wildcard src/seccomp/*.policy))
FILTERS := $(POLICIES:%=$(B)/gen/seccomp/%.inc)
GEN     := $(FILTERS) $(B)/gen/track.inc
obj      = $(patsubst %.c,$(B)/$(1)/%.o,$(2))
BIN     := $(foreach p,$(DYN),$(B)/bin/$(NAME_$(p))) \
	   $(B)/bin/carrel-agent $(B)/bin/carrel-sudo $(B)/bin/carrel-guest $(B)/bin/carrel-relay

all: $(BIN) ##            build everything into build/bin
.SECONDARY:
.DELETE_ON_ERROR:
.PHONY: all unit help deps up test test-guest lint bench bench-idle soak chaos escape escape-long escape-mutations escape-peers mutations \
	fuzz fuzz-bin fuzz-replay fuzz-coverage analyze man install uninstall clean tidy

help: ##           this list
	@sed -n 's/^\([a-z-]*\):.*## */  make \1\t/p' Makefile | expand -t 20
	@echo "variables: SAN=1 WALLS_TEST=1 CC=clang PREFIX= DESTDIR= V=1"

# --- compiling -------------------------------------------------------------

# A machine without the compiler's packages hears so, once and in one line.
$(B)/.deps: packaging/packages.txt
	@tools/deps.sh check build
	@mkdir -p $(@D) && touch $@

# dyn/: position independent, sanitized with SAN=1. static/: for what runs
# inside a sandbox, linked -static with musl: its start-up makes no cpuid, of
# which glibc makes some 80, and in a virtual machine each one is a trap.
$(B)/dyn/%.o: %.c Makefile | $(B)/.deps $(GEN)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC      $<")
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(SAN_DAEMON) -MMD -MP -c -o $@ $<
$(B)/static/%.o: %.c Makefile | $(B)/.deps $(GEN)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC(s)   $<")
	$(Q)$(STATIC_CC) $(CPPFLAGS) $(CFLAGS) $(SAN_STATIC) -MMD -MP -c -o $@ $<

$(B)/dyn/lib.a: $(call obj,dyn,$(LIB_SRC))
	$(Q)rm -f $@ && $(AR) rcs $@ $^
# The static library has no module that needs a foreign library.
$(B)/static/lib.a: $(call obj,static,$(filter src/base/% src/wire/% src/seccomp/% src/mux/% src/sandbox/walls.c,$(LIB_SRC)))
	$(Q)rm -f $@ && $(AR) rcs $@ $^
# The programs' own files without their main(), for unit tests.
$(B)/dyn/parts.a: $(call obj,dyn,$(PART_SRC))
	$(Q)rm -f $@ && $(AR) rcs $@ $^

define program
$(B)/bin/$(NAME_$(1)): $(call obj,dyn,$(filter src/$(1)/%,$(ALL_SRC))) $(B)/dyn/lib.a
	@mkdir -p $$(@D)
	$(if $(V),,@echo "  LINK    $$@")
	$(Q)$$(CC) $$(LDFLAGS) $$(SAN_DAEMON) -o $$@ $$(filter %.o,$$^) $(B)/dyn/lib.a $$(LIBS_$(1))
endef
$(foreach p,$(DYN),$(eval $(call program,$(p))))

# The agent and the sudo shim share src/agent/; sudo_*.c belong to the shim.
$(B)/bin/carrel-agent: $(call obj,static,$(filter-out src/agent/sudo_%,$(filter src/agent/%,$(ALL_SRC)))) $(B)/static/lib.a
$(B)/bin/carrel-sudo: $(call obj,static,$(filter src/agent/sudo_%,$(ALL_SRC))) $(B)/static/lib.a
$(B)/bin/carrel-relay: $(call obj,static,$(filter src/relay/%,$(ALL_SRC))) $(B)/static/lib.a
$(B)/bin/carrel-agent $(B)/bin/carrel-sudo $(B)/bin/carrel-relay:
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LINK    $@")
	$(Q)$(STATIC_CC) $(STATIC_LD) $(SAN_STATIC) -o $@ \
		$(STATIC_FIRST) $^ $(STATIC_LAST)

# The first process of a microVM has parts of the warden in it, whose system
# calls musl has no names for.
$(B)/guest/%.o: %.c Makefile | $(B)/.deps $(GEN)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC(g)   $<")
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -ffunction-sections -MMD -MP -c -o $@ $<
$(B)/guest/lib.a: $(call obj,guest,$(filter src/base/% src/wire/% src/seccomp/% src/mux/% src/sandbox/%,$(LIB_SRC)))
	$(Q)rm -f $@ && $(AR) rcs $@ $^
# Disks are looked at inside as a worker looks at trees.
GUEST_WORKER := $(patsubst %,src/worker/%.c,pack walk compare links extent say merge tree path)
$(B)/bin/carrel-guest: $(call obj,guest,$(filter src/guest/%,$(ALL_SRC)) $(GUEST_WORKER)) $(B)/guest/lib.a
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LINK    $@")
	$(Q)$(CC) $(filter-out -pie,$(LDFLAGS)) -static-pie -Wl,--gc-sections -o $@ $^

# What microVMs start from: a kernel of Debian's (once, it needs apt), our first
# process and the agent as its initramfs, a small empty disk.
VM := $(B)/vm
.PHONY: vm
vm: $(VM)/initrd $(VM)/disk.ext4 ##             kernel and disks of microVMs into build/vm
$(VM)/vmlinux: tools/vm_kernel.sh
	@tools/deps.sh check vm
	@echo "  KERNEL  $@"
	$(Q)tools/vm_kernel.sh $(@D) && touch $@
$(VM)/initrd: $(VM)/vmlinux $(B)/bin/carrel-guest $(B)/bin/carrel-agent tools/vm_initrd.sh
	$(if $(V),,@echo "  INITRD  $@")
	$(Q)tools/vm_initrd.sh $(@D) $(B)/bin $@
$(VM)/disk.ext4: $(VM)/vmlinux tools/vm_disk.sh
	$(if $(V),,@echo "  DISK    $@")
	$(Q)tools/vm_disk.sh $@

# Filters are compiled to BPF at build time.
$(B)/tools/mkfilter: tools/mkfilter.c tools/syscalls_x86_64.h | $(B)/.deps
	@mkdir -p $(@D)
	$(Q)$(CC) -O1 -g -std=gnu11 $(WARN) -D_GNU_SOURCE -Isrc -o $@ $<
$(B)/gen/seccomp/%.inc: src/seccomp/%.policy $(wildcard src/seccomp/*.policy) $(B)/tools/mkfilter
	@mkdir -p $(@D)
	$(Q)$(B)/tools/mkfilter $(if $(SAN),-s) $< > $@.new && mv $@.new $@

# What of us runs in QEMU is carried by the warden as bytes.
QEMU_SRC := $(wildcard src/qemu/*.c)
$(B)/gen/track.so: $(QEMU_SRC) $(wildcard src/qemu/*.h) $(B)/gen/seccomp/qemu_main.inc Makefile | $(B)/.deps
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LINK    $@")
	$(Q)$(CC) -D_GNU_SOURCE -Isrc -I$(B)/gen -O2 -std=gnu11 $(WARN) -fPIC -shared -nostdlib \
		-fcf-protection=full -Wl,-z,relro,-z,now,-z,noexecstack -s -o $@ $(QEMU_SRC)
$(B)/gen/track.inc: $(B)/gen/track.so
	$(Q)od -An -v -tu1 $< | sed 's/[0-9][0-9]*/&,/g' > $@.new && mv $@.new $@

-include $(shell find $(B) -name '*.d' 2>/dev/null)

# --- checking --------------------------------------------------------------

# Unit tests: each tests/unit/X_test.c is a program that prints TAP; the other
# programs there are tools of tests.
UNIT := $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/*.c))
UNIT_LIBS := -lcares -lcurl -ljansson -lsqlite3 -lssl -lcrypto -larchive -lsodium -lz -lm
$(B)/unit/%: tests/unit/%.c $(B)/dyn/parts.a $(B)/dyn/lib.a
	@mkdir -p $(@D)
	$(if $(V),,@echo "  TEST    $<")
	$(Q)$(CC) $(CPPFLAGS) -Itests/unit $(CFLAGS) $(SAN_DAEMON) -MMD -MP \
		$(LDFLAGS) -o $@ $< $(B)/dyn/parts.a $(B)/dyn/lib.a $(UNIT_LIBS)
unit: $(UNIT)

# The escape tests' attacker: one static program, without sanitizers, so that
# it does in a sandbox exactly what it says.
$(B)/gen/escape/allowed.inc: tests/unit/data/sandbox-syscalls.txt
	@mkdir -p $(@D)
	$(Q)sed 's/ .*/,/' $< > $@
$(B)/probe: $(wildcard tests/escape/*.[ch]) $(B)/gen/escape/allowed.inc
	$(if $(V),,@echo "  LINK    $@")
	$(Q)$(CC) -D_GNU_SOURCE -O2 -g -std=gnu11 $(WARN) -I$(B)/gen -static \
		-o $@ $(filter %.c,$^)

# Everything, on this machine. T=pattern picks, W=n sets the workers.
test: ##           unit, end-to-end and escape tests (root); T=pattern picks
	@tools/deps.sh install build run vm test
	@tests/run $(if $(W),--workers $(W)) $(T)
.PHONY: test-microvm
test-microvm: ##   the same tests with sandboxes of the tier microvm (root)
	@tools/deps.sh install build run vm test
	@CARREL_TIER=microvm tests/run $(if $(W),--workers $(W)) $(T)
test-guest: ##     the same product on Debian with systemd and KVM, in QEMU; GUEST=bookworm|trixie, T=containers|microvms
	@tools/deps.sh install build run vm test
	@GUEST=$(GUEST) PART=$(T) tests/guest/run
escape: ##         posture, escape tests, and what breaks without each wall
	@tools/deps.sh install build run test
	@tests/run escape
escape-mutations: ## every attack without each wall, each check (20 minutes)
	@ESCAPE_MUTATIONS=1 $(if $(RECORD),RECORD=1) tests/run --workers 1 escape/guards
	@ESCAPE_MUTATIONS=1 $(if $(RECORD),RECORD=1) tests/run --workers 1 escape/mutations
mutations: ##      small changes of the source, each of which a test must notice; T=pattern
	@tools/deps.sh install build run test
	@tests/mutations/run $(T)
escape-long: ##    the same with those that take minutes
	@ESCAPE_LONG=1 tests/run escape
escape-peers: all vm $(B)/probe ##   the same attacks under bubblewrap, podman, runsc
	@tools/deps.sh install build run test
	@tests/escape/peers.py --json $(B)/escape-peers.json
soak: ##           5000 create/exec/remove cycles, looking for growth
	@SOAK_CYCLES=5000 tests/run leaks
chaos: all ##          a host that is disturbed in every way; CHAOS_MINUTES (1), CHAOS_SANDBOXES
	@tools/deps.sh install build run test
	@tests/chaos/run
# Benches: each bench/X.c times something for bench/run.
BENCH := $(patsubst bench/%.c,$(B)/bench/%,$(wildcard bench/*.c))
$(B)/bench/%: bench/%.c $(B)/dyn/lib.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) -MMD -MP $(LDFLAGS) -o $@ $< $(B)/dyn/lib.a $(LIBS_bench_$*)
LIBS_bench_load := -lssl -lcrypto
bench: all $(BENCH) ##          what the README claims, measured (root, idle machine)
	@tools/deps.sh install run vm test bench
	@bench/run latency burst streams starve state microvm import gate $(if $(BENCH_QUICK),,idle)
bench-idle: all $(BENCH) ##     only its part with 1000 idle sandboxes
	@tools/deps.sh install run test
	@bench/run idle

# Fuzzing: each tests/fuzz/X_fuzz.c, with its corpus in tests/fuzz/corpus/X.
# Thrice: for libFuzzer, for coverage, and ($(B)/fuzz) for the suite, where a
# main() of our own gives each target what its corpus has.
FUZZ_SECONDS ?= 60
FUZZ    := $(patsubst tests/fuzz/%_fuzz.c,%,$(wildcard tests/fuzz/*_fuzz.c))
FUZZ_OF := api gate # programs that some need as a whole, and which:
FUZZ_OF_api  := api relay
FUZZ_OF_gate := gate
# Files of which only a part is run: what the rest calls need not be there.
FUZZ_LD_record := -no-pie -Wl,--unresolved-symbols=ignore-all
FUZZ_LD_warden := $(FUZZ_LD_record)
FUZZ_FLAGS_fuzz := -O1 -fsanitize=fuzzer-no-link,address,undefined -fno-sanitize-recover=all
FUZZ_FLAGS_cov  := -O0 -fsanitize=fuzzer-no-link -fprofile-instr-generate -fcoverage-mapping
FUZZ_LINK_fuzz  := -fsanitize=fuzzer,address,undefined
FUZZ_LINK_cov   := -fsanitize=fuzzer -fprofile-instr-generate
define fuzz_of
$(1)/$(2).a: $(4)
	$(Q)rm -f $$@ && $(AR) rcs $$@ $$^
$(FUZZ_OF_$(2):%=$(1)/$(3)/%): $(1)/$(2).a

endef
define fuzz_variant
build-$(1)/obj/%.o: %.c | $(B)/.deps $(GEN)
	@mkdir -p $$(@D)
	$(if $(V),,@echo "  FUZZ    $$<")
	$(Q)clang $(CPPFLAGS) -U_FORTIFY_SOURCE -g -std=gnu11 $(FUZZ_FLAGS_$(1)) -MMD -MP -c -o $$@ $$<
build-$(1)/lib.a: $(patsubst %.c,build-$(1)/obj/%.o,$(LIB_SRC))
	$(Q)rm -f $$@ && $(AR) rcs $$@ $$^
$(foreach p,$(FUZZ_OF),$(call fuzz_of,build-$(1),$(p),bin,$(patsubst %.c,build-$(1)/obj/%.o,$(filter src/$(p)/%,$(PART_SRC)))))
build-$(1)/bin/%: build-$(1)/obj/tests/fuzz/%_fuzz.o build-$(1)/lib.a
	@mkdir -p $$(@D)
	$(Q)clang -g $(FUZZ_LINK_$(1)) $$(FUZZ_LD_$$*) -o $$@ $$(filter %.o,$$^) $$(filter-out %/lib.a,$$(filter %.a,$$^)) build-$(1)/lib.a $(UNIT_LIBS)
-include $$(shell find build-$(1)/obj -name '*.d' 2>/dev/null)
endef
$(foreach v,fuzz cov,$(eval $(call fuzz_variant,$(v))))
# Programs' files in one: a variable of one hides a name of another.
$(B)/dyn/tests/fuzz/%.o: CFLAGS += -Wno-shadow
$(foreach p,$(FUZZ_OF),$(eval $(B)/dyn/$(p).a: $(call obj,dyn,$(filter src/$(p)/%,$(PART_SRC))); $$(Q)rm -f $$@ && $$(AR) rcs $$@ $$^))
$(foreach p,$(FUZZ_OF),$(eval $(FUZZ_OF_$(p):%=$(B)/fuzz/%): $(B)/dyn/$(p).a))
$(B)/fuzz/%: $(B)/dyn/tests/fuzz/%_fuzz.o $(B)/dyn/tests/fuzz/replay.o $(B)/dyn/lib.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(LDFLAGS) $(SAN_DAEMON) $(FUZZ_LD_$*) -o $@ $(filter %.o,$^) $(filter-out %/lib.a,$(filter %.a,$^)) $(B)/dyn/lib.a $(UNIT_LIBS)
fuzz-replay: $(FUZZ:%=$(B)/fuzz/%) # for the suite
fuzz-bin: $(FUZZ:%=build-fuzz/bin/%)
fuzz: $(if $(T),$(T:%=build-fuzz/bin/%),fuzz-bin) ##           FUZZ_SECONDS (60) of each fuzz target, or of T="NAME..."
	@tests/fuzz/run fuzz --seconds $(FUZZ_SECONDS) $(FUZZ_JOBS:%=--jobs %) $(T)
fuzz-coverage: $(FUZZ:%=build-cov/bin/%) ##  what of the parsers the corpora reach
	@tests/fuzz/run coverage

# The version is a part of the verdict: this one is in Debian 12 and 13.
LLVM   := -19
# The analysis of a file is done again when it, or a header of it, changed.
LINT_C := $(ALL_SRC)
TIDY   := $(patsubst %.c,build/lint/%.ok,$(LINT_C))
CPPCHECK := cppcheck --quiet --error-exitcode=1 --inline-suppr --std=c11 \
	--enable=warning,portability,performance -D_GNU_SOURCE -D__linux__ -D__x86_64__ \
	--suppress=missingIncludeSystem --suppressions-list=tools/cppcheck.txt \
	--cppcheck-build-dir=build/lint/cppcheck -Isrc -Ibuild/gen
build/lint/%.ok: build/dyn/%.o .clang-tidy
	@mkdir -p $(@D)
	@echo "  TIDY    $*.c"
	@clang-tidy$(LLVM) --quiet $*.c -- $(CPPFLAGS) -std=gnu11 > $@.log 2>&1 || \
		{ grep -v 'warnings\? generated' $@.log; exit 1; }
	@mv $@.log $@
tidy: $(TIDY)
# Two analyzers that follow paths; slow, so by themselves. -O1: paths that a
# first optimization shows to be impossible are not followed.
ANALYZE := $(foreach s,gcc plist,$(patsubst %.c,build/analyze/%.$(s),$(LINT_C)))
build/analyze/%.gcc: build/dyn/%.o
	@mkdir -p $(@D)
	@echo "  GCC     $*.c"
	@gcc $(CPPFLAGS) -U_FORTIFY_SOURCE -O1 -std=gnu11 -fanalyzer -fdiagnostics-plain-output \
		-fdiagnostics-path-format=none -S -o /dev/null $*.c 2> $@.new || { cat $@.new; exit 1; }
	@mv $@.new $@
build/analyze/%.plist: build/dyn/%.o
	@mkdir -p $(@D)
	@echo "  CLANG   $*.c"
	@clang $(CPPFLAGS) -U_FORTIFY_SOURCE -std=gnu11 --analyze -Xanalyzer -analyzer-output=plist \
		-o $@.new $*.c 2> $@.log || { cat $@.log; exit 1; }
	@mv $@.new $@
analyze: $(ANALYZE) ##        gcc -fanalyzer and clang's analyzer; new findings fail
	@tools/analyze.py build/analyze tools/analyze.txt
SCRIPTS = $(shell grep -rlIE '^\#!/bin/(ba)?sh' .ci tools packaging tests images bench 2>/dev/null)
lint: all ##           formatting, static analysis, layers, linkage
	@tools/deps.sh install build test
	@echo "  FORMAT"; find src tests tools -name '*.[ch]' | xargs clang-format$(LLVM) --dry-run -Werror
	@echo "  LAYERS"; tools/layers.sh
	@echo "  BANNED"; tools/banned.sh
	@echo "  MUTATIONS"; tests/mutations/run --check
	@echo "  LINKAGE"; tools/binaries.sh $(B)/bin
	@echo "  SHELL"; shellcheck $(SCRIPTS)
	@echo "  PYTHON"; python3 -m compileall -q -f tests sdk/python examples
	@echo "  TYPES"; cd sdk/python && mypy --cache-dir ../../build/lint/mypy
	@echo "  CPPCHECK"; mkdir -p build/lint/cppcheck; $(CPPCHECK) -j2 src
	@+$(MAKE) --no-print-directory -k -j2 tidy
	@echo "lint: clean"

# --- installing ------------------------------------------------------------

deps: ##           install the Debian packages that are missing
	@tools/deps.sh install build run vm test bench
up: ##             from a clone to a running sandbox (root)
	@tools/up.sh
# Man pages and completion are made by the program that they are about.
man: $(B)/man/.made ##            man pages into build/man
$(B)/man/.made: $(B)/bin/carrel tools/man.sh
	@tools/man.sh $< $(@D)
	@touch $@
install: all man ##    into DESTDIR/PREFIX; with users and unit when DESTDIR is empty
	@BUILD=$(B) PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) packaging/install.sh
uninstall: ##      stop it and remove it; PURGE=1 removes sandboxes and images too
	@PREFIX=$(PREFIX) DESTDIR=$(DESTDIR) PURGE=$(PURGE) packaging/uninstall.sh
clean: ##          remove what was built
	rm -rf build build-*
