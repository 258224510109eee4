#!/bin/sh
# The initramfs of microVMs: our first process, the agent, the modules.
#	vm_initrd.sh KERNEL_DIR BIN_DIR OUT
set -eu
kernel=${1:?} bin=${2:?} out=${3:?}
tmp=$(mktemp -d)
trap 'rm -rf "$tmp"' EXIT
cp -R "$kernel/m" "$tmp/m"
cp "$bin/carrel-guest" "$tmp/init"
cp "$bin/carrel-agent" "$tmp/agent"
strip "$tmp/init" "$tmp/agent"
mkdir "$tmp/dev"
mknod "$tmp/dev/console" c 5 1
(cd "$tmp" && find . | sort | cpio --quiet -o -H newc -R 0:0) >"$out.new"
mv "$out.new" "$out"
