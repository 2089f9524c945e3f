# shellcheck shell=bash disable=SC2154  # here, release: from tools/rdma-guest
# The guest's kernel and initramfs, in a cache outside the tree. Part of tools/rdma-guest, which defines `say`, `fail`,
# $here, and $release: of which release of Debian the kernel is to be, or '' for this system's.
#
# Debian's kernels differ. From 13 on, modules lie below /usr, and are compressed (.ko.xz); virtio_console is no module.
# Also fscache is part of netfs, and the kernel proper is compressed by zstd.

cache=${REMORA_GUEST_CACHE:-${XDG_CACHE_HOME:-$HOME/.cache}/remora/guest}
lists=/var/lib/apt/lists
apt_options=()
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

# With a release, apt has lists of its own in the cache, and a kernel of that release a folder of its own. The system's
# configuration of apt says nothing of it; its keys do.
choose_release() {
  [ -n "$release" ] || return 0
  cache=$cache/$release
  lists=$cache/apt/lists
  mkdir -p "$lists/partial" "$cache/apt/archives/partial"
  echo "deb [signed-by=/usr/share/keyrings/debian-archive-keyring.gpg]" \
    "${REMORA_DEBIAN_MIRROR:-http://deb.debian.org/debian} $release main" >"$cache/apt/sources.list"
  : >"$cache/apt/status"
  apt_options=(-o "Dir::Etc::SourceList=$cache/apt/sources.list" -o Dir::Etc::SourceParts=/dev/null
               -o "Dir::State=$cache/apt" -o "Dir::State::Status=$cache/apt/status" -o "Dir::State::Lists=$lists"
               -o "Dir::Cache=$cache/apt" -o APT::Sandbox::User=root)
}

# The exact name: Debian removes old kernels from its archive, and a pattern would match the cloud kernel too,
# which has no InfiniBand.
kernel_known_to_apt() {
  apt-cache "${apt_options[@]}" depends linux-image-amd64 2>/dev/null |
    sed -n 's/^ *Depends: \(linux-image-[0-9].*-amd64\)$/\1/p' | head -n 1
}

kernel_in_cache() { (cd "$cache" && printf '%s\n' linux-image-*-amd64) | grep -v '\*' | sort -V | tail -n 1; }

refresh_apt() {
  local as_root=()
  if [ -z "$release" ] && [ "$(id -u)" -ne 0 ]; then
    command -v sudo >/dev/null || return 0
    as_root=(sudo -n)
  fi
  say "running apt-get update"
  "${as_root[@]}" apt-get "${apt_options[@]}" -qq update >&2 || true
}

# Linux's bzImage holds the kernel proper as an xz or zstd stream (Documentation/x86/boot.rst: setup_sects,
# payload_offset, payload_length, whose last 4 bytes are the unpacked size).
extract_vmlinux() {
  local image=$1 sectors offset length
  sectors=$(od -An -tu1 -j $((0x1f1)) -N 1 "$image")
  offset=$(od -An -tu4 -j $((0x248)) -N 4 "$image")
  length=$(od -An -tu4 -j $((0x24c)) -N 4 "$image")
  offset=$((offset + (sectors + 1) * 512))
  local unpack=xz
  [ "$(od -An -tx4 -j $offset -N 4 "$image")" != " fd2fb528" ] || unpack=zstd
  dd if="$image" bs=1M iflag=skip_bytes,count_bytes status=none skip=$offset count=$((length - 4)) | $unpack -dc
}

# Only a finished kernel gets its final name; the next run removes the files of an interrupted one.
fetch_kernel() {
  local package=$1 version=${1#linux-image-} new=$cache/unfinished
  rm -rf "$new"
  mkdir "$new"
  say "downloading $package to $cache"
  # apt would warn that its sandbox user cannot write here.
  (cd "$new" && apt-get "${apt_options[@]}" -qq -o APT::Sandbox::User=root download "$package" >&2) || return 1
  local archive
  archive=$(echo "$new/$package"_*.deb)
  # Kernels differ in the files that are there. Only files are copied: folders that are links stay links.
  mkdir -p "$new/lib" "$new/usr"
  ln -s ../lib "$new/usr/lib"
  local from='^\./(usr/)?lib/modules/[^/]*/'
  dpkg-deb --fsys-tarfile "$archive" | tar -t |
    grep -E -e '^\./boot/vmlinuz-' -e "$from"'modules\.' \
      -e "$from"'kernel/(crypto|lib|net|drivers/(infiniband/(core|sw)|virtio|char/hw_random)|fs/(9p|configfs|fscache|netfs|overlayfs))/.*\.ko' \
      -e "$from"'kernel/drivers/(char/virtio_console|net/dummy|net/veth)\.ko' >"$new/files" &&
    dpkg-deb --fsys-tarfile "$archive" | tar -x -C "$new" --keep-directory-symlink --files-from="$new/files" &&
    rm "$archive" "$new/files" && depmod -b "$new" "$version" &&
    extract_vmlinux "$new/boot/vmlinuz-$version" >"$new/vmlinux" &&
    rm -r "${new:?}/boot" && mv -T "$new" "$cache/$package"
}

# Prints the folder of a kernel in the cache. Asking apt takes a second, so it is asked only when its lists
# changed since.
provide_kernel() {
  local package cached
  cached=$(kernel_in_cache) || true
  [ ! "$cache/$cached/newest" -nt "$lists" ] || { echo "$cache/$cached"; return; }
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
  [ -n "$package" ] || fail 69 "no kernel: apt could not get linux-image-amd64${release:+ of Debian $release}, and none is in $cache; try apt-get update"
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
      sed -n 's/^insmod \(.*\.ko\(\.xz\)\?\) *$/\1/p' | awk '!seen[$0]++' | while read -r file; do
        name=$(basename "$file" .xz)
        if [ "$name.xz" = "$(basename "$file")" ]; then xz -dc "$file"; else cat "$file"; fi >"$root/modules/$name"
        echo "$name" >>"$root/modules/order"
      done
    (cd "$root" && find . | cpio -o -H newc --quiet) >"$image.new"
    mv "$image.new" "$image"
    rm -rf "$root"
  fi
  echo "$image"
}
