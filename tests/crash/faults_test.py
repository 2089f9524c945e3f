"""A real kvserver on a disk that fails: its messages, its service meanwhile, and its return when the cause is gone."""

import errno
import os
import pathlib
import subprocess
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).parents[1] / "endtoend"))
import harness  # noqa: E402
from faulty_disk import CHANGE, ONLY, READ, RESERVE, SYNC, WRITE, FaultyDisk  # noqa: E402
from harness import kvctl  # noqa: E402


class OnFaultyDisk:
    """The tests of a server with a commit log, and of one with RocksDB's own log. LOG: the flags for that."""

    def setUp(self):
        super().setUp()
        self.data = self.folder / "disk" / "data"
        self.data.parent.mkdir()
        disk = FaultyDisk(self.data.parent, self.folder / "faults", self.folder / "boot")
        self.environment, self.start_machine, self.set = disk.environment, disk.start_machine, disk.set

    def start(self, *flags, memory="64M", durability="logged"):
        server = harness.Server(
            f"--listen={self.address}", f"--data_dir={self.data}", f"--memory={memory}",
            f"--durability={durability}", *self.LOG, *flags, environment=self.environment,
        )  # fmt: skip
        self.addCleanup(server.close)
        return server

    def rejected(self, status, pattern, *flags, **options):
        """A start ends with this status, and one line that says why and what to do."""
        run = subprocess.run(
            [harness.program("kvserver"), f"--listen={self.address}", f"--data_dir={self.data}", *self.LOG, *flags],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False,
            env={**os.environ, **self.environment}, **options,
        )  # fmt: skip
        self.assertEqual(run.returncode, status, run.stderr)
        self.assertRegex(run.stderr.decode(), rf"\Akvserver: [^\n]*{pattern}[^\n]*\n\Z")

    def put(self, key, value="value"):
        run = kvctl(self.address, "put", key, value)
        self.assertEqual(run.returncode, 0, run.stderr)

    def put_rejected(self, pattern, key="rejected", status=74):
        run = kvctl(self.address, "put", key, "value")
        self.assertEqual(run.returncode, status, (run.stdout, run.stderr))
        self.assertRegex(run.stderr.decode(), pattern)
        self.assertEqual(kvctl(self.address, "get", key).returncode, 1, "what was rejected is there")

    def get(self, key, value="value"):
        run = kvctl(self.address, "get", key)
        self.assertEqual((run.returncode, run.stdout.decode()), (0, value), run.stderr)

    def disk_refuses(self):
        return harness.stats(self.address)["disk_refuses"]

    def wait_for_writes(self):
        harness.wait_until(
            lambda: kvctl(self.address, "put", "again", "value").returncode == 0, "writes are taken again"
        )
        self.assertEqual(self.disk_refuses(), 0)

    # --- While it serves

    def test_a_backup_onto_a_full_disk_ends_alike_with_a_server_and_without(self):
        backups = self.data.parent / "backups"
        server = self.start(f"--backup_dir={backups}")
        self.put("before")
        for error, status in (errno.ENOSPC, 74), (errno.EDQUOT, 74), (errno.EIO, 74), (errno.ENFILE, 71):
            with self.subTest(os.strerror(error)):
                # Fills the folder of backups alone: REMORA_DISK has both, and a backup begins with a flush.
                self.assertEqual(kvctl(self.address, "backup").returncode, 0)
                self.set(ONLY, ord("p"))  # ID.tmp, which lists a backup's files
                self.set(WRITE, error)
                run = kvctl(self.address, "backup")
                self.set(WRITE, 0)
                self.assertEqual(run.returncode, status, run.stderr)
        server.stop()
        self.set(WRITE, errno.ENOSPC)
        offline = [f"--data={self.data}", f"--to={backups}"]
        run = kvctl(None, "backup", *offline, env={**os.environ, **self.environment})
        self.assertEqual(run.returncode, 74, run.stderr)

    def test_an_error_while_syncing_is_final_until_a_restart(self):
        server = self.start(durability="synced")
        self.put("before")
        self.set(SYNC, errno.EIO)
        self.put_rejected("takes no more writes until it is opened again")
        self.set(SYNC, 0)
        # The system says it once: that the next sync succeeds means nothing.
        self.put_rejected("takes no more writes until it is opened again", "later")
        self.get("before")
        self.assertEqual(self.disk_refuses(), 1)
        server.await_said(b"writes are rejected, reads go on")
        server.stop()
        self.start(durability="synced")
        self.get("before")
        self.put("after")

    def cold_keys(self):
        """A server with keys that are on the disk only, in tables: their names."""
        value = os.urandom(1 << 20)
        keys = [f"key{number:03}" for number in range(30)]
        server = self.start(f"--backup_dir={self.folder / 'backups'}", memory="20M")
        for key in keys:
            self.assertEqual(kvctl(self.address, "put", key, stdin=value).returncode, 0)
        self.assertEqual(kvctl(self.address, "backup").returncode, 0)  # tables have all of them then
        server.stop()
        server = self.start("--quiet", memory="20M")
        harness.wait_until(lambda: harness.stats(self.address)["loading"] == 0, "all is loaded")
        self.assertGreater(harness.stats(self.address)["cold_keys"], 0)
        return server, keys, value

    def gets(self, keys):
        return {key: kvctl(self.address, "get", key) for key in keys}

    def test_a_table_that_cannot_be_read_is_no_miss(self):
        _, keys, value = self.cold_keys()
        self.set(ONLY, ord("t"))  # NUMBER.sst
        self.set(READ, errno.EIO)
        runs = self.gets(keys)
        failed = [run for run in runs.values() if run.returncode != 0]
        self.assertTrue(failed)
        for run in failed:
            self.assertEqual(run.returncode, 74, run.stderr)
            self.assertRegex(run.stderr.decode(), os.strerror(errno.EIO))
        self.assertTrue(all(run.stdout == value for run in runs.values() if run.returncode == 0))
        self.set(READ, 0)
        self.assertTrue(all(run.stdout == value for run in self.gets(keys).values()))

    def damage(self, table):
        # In place: the server has it open. All but the end, which it has read already.
        try:
            with table.open("r+b") as file:
                for at in range(0, table.stat().st_size * 9 // 10, 2048):
                    file.seek(at)
                    file.write(b"damage")
        except FileNotFoundError:  # compacted away meanwhile
            pass

    def test_a_damaged_table_is_no_miss(self):
        _, keys, value = self.cold_keys()
        damaged = set()
        while tables := set(self.data.glob("*.sst")) - damaged:  # a compaction may bring others
            for table in tables:
                self.damage(table)
            damaged |= tables
        runs = self.gets(keys)
        failed = [run for run in runs.values() if run.returncode != 0]
        self.assertTrue(failed)
        for run in failed:
            self.assertEqual(run.returncode, 74, run.stderr)
            self.assertRegex(run.stderr.decode(), "damaged on the server's disk; restore a backup [(]kvctl check")
        self.assertTrue(all(run.stdout == value for run in runs.values() if run.returncode == 0))
        lost = next(key for key, run in runs.items() if run.returncode != 0)
        # The server looks at what is there before it says that a condition holds.
        run = kvctl(self.address, "put", "--if-present", lost, "value")
        self.assertEqual(run.returncode, 74, run.stderr)
        self.assertRegex(run.stderr.decode(), "is damaged; restore it")
        self.assertEqual(kvctl(self.address, "scan").returncode, 74)

    # --- At its start

    def filled(self, *, as_table=False):
        server = self.start("--quiet", durability="synced")
        for number in range(20):
            self.assertEqual(kvctl(self.address, "put", f"key{number}", stdin=bytes(8000)).returncode, 0)
        server.kill()
        if as_table:
            server = self.start("--quiet", f"--backup_dir={self.folder / 'backups'}")
            self.assertEqual(kvctl(self.address, "backup").returncode, 0)
            server.kill()

    def test_a_full_disk_at_the_start(self):
        self.filled()
        self.set(WRITE, errno.ENOSPC)
        self.rejected(74, "[Nn]o space left")
        self.set(WRITE, 0)
        self.start()
        self.get("key7", "\0" * 8000)

    def test_a_read_only_file_system_at_the_start(self):
        self.filled()
        self.set(CHANGE, errno.EROFS)
        self.rejected(77, os.strerror(errno.EROFS))
        self.set(CHANGE, 0)
        self.start()
        self.get("key7", "\0" * 8000)

    def test_a_disk_that_does_not_sync_at_the_start(self):
        self.filled()
        self.set(SYNC, errno.EIO)
        self.rejected(74, os.strerror(errno.EIO))
        self.set(SYNC, 0)
        self.start()
        self.get("key7", "\0" * 8000)

    def test_a_log_that_is_damaged_where_it_was_synced(self):
        self.filled()
        log = self.the_log()
        before = log.read_bytes()
        damaged = bytearray(before)
        damaged[self.length_of(log) // 4] ^= 1
        log.write_bytes(damaged)
        self.start_machine("second")
        self.rejected(74, "is damaged; restore it[^\n]*the disk said that it has (it|them)")
        self.checked(1, "is damaged; restore it[^\n]*the disk said that it has (it|them)")
        log.write_bytes(before)
        self.start()
        self.get("key18", "\0" * 8000)

    def checked(self, status, pattern):
        run = kvctl(None, "check", f"--data={self.data}", env={**os.environ, **self.environment})
        self.assertEqual(run.returncode, status, run.stderr)
        self.assertRegex(run.stderr.decode(), pattern)
        return dict(line.split() for line in run.stdout.decode().splitlines())

    def damage_a_log(self):
        """A bit in the middle of what a killed server logged, key0 to key19: the log, what it was, and what it is."""
        server = self.start("--quiet")
        for number in range(20):
            self.assertEqual(kvctl(self.address, "put", f"key{number}", stdin=bytes(8000)).returncode, 0)
        server.kill()
        log = self.the_log()
        before = log.read_bytes()
        damaged = bytearray(before)
        damaged[self.length_of(log) // 2] ^= 1
        log.write_bytes(damaged)
        return log, before, damaged

    def test_a_log_that_is_damaged_while_the_machine_runs(self):
        log, before, damaged = self.damage_a_log()
        why = rf"is damaged; restore it[^\n]*{log.name}, from byte \d+ on[^\n]*remove [^\n]*REMORA-BOOT"
        self.rejected(74, why)
        self.checked(1, why)
        self.assertEqual(log.read_bytes(), damaged)
        log.write_bytes(before)
        self.checked(0, r"\A\Z")
        self.start()
        self.get("key19", "\0" * 8000)

    def test_a_log_with_a_hole_where_it_was_not_synced(self):
        self.damage_a_log()
        self.start_machine("second")
        keys = int(self.checked(3, "the log ends torn")["keys"])
        self.assertIn(keys, range(1, 20))
        server = self.start()
        harness.wait_until(lambda: harness.stats(self.address)["loading"] == 0, "all is loaded")
        self.assertEqual(harness.stats(self.address)["keys"], keys)
        server.await_said(b"the log was torn")
        self.assertEqual(harness.stats(self.address)["log_torn"], 1)
        self.get("key0", "\0" * 8000)
        self.assertEqual(kvctl(self.address, "get", "key19").returncode, 1)
        self.assertEqual(server.stop()[0], 0)
        self.start()
        self.assertEqual(harness.stats(self.address)["log_torn"], 0)

    def test_files_that_are_missing(self):
        self.filled(as_table=True)
        for pattern in ("CURRENT", "MANIFEST-*", "*.sst"):
            with self.subTest(pattern):
                lost = [(path, path.read_bytes()) for path in self.data.glob(pattern)]
                self.assertTrue(lost)
                for path, _ in lost:
                    path.unlink()
                self.rejected(74, "is damaged; restore it")
                for path, content in lost:
                    path.write_bytes(content)
        self.start()
        self.get("key7", "\0" * 8000)

    def test_a_data_directory_of_another_format(self):
        self.filled()
        marker = self.data / "REMORA"
        text = marker.read_text()
        marker.write_text("remora-store 999\n")
        files = sorted(self.data.iterdir())
        self.rejected(78, "format 999")
        self.assertEqual(sorted(self.data.iterdir()), files)
        marker.write_text(text)
        self.start()
        self.get("key7", "\0" * 8000)

    def test_a_data_directory_that_it_may_not_use(self):
        self.filled()
        self.set(CHANGE, errno.EACCES)
        self.rejected(77, os.strerror(errno.EACCES))
        self.set(CHANGE, 0)
        self.start()
        self.get("key7", "\0" * 8000)


class RocksdbsLogTest(OnFaultyDisk, harness.TestCase):
    LOG = ("--commit_log=off",)

    def the_log(self):
        return max(self.data.glob("*.log"), key=lambda path: path.stat().st_size)

    def length_of(self, log):
        return log.stat().st_size

    def test_a_full_disk_rejects_writes_until_there_is_space(self):
        self.rejects_writes_until_there_is_space(errno.ENOSPC)

    def test_so_does_a_full_quota(self):
        self.rejects_writes_until_there_is_space(errno.EDQUOT)

    def test_a_quiet_server_says_so_too(self):
        self.rejects_writes_until_there_is_space(errno.ENOSPC, "--quiet")

    def rejects_writes_until_there_is_space(self, error, *flags):
        server = self.start(*flags)
        self.put("before")
        self.set(WRITE, error)
        self.put_rejected("no space left")
        self.assertEqual(self.disk_refuses(), 1)
        self.get("before")
        self.set(WRITE, 0)
        self.wait_for_writes()
        harness.wait_until(lambda: b"takes writes again" in server.said(), "it says so")
        said = server.said().decode()
        self.assertRegex(said, r"writes are rejected, reads go on: [^\n]*no space left[^\n]*\n")
        self.assertGreaterEqual(harness.stats(self.address)["disk_failures"], 1)
        server.kill()
        self.start()
        self.get("before")
        self.get("again")

    def full_as_a_log_begins(self):
        """A server whose log begins, by the flush of a backup, and that gets no space for the first record."""
        server = self.start(f"--backup_dir={self.folder / 'backups'}")
        self.put("before")
        self.assertEqual(kvctl(self.address, "backup").returncode, 0)
        self.set(WRITE, errno.ENOSPC)
        return server

    def test_a_disk_that_is_full_as_a_log_begins_rejects_writes_until_there_is_space(self):
        server = self.full_as_a_log_begins()
        self.put_rejected("no space left")
        self.set(WRITE, 0)
        self.put("after")
        self.assertEqual(self.disk_refuses(), 0)
        server.kill()
        self.start()
        self.get("before")
        self.get("after")

    def test_it_rejects_them_until_a_restart_if_the_file_system_reserves_no_space(self):
        self.set(RESERVE, errno.EOPNOTSUPP)
        server = self.full_as_a_log_begins()
        self.put_rejected("takes no more writes until it is opened again")
        self.set(WRITE, 0)
        self.put_rejected("takes no more writes until it is opened again", "later")
        server.kill()
        self.start()
        self.get("before")
        self.put("after")

    def test_a_drop_on_a_full_disk_deletes_nothing_and_says_so(self):
        self.start()
        for number in range(3):
            self.put(f"{number}")
        self.set(WRITE, errno.ENOSPC)
        run = kvctl(self.address, "delete_all", "--yes")
        self.assertEqual((run.returncode, run.stdout), (74, b""), run.stderr)
        self.assertRegex(run.stderr.decode(), "no space left")
        for number in range(3):
            self.get(f"{number}")
        self.set(WRITE, 0)
        self.wait_for_writes()
        self.assertEqual(kvctl(self.address, "delete_all", "--yes").stdout, b"4\n")

    def test_a_full_disk_ends_an_import_whose_input_goes_on(self):
        self.start()
        self.set(WRITE, errno.ENOSPC)
        with subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.address}", "import"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        ) as running:  # fmt: skip
            self.addCleanup(running.kill)
            running.stdin.write(b'{"remora_export":1}\n{"key":"key","value":"value"}\n')
            running.stdin.flush()
            self.assertEqual(running.wait(timeout=harness.PATIENCE), 74)
            self.assertRegex(running.stderr.read(), rb"line 2: no space left.*; 0 records were imported.* of 1 it is")

    def test_what_the_system_is_short_of_rejects_writes_until_it_is_there(self):
        for error in errno.ENOMEM, errno.ENFILE:
            with self.subTest(os.strerror(error)):
                server = self.start()
                self.put("before")
                self.set(WRITE, error)
                self.put_rejected("short of descriptors or memory", status=71)
                self.assertEqual(self.disk_refuses(), 1)
                self.set(WRITE, 0)
                self.wait_for_writes()
                server.kill()
                self.start().stop()

    def failing_writes(self, error, faults):
        server = self.start()
        self.put("before")
        for fault in faults:
            self.set(fault, error)
        self.put_rejected("takes no more writes until it is opened again")
        self.get("before")
        self.assertEqual(self.disk_refuses(), 1)
        server.await_said(rf"writes are rejected, reads go on: [^\n]*{os.strerror(error)}[^\n]*\n".encode())
        # A log that ends in the middle of a write is left alone.
        for fault in faults:
            self.set(fault, 0)
        self.put_rejected("takes no more writes until it is opened again", "later")
        self.assertEqual(server.stop()[0], 0)
        self.start()
        self.get("before")
        self.put("after")
        self.assertEqual(self.disk_refuses(), 0)

    def test_an_error_while_writing_rejects_writes_until_a_restart(self):
        self.failing_writes(errno.EIO, [WRITE])

    def test_a_file_system_that_becomes_read_only_rejects_writes_until_a_restart(self):
        self.failing_writes(errno.EROFS, [WRITE, CHANGE])

    def test_a_log_whose_end_is_torn(self):
        self.filled()
        log = self.the_log()
        os.truncate(log, log.stat().st_size - 100)
        server = self.start()
        self.get("key18", "\0" * 8000)
        server.stop()


class CommitLogTest(OnFaultyDisk, harness.TestCase):
    """A log that is full is another matter: DiskFullTest and its neighbours have it (tests/unit/store)."""

    LOG = ()

    def the_log(self):
        (first, *_) = sorted((self.data / "commit-log").iterdir())
        return first

    def length_of(self, log):
        return len(log.read_bytes().rstrip(b"\0"))

    def test_a_log_whose_end_is_torn(self):
        self.filled()
        log = self.the_log()
        end = self.length_of(log)
        with log.open("r+b") as file:
            file.seek(end - 100)
            file.write(bytes(100))
        server = self.start()
        self.get("key18", "\0" * 8000)
        server.stop()


if __name__ == "__main__":
    unittest.main()
