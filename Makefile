# One Makefile. `make help` lists what it does.
#
#   SAN=1         ASan + UBSan with leaks on (the agent: UBSan), in build-san/
#   WALLS_TEST=1  walls can be taken away by tests, in build-walls/
#   CC=clang, DESTDIR, PREFIX, V=1 as usual

PREFIX  ?= /usr/local
DESTDIR ?=
B       := build$(if $(SAN),-san)$(if $(WALLS_TEST),-walls)
Q       := $(if $(V),,@)

WARN    := -Wall -Wextra -Wshadow -Wvla -Wmissing-prototypes \
	   -Wstrict-prototypes -Wformat=2 -Wswitch-enum -Wpointer-arith \
	   -Wwrite-strings $(if $(CI),-Werror)
HARDEN  := -fstack-protector-strong -fstack-clash-protection -fPIE \
	   -fcf-protection=full -fno-strict-overflow -fno-strict-aliasing \
	   -fno-delete-null-pointer-checks
CPPFLAGS += -D_GNU_SOURCE -Isrc -I$(B)/gen $(if $(WALLS_TEST),-DWALLS_TEST) \
	    $(if $(SAN),-DSANITIZED,-D_FORTIFY_SOURCE=3)
CFLAGS  ?= -O2 -g
CFLAGS  += -std=gnu11 $(WARN) $(HARDEN)
LDFLAGS += -pie -Wl,-z,relro,-z,now,-z,noexecstack,-z,separate-code \
	   -Wl,--as-needed
SAN_DAEMON := $(if $(SAN),-fsanitize=address$(comma)undefined -fno-sanitize-recover=all -fno-omit-frame-pointer)
SAN_STATIC := $(if $(SAN),-fsanitize=undefined -fsanitize-undefined-trap-on-error)
comma   := ,

# Programs: the directory with the main(), the name, the libraries.
DYN     := cli daemon api warden worker
NAME_cli    := carrel
NAME_daemon := carreld
NAME_api    := carrel-api
NAME_warden := carrel-warden
NAME_worker := carrel-worker
LIBS_cli    := -Wl,-Bstatic -ljansson -Wl,-Bdynamic -lm
LIBS_api    := -ljansson -lsqlite3 -lcrypto -lm
LIBS_worker := -larchive

LIB_SRC := $(filter-out $(foreach p,$(DYN) agent,src/$(p)/%),$(shell find src -name '*.c'))
POLICIES := $(patsubst src/seccomp/%.policy,%,$(wildcard src/seccomp/*.policy))
FILTERS := $(POLICIES:%=$(B)/gen/seccomp/%.inc)
obj      = $(patsubst %.c,$(B)/$(1)/%.o,$(2))
BIN     := $(foreach p,$(DYN),$(B)/bin/$(NAME_$(p))) \
	   $(B)/bin/carrel-agent $(B)/bin/carrel-sudo

all: $(BIN)
.PHONY: all
.SECONDARY:

# dyn/: position independent, sanitized with SAN=1. static/: for what runs
# inside a sandbox, linked -static.
$(B)/dyn/%.o: %.c Makefile | $(FILTERS)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC      $<")
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(SAN_DAEMON) -MMD -MP -c -o $@ $<
$(B)/static/%.o: %.c Makefile | $(FILTERS)
	@mkdir -p $(@D)
	$(if $(V),,@echo "  CC(s)   $<")
	$(Q)$(CC) $(CPPFLAGS) $(CFLAGS) $(SAN_STATIC) -MMD -MP -c -o $@ $<

$(B)/dyn/lib.a: $(call obj,dyn,$(LIB_SRC))
	$(Q)rm -f $@ && $(AR) rcs $@ $^
# The static library has no module that needs a foreign library.
$(B)/static/lib.a: $(call obj,static,$(filter src/base/% src/wire/% src/seccomp/% src/sandbox/walls.c,$(LIB_SRC)))
	$(Q)rm -f $@ && $(AR) rcs $@ $^

define program
$(B)/bin/$(NAME_$(1)): $(call obj,dyn,$(wildcard src/$(1)/*.c src/$(1)/*/*.c)) $(B)/dyn/lib.a
	@mkdir -p $$(@D)
	$(if $(V),,@echo "  LINK    $$@")
	$(Q)$$(CC) $$(LDFLAGS) $$(SAN_DAEMON) -o $$@ $$(filter %.o,$$^) $(B)/dyn/lib.a $$(LIBS_$(1))
endef
$(foreach p,$(DYN),$(eval $(call program,$(p))))

# The agent and the sudo shim share src/agent/; sudo_*.c belong to the shim.
$(B)/bin/carrel-agent: $(call obj,static,$(filter-out src/agent/sudo_%,$(wildcard src/agent/*.c))) $(B)/static/lib.a
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LINK    $@")
	$(Q)$(CC) $(LDFLAGS) -no-pie -static $(SAN_STATIC) -o $@ $^
$(B)/bin/carrel-sudo: $(call obj,static,$(wildcard src/agent/sudo_*.c)) $(B)/static/lib.a
	@mkdir -p $(@D)
	$(if $(V),,@echo "  LINK    $@")
	$(Q)$(CC) $(LDFLAGS) -no-pie -static $(SAN_STATIC) -o $@ $^

# Filters are compiled to BPF at build time.
$(B)/tools/mkfilter: tools/mkfilter.c
	@mkdir -p $(@D)
	$(Q)$(CC) -O1 -g -std=gnu11 $(WARN) -D_GNU_SOURCE -Isrc -o $@ $<
$(B)/gen/seccomp/%.inc: src/seccomp/%.policy $(wildcard src/seccomp/*.policy) $(B)/tools/mkfilter
	@mkdir -p $(@D)
	$(Q)$(B)/tools/mkfilter $< > $@.new && mv $@.new $@

# Unit tests: each tests/unit/X_test.c is a program that prints TAP.
UNIT := $(patsubst tests/unit/%.c,$(B)/unit/%,$(wildcard tests/unit/*_test.c))
$(B)/unit/%: tests/unit/%.c $(B)/dyn/lib.a
	@mkdir -p $(@D)
	$(Q)$(CC) $(CPPFLAGS) -Itests/unit $(CFLAGS) $(SAN_DAEMON) $(LDFLAGS) -o $@ $< $(B)/dyn/lib.a $(UNIT_LIBS)
UNIT_LIBS := -ljansson -lsqlite3 -lcrypto -larchive -lm
unit: $(UNIT)
.PHONY: unit

-include $(shell find $(B) -name '*.d' 2>/dev/null)
