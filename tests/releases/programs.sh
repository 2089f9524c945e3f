#!/usr/bin/env bash
# The programs on this release of Debian: adds what the end-to-end tests and the upgrade test run to the build of
# tools/quickstart, and runs these tests.
#   tools/on-debian trixie -- tests/releases/programs.sh
set -euo pipefail
cd "$(dirname "$(readlink -f "$0")")/../.."

tools/install-deps build compile programs
mkdir -p build
cmake --preset quickstart -DREMORA_BUILD_TESTS=ON -DREMORA_MUTANTS=OFF -DREMORA_CTEST=shards -DREMORA_UNITY_TESTS=ON \
  >build/configured || { cat build/configured; exit 1; }
examples=(first pages counters scan watch async beside embedded first_c)
cmake --build build --target kvserver kvctl kvbench pipeline path_ratio remora_python acked_writer adder many_clients sleeper \
  "${examples[@]/#/example_}" -- --quiet
exec ctest --test-dir build --output-on-failure --no-tests=error --parallel "$(nproc)" -LE '^long$' -R '^(endtoend\.|upgrade$)'
