#!/usr/bin/env python3
"""includes.py itself: it must be able to fail, and for the right reason."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

import includes

ALLOWED = [
    ("store/format/memory/record.h", "xxhash.h"),
    ("store/format/memory/record.h", "bit"),
    ("store/format/memory/record.h", "store/format/memory/layout.h"),
    ("store/base/status_macros.h", "absl/status/status.h"),
    ("store/base/standard_streams.h", "unistd.h"),
    ("store/index/index.cc", "store/base/check.h"),
    ("store/durable/tier.cc", "rocksdb/db.h"),
    ("store/durable/range_split.cc", "rocksdb/db.h"),
    ("rdma/verbs/client.cc", "rdma/rdma_verbs.h"),
    ("rdma/verbs/connection.cc", "infiniband/verbs.h"),
    ("rdma/local/client.cc", "sys/mman.h"),
    ("client/get/get.cc", "rdma/transport.h"),
    ("client/get/get.cc", "store/format/memory/index_view.h"),
    ("server/server.cc", "store/store.h"),
    ("server/main/kvserver.cc", "tools/command_line/command_line.h"),
    ("tools/kvctl/arguments.cc", "tools/command_line/command_line.h"),
    ("tests/unit/store/index_test.cc", "rocksdb/db.h"),
    ("store/reclaim/evictor.h", "store/index/index.h"),
    ("store/read/scan.cc", "store/scan.h"),
    ("rdma/transport.cc", "rdma/local/local.h"),
]
FORBIDDEN = [
    ("store/format/memory/record.h", "store/base/check.h"),
    ("store/format/memory/record.h", "absl/status/status.h"),
    ("store/format/memory/record.h", "sys/mman.h"),
    ("store/base/clock.h", "store/format/memory/layout.h"),
    ("store/index/index.cc", "rdma/shared_memory.h"),
    ("store/index/index.cc", "rocksdb/db.h"),
    ("store/durable/tier.h", "rocksdb/db.h"),
    ("rdma/local/client.cc", "store/store.h"),
    ("rdma/local/client.cc", "rdma/rdma_verbs.h"),
    ("rdma/transport.h", "infiniband/verbs.h"),
    ("client/get/get.cc", "store/store.h"),
    ("client/get/get.cc", "server/server.h"),
    ("server/server.cc", "client/client.h"),
    ("server/server.cc", "infiniband/verbs.h"),
    ("server/server.cc", "CLI/CLI.hpp"),
    ("tools/command_line/command_line.cc", "CLI/CLI.hpp"),
    ("tools/command_line/command_line.cc", "store/base/check.h"),
    ("server/server.cc", "tools/command_line/command_line.h"),
    ("client/client.cc", "tools/command_line/command_line.h"),
    ("server/server.cc", "tests/support/server_thread.h"),
    ("client/client.h", "boost/asio.hpp"),
    ("client/get/get.cc", "../store/store.h"),
    ("store/region/segments.h", "store/index/index.h"),
    ("store/index/index.cc", "store/durable/tier.h"),
    ("store/read/point_read.cc", "store/write/group_keys_of_another.h"),
    ("store/format/memory/record.h", "store/format/types/expiry.h"),
    ("rdma/local/client.cc", "rdma/verbs/verbs.h"),
    ("rdma/transport.h", "rdma/local/local.h"),
    ("client/session/session.h", "client/get/get.h"),
    ("server/connection/client_table.h", "server/request/large_writes.h"),
    ("server/memory/exported_memory.cc", "server/connection/client_session.h"),
    ("server/connection/acceptor.cc", "server/server.h"),
    ("server/request/unbatched_requests.cc", "server/server.h"),
    ("server/request/write_batcher.cc", "server/event_loop.h"),
    ("server/event_loop.cc", "server/server.h"),
    ("bench/kvbench/load/target.h", "bench/kvbench/report/report.h"),
]


class IncludesTest(unittest.TestCase):
    def test_allowed(self):
        for file, include in ALLOWED:
            with self.subTest(file=file, include=include):
                self.assertIsNone(includes.why_forbidden(file, include))

    def test_forbidden(self):
        for file, include in FORBIDDEN:
            with self.subTest(file=file, include=include):
                self.assertIsNotNone(includes.why_forbidden(file, include))

    def test_a_bad_tree_is_reported(self):
        with tempfile.TemporaryDirectory() as directory:
            root = pathlib.Path(directory)
            (root / "client/get").mkdir(parents=True)
            (root / "client/get/get.cc").write_text('#include <string>\n  #  include "store/store.h"\n', encoding="utf-8")
            run = subprocess.run(
                [sys.executable, includes.__file__, directory], capture_output=True, text=True, check=False
            )
        self.assertEqual(run.returncode, 1)
        self.assertIn("client/get/get.cc: includes store/store.h: against the direction of the layers", run.stdout)

    def test_its_own_header_comes_first(self):
        for text, status in (("#include <bit>\n#include \"store/a.h\"\n", 1), ("#include \"store/a.h\"\n#include <bit>\n", 0)):
            with self.subTest(text=text), tempfile.TemporaryDirectory() as directory:
                root = pathlib.Path(directory)
                (root / "store").mkdir()
                (root / "store/a.h").write_text("#pragma once\n", encoding="utf-8")
                (root / "store/a.cc").write_text(text, encoding="utf-8")
                run = subprocess.run(
                    [sys.executable, includes.__file__, directory], capture_output=True, text=True, check=False
                )
                self.assertEqual(run.returncode, status, run.stdout)

    def test_an_empty_tree_is_no_success(self):
        with tempfile.TemporaryDirectory() as directory:
            run = subprocess.run([sys.executable, includes.__file__, directory], capture_output=True, check=False)
        self.assertEqual(run.returncode, 1)


if __name__ == "__main__":
    unittest.main()
