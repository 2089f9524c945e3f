"""Several servers as one store: the topology file, the state of its shards, and a server that dies."""

import pathlib
import subprocess
import unittest

import harness


def cluster(*arguments):
    return harness.kvctl(None, "cluster", *arguments)


class ClusterTest(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.addresses = [f"local://{self.folder}/{shard}" for shard in range(3)]
        self.topology = str(self.folder / "topology")

    def start(self, shard):
        server = harness.Server(
            f"--listen={self.addresses[shard]}", f"--data_dir={self.folder}/data{shard}", "--durability=logged",
            "--memory=64M", "--insecure_open",
        )  # fmt: skip
        self.addCleanup(server.close)
        return server

    def start_all(self):
        self.servers = [self.start(shard) for shard in range(3)]
        run = cluster("init", *self.addresses)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        pathlib.Path(self.topology).write_bytes(run.stdout)

    def status(self):
        """Returns the exit status, the words of each shard's line, and stderr."""
        run = cluster("status", f"--topology={self.topology}", "--timeout=2000")
        lines = run.stdout.decode().splitlines()
        self.assertEqual(lines[0].split(), ["shard", "slots", "keys", "used_MiB", "of_MiB", "server"])
        return run.returncode, [line.split() for line in lines[1:]], run.stderr.decode()

    def example(self, user, name):
        return subprocess.run(
            [harness.program("example_cluster"), self.topology, user, name],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False, text=True,
        )  # fmt: skip

    def test_init_writes_equal_parts(self):
        run = cluster("init", *self.addresses)
        expected = (
            "remora-topology 1\n"
            f"shard 0 0-5460 {self.addresses[0]}\n"
            f"shard 1 5461-10921 {self.addresses[1]}\n"
            f"shard 2 10922-16383 {self.addresses[2]}\n"
        )
        self.assertEqual((run.returncode, run.stdout.decode(), run.stderr), (0, expected, b""))

    def test_wrong_arguments(self):
        for arguments, said in (
            ((), "ACTION"),
            (("start",), "start"),
            (("init",), "name a SERVER for each shard"),
            (("init", "kv:7470"), "shard 0: "),
            (("init", "local:///a", "local:///a"), "and so has shard 0"),
            (("init", "local:///a", "--topology=x"), "is for cluster status"),
            (("status",), "--topology=FILE"),
            (("status", "local:///a", "--topology=x"), "leave SERVER out"),
            (("status", "--topology=x", "--server=local:///a"), "leave it out"),
        ):
            run = cluster(*arguments)
            self.assertEqual((run.returncode, run.stdout), (64, b""), arguments)
            self.assertIn(said, run.stderr.decode())

    def test_wrong_files(self):
        run = cluster("status", f"--topology={self.topology}")
        self.assertEqual((run.returncode, run.stdout), (66, b""))
        self.assertIn(self.topology, run.stderr.decode())
        for text, said in (
            ("", "it is empty"),
            ("remora-topology 1\nshard a 0-9 local:///a\n", "slots 10 to 16383 of 16384 belong to no shard"),
            ("remora-topology 1\nshard a 0-9 local:///a\nshard b 9 local:///b\n", "shard b has slot 9"),
        ):
            pathlib.Path(self.topology).write_text(text)
            run = cluster("status", f"--topology={self.topology}")
            self.assertEqual((run.returncode, run.stdout), (64, b""))
            self.assertIn(said, run.stderr.decode())

    def test_status_shows_each_shard(self):
        self.start_all()
        for number in range(20):
            run = self.example(str(number), "name")
            self.assertEqual(run.returncode, 0, run.stderr)
        exit_status, shards, errors = self.status()
        self.assertEqual((exit_status, errors), (0, ""))
        self.assertEqual([words[1] for words in shards], ["5461", "5461", "5462"])
        self.assertEqual(sum(int(words[2]) for words in shards), 40)
        self.assertTrue(all(int(words[2]) > 0 for words in shards), shards)
        self.assertEqual([words[5] for words in shards], self.addresses)

    def test_a_killed_server_concerns_its_keys_alone(self):
        self.start_all()
        self.assertEqual(self.example("ada", "Ada").returncode, 0)
        self.servers[1].kill()
        exit_status, shards, errors = self.status()
        self.assertEqual(exit_status, 69)
        self.assertIn(f"shard 1 ({self.addresses[1]}): ", errors)
        self.assertEqual([words[2] == "-" for words in shards], [False, True, False])
        self.assertIn("shard 1 (", self.example("ada", "Ada").stderr)
        self.servers[1] = self.start(1)
        self.assertEqual(self.status()[0], 0)
        self.assertEqual(self.example("ada", "Ada").returncode, 0)

    def test_exchanged_addresses_are_seen_by_the_keys(self):
        self.start_all()
        for number in range(20):
            self.assertEqual(self.example(str(number), "name").returncode, 0)
        run = cluster("init", self.addresses[1], self.addresses[0], self.addresses[2])
        pathlib.Path(self.topology).write_bytes(run.stdout)
        exit_status, _, errors = self.status()
        self.assertEqual(exit_status, 1)
        self.assertRegex(errors, "shard 0 .*keys looked at belong to other shards")

    def test_routing_ratio_measures(self):
        def measure():
            return subprocess.run(
                [harness.program("routing_ratio"), f"--topology={self.topology}", "--keys=50", "--rounds=2"],
                stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False, text=True,
            )  # fmt: skip

        self.assertEqual(measure().returncode, 66)
        self.start_all()
        run = measure()
        self.assertEqual(run.returncode, 0, run.stderr)
        self.assertRegex(run.stdout, r"routing adds -?[0-9.]+ ns; MultiGet over 3 shards / of one: [0-9.]+\n$")

    def test_demo(self):
        demo = pathlib.Path(__file__).parents[2] / "tools/cluster-demo"
        for wrong in ("--shards=1", "--shards=17", "--shards=x", "4"):
            run = subprocess.run([demo, wrong], capture_output=True, timeout=harness.PATIENCE, check=False)
            self.assertEqual(run.returncode, 64, wrong)
        run = subprocess.run(
            [demo, "--shards=3", f"--bin={harness.BIN}"],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=5 * harness.PATIENCE, check=False, text=True,
        )  # fmt: skip
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        self.assertIn("Done; everything is removed.", run.stdout)
        folder = run.stdout.splitlines()[0].rsplit(" ", 1)[1]
        self.assertFalse(pathlib.Path(folder).exists())


if __name__ == "__main__":
    unittest.main()
