"""Backups of a cluster: one of each shard, which are a set together, and the cluster that is restored of it."""

import contextlib
import fcntl
import json
import os
import pathlib
import re
import shutil
import subprocess
import unittest

import harness
from harness import kvctl

EX_DAMAGED, EX_USAGE, EX_DATAERR, EX_NOINPUT, EX_UNAVAILABLE, EX_IOERR, EX_TEMPFAIL, EX_NOPERM, EX_CONFIG = 1, 64, 65, 66, 69, 74, 75, 77, 78
NOBODY = 65534


def fields(output):
    return {name: int(value) for name, value in (line.split() for line in output.decode().splitlines())}


class SetTestCase(harness.ShardsTestCase):
    SHARDS = 2

    def setUp(self):
        super().setUp()
        self.backups = self.folder / "backups"

    def serve(self, *flags, **options):
        return self.start(f"--backup_dir={self.backups}", *flags, **options)

    def run_ok(self, *arguments, **options):
        run = self.kvctl(*arguments, **options)
        self.assertEqual((run.returncode, run.stderr), (0, b""), arguments)
        return run.stdout

    def offline(self, *arguments):
        run = kvctl(None, *arguments)
        self.assertEqual((run.returncode, run.stderr), (0, b""), arguments)
        return run.stdout

    def rejected(self, status, why, *arguments):
        """`why`: a regular expression in the one line that it says."""
        run = kvctl(None, *arguments)
        self.assertEqual((run.returncode, run.stdout), (status, b""), run.stderr)
        self.assertRegex(run.stderr.decode(), rf"\Akvctl: [^\n]*{why}[^\n]*\n\Z")

    def put_numbers(self, begin, end):
        lines = b"".join(b'{"key":"%06d","value":"of %d"}\n' % (i, i) for i in range(begin, end))
        self.run_ok("import", stdin=b'{"remora_export":1}\n%b{"records":%d}\n' % (lines, end - begin))

    def back_up(self):
        return fields(self.run_ok("backup", f"--to={self.backups}"))

    def back_up_rejected(self, status, why, *arguments):
        self.rejected(status, why, f"--topology={self.topology}", "backup", *(arguments or [f"--to={self.backups}"]))

    def sets(self):
        return sorted(path.name for path in self.backups.glob("set-[0-9]*"))

    def listed(self):
        """Returns number, shards and state of each set in the list."""
        lines = [line.split("\t") for line in self.offline("backups", f"--from={self.backups}").decode().splitlines()]
        for line in lines:
            self.assertRegex(line[1], r"\A20\d\d-\d\d-\d\dT\d\d:\d\d:\d\dZ\Z")
        return [(int(line[0]), int(line[2]), line[5]) for line in lines]


class SetTest(SetTestCase):
    def export_of(self, data):
        """Returns the output of a cluster for a restored directory."""
        address, before = f"local://{self.folder}/other", (self.data, self.topology)
        self.data, self.topology = pathlib.Path(data), pathlib.Path(data) / "topology"
        server = self.start(address=address)
        output = self.run_ok("export")
        self.assertEqual(server.stop()[0], 0)
        self.data, self.topology = before
        return output

    def test_a_set_comes_back(self):
        server = self.serve()
        self.put_numbers(0, 300)
        self.run_ok("put", "session", "value", "--ttl=10h")
        first, before = self.back_up(), self.run_ok("export")
        self.assertEqual((first["set"], first["shards"], first["new_bytes"]), (1, self.SHARDS, first["bytes"]))
        self.put_numbers(200, 400)
        second, after = self.back_up(), self.run_ok("export")
        self.assertEqual(self.listed(), [(1, self.SHARDS, "whole"), (2, self.SHARDS, "whole")])
        of_set = json.loads((self.backups / "set-2").read_text())
        for shard, backup in enumerate(of_set["backups"]):
            own = fields(self.offline("check", f"--from={self.backups}/{shard}", f"--id={backup['backup']}"))
            self.assertEqual([backup[name] for name in ("backup", "version", "bytes")], [own[name] for name in ("id", "version", "bytes")])
        self.assertEqual(fields(self.offline("check", f"--from={self.backups}")), second)
        self.assertEqual(server.stop()[0], 0)
        whole = self.topology.read_text()
        for number, info, expected in ((1, first, before), (2, second, after)):
            # Byte for byte, with versions and expiry; the cluster is the same, at other addresses.
            target = self.folder / f"restored{number}"
            if number == 2:
                target.mkdir()  # as a mount point
            run = self.offline("restore", f"--from={self.backups}", f"--to={target}", f"--id={number}", f"--topology={self.topology}")
            self.assertEqual(fields(run), info)
            self.assertEqual((target / "topology").read_text(), whole)
            self.assertEqual(sorted(path.name for path in target.iterdir()), ["0", "1", "topology"])
            cluster = re.search(r"(?m)^cluster (\w+)$", whole).group(1)
            self.assertEqual([(target / str(shard) / "REMORA-SHARD").read_text() for shard in range(2)], [f"{cluster}/0\n", f"{cluster}/1\n"])
            self.assertEqual(self.export_of(target), expected)
        self.data, self.topology = target, target / "topology"
        run = subprocess.run([harness.program("kvserver"), *self.flags(shards=3)], capture_output=True, timeout=harness.PATIENCE, check=False)
        self.assertEqual(run.returncode, EX_CONFIG)
        self.assertIn(b"has 2 shards, and --shards=3 are asked for", run.stderr)

    @contextlib.contextmanager
    def busy_shard(self):
        """Shard 1 cannot make a backup, as one is being read there. Yields a kvctl that waits for it."""
        with open(self.backups / "1" / "REMORA-BACKUPS", "rb") as marker:
            fcntl.flock(marker, fcntl.LOCK_EX)
            self.busy = marker
            running = subprocess.Popen(
                [harness.program("kvctl"), f"--topology={self.topology}", "backup", f"--to={self.backups}"],
                stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
            )  # fmt: skip
            self.addCleanup(running.communicate)
            self.addCleanup(running.kill)
            said = running.stderr.readline().decode()
            self.assertRegex(said, r"\Akvctl: backup: shard 1 \(.*\): .*in use by another backup.*; waiting until it is done\n\Z")
            # The other shard does not wait.
            harness.wait_until(lambda: kvctl(None, "backups", f"--from={self.backups}/0").stdout.startswith(b"1\t"), "a shard has its backup")
            self.assertEqual(self.sets(), [])
            yield running

    def test_it_waits_for_another_backup(self):
        self.serve()
        with self.busy_shard() as running:
            self.back_up_rejected(EX_TEMPFAIL, "another kvctl makes a set in")
        output, errors = running.communicate(timeout=harness.PATIENCE)
        self.assertEqual((running.returncode, errors), (0, b""))
        self.assertEqual((fields(output)["set"], self.sets()), (1, ["set-1"]))

    def test_an_interrupted_backup_is_no_set(self):
        self.serve()
        with self.busy_shard() as running:
            running.kill()
            running.communicate(timeout=harness.PATIENCE)
        for command in (["backups"], ["check"], ["restore", f"--to={self.folder}/restored"]):
            self.rejected(EX_CONFIG, "is no backup directory.*no set is made yet: run kvctl backup --topology again", *command, f"--from={self.backups}")
        self.assertEqual(self.kvctl("backup", f"--to={self.backups}").returncode, 0)
        self.assertEqual(self.listed(), [(1, self.SHARDS, "whole")])
        of_set = json.loads((self.backups / "set-1").read_text())
        self.assertEqual(of_set["backups"][0]["backup"], 2)
        self.offline("check", f"--from={self.backups}")

    def test_sets_without_their_backups_are_forgotten(self):
        self.serve("--backup_keep=2")
        for number in range(1, 5):
            self.put_numbers(number, number + 1)
            self.assertEqual(self.back_up()["set"], number)
        self.assertEqual(self.listed(), [(3, self.SHARDS, "whole"), (4, self.SHARDS, "whole")])


    def test_it_waits_for_a_server_that_makes_another_one(self):
        self.serve()
        with self.busy_shard() as running, open(self.backups / "0" / "REMORA-BACKUPS", "rb") as marker:
            fcntl.flock(marker, fcntl.LOCK_EX)
            fcntl.flock(self.busy, fcntl.LOCK_UN)
            self.assertRegex(running.stderr.readline().decode(), r"\Akvctl: backup: set 1, shard 0: .*in use by another backup.*; waiting until it is done\n\Z")
            self.assertEqual(self.sets(), [])
        output, errors = running.communicate(timeout=harness.PATIENCE)
        self.assertEqual((running.returncode, errors, fields(output)["set"]), (0, b"", 1))

    def test_a_set_of_a_directory_that_is_away_is_kept(self):
        server = self.serve()
        self.back_up()
        self.assertEqual(server.stop()[0], 0)
        (self.backups / "1").rename(self.folder / "away")
        self.topology = self.write("alone", f"remora-topology 2\ncluster 0123456789abcdef\nshard 0 0-16383 {self.address}\n")
        self.server("--shard=0123456789abcdef/0", f"--data_dir={self.folder}/alone.data", "--memory=64M", f"--backup_dir={self.backups}/0")
        self.assertEqual(self.back_up()["set"], 2)
        self.assertEqual(self.listed(), [(1, 2, "lacks 1"), (2, 1, "whole")])
        (self.folder / "away").rename(self.backups / "1")
        self.offline("check", f"--from={self.backups}", "--id=1")


class MisuseTest(SetTestCase):
    def setUp(self):
        super().setUp()
        self.server = self.serve()
        self.put_numbers(0, 20)

    def of_sets(self, status, why, *flags):
        """Restore rejects the same as check, and makes nothing."""
        target = self.folder / "restored"
        self.rejected(status, why, "check", f"--from={self.backups}", *flags)
        self.rejected(status, why, "restore", f"--from={self.backups}", f"--to={target}", *flags)
        self.assertEqual(list(self.folder.glob("restored*")), [])

    def test_a_shard_that_is_missing(self):
        self.back_up()
        self.of_sets(EX_NOINPUT, "has no set 7; kvctl backups lists those that it has", "--id=7")
        (self.backups / "1").rename(self.folder / "away")
        self.of_sets(EX_NOINPUT, rf"set 1, shard 1: .*{self.backups}/1")
        self.assertEqual(self.listed(), [(1, self.SHARDS, "lacks 1")])
        self.back_up_rejected(EX_NOINPUT, rf"shard 1: {self.backups}/1 is to be the --backup_dir of its server: ")
        # That of another shard has the same numbers.
        shutil.copytree(self.backups / "0", self.backups / "1")
        self.of_sets(EX_NOINPUT, rf"set 1, shard 1: .*has no backup 1 of version")
        shutil.rmtree(self.backups / "1")
        (self.folder / "away").rename(self.backups / "1")
        self.offline("check", f"--from={self.backups}")

    def test_another_cluster_and_another_division(self):
        self.back_up()
        good = self.topology.read_text()
        self.topology = self.folder / "other"
        self.topology.write_text(re.sub(r"(?m)^cluster \w+$", "cluster 0123456789abcdef", good))
        self.of_sets(EX_CONFIG, "set 1 is of cluster [0-9a-f]{16}, and the topology of 0123456789abcdef", f"--topology={self.topology}")
        self.topology.write_text(good.replace("0-8191", "0-8190").replace("8192-", "8191-"))
        self.of_sets(EX_CONFIG, "set 1 has other shards or slots", f"--topology={self.topology}")
        self.topology.write_text("nothing")
        self.of_sets(EX_DATAERR, f"{self.topology}", f"--topology={self.topology}")
        self.topology.unlink()
        self.of_sets(EX_NOINPUT, f"{self.topology}", f"--topology={self.topology}")

    def test_files_of_sets_that_are_damaged(self):
        self.back_up()
        file = self.backups / "set-1"
        good = file.read_text()
        for text in ("", good.replace('"backup":1', '"backup":2', 1)):
            file.write_text(text)
            self.of_sets(EX_DAMAGED, "set-1 is damaged")
            self.rejected(EX_DAMAGED, "set-1 is damaged", "backups", f"--from={self.backups}")
        file.write_text(good.replace('"remora_backup_set":1', '"remora_backup_set":2'))
        self.of_sets(EX_CONFIG, "has format 2, and this kvctl knows format 1")
        file.write_text(good)
        file.rename(self.backups / "set-3")
        self.of_sets(EX_DAMAGED, "set-3 has set 1: it was renamed")
        # A new one has a number of its own.
        self.assertEqual(self.back_up()["set"], 4)

    def list_and_failure(self, status, why):
        """Returns the lines of the list, which ends with a failure."""
        run = kvctl(None, "backups", f"--from={self.backups}")
        self.assertEqual(run.returncode, status, run.stderr)
        self.assertRegex(run.stderr.decode(), rf"\Akvctl: backups: [^\n]*{why}[^\n]*\n\Z")
        return [(line.split("\t")[0], line.split("\t")[5]) for line in run.stdout.decode().splitlines()]

    def test_a_damaged_file_hides_no_other_set(self):
        self.back_up()
        self.back_up()
        self.back_up()
        (self.backups / "set-2").write_text("")
        self.assertEqual(self.list_and_failure(EX_DAMAGED, "set-2 is damaged"), [("1", "whole"), ("3", "whole")])

    def test_a_pipe_in_place_of_a_set(self):
        self.back_up()
        for make in (os.mkfifo, os.mkdir, lambda path: os.symlink("/dev/zero", path)):
            make(self.backups / "set-9")
            why = "/set-9 is no file; remove it, or take another set"
            self.assertEqual(self.list_and_failure(EX_DAMAGED, why), [("1", "whole")])
            self.of_sets(EX_DAMAGED, why)
            (self.backups / "set-9").rmdir() if make is os.mkdir else (self.backups / "set-9").unlink()
        self.assertEqual(self.listed(), [(1, self.SHARDS, "whole")])

    def test_a_backup_without_its_files_is_damaged(self):
        self.back_up()
        table = next((self.backups / "0" / "shared_checksum").glob("*.sst"))
        table.rename(self.folder / "away")
        self.of_sets(EX_DAMAGED, "set 1, shard 0: backup 1 in .* is damaged")
        self.assertEqual(self.listed(), [(1, self.SHARDS, "damaged 0")])
        (self.folder / "away").rename(table)
        self.offline("check", f"--from={self.backups}")

    def test_a_list_beside_a_backup(self):
        self.back_up()
        with open(self.backups / "1" / "REMORA-BACKUPS", "rb") as marker:
            fcntl.flock(marker, fcntl.LOCK_EX)
            self.assertEqual(self.list_and_failure(EX_TEMPFAIL, "set 1, shard 1: .*in use by another backup"), [("1", "unknown 1")])
        self.assertEqual(self.listed(), [(1, self.SHARDS, "whole")])

    def test_the_last_number(self):
        (self.backups / "set-4294967295").write_text("")
        self.back_up_rejected(EX_CONFIG, "set-4294967295 has the last number")
        self.assertEqual(self.sets(), ["set-4294967295"])

    def test_a_shard_that_is_down(self):
        good = self.topology.read_text()
        self.topology = self.folder / "other"
        self.topology.write_text(good.replace(self.address_of(1), f"local://{self.folder}/away"))
        self.back_up_rejected(EX_UNAVAILABLE, rf"shard 1 \(local://{self.folder}/away\): ")
        self.assertEqual(self.sets(), [])

    def test_directories_that_are_not_of_the_servers(self):
        self.back_up_rejected(EX_NOINPUT, "shard 0: .*missing/0 is to be the --backup_dir of its server: .*No such file", f"--to={self.folder}/missing")
        (self.folder / "other" / "0").mkdir(parents=True)
        self.back_up_rejected(EX_CONFIG, "shard 0: .*/other/0 is to be the --backup_dir of its server: ", f"--to={self.folder}/other")
        self.assertEqual([path.name for path in (self.folder / "other").iterdir()], ["0"])
        shutil.rmtree(self.folder / "other")
        shutil.copytree(self.backups, self.folder / "other")
        self.back_up_rejected(EX_CONFIG, "set 1, shard 0: .*/other/0 has no backup 1 of version", f"--to={self.folder}/other")
        self.assertEqual(list(self.folder.glob("other/set-[0-9]*")), [])
        self.assertEqual(self.server.stop()[0], 0)
        self.start()
        self.back_up_rejected(EX_CONFIG, r"shard 0 \(.*\): .*--backup_dir=DIR")

    def test_arguments(self):
        self.back_up()
        full = self.folder / "full"
        (full / "of_things").mkdir(parents=True)
        self.rejected(EX_CONFIG, "is not empty", "restore", f"--from={self.backups}", f"--to={full}")
        self.assertEqual([path.name for path in full.iterdir()], ["of_things"])
        topology = f"--topology={self.topology}"
        for arguments, why in (
            (["backup", topology], "with --to=DIR"), (["backup", f"--server={self.address_of(0)}", "--to=x"], "--to: is for --topology"),
            (["backup", topology, "--to=x", "--data_dir=y"], "asks no server"), (["backups", topology, "--from=x"], "asks no server"),
            (["backup", topology, "--to=x", f"--server={self.address_of(0)}"], "leave one out"),
            (["check", topology, "--data_dir=x"], "is for backups"), (["backup", topology, "--to=x", "--keep=1"], "--keep"),
        ):  # fmt: skip
            self.rejected(EX_USAGE, why, *arguments)
        self.rejected(EX_NOINPUT, "has no set of backups; make one with kvctl backup --topology", "check", f"--from={self.data}", topology)
        older = self.write("older", f"remora-topology 1\nshard 0 0-16383 {self.address_of(0)}\n")
        self.rejected(EX_DATAERR, "names no cluster", "backup", f"--topology={older}", f"--to={self.backups}")

    @unittest.skipIf(os.geteuid() != 0, "only root can become another user")
    def test_of_another_user(self):
        self.back_up()
        # A copy: the build may lie where that user cannot go.
        program = shutil.copy(harness.program("kvctl"), self.folder)
        self.folder.chmod(0o755)
        for command in (["check"], ["backups"], ["restore", f"--to={self.folder}/restored"]):
            run = subprocess.run(
                [program, *command, f"--from={self.backups}"], stdin=subprocess.DEVNULL, capture_output=True,
                timeout=harness.PATIENCE, check=False, user=NOBODY, group=NOBODY, extra_groups=[],
            )  # fmt: skip
            self.assertEqual((run.returncode, run.stdout), (EX_NOPERM, b""), run.stderr)


class FullDiskTest(SetTestCase):
    def mount(self, name, size):
        disk = self.folder / name
        disk.mkdir()
        mounted = subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", str(disk)], capture_output=True, check=False)
        if mounted.returncode != 0:
            self.skipTest("a small disk needs mount, and root")
        self.addCleanup(subprocess.run, ["umount", str(disk)], check=True)
        return disk

    def test_no_space_for_a_name(self):
        self.backups = self.mount("backups", "200k,nr_inodes=64")
        self.serve()
        with self.assertRaises(OSError):
            for i in range(64):
                (self.backups / f"other{i}").touch()
        self.back_up_rejected(EX_IOERR, "set-lock: No space")

    def test_full_disks(self):
        self.backups = self.mount("backups", "200k")
        server = self.serve()
        self.put_numbers(0, 20)
        self.back_up()
        self.run_ok("put", "000001", stdin=os.urandom(200_000))  # of one shard
        self.run_ok("put", "000002", stdin=os.urandom(200_000))
        self.back_up_rejected(EX_IOERR, r"shard \d \(.*\): .*No space")
        self.assertEqual(self.sets(), ["set-1"])
        self.assertEqual(self.listed(), [(1, self.SHARDS, "whole")])
        for size, why in (("40k", "No space"), ("4k", rf"no space left for backup 1 in {self.backups}/0, which is restored to {self.folder}/disk4k/")):
            disk = self.mount(f"disk{size}", size)
            self.rejected(EX_IOERR, rf"set 1, shard \d: .*{why}", "restore", f"--from={self.backups}", f"--to={disk}")
            self.assertEqual(list(disk.iterdir()), [])
        server.close()


if __name__ == "__main__":
    unittest.main()
