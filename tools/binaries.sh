#!/bin/sh
# What the programs in $1 (build/bin) are linked with and how they are hardened:
# a library more in a privileged role is a decision, made in this table.
# tests/e2e/test_binaries.py shows that it sees what is missing.
set -eu
dir=${1:?usage: tools/binaries.sh BUILD/bin}
bad=0

# All that the compiler was to do, in what it wrote down about our own files.
flags='-O2 -fPIE -fstack-protector-strong -fstack-clash-protection
	-fcf-protection=full -fno-strict-overflow -fno-strict-aliasing
	-fno-delete-null-pointer-checks -ftrivial-auto-var-init=zero
	-fzero-call-used-regs=used-gpr'

complain() {
	echo "$dir/$1: $2"
	bad=1
}

# Our own files are C11, and musl's are not.
check_flags() {
	LC_ALL=C readelf -p .debug_str "$file" 2>/dev/null |
		grep -a 'GNU C11 ' >"$made" || {
		complain "$program" "does not say how it was compiled"
		return
	}
	for flag in $flags; do
		lacking=$(grep -acv -e " $flag\( \|$\)" "$made") || true
		[ "$lacking" = 0 ] || complain "$program" "was compiled without $flag"
	done
}

# program, libraries it may need ("static": none, and no interpreter)
check() {
	program=$1
	shift
	file=$dir/$program
	[ -x "$file" ] || { complain "$program" "not built"; return; }
	head=$(LC_ALL=C readelf -hlWd "$file")
	names=$(LC_ALL=C readelf -sW "$file")
	needed=$(echo "$head" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
	has() { echo "$head" | grep -q "$1"; }
	calls() { echo "$names" | grep -q "$1"; }

	if [ "${1-}" = static ]; then
		[ -z "$needed" ] || complain "$program" "is not static: $needed"
		has 'INTERP' && complain "$program" "has an interpreter"
	else
		for lib in $needed; do
			case " $* libc.so.6 " in *" $lib "*) continue ;; esac
			complain "$program" "links $lib (see tools/binaries.sh)"
		done
	fi
	case $program in
	# musl has no functions that check, and protects nothing at its start.
	carrel-agent | carrel-relay) calls ' relro_protect$' ||
		complain "$program" "leaves its RELRO writable" ;;
	carrel-sudo) ;;
	*) calls '_chk\(@GLIBC\|$\)' || complain "$program" "is not fortified" ;;
	esac
	has 'Type: *DYN' || complain "$program" "is not a PIE"
	has 'FLAGS_1.* PIE' || complain "$program" "is a library"
	has 'BIND_NOW' || complain "$program" "binds lazily"
	has 'GNU_RELRO' || complain "$program" "has no RELRO"
	has 'GNU_STACK.* RW ' || complain "$program" "has an executable stack"
	has 'LOAD.* R.*W.*E *0x' && complain "$program" "has a writable code segment"
	has 'TEXTREL' && complain "$program" "writes to its code when it starts"
	has 'RPATH\|RUNPATH' && complain "$program" "looks for libraries in a path of its own"
	calls ' __stack_chk_fail' || complain "$program" "does not guard its stack"
	LC_ALL=C objdump -d --no-show-raw-insn --disassemble=main "$file" |
		grep -q 'endbr64' || complain "$program" "has no landing pads (CET)"
	check_flags
	return 0
}

made=$(mktemp)
trap 'rm -f "$made"' EXIT
check carrel libm.so.6
check carreld
# libssl: the TCP listener, if there is one. Clients that are not on this host
# have no other way in, and TLS is nothing to write by hand.
check carrel-api libjansson.so.4 libsqlite3.so.0 libssl.so.3 libcrypto.so.3 \
	libsodium.so.23 libz.so.1 libm.so.6
check carrel-warden
check carrel-scribe libsodium.so.23
check carrel-gate libssl.so.3 libcrypto.so.3 libcares.so.2 libsodium.so.23
# libcurl brings some thirty libraries: nothing but the registries' worker has it.
check carrel-fetch libcurl.so.4 libjansson.so.4
check carrel-worker libarchive.so.13 libjansson.so.4
check carrel-agent static
check carrel-sudo static
check carrel-relay static
check carrel-guest static
for file in "$dir"/*; do
	case $file in
	*/carrel | */carreld | */carrel-api | */carrel-warden | */carrel-scribe | \
		*/carrel-gate | */carrel-fetch | */carrel-worker | \
		*/carrel-agent | */carrel-sudo | */carrel-guest | */carrel-relay) ;;
	*) complain "${file##*/}" "is not in the table" ;;
	esac
done
exit $bad
