# shellcheck shell=bash disable=SC2154  # here: from tools/rdma-guest
# The guest's kernel and initramfs, in a cache outside the tree. Part of tools/rdma-guest, which defines `say`, `fail`
# and $here.

readonly cache=${REMORA_GUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/remora/guest}
# rdma_rxe needs crc32. The generic one is the faster one here: crc32_pclmul's instructions are slow to emulate.
# From veth on they are for several hosts: guest/init loads them only then.
readonly modules=(virtio_pci virtio_console virtio_rng 9p 9pnet_virtio overlay
                  crc32_generic rdma_rxe ib_uverbs rdma_ucm dummy veth bridge sch_netem)

# Runs of the same user share the cache.
with_lock() {
  mkdir -p "$cache"
  (
    flock 9
    "$@" 9>&-
  ) 9>"$cache/lock"
}

# The exact name: Debian removes old kernels from its archive, and a pattern would match the cloud kernel too,
# which has no InfiniBand.
kernel_known_to_apt() {
  apt-cache depends linux-image-amd64 2>/dev/null |
    sed -n 's/^ *Depends: \(linux-image-[0-9].*-amd64\)$/\1/p' | head -n 1
}

kernel_in_cache() { (cd "$cache" && printf '%s\n' linux-image-*-amd64) | grep -v '\*' | sort -V | tail -n 1; }

refresh_apt() {
  local as_root=()
  if [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || return 0
    as_root=(sudo -n)
  fi
  say "running apt-get update"
  "${as_root[@]}" apt-get -qq update >&2 || true
}

# Linux's bzImage holds the kernel proper as an xz stream (Documentation/x86/boot.rst: setup_sects,
# payload_offset, payload_length, whose last 4 bytes are the unpacked size).
extract_vmlinux() {
  local image=$1 sectors offset length
  sectors=$(od -An -tu1 -j $((0x1f1)) -N 1 "$image")
  offset=$(od -An -tu4 -j $((0x248)) -N 4 "$image")
  length=$(od -An -tu4 -j $((0x24c)) -N 4 "$image")
  dd if="$image" bs=1M iflag=skip_bytes,count_bytes status=none \
     skip=$(((sectors + 1) * 512 + offset)) count=$((length - 4)) | xz -dc
}

# Only a finished kernel gets its final name; the next run removes the files of an interrupted one.
fetch_kernel() {
  local package=$1 version=${1#linux-image-} new=$cache/unfinished
  rm -rf "$new"
  mkdir "$new"
  say "downloading $package to $cache"
  # apt would warn that its sandbox user cannot write here.
  (cd "$new" && apt-get -qq -o APT::Sandbox::User=root download "$package" >&2) || return 1
  local folder=./lib/modules/$version
  local from=$folder/kernel
  dpkg-deb --fsys-tarfile "$new/$package"_*.deb |
    tar -x -C "$new" --wildcards "./boot/vmlinuz-$version" "$folder/modules.*" "$from/"{crypto,lib,net} \
      "$from/drivers/"{infiniband/core,infiniband/sw,virtio,char/hw_random} "$from/drivers/char/virtio_console.ko*" \
      "$from/drivers/net/"{dummy,veth}.ko\* "$from/fs/"{9p,configfs,fscache,netfs,overlayfs} &&
    rm "$new/$package"_*.deb && depmod -b "$new" "$version" &&
    extract_vmlinux "$new/boot/vmlinuz-$version" >"$new/vmlinux" &&
    rm -r "${new:?}/boot" && mv -T "$new" "$cache/$package"
}

# Prints the folder of a kernel in the cache. Asking apt takes a second, so it is asked only when its lists
# changed since.
provide_kernel() {
  local package cached
  cached=$(kernel_in_cache) || true
  [ ! "$cache/$cached/newest" -nt /var/lib/apt/lists ] || { echo "$cache/$cached"; return; }
  package=$(kernel_known_to_apt) || true
  if [ -z "$package$cached" ]; then
    refresh_apt
    package=$(kernel_known_to_apt) || true
  fi
  if [ -n "$package" ] && [ ! -d "$cache/$package" ] && ! fetch_kernel "$package"; then
    refresh_apt  # old lists name packages that are gone
    package=$(kernel_known_to_apt) || true
    [ -d "$cache/$package" ] || fetch_kernel "$package" || package=
  fi
  [ -z "$package" ] || touch "$cache/$package/newest"
  package=${package:-$cached}
  [ -n "$package" ] || fail 69 "no kernel: apt could not get linux-image-amd64, and none is in $cache; try apt-get update"
  echo "$cache/$package"
}

# Prints the path of the initramfs. Its name holds the checksum of all it is made from, so it is never stale.
provide_initramfs() {
  local kernel=$1 version=${1##*/linux-image-} sum image root=$cache/unfinished name file
  sum=$(cat "$here/guest/kernel.sh" "$here/guest/init" "$(command -v busybox)" | sha256sum)
  image=$kernel/initramfs-${sum:0:16}
  if [ ! -e "$image" ]; then
    find "$kernel" -maxdepth 1 -name 'initramfs-*' -mtime +30 -delete
    rm -rf "$root"
    mkdir -p "$root"/{bin,dev,proc,sys,modules,share,host,written,root}
    cp "$(command -v busybox)" "$root/bin/busybox"
    for name in chroot hostname insmod ln mkdir mount poweroff; do ln -s busybox "$root/bin/$name"; done
    install -m 755 "$here/guest/init" "$root/init"
    # Without this machine's own configuration of modules (-C), each line is "insmod FILE ".
    modprobe -C /dev/null -d "$kernel" -S "$version" --show-depends --all "${modules[@]}" |
      sed -n 's/^insmod \(.*\.ko\) *$/\1/p' | awk '!seen[$0]++' | while read -r file; do
        cp "$file" "$root/modules/"
        basename "$file" >>"$root/modules/order"
      done
    (cd "$root" && find . | cpio -o -H newc --quiet) >"$image.new"
    mv "$image.new" "$image"
    rm -rf "$root"
  fi
  echo "$image"
}
