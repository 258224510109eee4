#!/bin/sh
# Makes the guest, a plain Debian with systemd and its own kernel, and builds
# Carrel in it as a user of that release would.  build.sh bookworm|trixie
#
#	build-guests/RELEASE/root	the system, unpacked, with all packages
#	.../root.img, vmlinuz, initrd	the guest's disk, its kernel
#	.../root/root/carrel		this tree, built with that release's compiler
#
# The system is kept until this file or the list of packages changes. Needs apt,
# as root.
set -eu
cd "$(dirname "$0")/../.."
release=${1:?usage: build.sh bookworm|trixie}
out=$PWD/build-guests/$release
root=$out/root
tree=$root/root/carrel

make_system() {
	packages=systemd-sysv,dbus,udev,kmod,linux-image-cloud-amd64,procps,iproute2
	packages=$packages,busybox-static,python3,git
	packages=$packages,$(tools/deps.sh list build run vm | paste -sd,)
	rm -rf --one-file-system "$out"
	mkdir -p "$out"
	echo "guest: bootstrapping Debian $release (once)"
	mmdebstrap --quiet --variant=minbase --include="$packages" "$release" "$root"
	configure_system
	# A small initrd: emulation unpacks a large one slowly.
	echo MODULES=list >"$root/etc/initramfs-tools/conf.d/guest"
	printf '%s\n' virtio_pci virtio_blk >>"$root/etc/initramfs-tools/modules"
	chroot "$root" update-initramfs -u >/dev/null 2>&1
	cp "$root"/boot/vmlinuz-* "$out/vmlinuz"
	cp "$root"/boot/initrd.img-* "$out/initrd"
	mke2fs -q -t ext4 -O ^has_journal -d "$root" "$out/root.img" 12G
}

# The guest unpacks the payload (the second disk), runs the tests in it (again
# after a reboot, when they ask for one) and powers off.
configure_system() {
	cat >"$root/etc/systemd/system/guest-test.service" <<'UNIT'
[Unit]
Description=Tests of the host
After=basic.target dbus.service
[Service]
Type=oneshot
StandardOutput=journal+console
StandardError=journal+console
ExecStart=/bin/sh -c 'until [ -e /dev/virtio-ports/results ] && [ -e /dev/disk/by-id/virtio-payload ]; do sleep 0.1; done; [ -e /payload/inside.sh ] || { mkdir -p /payload && tar -C /payload -xf /dev/disk/by-id/virtio-payload; } && exec /payload/inside.sh >/dev/virtio-ports/results'
ExecStopPost=/bin/sh -c 'if [ -e /run/again ]; then systemctl reboot --no-block; else systemctl poweroff --no-block; fi'
TimeoutStartSec=infinity
[Install]
WantedBy=multi-user.target
UNIT
	ln -s ../guest-test.service \
		"$root/etc/systemd/system/multi-user.target.wants/guest-test.service"
	for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
		e2scrub_all.timer e2scrub_reap.service fstrim.timer; do
		ln -sf /dev/null "$root/etc/systemd/system/$unit"
	done
	echo guest >"$root/etc/hostname"
	echo "/dev/vda / ext4 rw,noatime 0 1" >"$root/etc/fstab"
	passwd -R "$root" -d root >/dev/null
}

# This tree as it is, with the files' own times: only what changed is built.
copy_tree() {
	mkdir -p "$tree"
	find "$tree" -mindepth 1 -maxdepth 1 ! -name build -exec rm -rf {} +
	git ls-files -z --cached --others --exclude-standard |
		tar --null --ignore-failed-read -T - -cf - | tar -C "$tree" -xf -
}

# in_system COMMAND...: in the tree there, with that release's programs.
in_system() {
	# shellcheck disable=SC2016 # that shell expands them
	unshare -m sh -ec '
		root=$1; shift
		mount -t proc proc "$root/proc"
		mount --rbind /dev "$root/dev"
		mount -t tmpfs -o mode=1777 tmp "$root/tmp"
		mount --bind /etc/resolv.conf "$root/etc/resolv.conf"
		exec chroot "$root" env -i HOME=/root TERM=dumb \
			PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin \
			sh -ec "cd /root/carrel && exec \"\$@\"" sh "$@"
	' sh "$root" "$@"
}

stamp=$({ cat tests/guest/build.sh; tools/deps.sh list build run vm; } | sha256sum | cut -c1-16)
if [ "$(cat "$out/stamp" 2>/dev/null)" != "$stamp" ]; then
	make_system
	echo "$stamp" >"$out/stamp"
fi
echo "guest: building on Debian $release"
copy_tree
[ -s "$tree/build/vm/initrd" ] || in_system apt-get -qq update
in_system make -s -j2 all vm man build/probe
in_system sh -ec '
	mkdir -p build/images
	[ -s build/images/tiny.tar ] || tests/fixtures/mkrootfs.sh build/images/tiny.tar
	[ -s build/images/debian.tar ] || {
		images/debian/build build/images/debian.new
		mv build/images/debian.new build/images/debian.tar
	}'
