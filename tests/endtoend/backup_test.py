"""Backups of a server that goes on serving, and what is restored of them."""

import fcntl
import os
import shutil
import signal
import subprocess
import threading
import unittest

import harness
from harness import kvctl


NOBODY = 65534


def fields(output):
    return {name: int(value) for name, value in (line.split() for line in output.decode().splitlines())}


class BackupTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.backups = f"{self.folder}/backups"

    def serve(self, *flags, **options):
        return self.logged_server(f"--backup_dir={self.backups}", *flags, **options)

    def run_ok(self, *arguments, offline=False, stdin=b""):
        run = kvctl(None if offline else self.address, *arguments, stdin=stdin)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        return run.stdout

    def rejected(self, status, why, *arguments, offline=True):
        run = kvctl(None if offline else self.address, *arguments)
        self.assertEqual((run.returncode, run.stdout), (status, b""), run.stderr)
        self.assertRegex(run.stderr.decode(), rf"\Akvctl: [^\n]*{why}[^\n]*\n\Z")

    def export_of(self, data):
        """Returns the output of a server for a data directory; None for the address's own."""
        if data is None:
            return self.run_ok("export")
        address = f"local://{self.folder}/other"
        server = harness.Server(f"--listen={address}", f"--data_dir={data}", "--memory=64M")
        try:
            run = kvctl(address, "export")
            self.assertEqual(run.returncode, 0, run.stderr)
            return run.stdout
        finally:
            server.close()

    def import_numbers(self, begin, end, size=100):
        # Data that do not compress.
        lines = "".join(f'{{"key":"{i:06}","value":"{os.urandom(size // 2).hex()}"}}\n' for i in range(begin, end))
        self.run_ok("import", stdin=f'{{"remora_export":1}}\n{lines}{{"records":{end - begin}}}\n'.encode())

    def test_back_up_and_restore(self):
        server = self.serve()
        self.import_numbers(0, 3000)
        self.run_ok("put", "session", "value", "--ttl=10h")
        self.run_ok("put", "binary", stdin=bytes(range(256)))
        self.run_ok("put", "large", stdin=os.urandom(1 << 20))
        self.run_ok("delete", "000007")
        whole = self.export_of(None)
        first = fields(self.run_ok("backup"))
        self.assertEqual((first["id"], first["new_bytes"]), (1, first["bytes"]))
        self.run_ok("put", "later", "value")
        second = fields(self.run_ok("backup"))
        self.assertEqual(second["id"], 2)
        self.assertGreater(second["version"], first["version"])
        later = self.export_of(None)

        listed = self.run_ok("backups", f"--from={self.backups}", offline=True).decode()
        lines = [line.split("\t") for line in listed.splitlines()]
        numbers = [[int(number) for number in (line[0], *line[2:])] for line in lines]
        self.assertEqual(numbers, [list(first.values()), list(second.values())])
        self.assertRegex(lines[0][1], r"\A20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")

        # Byte for byte, with versions and expiry.
        for flags, expected, info in (["--id=1"], whole, first), ([], later, second), (["--id=2"], later, second):
            target = f"{self.folder}/restored{len(flags)}{info['id']}"
            run = self.run_ok("restore", f"--from={self.backups}", f"--to={target}", *flags, offline=True)
            self.assertEqual(fields(run), info)
            self.assertEqual(self.export_of(target), expected)
        checked = fields(self.run_ok("check", f"--from={self.backups}", offline=True))
        self.assertEqual(checked, second)
        self.assertEqual(server.stop()[0], 0)
        checked = fields(self.run_ok("check", f"--data={self.folder}/data", offline=True))
        self.assertEqual((checked["keys"], checked["expiring"], checked["last_version"]), (3003, 1, second["version"]))
        server.await_said(b"backup to")

    def test_a_later_backup_copies_what_is_new(self):
        self.serve()
        self.import_numbers(0, 3000)
        first = fields(self.run_ok("backup"))
        new_bytes = []
        for i in range(3):
            self.run_ok("put", f"later{i}", "value")
            new_bytes.append(fields(self.run_ok("backup"))["new_bytes"])
        # RocksDB may merge all tables between two of them, and not again before there are several new ones.
        self.assertLess(sorted(new_bytes)[1], first["bytes"] // 10, new_bytes)

    def test_a_directory_without_a_backup_yet(self):
        self.serve()
        self.assertEqual(self.run_ok("backups", f"--from={self.backups}", offline=True), b"")
        self.rejected(66, "holds no backup yet; make one with kvctl backup", "check", f"--from={self.backups}")
        self.rejected(66, "holds no backup yet", "restore", f"--from={self.backups}", f"--to={self.folder}/restored")
        self.assertFalse(os.path.exists(f"{self.folder}/restored"))

    def test_while_others_write(self):
        self.serve()
        stop = threading.Event()
        acknowledged = [0]

        def write():
            while not stop.is_set():
                number = int(self.run_ok("incr", "number"))
                self.run_ok("put", f"of/{number}", stdin=b"%d" % number)
                acknowledged[0] = number

        writer = threading.Thread(target=write)
        writer.start()
        try:
            for round_number in range(1, 4):
                harness.wait_until(lambda: acknowledged[0] > 20 * round_number, "some writes more")
                at_least = acknowledged[0]
                self.run_ok("backup")
                target = f"{self.folder}/restored{round_number}"
                self.run_ok("restore", f"--from={self.backups}", f"--to={target}", offline=True)
                records = self.export_of(target).decode().splitlines()[1:-1]
                # All that was acknowledged, and of what came later no number without those before it.
                self.assertGreaterEqual(len(records) - 1, at_least)
                numbers = sorted(int(line.split('"of/')[1].split('"')[0]) for line in records if '"of/' in line)
                self.assertEqual(numbers, list(range(1, len(numbers) + 1)))
        finally:
            stop.set()
            writer.join()

    def test_keep(self):
        self.serve("--backup_keep=2")
        for i in range(4):
            self.run_ok("put", f"{i}", "value")
            self.run_ok("backup")
        lines = self.run_ok("backups", f"--from={self.backups}", offline=True).decode().splitlines()
        self.assertEqual([line.split("\t")[0] for line in lines], ["3", "4"])
        self.rejected(66, "holds no backup 1; kvctl backups lists those there are", "check", f"--from={self.backups}", "--id=1")
        self.rejected(66, "holds no backup 99; kvctl backups lists those there are", "restore", f"--from={self.backups}", "--id=99",
                      f"--to={self.folder}/restored")  # fmt: skip

    def test_an_error_names_its_command_once(self):
        self.serve()
        self.run_ok("backup")
        run = kvctl(None, "restore", f"--from={self.backups}", f"--to={self.backups}")
        self.assertEqual(run.returncode, 64)
        run = kvctl(None, "restore", f"--from={self.backups}", f"--to={self.folder}")
        self.assertEqual(run.returncode, 78)
        self.assertRegex(run.stderr, rb"\Akvctl: restore: %s is not empty; name a new" % str(self.folder).encode())

    def put_large_values(self):
        """So that a backup takes a while. On a busy machine, one put may take longer than kvctl waits by default."""
        for i in range(8):
            self.run_ok("put", f"large{i}", f"--timeout={harness.PATIENCE * 1000}", stdin=os.urandom(16 << 20))

    def begin_backup(self):
        client = subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.address}", "--timeout=5000", "backup"],
            stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(client.kill)
        return client

    def test_a_server_that_is_killed_meanwhile(self):
        server = self.serve(memory="192M")
        self.import_numbers(0, 100)
        self.run_ok("backup")
        self.put_large_values()
        shared = f"{self.backups}/shared_checksum"
        before = set(os.listdir(shared))
        client = self.begin_backup()
        harness.wait_until(lambda: set(os.listdir(shared)) != before, "the second one is under way")
        server.process.send_signal(signal.SIGKILL)
        output, _ = client.communicate(timeout=harness.PATIENCE)
        if client.returncode == 0:
            self.skipTest(f"it was done before the server was killed: {output!r}")
        self.assertEqual((client.returncode, output), (69, b""))
        server.close()
        lines = self.run_ok("backups", f"--from={self.backups}", offline=True).splitlines()
        self.assertEqual(len(lines), 1)
        self.run_ok("restore", f"--from={self.backups}", f"--to={self.folder}/restored", offline=True)
        self.assertEqual(self.export_of(f"{self.folder}/restored").count(b"\n"), 102)
        self.serve(memory="192M")
        self.run_ok("backup")
        self.assertEqual(fields(self.run_ok("check", f"--from={self.backups}", offline=True))["id"], 2)

    def test_a_server_that_stops_meanwhile(self):
        server = self.serve(memory="192M")
        self.put_large_values()
        client = self.begin_backup()
        harness.wait_until(lambda: os.path.exists(f"{self.backups}/private"), "it is under way")
        self.assertEqual(server.stop()[0], 0)
        client.communicate(timeout=harness.PATIENCE)
        self.assertIn(client.returncode, (0, 69))

    def test_of_a_stopped_server(self):
        server = self.logged_server()
        self.import_numbers(0, 100)
        whole = self.export_of(None)
        data = f"--data={self.folder}/data"
        self.rejected(75, "in use", "backup", data, f"--to={self.backups}")
        self.rejected(75, "in use", "check", data)
        server.stop()
        for number in (1, 2, 3):
            info = fields(self.run_ok("backup", data, f"--to={self.backups}", "--keep=2", offline=True))
            self.assertEqual(info["id"], number)
        self.run_ok("restore", f"--from={self.backups}", f"--to={self.folder}/restored", offline=True)
        self.assertEqual(self.export_of(f"{self.folder}/restored"), whole)

    def test_one_at_a_time(self):
        """Another one is in progress, or is being read: a backup that comes then is to come again."""
        server = self.serve()
        self.run_ok("put", "key", "value")
        self.run_ok("backup")
        with open(f"{self.backups}/REMORA-BACKUPS", "rb") as marker:
            fcntl.flock(marker, fcntl.LOCK_EX)
            self.rejected(75, "in use by another backup", "backup", offline=False)
            self.rejected(75, "in use by another backup", "backups", f"--from={self.backups}")
            self.rejected(75, "in use by another backup", "check", f"--from={self.backups}")
            self.rejected(75, "in use by another backup", "restore", f"--from={self.backups}", f"--to={self.folder}/new")
            server.stop()
            data = [f"--data={self.folder}/data", f"--to={self.backups}"]
            self.rejected(75, "in use by another backup", "backup", *data)
            self.assertFalse(os.path.exists(f"{self.folder}/new"))
        self.assertEqual(fields(self.run_ok("backup", *data, offline=True))["id"], 2)

    def test_of_a_store_that_is_not_there(self):
        server = self.serve()
        self.run_ok("backup")
        server.stop()
        to = [f"--to={self.backups}", "--keep=1"]
        self.rejected(66, "", "backup", f"--data={self.folder}/typo", *to)
        self.assertFalse(os.path.exists(f"{self.folder}/typo"))
        os.mkdir(f"{self.folder}/unmounted")
        self.rejected(78, "has no file REMORA", "backup", f"--data={self.folder}/unmounted", *to)
        self.assertEqual(os.listdir(f"{self.folder}/unmounted"), [])
        self.run_ok("check", f"--from={self.backups}", "--id=1", offline=True)

    def test_a_watch_goes_on_behind_a_backup_of_a_stopped_server(self):
        server = self.serve()
        watch = subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.address}", "watch", "--show_positions", "--limit=1"],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(watch.stdout.close)
        self.addCleanup(watch.kill)
        while watch.poll() is None:
            self.run_ok("put", "seen", "value")
        token = watch.stdout.read().split()[0].decode()
        self.run_ok("put", "missed", "value")
        server.stop()
        self.run_ok("backup", f"--data={self.folder}/data", f"--to={self.backups}", offline=True)
        self.serve()
        run = kvctl(self.address, "watch", f"--resume={token}", "--idle=1s")
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertIn(b"put\tmissed\tvalue\n", run.stdout)

    @unittest.skipIf(os.geteuid() != 0, "only root can become another user")
    def test_of_another_user(self):
        self.serve().stop()
        # A copy: the build may lie where that user cannot go.
        program = shutil.copy(harness.program("kvctl"), self.folder)
        self.folder.chmod(0o755)
        for arguments in (
            ["check", f"--data={self.folder}/data"], ["backups", f"--from={self.backups}"],
            ["backup", f"--data={self.folder}/data", f"--to={self.backups}"],
        ):  # fmt: skip
            with self.subTest(arguments=arguments):
                run = subprocess.run(
                    [program, *arguments], stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE,
                    check=False, user=NOBODY, group=NOBODY, extra_groups=[],
                )  # fmt: skip
                self.assertEqual((run.returncode, run.stdout), (77, b""), run.stderr)
                self.assertRegex(run.stderr, rb"\Akvctl: [^\n]*ermi[^\n]*\n\Z")

    def test_damage_is_found(self):
        server = self.serve()
        self.import_numbers(0, 500)
        self.run_ok("backup")
        self.import_numbers(500, 600)
        server.kill()
        shared = f"{self.backups}/shared_checksum"
        self.damage(f"{shared}/{max(os.listdir(shared), key=lambda name: os.path.getsize(f'{shared}/{name}'))}")
        self.rejected(1, "backup 1 .* is damaged", "check", f"--from={self.backups}")
        self.rejected(1, "backup 1 .* is damaged", "restore", f"--from={self.backups}", f"--to={self.folder}/restored")
        self.assertEqual([name for name in os.listdir(self.folder) if name.startswith("restored")], [])
        data = f"{self.folder}/data"
        files = [f"{data}/{name}" for name in os.listdir(data) if name.endswith((".sst", ".log"))]
        for path in files:
            if os.path.getsize(path) < 1000:
                continue
            with self.subTest(path=path):
                self.run_ok("check", f"--data={data}", offline=True)
                self.damage(path)
                self.rejected(1, "is damaged", "check", f"--data={data}")
                self.damage(path)

    def damage(self, path):
        """Turns one bit over, and back."""
        with open(path, "r+b") as file:
            file.seek(os.path.getsize(path) // 3)
            byte = file.read(1)[0]
            file.seek(-1, os.SEEK_CUR)
            file.write(bytes([byte ^ 1]))

    def test_rejections(self):
        server = self.logged_server()
        self.rejected(78, "--backup_dir=DIR", "backup", offline=False)
        server.close()
        self.memory_server()
        self.rejected(78, "--backup_dir=DIR", "backup", offline=False)
        os.mkdir(f"{self.folder}/full")
        os.mkdir(f"{self.folder}/full/of_things")
        full, missing = f"{self.folder}/full", f"{self.folder}/missing"
        self.rejected(66, "missing", "backups", f"--from={missing}")
        self.rejected(78, "is no backup directory", "backups", f"--from={full}")
        self.rejected(66, "missing", "check", f"--data={missing}")
        self.rejected(66, "missing", "check", f"--data_dir={missing}")
        self.rejected(78, "is no data directory", "check", f"--data={full}")
        self.rejected(66, "missing", "restore", f"--from={missing}", f"--to={missing}2")
        self.rejected(78, "is not empty", "restore", f"--from={self.folder}/data", f"--to={full}")
        os.rename(f"{full}/of_things", f"{full}/.restore-abcdef")
        self.rejected(78, r"has \.restore-abcdef, of a restore that runs, or was interrupted", "restore", f"--from={self.folder}/data", f"--to={full}")
        for arguments in (
            ["restore"], ["restore", "--from=x"], ["restore", "--to=x"], ["check"], ["check", "--data=x", "--from=y"],
            ["check", "--data=x", "--data_dir=x"],
            ["check", "--data=x", "--id=1"], ["restore", "--from=x", "--to=y", "--id=0"], ["backup", "--data=x"],
            ["backup", "--to=x"], ["backup", "--keep=1"], ["backup"], ["backups"],
        ):  # fmt: skip
            with self.subTest(arguments=arguments):
                self.rejected(64, "", *arguments)
        for flags in (
            ["--durability=memory", f"--backup_dir={missing}"], [f"--data_dir={missing}", "--backup_keep=2"],
        ):  # fmt: skip
            run = subprocess.run(
                [harness.program("kvserver"), f"--listen={self.address}", *flags],
                capture_output=True, timeout=harness.PATIENCE, check=False,
            )  # fmt: skip
            self.assertEqual(run.returncode, 64, run.stderr)
        run = subprocess.run(
            [harness.program("kvserver"), f"--listen=local://{self.folder}/other", f"--data_dir={missing}",
             f"--backup_dir={full}"],
            capture_output=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual(run.returncode, 78, run.stderr)
        self.assertFalse(os.path.exists(missing))


if __name__ == "__main__":
    unittest.main()
