#!/bin/sh
# The disk that each microVM starts with: a small empty file system, which the
# guest makes as large as its disk.  vm_disk.sh OUT
set -eu
out=${1:?usage: vm_disk.sh OUT}
rm -f "$out.new"
truncate -s 16M "$out.new"
mke2fs -q -t ext4 -O 64bit,meta_bg,^resize_inode -J size=4 -E lazy_itable_init=1,nodiscard \
	-U clear -m 0 "$out.new"
mv "$out.new" "$out"
