#!/usr/bin/env bash
# components_test.sh BUILD
# The components of the installation, of which tools/package/deb makes packages: each has its files, no file is in two,
# and together they are all that is installed.
set -euo pipefail

build=$1
scratch=$(mktemp -d /tmp/remora-components.XXXXXX)
trap 'rm -rf "$scratch"' EXIT

fail() { echo "components_test: $*"; exit 1; }
quietly() { "$@" >"$scratch/log" 2>&1 || { tail -n 40 "$scratch/log"; fail "failed: $*"; }; }
list() { (cd "$scratch/$1" && find . ! -type d | sort); }

declare -A least=(
  [server]="usr/bin/kvserver usr/bin/kvgate usr/share/man/man1/kvgate.1 etc/remora/kvserver.conf usr/lib/systemd/system/kvserver.service usr/share/man/man8/kvserver.8"
  [tools]="usr/bin/kvctl usr/bin/kvbench usr/share/man/man1/kvctl.1"
  [libraries]="usr/lib*/libremora.so.0.1 usr/lib*/libremora_client.so.0.1 usr/lib*/libremora_store.so.0.1"
  [dev]="usr/include/remora.h usr/include/remora/client.h usr/include/remora/client/client.h usr/lib*/libremora.so usr/lib*/libremora_client.a"
  [python]=""
  [doc]="usr/share/doc/remora/README.md usr/share/doc/remora/docs/operating/running.md usr/share/man/man7/remora.7"
)
least[dev]+=" usr/lib*/pkgconfig/remora.pc usr/share/man/man3/remora_get.3"
DESTDIR=$scratch/all quietly cmake --install "$build" --prefix /usr
[ -z "$(find "$scratch/all" -name '_remora*.so')" ] || least[python]="usr/lib/python3*/dist-packages/remora/_remora.abi3.so"
for component in "${!least[@]}"; do
  mkdir "$scratch/$component"
  DESTDIR=$scratch/$component quietly cmake --install "$build" --prefix /usr --component "$component"
  list "$component" >"$scratch/list"
  for file in ${least[$component]}; do
    # A library may be in a folder for its architecture.
    grep -qE "^\./${file//\*/[^/]*(/[^/]*-linux-gnu)?}$" "$scratch/list" || fail "$component has no $file"
  done
  cat "$scratch/list" >>"$scratch/parts"
done
twice=$(sort "$scratch/parts" | uniq -d)
[ -z "$twice" ] || fail "in two components: $twice"
diff <(sort "$scratch/parts") <(list all) || fail "the components are not all that is installed"

# The administrator's file stays as it is.
echo "# mine" >"$scratch/server/etc/remora/kvserver.conf"
DESTDIR=$scratch/server quietly cmake --install "$build" --prefix /usr --component server
[ "$(cat "$scratch/server/etc/remora/kvserver.conf")" = "# mine" ] || fail "the configuration was replaced"
grep -qx 'ExecStart=/usr/bin/kvserver --config=/etc/remora/kvserver.conf' \
  "$scratch/server/usr/lib/systemd/system/kvserver.service" || fail "the unit names other places"
# A package has a maintainer.
status=0
DEBEMAIL="no address" "$(dirname "$0")/../../tools/package/deb" --build="$build" --output="$scratch/deb" >"$scratch/log" 2>&1 || status=$?
grep -q "need a maintainer, not '.* <no address>'" "$scratch/log" || status+=" without a reason"
[ "$status" = 64 ] || { cat "$scratch/log"; fail "tools/package/deb took \"no address\", or ended with $status"; }
echo "all done"
