#!/usr/bin/env bash
# tools/tidy: says which files are clean, by our checks, and which are not.
set -euo pipefail

root=$(readlink -f "$(dirname "$0")/../..")
scratch=$(readlink -f "$(mktemp -d "${TMPDIR:-/tmp}/tidy_test.XXXXXX")")
trap 'rm -rf "$scratch"' EXIT
cp "$root/.clang-tidy" "$scratch"
mkdir "$scratch/store"

cat >"$scratch/store/good.cc" <<'CODE'
int Twice(int number) { return 2 * number; }
CODE
# A pointer that is used behind its delete; the analyzer follows the path there.
cat >"$scratch/store/bad.cc" <<'CODE'
int Last(bool early) {
  int* const number = new int(7);
  if (early) delete number;
  const int last = *number;
  if (!early) delete number;
  return last;
}
CODE
{
  separator='['
  for name in good bad; do
    printf '%s\n{\n"directory": "%s",\n"command": "clang++ -std=c++20 -c %s",\n"file": "%s"\n}' "$separator" "$scratch" \
      "$scratch/store/$name.cc" "$scratch/store/$name.cc"
    separator=','
  done
  echo ']'
} >"$scratch/compile_commands.json"

fail() {
  echo "FAILED: $1"
  sed 's/^/  output: /' "$scratch/output"
  exit 1
}
run() {
  status=0
  "$root/tools/tidy" --database="$scratch" "$@" >"$scratch/output" 2>&1 || status=$?
}

run "$scratch/store/good.cc"
[ $status -eq 0 ] || fail "a good file: exit status $status"
grep -qx '1 files, nothing found' "$scratch/output" || fail "a good file is not counted"

run "$scratch/store/bad.cc"
[ $status -eq 1 ] || fail "a bad file: exit status $status"
grep -q 'bad.cc:4:.*clang-analyzer-cplusplus.NewDelete' "$scratch/output" || fail "what is bad is not said"

run --jobs=2 "$scratch/store"
[ $status -eq 1 ] || fail "a folder with one bad file: exit status $status"
grep -qx '2 files, not clean' "$scratch/output" || fail "the files of a folder are not counted"

run "$scratch/store/missing.cc"
[ $status -eq 64 ] || fail "a file that is not there: exit status $status"
run --jobs=many
[ $status -eq 64 ] || fail "wrong usage: exit status $status"
echo passed
