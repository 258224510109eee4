#!/bin/sh
# make install. BUILD, PREFIX and DESTDIR come from the Makefile. With an empty
# DESTDIR this is a live system: users are made and systemd is told.
set -eu
cd "$(dirname "$0")/.."
: "${BUILD:?}" "${PREFIX:?}"
to=${DESTDIR-}$PREFIX
etc=${DESTDIR-}/etc/carrel

put() { # mode, target directory, files
	mode=$1 dir=$2
	shift 2
	install -d "$dir"
	for f in "$@"; do
		# Renamed into place: a program that runs keeps its file.
		install -m "$mode" "$f" "$dir/.new.${f##*/}"
		mv -f "$dir/.new.${f##*/}" "$dir/${f##*/}"
	done
}

put 755 "$to/bin" "$BUILD/bin/carrel"
put 755 "$to/sbin" "$BUILD/bin/carreld"
for role in api warden gate scribe worker fetch agent sudo relay; do
	put 755 "$to/libexec/carrel" "$BUILD/bin/carrel-$role"
done
if [ -d images ]; then
	install -d "$to/share/carrel/images"
	cp -R images/. "$to/share/carrel/images/"
fi
# Without them (make vm) there is no tier microvm, and the daemon says so.
if [ -e "$BUILD/vm/initrd" ]; then
	put 644 "$to/share/carrel/vm" "$BUILD/vm/vmlinux" "$BUILD/vm/initrd" \
		"$BUILD/vm/disk.ext4" "$BUILD/vm/version"
fi
put 755 "$to/libexec/carrel" packaging/users.sh
put 644 "$to/share/carrel/presets" packaging/presets/*.policy
put 644 "$to/share/carrel/providers" packaging/providers/*.conf
put 644 "$to/share/man/man1" "$BUILD"/man/*.1
put 644 "$to/share/zsh/site-functions" "$BUILD/man/_carrel"
install -d "$to/share/bash-completion/completions"
install -m 644 "$BUILD/man/carrel.bash" \
	"$to/share/bash-completion/completions/carrel"
put 644 "$to/share/doc/carrel" README.md LICENSE docs/*.md packaging/packages.txt

# The configuration of a running installation is the administrator's.
libexec="#libexec_dir = /usr/local/libexec/carrel"
[ "$PREFIX" = /usr/local ] || libexec="libexec_dir = $PREFIX/libexec/carrel"
install -d "$etc"
presets="#presets_dir = /usr/local/share/carrel/presets"
[ "$PREFIX" = /usr/local ] || presets="presets_dir = $PREFIX/share/carrel/presets"
vm="#vm_dir = /usr/local/share/carrel/vm"
[ "$PREFIX" = /usr/local ] || vm="vm_dir = $PREFIX/share/carrel/vm"
sed -e "s|^@LIBEXEC@\$|$libexec|" -e "s|^@PRESETS@\$|$presets|" \
	-e "s|^@VM@\$|$vm|" packaging/carrel.conf.in >"$etc/carrel.conf.example"
[ -e "$etc/carrel.conf" ] || cp "$etc/carrel.conf.example" "$etc/carrel.conf"
[ -e "$etc/models.conf" ] || install -m 644 packaging/models.conf "$etc/models.conf"

install -d "$to/lib/systemd/system"
sed "s|@PREFIX@|$PREFIX|g" packaging/carrel.service.in \
	>"$to/lib/systemd/system/carrel.service"
put 644 "$to/lib/systemd/system" packaging/carrel-box.service

[ -z "${DESTDIR-}" ] || exit 0
packaging/users.sh
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
fi
echo "installed below $PREFIX; start it with:" \
	"$([ -d /run/systemd/system ] && echo 'systemctl enable --now carrel' ||
		echo "$PREFIX/sbin/carreld --background")"
