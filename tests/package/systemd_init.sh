#!/usr/bin/env bash
# systemd_init.sh ROOT
# The first process of namespaces of its own (systemd_test.sh): makes ROOT the root of them, and becomes systemd. Its
# cgroup is the root of what systemd sees of cgroups.
set -euo pipefail

root=$1
mount -t proc proc "$root/proc"
# Else its udev and sysctl would change this machine's devices and settings.
mount --bind "$root/proc/sys" "$root/proc/sys"
mount -o remount,bind,ro "$root/proc/sys"
mount -t sysfs -o ro sysfs "$root/sys"
if [ -e /sys/fs/cgroup/cgroup.controllers ]; then
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
else
  mount -t tmpfs -o mode=755 tmpfs "$root/sys/fs/cgroup"
  mkdir "$root/sys/fs/cgroup/systemd" "$root/sys/fs/cgroup/unified"
  mount -t cgroup -o none,name=systemd systemd "$root/sys/fs/cgroup/systemd"
  mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup/unified"
fi
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs -o mode=1777 tmpfs "$root/tmp"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=666,mode=620 devpts "$root/dev/pts"
mount -t tmpfs -o mode=1777 tmpfs "$root/dev/shm"
ln -s pts/ptmx "$root/dev/ptmx"  # PrivateDevices= needs it
ln -s /proc/self/fd "$root/dev/fd"
cd "$root"
mkdir -p mnt
pivot_root . mnt  # a service's root is made from that of the namespace, so chroot would not do
umount --lazy /mnt
mount --make-rshared /
exec env -i container=remora-test PATH=/usr/sbin:/usr/bin:/sbin:/bin \
  /lib/systemd/systemd --unit=remora-test.target --log-target=journal --show-status=no
