"""Data of earlier releases, opened by today's programs; and data of later ones, rejected.

The fixtures are what make_fixture.py made with the programs of a commit:
    first-light   27d8f19, the first one: keys, values and versions, nothing else
    format-1      ebd8079: with expiry, clients whose writes are remembered, large values
    tables-of-rocksdb-9   8ece1fc, on Debian 13, whose RocksDB wrote tables of a later format then
"""

import base64
import hashlib
import io
import json
import pathlib
import subprocess
import sys
import tarfile
import unittest

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "endtoend"))
import harness  # noqa: E402
from harness import kvctl  # noqa: E402

FIXTURES = {"first-light": 49 + 5, "format-1": 49 + 9}


class UpgradeTest(harness.TestCase):
    def unpack_to(self, folder, name):
        packed = base64.b64decode("".join((HERE / f"{name}.base64").read_text().split()))
        with tarfile.open(fileobj=io.BytesIO(packed), mode="r:xz") as tar:
            for member in tar.getmembers():
                path = folder / member.name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_bytes(tar.extractfile(member).read())

    def unpack(self, name):
        self.unpack_to(self.folder / "data", name)
        return json.loads((HERE / f"{name}.json").read_text())

    def run_ok(self, *arguments, address=None, stdin=b""):
        run = kvctl(self.address if address is None else address, *arguments, stdin=stdin)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        return run.stdout

    def has(self, expected):
        keys = self.run_ok("scan", "--keys_only").decode().splitlines()
        self.assertEqual(sorted(keys), sorted(expected))
        for key, facts in expected.items():
            value = self.run_ok("get", key)
            self.assertEqual((len(value), hashlib.sha256(value).hexdigest()), (facts["size"], facts["sha256"]), key)
            self.assertEqual(self.run_ok("ttl", key) != b"never\n", facts.get("expires", False), key)

    def snapshot(self, folder="data"):
        return {path: path.read_bytes() for path in (self.folder / folder).rglob("*") if path.is_file()}

    def test_data_of_earlier_releases(self):
        for name, keys in FIXTURES.items():
            with self.subTest(name):
                expected = self.unpack(name)
                self.assertEqual(len(expected), keys)
                before = self.snapshot()
                checked = self.run_ok("check", f"--data={self.folder}/data", address="").decode()
                report = dict(line.split() for line in checked.splitlines())
                self.assertEqual(int(report["keys"]) - int(report["expired"]), keys)
                self.assertEqual(self.snapshot(), before, "a check changes nothing")

                server = self.logged_server(f"--backup_dir={self.folder}/backups")
                self.has(expected)
                # It is a store like any other: written to, backed up, opened again, restored.
                self.run_ok("put", "new", stdin=b"value")
                self.run_ok("put", "overwritten", stdin=b"third")
                self.run_ok("delete", "small/001")
                self.run_ok("incr", "counter")
                version = int(self.run_ok("get", "--version", "new").split()[0])
                self.assertGreater(version, int(report["last_version"]))
                del expected["small/001"]
                for key, value in (("new", b"value"), ("overwritten", b"third"), ("counter", b"1")):
                    expected[key] = {"size": len(value), "sha256": hashlib.sha256(value).hexdigest()}
                self.run_ok("backup")
                self.assertEqual(server.stop()[0], 0)
                server = self.logged_server()
                self.has(expected)
                self.assertEqual(server.stop()[0], 0)
                harness.shutil.rmtree(self.folder / "data")
                self.run_ok("restore", f"--from={self.folder}/backups", f"--to={self.folder}/data", address="")
                server = self.logged_server()
                self.has(expected)
                server.close()
                harness.shutil.rmtree(self.folder / "data")
                harness.shutil.rmtree(self.folder / "backups")

    def test_data_of_a_later_release_is_rejected_and_not_touched(self):
        self.unpack("format-1")
        (self.folder / "data/REMORA").write_bytes(b"remora-store 3\n")
        before = self.snapshot()
        data = f"{self.folder}/data"
        for command in (
            [harness.program("kvserver"), f"--listen={self.address}", f"--data_dir={data}"],
            [harness.program("kvctl"), "check", f"--data={data}"],
            [harness.program("kvctl"), "backup", f"--data={data}", f"--to={self.folder}/backups"],
        ):
            with self.subTest(command=command):
                run = subprocess.run(command, capture_output=True, timeout=harness.PATIENCE, check=False)
                self.assertEqual((run.returncode, run.stdout), (78, b""))
                self.assertRegex(
                    run.stderr.decode(),
                    r"\Akv[^\n]* data directory [^\n]* holds data of format 3; this program knows format 2\. "
                    r"Use the version of the program that wrote it, or a newer one\n\Z",
                )
                self.assertEqual(self.snapshot(), before)
        self.assertFalse((self.folder / "backups").exists())

    def test_tables_that_rocksdb_does_not_know_are_rejected_and_not_touched(self):
        name = "tables-of-rocksdb-9"
        expected = self.unpack(name)
        self.unpack_to(self.folder / "backups", f"{name}-backup")
        data, backups, restored = (f"{self.folder}/{folder}" for folder in ("data", "backups", "restored"))
        before = self.snapshot(), self.snapshot("backups")
        check = ["check", f"--data={data}"]
        if kvctl("", *check).returncode == 0:  # this RocksDB knows them
            server = self.logged_server()
            self.has(expected)
            server.close()
            self.run_ok("restore", f"--from={backups}", f"--to={restored}", address="")
            return
        for command in (
            [harness.program("kvserver"), f"--listen={self.address}", f"--data_dir={data}"],
            [harness.program("kvctl"), *check],
            [harness.program("kvctl"), "check", f"--from={backups}"],
            [harness.program("kvctl"), "restore", f"--from={backups}", f"--to={restored}"],
        ):
            with self.subTest(command=command):
                run = subprocess.run(command, capture_output=True, timeout=harness.PATIENCE, check=False)
                self.assertEqual((run.returncode, run.stdout), (78, b""))
                self.assertRegex(
                    run.stderr.decode(),
                    r"\Akv[^\n]* holds a table of RocksDB's format 6, which this program does not know\. "
                    r"Use the version of the program that wrote it, or a newer one; [^\n]*\n\Z",
                )
                self.assertEqual((self.snapshot(), self.snapshot("backups")), before)
        self.assertEqual(list(self.folder.glob("restored*")), [])


if __name__ == "__main__":
    unittest.main()
