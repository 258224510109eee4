#!/bin/sh
# make up: from a clone to a sandbox that runs, on Debian 12 or 13, as root. Each
# step says what it does and is skipped when it is done already.
set -eu
cd "$(dirname "$0")/.."
prefix=${PREFIX:-/usr/local}
carrel=$prefix/bin/carrel

say() { printf '\n== %s\n' "$*"; }
die() { echo "make up: $*" >&2; exit 1; }

[ "$(id -u)" = 0 ] || die "it installs packages and a service: run it as root (sudo make up)"

say "packages (packaging/packages.txt)"
tools/deps.sh install build run vm

say "build"
make --no-print-directory -j"$(nproc)" all vm

say "install below $prefix"
make --no-print-directory install

say "start the daemon"
if [ -d /run/systemd/system ]; then
	systemctl enable carrel.service
	systemctl restart carrel.service
elif "$carrel" ls >/dev/null 2>&1; then
	echo "already running"
else
	"$prefix/sbin/carreld" --background
fi
tries=0
until "$carrel" ls >/dev/null 2>&1; do
	tries=$((tries + 1))
	if [ $tries -gt 150 ]; then
		"$carrel" ls || true
		die "the daemon does not answer; see: journalctl -u carrel, or run $prefix/sbin/carreld in the foreground"
	fi
	sleep 0.2
done

say "the image"
if "$carrel" image ls -q | grep -qx debian; then
	echo "debian is there"
elif [ -s build/images/debian.tar ]; then
	echo "importing build/images/debian.tar, which was built before"
	"$carrel" image import build/images/debian.tar debian
else
	"$carrel" image build debian
fi

say "this host"
"$carrel" doctor || true

say "a first sandbox"
set -x
"$carrel" run -- sh -c 'id; uname -a; python3 -c "print(6*7)"'
{ set +x; } 2>/dev/null

cat <<EOF

Carrel is up. Next:
  carrel run -t -- bash               a sandbox that goes when you leave it
  carrel create --name work           one that stays; carrel exec work -- ...
  carrel ls; carrel rm work; carrel doctor
EOF
