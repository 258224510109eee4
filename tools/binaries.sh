#!/bin/sh
# What the programs in $1 (build/bin) are linked with and how they are hardened:
# a library more in a privileged role is a decision, made in this table.
set -eu
dir=${1:?usage: tools/binaries.sh BUILD/bin}
bad=0

complain() {
	echo "$dir/$1: $2"
	bad=1
}

# program, libraries it may need ("static": none, and no interpreter)
check() {
	program=$1
	shift
	file=$dir/$program
	[ -x "$file" ] || { complain "$program" "not built"; return; }
	head=$(LC_ALL=C readelf -hlWd "$file")
	needed=$(echo "$head" | sed -n 's/.*(NEEDED).*\[\(.*\)\]/\1/p')
	has() { echo "$head" | grep -q "$1"; }

	if [ "${1-}" = static ]; then
		[ -z "$needed" ] || complain "$program" "is not static: $needed"
		has 'INTERP' && complain "$program" "has an interpreter"
	else
		for lib in $needed; do
			case " $* libc.so.6 " in *" $lib "*) continue ;; esac
			complain "$program" "links $lib (see tools/binaries.sh)"
		done
		has 'Type: *DYN' || complain "$program" "is not a PIE"
		has 'BIND_NOW' || complain "$program" "binds lazily"
	fi
	has 'GNU_RELRO' || complain "$program" "has no RELRO"
	has 'GNU_STACK.* RW ' || complain "$program" "has an executable stack"
	has 'LOAD.* RWE ' && complain "$program" "has a writable code segment"
	return 0
}

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
exit $bad
