#!/usr/bin/env bash
# units_test.sh BUILD TEMPLATES
# systemd reads the units without a complaint, and finds little that the service could do beyond its work. kvserver takes
# the configuration that they name.
set -euo pipefail

build=$(readlink -f "$1") templates=$2
scratch=$(mktemp -d /tmp/remora-units.XXXXXX)
trap 'rm -rf "$scratch"' EXIT

fail() { echo "units_test: $*"; exit 1; }

for template in "$templates"/*.in; do
  file=$(basename "$template" .in)
  sed -e "s|@BINDIR@|$build/bin|; s|@SYSCONFDIR@|$scratch|" "$template" >"$scratch/$file"
  ! grep -q '@[A-Z]*@' "$scratch/$file" || fail "$file has a name that is not replaced"
done
cp "$scratch/kvserver@.service" "$scratch/kvserver@one.service"

for unit in kvserver.service kvserver@one.service; do
  said=$(systemd-analyze verify --man=no --recursive-errors=no "$scratch/$unit" 2>&1) || fail "$unit: $said"
  [ -z "$said" ] || fail "$unit: $said"
  # In tenths: below 3.
  systemd-analyze security --offline=yes --threshold=29 "$scratch/$unit" >"$scratch/exposure" 2>&1 ||
    { cat "$scratch/exposure"; fail "$unit: exposed too much"; }
done

# A unit that is wrong, or open, is noticed.
sed 's/^Type=notify/Tpye=notify/' "$scratch/kvserver.service" >"$scratch/bad.service"
said=$(systemd-analyze verify --man=no --recursive-errors=no "$scratch/bad.service" 2>&1) || true
[[ $said = *Tpye* ]] || fail "a misspelt key is not noticed: $said"
sed '/^Protect\|^Restrict\|^Private\|^System\|^Capability\|^NoNew/d' "$scratch/kvserver.service" >"$scratch/open.service"
! systemd-analyze security --offline=yes --threshold=29 "$scratch/open.service" >/dev/null 2>&1 || fail "all units pass"

# The default configuration, and each of its examples.
"$build/bin/kvserver" --config="$scratch/kvserver.conf" --print_config >"$scratch/printed" || fail "the default configuration"
grep -qx 'data_dir = /var/lib/remora/data' "$scratch/printed" || fail "the configuration is not read"
sed -E 's/^#([a-z_]+ = )/\1/' "$scratch/kvserver.conf" >"$scratch/examples.conf"
"$build/bin/kvserver" --config="$scratch/examples.conf" --print_config >"$scratch/printed" || fail "an example in the configuration"
[ "$(grep -cE '^[a-z_]+ = ' "$scratch/printed")" = "$(grep -cE '^#?[a-z_]+ = ' "$scratch/kvserver.conf")" ] ||
  fail "not all examples are read"
echo "all done"
