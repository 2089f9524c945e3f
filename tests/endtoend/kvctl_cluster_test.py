"""kvctl over the servers of a cluster: it does as with one server, and names the shard that fails."""

import json
import os
import re
import shutil
import signal
import subprocess
import unittest

import harness
from harness import kvctl

EX_USAGE, EX_DATAERR, EX_NOINPUT, EX_UNAVAILABLE, EX_NOPERM = 64, 65, 66, 69, 77
NOBODY = 65534
FIRST = b'{"remora_export":1}\n'


def export_of(numbers):
    lines = b"".join(b'{"key":"%06d","value":"of %d"}\n' % (i, i) for i in numbers)
    return FIRST + lines + b'{"records":%d}\n' % len(numbers)


def records_of(export):
    """Returns the records of an export without their versions, which each server gives."""
    lines = [json.loads(line) for line in export.decode().splitlines()]
    return [{name: line[name] for name in line if name != "version"} for line in lines]


class ClusterTestCase(harness.ShardsTestCase):
    durability = ()

    def setUp(self):
        super().setUp()
        self.running = self.start(*self.durability)

    def run_ok(self, *arguments, **options):
        run = self.kvctl(*arguments, **options)
        self.assertEqual((run.returncode, run.stderr), (0, b""), arguments)
        return run.stdout

    def keys_of(self, shard):
        return kvctl(self.address_of(shard), "scan", "--keys_only").stdout.decode().split()

    def without(self, shard):
        """Has kvctl take an address at which nobody listens for that of the shard. Returns the address."""
        away = f"local://{self.folder}/away"
        text = self.topology.read_text()
        self.topology = self.folder / "without"
        self.topology.write_text(text.replace(self.address_of(shard), away))
        return away


class CommandTest(ClusterTestCase):
    # Each gets the value from standard input, as far as it takes one.
    SAME = (
        "put key7 value", "get key7", "get missing", "exists key7", "exists missing", "put key7 other --if_absent",
        "put key7 other --if_present", "put key7 x --if_version=1", "get key7", "put stdin", "get stdin", "append key8 more",
        "incr number", "incr number 5", "incr key9", "incr number 9223372036854775807", "put key9 x --ttl=never",
        "touch missing 1h", "touch key9 never", "ttl key9", "persist key9", "ttl missing", "delete key9", "delete key9",
        "scan", "scan --reverse", "scan --limit=7", "scan --prefix=key2 --keys_only", "scan --any_order --limit=0 --prefix=key11",
        "count", "count --prefix=key1", "delete_all", "delete_all --prefix=key1 --yes", "count", "scan --reverse --limit=3",
        "delete_all --yes", "delete_all --yes", "count", "scan", "put key", "put key x --ttl=1", "get", "export --prefix=none",
    )  # fmt: skip

    def test_commands_do_as_with_one_server(self):
        one = harness.Server(f"--listen=local://{self.folder}/one", f"--data_dir={self.folder}/one_data", "--memory=64M")
        self.addCleanup(one.close)
        records = FIRST + b"".join(b'{"key":"key%d","value":"v%d"}\n' % (i, i) for i in range(30)) + b'{"records":30}\n'
        self.assertEqual(kvctl(f"local://{self.folder}/one", "import", stdin=records).stdout, self.run_ok("import", stdin=records))
        for command in self.SAME:
            with self.subTest(command=command):
                words = command.split()
                alone = kvctl(f"local://{self.folder}/one", *words, stdin=b"input")
                over_all = self.kvctl(*words, stdin=b"input")
                self.assertEqual(over_all.returncode, alone.returncode, over_all.stderr)
                said = [re.sub(rb"shard \d \([^)]*\): |version is \d+", b"", run.stderr) for run in (over_all, alone)]
                self.assertEqual((over_all.stdout, said[0]), (alone.stdout, said[1]))

    def test_each_shard_has_a_part(self):
        self.assertEqual(self.run_ok("import", stdin=export_of(range(300))).split()[:2], [b"imported", b"300"])
        parts = [self.keys_of(shard) for shard in range(self.SHARDS)]
        self.assertTrue(all(len(part) > 50 for part in parts), parts)
        self.assertEqual(sorted(sum(parts, [])), [f"{i:06}" for i in range(300)])
        exported = self.run_ok("export")
        self.assertEqual(records_of(exported), records_of(export_of(range(300))))
        self.assertEqual(self.run_ok("import", "--if_absent", stdin=exported), b"imported 0\nalready_there 300\nexpired 0\nskipped_bad 0\n")

    def begin_watch(self, *flags):
        watch = subprocess.Popen(
            [harness.program("kvctl"), f"--topology={self.topology}", "watch", "--keys_only", *flags],
            stdin=subprocess.DEVNULL, stdout=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(watch.communicate)
        self.addCleanup(watch.kill)
        return watch

    def test_a_watch_shows_all_shards_and_goes_on(self):
        watch = self.begin_watch("--show_positions", "--limit=20")
        written = 0
        while watch.poll() is None:  # it begins at some time
            self.run_ok("put", f"seen{written:04}", "")
            written += 1
        shown = [line.split(b"\t") for line in watch.stdout.read().splitlines()]
        self.assertEqual(len(shown), 21)
        self.assertEqual({line[1] for line in shown[:-1]}, {b"put"})
        last = shown[-1][0]
        self.assertEqual(last, shown[-2][0])
        self.run_ok("import", stdin=export_of(range(30)))
        ends = {self.keys_of(shard)[0] for shard in range(self.SHARDS)}  # by the import: behind all else
        rest = []
        for line in self.begin_watch(f"--resume={last.decode()}").stdout:
            rest.append(line.split()[1].decode())
            if ends <= set(rest):
                break
        keys = [line[2].decode() for line in shown[:-1]] + [key for key in rest if key.startswith("seen")]
        self.assertEqual(len(keys), len(set(keys)))
        for shard in range(self.SHARDS):  # each began at a moment of its own, and shows all changes from then on
            written = [key for key in self.keys_of(shard) if key.startswith("seen")]
            of_shard = [key for key in keys if key in set(written)]
            self.assertEqual(of_shard, written[len(written) - len(of_shard) :])

    def test_each_shard_answers(self):
        said = self.run_ok("ping", "--wait=5").decode()
        for shard in range(self.SHARDS):
            self.assertRegex(said, rf"(?m)^shard {shard}: {self.address_of(shard)} answered in [0-9.]+ us\nconnected to local:")
        self.run_ok("put", "key", "value")
        lines = [line.split() for line in self.run_ok("stats").decode().splitlines()]
        alone = [line.split()[0] for line in kvctl(self.address_of(0), "stats").stdout.decode().splitlines()]
        self.assertEqual([line[:2] for line in lines], [[str(shard), name] for shard in range(self.SHARDS) for name in alone])
        self.assertEqual(sum(int(value) for _, name, value in lines if name == "keys"), 1)
        of_all = json.loads(self.run_ok("stats", "--json"))
        self.assertEqual([list(of_all), list(of_all["1"])], [[str(shard) for shard in range(self.SHARDS)], alone])

    def test_an_import_goes_on_behind_a_server_that_was_started_anew(self):
        running = subprocess.Popen(
            [harness.program("kvctl"), f"--topology={self.topology}", f"--timeout={harness.PATIENCE * 1000}", "import", "--if_absent"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(running.communicate)
        self.addCleanup(running.kill)
        lines = export_of(range(200)).splitlines(keepends=True)
        running.stdin.write(b"".join(lines[:101]))
        running.stdin.flush()
        harness.wait_until(lambda: self.kvctl("count").stdout == b"100\n", "the first half is stored")
        os.kill(self.children(self.running)[1], signal.SIGKILL)
        running.stdin.write(b"".join(lines[101:]))
        output, errors = running.communicate(timeout=harness.PATIENCE)
        self.assertEqual((running.returncode, errors), (0, b""))
        self.assertEqual(output, b"imported 200\nalready_there 0\nexpired 0\nskipped_bad 0\n")
        self.assertEqual(records_of(self.run_ok("export")), records_of(export_of(range(200))))


class MemoryTest(ClusterTestCase):
    durability = ("--durability=memory",)

    def flags(self, *flags, **options):
        self.data.mkdir(exist_ok=True)  # for the topology alone
        kept = super().flags(*flags, **options)
        return [*(flag for flag in kept if not flag.startswith(("--data_dir", "--durability=logged", "--commit_log"))),
                f"--topology={self.topology}"]  # fmt: skip

    def test_an_import_knows_that_a_shard_lost_its_records(self):
        running = subprocess.Popen(
            [harness.program("kvctl"), f"--topology={self.topology}", f"--timeout={harness.PATIENCE * 1000}", "import"],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
        )  # fmt: skip
        self.addCleanup(running.communicate)
        self.addCleanup(running.kill)
        lines = export_of(range(100)).splitlines(keepends=True)
        running.stdin.write(b"".join(lines[:-1]))
        running.stdin.flush()
        harness.wait_until(lambda: self.kvctl("count").stdout == b"100\n", "they are stored")
        os.kill(self.children(self.running)[2], signal.SIGKILL)
        output, errors = running.communicate(lines[-1], timeout=harness.PATIENCE)
        self.assertEqual((running.returncode, output), (EX_UNAVAILABLE, b""))
        self.assertRegex(errors.decode(), rf"\Akvctl: import: shard 2 \({self.address}.2\): .*started anew.*import all lines again.*of 100 it is not known\n\Z")
        scan = self.kvctl("scan")
        self.assertEqual((scan.returncode, scan.stderr.count(b"scan: ")), (78, 1), scan.stderr)
        self.assertEqual(self.kvctl("scan", "--any_order").returncode, 0)


class FailureTest(ClusterTestCase):
    def rejected(self, status, why, *arguments, **options):
        run = self.kvctl(*arguments, **options)
        self.assertEqual(run.returncode, status, run.stderr)
        self.assertRegex(run.stderr.decode(), rf"\Akvctl: [^\n]*{why}[^\n]*\n\Z")
        return run.stdout

    def test_a_shard_that_is_down(self):
        self.run_ok("import", stdin=export_of(range(60)))
        parts = [self.keys_of(shard) for shard in range(self.SHARDS)]
        away = rf"shard 1 \({self.without(1)}\): "
        self.assertEqual(len(self.rejected(EX_UNAVAILABLE, away, "ping").splitlines()), 4)
        self.assertEqual({line.split()[0] for line in self.rejected(EX_UNAVAILABLE, away, "stats").splitlines()}, {b"0", b"2"})
        self.assertEqual(list(json.loads(self.rejected(EX_UNAVAILABLE, away, "stats", "--json"))), ["0", "2"])
        for key in (parts[0][0], parts[2][0]):
            self.assertEqual(self.run_ok("get", key), b"of %d" % int(key))
        for command in ("get", "exists", "delete", "ttl", "incr", "persist"):
            self.assertEqual(self.rejected(EX_UNAVAILABLE, away, command, parts[1][0]), b"")
        for command in ("count", "scan", "export", "watch --limit=1"):
            self.assertEqual(self.rejected(EX_UNAVAILABLE, away, *command.split()), b"")
        self.assertEqual(self.rejected(EX_UNAVAILABLE, away, "import", stdin=export_of(range(60, 120))), b"")
        others = len(parts[0]) + len(parts[2])
        self.rejected(EX_UNAVAILABLE, rf"{away}.*; the other shards deleted {others} keys", "delete_all", "--yes")
        self.assertEqual(len(self.keys_of(1)), len(parts[1]))

    def test_exchanged_addresses_write_nothing(self):
        text = self.topology.read_text().replace(self.address_of(0), "x").replace(self.address_of(1), self.address_of(0))
        self.topology = self.folder / "exchanged"
        self.topology.write_text(text.replace(" x", f" {self.address_of(1)}"))
        for i in range(5):
            self.rejected(EX_UNAVAILABLE, "the server there is shard 1 of cluster", "put", f"key{i}", "value")
        self.assertEqual([self.keys_of(shard) for shard in range(self.SHARDS)], [[]] * self.SHARDS)

    def test_a_file_that_is_no_topology(self):
        good = self.topology.read_text()
        self.topology = self.folder / "file"
        self.rejected(EX_NOINPUT, f"topology file {self.topology}: No such file", "get", "key")
        self.rejected(EX_NOINPUT, f"topology file {self.topology}: No such file", "import", stdin=FIRST)
        for text, why in (("", "it is empty"), (good.replace("0-", "1-", 1), "slot 0 of 16384"), (good.replace("shard 2", "shrd 2"), ":5: ")):
            self.topology.write_text(text)
            self.rejected(EX_DATAERR, f"{self.topology}.*{why}", "put", "key", "value")
        self.topology = self.folder
        self.rejected(EX_DATAERR, "it is a directory", "count")

    @unittest.skipIf(os.geteuid() != 0, "only root can become another user")
    def test_a_topology_of_another_user(self):
        # A copy: the build may lie where that user cannot go.
        program = shutil.copy(harness.program("kvctl"), self.folder)
        self.folder.chmod(0o755)
        run = subprocess.run(
            [program, f"--topology={self.write('secret', self.topology.read_text())}", "get", "key"], stdin=subprocess.DEVNULL,
            capture_output=True, timeout=harness.PATIENCE, check=False, user=NOBODY, group=NOBODY, extra_groups=[],
        )  # fmt: skip
        self.assertEqual((run.returncode, run.stdout), (EX_NOPERM, b""))
        self.assertIn(b"secret: Permission denied", run.stderr)

    def test_commands_and_flags_that_are_not_for_a_cluster(self):
        for command in ("config", "promote", "doctor"):
            self.rejected(EX_USAGE, f"{command.split()[0]} asks one server; name that with --server", *command.split())
        for command in ("create_token x", "size --records=1 --value_size=1"):
            self.rejected(EX_USAGE, f"{command.split()[0]} asks no server; leave it out", *command.split())
        self.rejected(EX_USAGE, "--topology names the servers already", "get", "key", f"--server={self.address_of(0)}")
        self.rejected(EX_USAGE, "the resume token is of 1 shards", "watch", "--resume=x")
        run = kvctl(None, "get", "key")
        self.assertEqual(run.returncode, EX_USAGE)
        self.assertIn(b"--topology=FILE", run.stderr)
        # The environment names the server of other commands.
        run = self.kvctl("count", env={**os.environ, "REMORA_SERVER": "local:///nowhere"})
        self.assertEqual((run.returncode, run.stdout), (0, b"0\n"), run.stderr)


if __name__ == "__main__":
    unittest.main()
