#!/usr/bin/env bash
# linkage_test.sh CLIENT_PROGRAM STORE_PROGRAM
# A program of remora::client alone must not load RocksDB; one of remora::store shows that this would be seen.
set -euo pipefail

needs_rocksdb() {
  local libraries
  libraries=$(ldd "$1") || { echo "ldd $1 failed"; exit 1; }
  grep -q librocksdb <<<"$libraries"
}

needs_rocksdb "$2" || { echo "$2 does not load RocksDB, so this test sees nothing"; exit 1; }
if needs_rocksdb "$1"; then
  echo "$1 loads RocksDB:"
  ldd "$1"
  exit 1
fi
