#!/bin/sh
# make uninstall. Ends every sandbox, stops the daemon, removes the programs.
# PURGE=1 also removes images, volumes, the log, the configuration and the users.
set -eu
: "${PREFIX:?}"
to=${DESTDIR-}$PREFIX

stop_live() {
	if [ -x "$PREFIX/bin/carrel" ]; then
		"$PREFIX/bin/carrel" rm --all --force >/dev/null 2>&1 || true
	fi
	if [ -d /run/systemd/system ]; then
		systemctl disable --now carrel.service 2>/dev/null || true
		systemctl stop carrel-box.service 2>/dev/null || true
	fi
	# Started by hand: the process that runs the installed program.
	for exe in /proc/[0-9]*/exe; do
		case $(readlink "$exe" 2>/dev/null) in
		"$PREFIX/sbin/carreld" | "$PREFIX/sbin/carreld (deleted)")
			pid=${exe#/proc/}
			pid=${pid%/exe}
			kill "$pid" 2>/dev/null || continue
			for _ in 1 2 3 4 5 6 7 8 9 10; do
				[ -d "/proc/$pid" ] || break
				sleep 0.3
			done
			;;
		esac
	done
}

setting() { # key, default
	v=$(sed -n "s/^ *$1 *= *//p" /etc/carrel/carrel.conf 2>/dev/null || true)
	echo "${v:-$2}"
}

purge_live() {
	state=$(setting state_dir /var/lib/carrel)
	run=$(setting run_dir /run/carrel)
	awk -v d="$state/" 'index($5, d) == 1 { print $5 }' /proc/self/mountinfo |
		sort -r | while read -r dir; do
		umount "$dir"
	done
	for dev in $(losetup -j "$state/pool.img" 2>/dev/null | cut -d: -f1); do
		losetup -d "$dev" 2>/dev/null || true # autoclear may be faster
	done
	rm -rf --one-file-system "$state" "$run"
	# The locks of other instances are in it.
	grep -qsx carreld /proc/[0-9]*/comm || rm -f /run/carrel.ids
	for root in /sys/fs/cgroup /sys/fs/cgroup/*; do
		[ -d "$root/carrel" ] || continue
		find "$root/carrel" -depth -type d -exec rmdir {} \;
	done
	for name in carrel carrel-log carrel-gate; do
		if getent passwd "$name" >/dev/null; then
			userdel "$name"
		fi
		if getent group "$name" >/dev/null; then
			groupdel "$name"
		fi
	done
}

if [ -z "${DESTDIR-}" ]; then
	[ "$(id -u)" = 0 ] || { echo "make uninstall: run this as root" >&2; exit 1; }
	stop_live
fi
rm -f "$to/bin/carrel" "$to/sbin/carreld" \
	"$to/lib/systemd/system/carrel.service" \
	"$to/lib/systemd/system/carrel-box.service" \
	"$to"/share/man/man1/carrel.1 "$to"/share/man/man1/carrel-*.1 \
	"$to/share/zsh/site-functions/_carrel" \
	"$to/share/bash-completion/completions/carrel" \
	"${DESTDIR-}/etc/carrel/carrel.conf.example"
rm -rf "$to/libexec/carrel" "$to/share/carrel" "$to/share/doc/carrel"
if [ -n "${PURGE-}" ]; then
	[ -n "${DESTDIR-}" ] || purge_live
	rm -rf "${DESTDIR-}/etc/carrel"
else
	echo "kept: /etc/carrel, /var/lib/carrel (PURGE=1 removes them)"
fi
if [ -z "${DESTDIR-}" ] && [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
