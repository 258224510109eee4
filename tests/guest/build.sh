#!/bin/sh
# Makes the guest: a plain Debian 12 with systemd and its own kernel, as a disk
# image, and kernel and initrd beside it. Kept in build/guest/ until this file
# or the list of packages changes. Needs apt, as root.
set -eu
cd "$(dirname "$0")/../.."
out=build/guest
stamp=$(cat tests/guest/build.sh packaging/packages.txt | sha256sum | cut -c1-16)
[ "$(cat $out/stamp 2>/dev/null)" = "$stamp" ] && exit 0

rm -rf $out
mkdir -p $out
root=$(mktemp -d /tmp/carrel-guest.XXXXXX)
trap 'rm -rf --one-file-system "$root"' EXIT

packages=systemd-sysv,dbus,udev,kmod,linux-image-cloud-amd64,procps,iproute2,busybox-static,python3
packages=$packages,$(tools/deps.sh list run | paste -sd,)
echo "guest: bootstrapping Debian 12 (once)"
mmdebstrap --quiet --variant=minbase --include="$packages" \
	bookworm "$root"

# What the tests need from the guest: it runs them (again after a reboot, when
# they ask for one) and powers off. The payload
# (the second disk) is a tar of what was built here.
cat >"$root/etc/systemd/system/guest-test.service" <<'EOF'
[Unit]
Description=Tests of the host
After=basic.target dbus.service
[Service]
Type=oneshot
StandardOutput=journal+console
StandardError=journal+console
ExecStart=/bin/sh -c 'until [ -e /dev/virtio-ports/results ] && [ -e /dev/disk/by-id/virtio-payload ]; do sleep 0.1; done; mkdir -p /payload && tar -C /payload -xf /dev/disk/by-id/virtio-payload && exec /payload/inside.sh >/dev/virtio-ports/results'
ExecStopPost=/bin/sh -c 'if [ -e /run/again ]; then systemctl reboot --no-block; else systemctl poweroff --no-block; fi'
TimeoutStartSec=infinity
[Install]
WantedBy=multi-user.target
EOF
ln -s ../guest-test.service \
	"$root/etc/systemd/system/multi-user.target.wants/guest-test.service"
for unit in apt-daily.timer apt-daily-upgrade.timer dpkg-db-backup.timer \
	e2scrub_all.timer e2scrub_reap.service fstrim.timer; do
	ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
echo guest >"$root/etc/hostname"
echo "/dev/vda / ext4 rw,noatime 0 1" >"$root/etc/fstab"
passwd -R "$root" -d root >/dev/null

# A small initrd: emulation unpacks a large one slowly.
echo MODULES=list >"$root/etc/initramfs-tools/conf.d/guest"
printf '%s\n' virtio_pci virtio_blk >>"$root/etc/initramfs-tools/modules"
chroot "$root" update-initramfs -u >/dev/null 2>&1
cp "$root"/boot/vmlinuz-* $out/vmlinuz
cp "$root"/boot/initrd.img-* $out/initrd

mke2fs -q -t ext4 -O ^has_journal -d "$root" $out/root.img 6G
echo "$stamp" >$out/stamp
