#!/usr/bin/env python3
"""Data that go to another release of Debian and come back, with RocksDB of either: a data directory and a backup.

    round_trip.py here COMMAND...     here: REMORA_BIN is the folder of this release's programs, build/bin by default
    round_trip.py there               what COMMAND runs on the other release: a tar comes by stdin and goes by stdout

    tests/releases/round_trip.py here tools/on-debian trixie -- tests/releases/round_trip.py there

Exit status: 0 all that was read is what was written, 1 it is not, or something failed.
"""

import base64
import io
import json
import pathlib
import re
import subprocess
import sys
import tarfile
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "endtoend"))
import harness  # noqa: E402


def record(key, value):
    return {"key": key, "value_base64": base64.b64encode(value).decode()}


def pattern(size):
    return b"".join(b"%08d" % i for i in range(size // 8 + 1))[:size]


def records(exported):
    """Its lines, without the first and the last, which says how many they are."""
    return exported.splitlines()[1:-1]


class Traveller(harness.TestCase):
    """Has self.folder/data and self.folder/backups. Every export is compared as a whole, and kept in self.exports."""

    def run_ok(self, *arguments, address=None, stdin=b""):
        run = harness.kvctl(self.address if address is None else address, *arguments, stdin=stdin)
        self.assertEqual((run.returncode, run.stderr), (0, b""), arguments)
        return run.stdout

    def serve(self, data="data"):
        return self.server(
            "--durability=logged", f"--data_dir={self.folder}/{data}", "--memory=64M",
            f"--backup_dir={self.folder}/backups",
        )  # fmt: skip

    def add(self, *records):
        lines = "".join(json.dumps(each) + "\n" for each in ({"remora_export": 1}, *records, {"records": len(records)}))
        self.run_ok("import", stdin=lines.encode())

    def end(self, server):
        self.assertEqual(server.stop()[0], 0)

    def export_of(self, data="data"):
        """The export of the directory, after a check of it."""
        self.run_ok("check", f"--data={self.folder}/{data}", address="")
        server = self.serve(data)
        exported = self.run_ok("export")
        self.end(server)
        return exported

    def export_of_backup(self, name):
        self.run_ok("check", f"--from={self.folder}/backups", address="")
        self.run_ok("restore", f"--from={self.folder}/backups", f"--to={self.folder}/{name}", address="")
        return self.export_of(name)

    def rocksdb(self):
        """The version that wrote the newest options of the data directory."""
        newest = max((self.folder / "data").glob("**/OPTIONS-*"), key=lambda path: path.stat().st_mtime_ns)
        return re.search(r"rocksdb_version=(\S+)", newest.read_text()).group(1)

    def pack(self, to):
        with tarfile.open(fileobj=to, mode="w|") as tar:
            for name in ("data", "backups"):
                tar.add(self.folder / name, name)
            for name, said in self.said.items():
                member = tarfile.TarInfo(f"said/{name}")
                member.size = len(said)
                tar.addfile(member, io.BytesIO(said))

    def unpack(self, source):
        with tarfile.open(fileobj=source, mode="r|") as tar:
            for member in tar:
                path = self.folder / member.name
                if member.isdir():
                    path.mkdir(parents=True, exist_ok=True)
                elif member.isfile():
                    path.parent.mkdir(parents=True, exist_ok=True)
                    path.write_bytes(tar.extractfile(member).read())

    def setUp(self):
        super().setUp()
        self.said = {}


class There(Traveller):
    def runTest(self):
        self.unpack(sys.stdin.buffer)
        self.said["found"] = self.export_of()
        self.said["restored"] = self.export_of_backup("restored")
        server = self.serve()
        self.add(record("there", b"written there"), record("large/2", pattern(700_000)))
        self.add(record("overwritten", b"there"))
        self.run_ok("delete", "small/002")
        self.run_ok("incr", "number")
        self.run_ok("backup")  # beside the one of the other release, of whose files it uses some
        self.add(record("in the log", b"not in the backup's tables"))
        self.said["left"] = self.run_ok("export")
        server.kill()  # so there is a log file to be replayed by the other release
        self.said["rocksdb"] = self.rocksdb().encode()
        self.pack(sys.stdout.buffer)


class Here(Traveller):
    command = []

    def write(self):
        server = self.serve()
        self.add(*(record(f"small/{i:03}", b"value of %d" % i) for i in range(500)))
        self.add(record("empty", b""), record("binary", bytes(range(256))), record("k" * 4096, b"longest key"))
        self.add(record("medium", pattern(100_000)), record("large", pattern(600_000)))
        self.add(record("overwritten", b"first"), record("deleted", b"is gone"))
        self.run_ok("incr", "number", "41")
        self.run_ok("put", "century", "for long", "--ttl=36500d")
        self.end(server)
        server = self.serve()  # the records of log files are in tables
        self.add(record("overwritten", b"here"))
        self.run_ok("delete", "deleted")
        self.run_ok("delete", "small/001")
        exported = self.run_ok("export")
        self.run_ok("backup")
        server.kill()
        return exported

    def runTest(self):
        exported = self.write()
        here = self.rocksdb()
        box = io.BytesIO()
        self.pack(box)
        came = subprocess.run(self.command, input=box.getvalue(), stdout=subprocess.PIPE, check=True).stdout
        for name in ("data", "backups"):
            harness.shutil.rmtree(self.folder / name)
        self.unpack(io.BytesIO(came))
        said = {path.name: path.read_bytes() for path in (self.folder / "said").iterdir()}
        there = said["rocksdb"].decode()
        self.assertNotEqual(here, there, "both releases have the same RocksDB: nothing was shown")
        self.assertGreater(len(records(exported)), 500)
        self.assertEqual(said["found"], exported)
        self.assertEqual(said["restored"], exported)
        keys = {json.loads(line).get("key") for line in said["left"].splitlines()}
        self.assertTrue({"there", "large/2", "in the log"} <= keys and "small/002" not in keys)
        self.assertEqual(self.export_of(), said["left"])
        backed_up = [line for line in records(said["left"]) if b'"in the log"' not in line]
        self.assertEqual(records(self.export_of_backup("restored")), backed_up)
        print(f"RocksDB {here} and {there}: {len(records(exported))} records there and back", file=sys.stderr)


def main(arguments):
    if arguments[:1] == ["here"] and len(arguments) > 1:
        case = Here()
        Here.command = arguments[1:]
    elif arguments == ["there"]:
        case = There()
    else:
        print(__doc__, file=sys.stderr)
        return 64
    return 0 if unittest.TextTestRunner(sys.stderr).run(case).wasSuccessful() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
