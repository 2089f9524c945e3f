#!/usr/bin/env bash
# deb_test.sh SOURCE
# The Debian packages, in a clean root of Debian: made by tools/package/deb, looked at by lintian, installed, and used by a
# user of the group. Then upgraded while the server runs, started on data of an earlier release, removed, purged, and
# installed again. Needs root, and a mirror of Debian. REMORA_DEB_BUILD names a build to take, for
# the prefix /usr.
set -euo pipefail

source=$(readlink -f "$1")
export DEBFULLNAME=${DEBFULLNAME:-A test} DEBEMAIL=${DEBEMAIL:-test@example.org}
[ "$(id -u)" -eq 0 ] || { echo "deb_test: needs root, for a root of its own"; exit 77; }
# Mounts end with this namespace.
[ -n "${REMORA_DEB_TEST-}" ] || REMORA_DEB_TEST=inside exec unshare --mount "$0" "$@"
scratch=$(mktemp -d /tmp/remora-deb-test.XXXXXX)
root=$scratch/root
server=
trap '[ -z "$server" ] || kill -KILL "$server" 2>/dev/null; umount "$root/proc" 2>/dev/null; rm -rf --one-file-system "$scratch"' EXIT

fail() { echo "deb_test: $*"; exit 1; }
say() { echo "== $* (${SECONDS} s)"; }
quietly() { "$@" >"$scratch/log" 2>&1 || { tail -n 60 "$scratch/log"; fail "failed: $*"; }; }
inside() { env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin LANG=C.UTF-8 DEBIAN_FRONTEND=noninteractive chroot "$root" "$@"; }
as() { local user=$1; shift; inside setpriv --reuid="$user" --regid="$user" --init-groups "$@"; }

install_from() {
  # shellcheck disable=SC2016
  quietly inside sh -c 'cd "/$1" && apt-get -qq install --yes --no-install-recommends ./remora-server_*.deb \
    ./remora-tools_*.deb ./libremora0.1_*.deb ./python3-remora_*.deb' sh "$1"
}

# install_more PACKAGE...: from the same folder as the last.
install_more() {
  local files=()
  for package; do files+=("./${package}_*.deb"); done
  # shellcheck disable=SC2016
  quietly inside sh -c 'cd /one && apt-get -qq install --yes --no-install-recommends $1' sh "${files[*]}"
}

say "make"
"$source/tools/package/deb" ${REMORA_DEB_BUILD:+"--build=$REMORA_DEB_BUILD"} --output="$scratch/one" >"$scratch/log" 2>&1 ||
  { tail -n 60 "$scratch/log"; fail "tools/package/deb"; }
build=${REMORA_DEB_BUILD:-$source/build-deb}
quietly "$source/tools/package/deb" --build="$build" --output="$scratch/two" --revision=2
[ "$(find "$scratch/one" -name '*.deb' | wc -l)" -eq 6 ] || fail "six packages are expected"

for file in "$scratch"/one/*.deb; do
  [ "$(dpkg-deb --field "$file" Maintainer)" = "$DEBFULLNAME <$DEBEMAIL>" ] || fail "$file has another maintainer"
done
# Programs name the library by its version. A package of another version is another package, and takes nothing from them.
for file in "$scratch"/one/libremora[0-9]*.deb; do
  number=$(basename "$file" | sed -E 's/^libremora([0-9.]+)_.*/\1/')
  mapfile -t names < <(dpkg-deb --contents "$file" | sed -nE 's/.*\.so\.([0-9.]+) -> .*/\1/p' | sort -u)
  [ "${names[*]}" = "$number" ] || fail "$(basename "$file") has libraries of version ${names[*]}"
done

say "lintian"
quietly lintian --allow-root --fail-on error "$scratch"/one/*.deb

say "a clean root"
suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
quietly mmdebstrap --quiet --variant=minbase --include=python3-minimal "$suite" "$root" \
  "${REMORA_DEBIAN_MIRROR:-http://deb.debian.org/debian}"
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
cp -L /etc/resolv.conf /etc/hosts "$root/etc"
quietly inside apt-get -qq update  # the root comes without lists
mkdir "$root/one" "$root/two"
cp "$scratch"/one/*.deb "$root/one"
cp "$scratch"/two/*.deb "$root/two"

say "install"
install_from one
mount --bind /proc "$root/proc"
inside getent passwd remora >/dev/null || fail "there is no user remora"
quietly inside adduser --quiet --disabled-password --gecos '' alice
quietly inside adduser --quiet alice remora
quietly inside adduser --quiet --disabled-password --gecos '' mallory
inside kvserver --config=/etc/remora/kvserver.conf --print_config >/dev/null || fail "the configuration of the package"

# start: as the unit does, without systemd.
start() {
  inside install -d -o remora -g remora -m 755 /run/remora
  inside install -d -o remora -g remora -m 700 /var/lib/remora
  mkfifo "$scratch/ready.$1"
  env -i PATH=/usr/sbin:/usr/bin:/bin chroot --userspec=remora:remora "$root" \
    /usr/bin/kvserver --config=/etc/remora/kvserver.conf --memory=64M --http=127.0.0.1:$port --quiet --ready_fd=3 \
    3>"$scratch/ready.$1" >"$scratch/out" 2>"$scratch/errors" &
  server=$!
  [ "$(cat "$scratch/ready.$1")" = ready ] || { cat "$scratch/errors"; fail "kvserver does not serve"; }
}
stop() {
  kill -TERM "$server"
  wait "$server" || fail "kvserver ended with $?"
  server=
}
page() { python3 -c 'import sys, urllib.request; print(urllib.request.urlopen(sys.argv[1]).read().decode())' "http://127.0.0.1:$port$1"; }
# expect KEY VALUE: alice reads it.
expect() { [ "$(as alice kvctl --server=$address get "$1")" = "$2" ] || fail "$1 is not $2"; }
port=$(python3 -c 'import socket; one = socket.create_server(("127.0.0.1", 0)); print(one.getsockname()[1])')
address=local:///run/remora/kvserver.sock

say "use"
start 1
as alice kvctl --server=$address put greeting "hello, world" || fail "alice cannot write"
[ "$(as alice kvctl --server=$address get greeting)" = "hello, world" ] || fail "alice cannot read"
! as mallory kvctl --server=$address get greeting >/dev/null 2>&1 || fail "mallory, who is not in the group, can read"
[ "$(as alice python3 -c "
import remora
with remora.Client('$address') as store: print(store['greeting'].decode())")" = "hello, world" ] || fail "Python"
page /metrics >"$scratch/metrics" || fail "no metrics"
grep -qx 'remora_keys 1' "$scratch/metrics" || fail "the metrics do not have the key"
[ "$(as alice kvctl --server=$address stats | sed -n 's/^keys //p')" = 1 ] || fail "alice's statistics do not have the key"
page / >"$scratch/page" || fail "no console page"
grep -qx '<title>Remora</title>' "$scratch/page" || fail "the page is none of Remora"
for file in alerts.yml grafana-dashboard.json; do
  [ -s "$root/usr/share/remora/$file" ] || fail "$file is missing"
done

say "develop"
install_more remora-doc libremora-dev
quietly inside apt-get -qq install --yes --no-install-recommends g++ pkg-config
example=$(find "$root/usr/share/doc" -path '*examples*' -name first.cc | head -n 1)
[ -n "$example" ] || fail "there is no example"
quietly inside sh -c 'g++ -std=c++20 -o /home/alice/first "$1" $(pkg-config --cflags --libs remora-client)' sh "${example#"$root"}"
as alice /home/alice/first $address || fail "the example"

say "upgrade, while it serves"
[ "$(as alice kvctl --server=$address incr counter 41)" = 41 ] || fail "alice cannot count"
echo "# mine" >>"$root/etc/remora/kvserver.conf"
install_from two
[[ $(inside dpkg-query -W -f='${Version}' remora-server) = *-2 ]] || fail "it was not upgraded"
grep -qx "# mine" "$root/etc/remora/kvserver.conf" || fail "the upgrade replaced the configuration"
expect greeting "hello, world"  # of the server that was started before
stop
start 2
expect greeting "hello, world"
[ "$(as alice kvctl --server=$address incr counter)" = 42 ] || fail "the counter is gone"
page /metrics >"$scratch/metrics" || fail "no metrics after the upgrade"
grep -qx 'remora_keys 2' "$scratch/metrics" || fail "the metrics do not have both keys"
stop

say "an upgrade from data of an earlier release"
mv "$root/var/lib/remora/data" "$root/var/lib/remora/mine"
earlier=$source/tests/upgrade/format-1
python3 -B - "$earlier.base64" "$root/var/lib/remora/data" <<'PYTHON'
import base64, io, pathlib, sys, tarfile
packed = base64.b64decode("".join(pathlib.Path(sys.argv[1]).read_text().split()))
with tarfile.open(fileobj=io.BytesIO(packed), mode="r:xz") as tar:
    tar.extractall(sys.argv[2])
PYTHON
inside chown -R remora:remora /var/lib/remora/data
start 3
cp "$earlier.json" "$root/home/alice/expected.json"
chmod 644 "$root/home/alice/expected.json"
as alice python3 -c "
import hashlib, json, remora
expected = json.load(open('/home/alice/expected.json'))
with remora.Client('$address') as store:
    assert sorted(key.decode() for key in store) == sorted(expected), list(store)
    for key, facts in expected.items():
        value = store[key]
        assert (len(value), hashlib.sha256(value).hexdigest()) == (facts['size'], facts['sha256']), key
    store['new'] = b'value'
" || fail "the data of an earlier release are not what they were"
stop
start 4
expect new value
stop
rm -r "$root/var/lib/remora/data"
mv "$root/var/lib/remora/mine" "$root/var/lib/remora/data"

say "remove, purge"
quietly inside dpkg --remove remora-server remora-tools python3-remora libremora-dev remora-doc libremora0.1
[ -f "$root/etc/remora/kvserver.conf" ] || fail "removing took the configuration, too"
[ ! -e "$root/usr/bin/kvserver" ] || fail "kvserver is still there"
quietly inside dpkg --purge remora-server remora-tools python3-remora libremora-dev remora-doc libremora0.1
[ ! -e "$root/etc/remora" ] || fail "the configuration outlives the purge"
[ -d "$root/var/lib/remora/data" ] || fail "the purge took the data"
left=$(find "$root/usr" "$root/etc" -xdev -iname '*remora*' -not -path '*/systemd/*' | head)
[ -z "$left" ] || fail "left behind: $left"

say "install again, on the data that stayed"
install_from two
! grep -qx "# mine" "$root/etc/remora/kvserver.conf" || fail "the configuration outlived the purge"
start 5
expect greeting "hello, world"
expect counter 42
stop
say "all done"
