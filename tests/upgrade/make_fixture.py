#!/usr/bin/env python3
"""Makes a data directory with the programs of some release, for upgrade_test.py to open with those of today.

    make_fixture.py BIN NAME     BIN: the folder of the built programs; makes NAME.base64 and NAME.json here

NAME.base64 is a tar.xz of the files of a server that was stopped, started again and killed, so
there are tables and log files. It has one line of base64 for each 300 bytes. NAME-backup.base64 is
its backup. NAME.json has the writes. A feature that the programs do not know (the first ones knew
neither ttl nor incr) is left out.
"""

import base64
import hashlib
import io
import json
import os
import pathlib
import subprocess
import sys
import tarfile

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "endtoend"))
os.environ["REMORA_BIN"] = sys.argv[1]
import harness  # noqa: E402


def pattern(size):
    """Bytes that compress, and of which no 4 KiB are like any others."""
    return b"".join(b"%08d" % i * 512 for i in range(size // 4096 + 1))[:size]


class Writer(harness.TestCase):
    def runTest(self):
        help_text = subprocess.run([harness.program("kvctl"), "--help"], capture_output=True, check=True).stdout
        knows = {line.split()[0] for line in help_text.splitlines() if line.startswith(b"  ") and line.split()}
        self.expected = {}
        server = self.logged_server()
        for i in range(40):
            self.put(f"small/{i:03}", b"value of %d" % i)
        self.put("empty", b"")
        self.put("binary", bytes(range(256)))
        self.put("k" * 4096, b"the longest key")
        self.put("medium", pattern(100_000))
        self.put("overwritten", b"first")
        self.put("deleted", b"is gone")
        if b"incr" in knows:
            self.put("large", pattern(600_000))
        self.assertEqual(server.stop()[0], 0)
        backs_up = b"backup" in knows
        backups = [f"--backup_dir={self.folder}/backups"] if backs_up else []
        server = self.logged_server(*backups)  # the contents of log files are in tables
        self.put("overwritten", b"second")
        self.run_ok("delete", "deleted")
        del self.expected["deleted"]
        self.run_ok("delete", "small/007")
        del self.expected["small/007"]
        for i in range(40, 50):
            self.put(f"small/{i:03}", b"value of %d" % i)
        if b"incr" in knows:
            self.run_ok("incr", "number", "41")
            self.run_ok("incr", "number")
            self.expect("number", b"42")
            self.run_ok("append", "log", "one ")
            self.run_ok("append", "log", "two")
            self.expect("log", b"one two")
            self.put("century", b"for long", "--ttl=36500d")
            self.expected["century"]["expires"] = True
            self.run_ok("put", "short", "gone soon", "--ttl=1ms")
        if backs_up:
            self.run_ok("backup")
        server.kill()
        lines = [f"{json.dumps(key)}: {json.dumps(facts)}" for key, facts in sorted(self.expected.items())]
        (HERE / f"{sys.argv[2]}.json").write_text("{" + ",\n ".join(lines) + "}\n")
        self.pack(self.folder / "data", sys.argv[2])
        if backs_up:
            self.pack(self.folder / "backups", f"{sys.argv[2]}-backup")

    def pack(self, folder, name):
        packed = io.BytesIO()
        with tarfile.open(fileobj=packed, mode="w:xz") as tar:
            for path in sorted(folder.rglob("*")):
                if path.is_file():
                    # Without the user who made it, and the time.
                    info = tarfile.TarInfo(path.relative_to(folder).as_posix())
                    info.size = path.stat().st_size
                    info.mode = 0o600
                    with path.open("rb") as file:
                        tar.addfile(info, file)
        data = packed.getvalue()
        lines = [base64.b64encode(data[i : i + 300]).decode() for i in range(0, len(data), 300)]
        (HERE / f"{name}.base64").write_text("\n".join(lines) + "\n")

    def run_ok(self, *arguments, stdin=b""):
        run = harness.kvctl(self.address, *arguments, stdin=stdin)
        self.assertEqual((run.returncode, run.stderr), (0, b""))

    def put(self, key, value, *flags):
        self.run_ok("put", key, *flags, stdin=value)
        self.expect(key, value)

    def expect(self, key, value):
        self.expected[key] = {"size": len(value), "sha256": hashlib.sha256(value).hexdigest()}


if __name__ == "__main__":
    result = harness.unittest.TextTestRunner().run(Writer())
    sys.exit(not result.wasSuccessful())
