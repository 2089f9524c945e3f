"""Redis' own tests pass against kvgate, but for those that tests/redis_suite/left_out.toml names.

REMORA_REDIS_SOURCES names a folder with the sources of Redis 7.0. Without it, or tclsh, it says so, and is skipped.
"""

import os
import pathlib
import shutil
import subprocess
import sys
import unittest

import harness
import redis_pair

RUN = pathlib.Path(__file__).parents[1] / "redis_suite/run.py"
SOURCES = os.environ.get("REMORA_REDIS_SOURCES", "")
PATIENCE_S = 1200
SKIPPED = 77


class RedisSuiteTest(redis_pair.TestCase):
    def test_all_units(self):
        self.logged_server(memory="256M")
        port = harness.free_port()
        gate = redis_pair.Gate(f"--listen=redis://127.0.0.1:{port}", f"--server={self.address}")
        self.addCleanup(gate.close)
        run = subprocess.run(
            [sys.executable, "-B", RUN, f"--sources={SOURCES}", f"--port={port}"], stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, text=True, timeout=PATIENCE_S, check=False,
        )  # fmt: skip
        self.assertEqual(run.returncode, 0, run.stdout)


def main():
    if not SOURCES or not shutil.which("tclsh"):
        print("skipped: REMORA_REDIS_SOURCES names no sources of Redis, or there is no tclsh")
        return SKIPPED
    return 0 if unittest.main(exit=False).result.wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main())
