#!/usr/bin/env bash
# wheel_test.sh BUILD SOURCE
# The wheel that tools/package/wheel makes of what is built: pip installs it into an empty environment without network,
# and a program of that environment uses a server.
set -euo pipefail

build=$1 source=$2
tool=$source/tools/package/wheel
scratch=$(mktemp -d /tmp/remora-wheel.XXXXXX)
server=
# shellcheck disable=SC2317  # called by the trap
clean_up() {
  [ -z "$server" ] || { kill -KILL "$server" && wait "$server"; } 2>/dev/null || true
  rm -rf "$scratch"
}
trap clean_up EXIT

fail() { echo "wheel_test: $*"; exit 1; }
quietly() { "$@" >"$scratch/log" 2>&1 || { tail -n 40 "$scratch/log"; fail "failed: $*"; }; }
# `rejected STATUS TEXT COMMAND...`
rejected() {
  local expected=$1 text=$2 status=0
  shift 2
  "$@" >"$scratch/log" 2>&1 || status=$?
  [ "$status" = "$expected" ] || fail "$* ended with $status, not $expected"
  grep -qF -- "$text" "$scratch/log" || { cat "$scratch/log"; fail "$* does not say: $text"; }
}

for name in pip setuptools wheel; do
  dpkg-query -W -f='${db:Status-Status}' python3-$name 2>/dev/null | grep -qx installed || {
    echo "wheel_test: skipped: python3-$name is not installed (tools/install-deps wheel)"; exit 77; }
done
[ -f "$build/python/remora/_remora.abi3.so" ] || {
  echo "wheel_test: skipped: the Python module is not built (python3-dev)"; exit 77; }

rejected 64 "usage: tools/package/wheel" "$tool" --no_such_flag
rejected 64 "--build=$scratch: there is no" "$tool" --build="$scratch"

"$tool" --build="$build" --output="$scratch/wheels" >"$scratch/made" || fail "no wheel was made"
wheel=$(head -n 1 "$scratch/made")
[ -f "$wheel" ] || fail "there is no $wheel"
[ "$(ls "$scratch/wheels")" = "${wheel##*/}" ] || fail "it made something else, too"
[[ $wheel == */remora-*-cp311-abi3-linux_*.whl ]] || fail "the wheel is for another Python: $wheel"
grep -qE '^needs the libraries of: .*\blibibverbs1\b.*\blibstdc\+\+6\b' "$scratch/made" || fail "it names no libraries"
/usr/bin/python3 -m zipfile -l "$wheel" | awk 'NR > 1 { print $1 }' | grep '^remora/' | sort >"$scratch/has"
(cd "$source/client/python" && find remora -type f -not -name '*.pyc'; echo remora/_remora.abi3.so) | sort >"$scratch/wanted"
diff "$scratch/wanted" "$scratch/has" || fail "the wheel does not have the package's files"

# pip makes the same wheel of the sources, with Debian's setuptools.
"$tool" --build="$build" --source="$scratch/source" >"$scratch/made" || fail "no sources were made"
[ "$(head -n 1 "$scratch/made")" = "$scratch/source" ] || fail "it does not name the folder"
rejected 64 "it is there already" "$tool" --build="$build" --source="$scratch/source"
quietly env SOURCE_DATE_EPOCH=0 /usr/bin/python3 -m pip --disable-pip-version-check --isolated wheel --no-build-isolation \
  --no-deps --no-index --no-cache-dir --wheel-dir "$scratch/of_pip" "$scratch/source"
[ "$(ls "$scratch/of_pip")" = "${wheel##*/}" ] || fail "pip made something else: $(ls "$scratch/of_pip")"
for file in "$wheel" "$scratch/of_pip/${wheel##*/}"; do
  /usr/bin/python3 -c 'import sys, zipfile
for entry in sorted(zipfile.ZipFile(sys.argv[1]).infolist(), key=lambda entry: entry.filename): print(entry.filename, entry.CRC)' "$file"
done >"$scratch/entries"
half=$(($(wc -l <"$scratch/entries") / 2))
cmp <(head -n $half "$scratch/entries") <(tail -n +$((half + 1)) "$scratch/entries") || fail "pip's wheel has other files"

# Debian's pip, for the environment's Python: one of its own would take as long again to install.
pip() { quietly /usr/bin/python3 -m pip --python "$scratch/venv/bin/python" --disable-pip-version-check --isolated "$@"; }
quietly /usr/bin/python3 -m venv --without-pip "$scratch/venv"
pip install --no-index --no-cache-dir "$wheel"

mkfifo "$scratch/ready"
"$build/bin/kvserver" --listen="local://$scratch/socket" --durability=memory --memory=64M --quiet --ready_fd=3 \
  3>"$scratch/ready" >"$scratch/server.log" 2>&1 &
server=$!
ready=
read -r -t 60 ready <"$scratch/ready" || true
[ "$ready" = ready ] || { cat "$scratch/server.log"; fail "the server is not ready"; }

cat >"$scratch/program.py" <<'PROGRAM'
import asyncio
import sys

import remora
import remora.aio

address, environment = sys.argv[1:]
assert remora.__file__.startswith(environment), remora.__file__
with remora.Client(address) as store:
    store["greeting"] = "hello"
    assert store["greeting"] == b"hello"
    try:
        store["none"]
    except KeyError:
        pass
    else:
        raise AssertionError("a missing key was found")


async def main():
    async with remora.aio.Client(address) as store:
        return await store.get("greeting")


assert asyncio.run(main()) == b"hello"
print("works")
PROGRAM
said=$(cd "$scratch" && env -u PYTHONPATH "$scratch/venv/bin/python" "$scratch/program.py" "local://$scratch/socket" "$scratch/venv")
[ "$said" = works ] || fail "the program said: $said"
kill "$server"
wait "$server" || fail "the server ended with $?"
server=
echo "all done"
