#!/bin/sh
# Who may include whom. Dependencies point downwards; a new one is a decision,
# made here.
set -eu
cd "$(dirname "$0")/.."

# module -> modules it may use, or single headers of them
may_use() {
	case $1 in
	base) ;;
	http | wire | store | seccomp | registry | image | policy | role) echo base ;;
	audit) echo base wire ;;
	spec) echo base policy ;;
	sandbox) echo base wire store seccomp guest/words.h qemu/track.h ;;
	qemu) echo seccomp ;;
	warden) echo base wire store sandbox seccomp ;;
	vault) echo base wire policy ;;
	gate) echo base role http wire policy vault audit seccomp ;;
	api) echo base role http wire registry spec seccomp audit image policy vault ;;
	scribe) echo base role wire audit seccomp ;;
	agent) echo base wire seccomp sandbox/walls.h ;;
	worker) echo base wire seccomp image ;;
	cli) echo base http wire spec image policy vault ;;
	mux) echo base wire ;;
	relay) echo base wire mux seccomp ;;
	fetch) echo base wire seccomp ;;
	guest) echo base wire mux sandbox store/store.h worker/pack.h ;;
	daemon) echo base ;;
	*) echo "tools/layers.sh: unknown module $1" >&2 ;;
	esac
}

bad=0
for f in $(find src -name '*.[ch]' | sort); do
	own=${f#src/}
	own=${own%%/*}
	ok=" $own $(may_use "$own") "
	# shellcheck disable=SC2013 # words are what it prints
	for inc in $(sed -n 's|^#include "\([a-z0-9_/]*/[a-z0-9_.]*\)".*|\1|p' \
		"$f" | sort -u); do
		case $inc in *.inc) continue ;; esac # generated
		case $ok in *" ${inc%%/*} "* | *" $inc "*) continue ;; esac
		echo "$f: $own must not include $inc"
		bad=1
	done
done
exit $bad
