"""Several servers as one store: the topology file, the state of its shards, and a server that dies."""

import pathlib
import re
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

    def start(self, shard, *flags):
        server = harness.Server(
            f"--listen={self.addresses[shard]}", f"--data_dir={self.folder}/data{shard}", "--durability=logged",
            "--memory=64M", "--insecure_open", *(flags or [f"--shard={self.cluster_id}/{shard}"]),
        )  # fmt: skip
        self.addCleanup(server.close)
        return server

    def start_all(self):
        self.init(self.addresses)
        self.servers = [self.start(shard) for shard in range(3)]

    def init(self, addresses):
        run = cluster("init", *addresses)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        pathlib.Path(self.topology).write_bytes(run.stdout)
        self.cluster_id = re.search(rb"^cluster ([0-9a-f]{16})$", run.stdout, re.MULTILINE).group(1).decode()

    def write_topology(self, lines):
        pathlib.Path(self.topology).write_text("\n".join(lines) + "\n")

    def lines_of(self, addresses):
        """Returns the lines of the shards with these addresses."""
        slots = ("0-5460", "5461-10921", "10922-16383")
        return [f"shard {shard} {slots[shard]} {address}" for shard, address in enumerate(addresses)]

    def status(self):
        """Returns the exit status, the words of each shard's line, and stderr."""
        run = cluster("status", f"--topology={self.topology}", "--timeout=5000")
        lines = run.stdout.decode().splitlines()
        self.assertEqual(lines[0].split(), ["shard", "slots", "keys", "used_MiB", "of_MiB", "serves", "server"])
        return run.returncode, [line.split() for line in lines[1:]], run.stderr.decode()

    def example(self, user, name):
        return subprocess.run(
            [harness.program("example_cluster"), self.topology, user, name],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False, text=True,
        )  # fmt: skip

    def test_init_writes_equal_parts(self):
        ids = set()
        for _ in range(3):
            self.init(self.addresses)
            lines = pathlib.Path(self.topology).read_text().splitlines()
            self.assertIn(f"#   kvserver --shard={self.cluster_id}/0 ...", lines)
            lines = [line for line in lines if not line.startswith("#")]
            expected = ["remora-topology 2", f"cluster {self.cluster_id}", *self.lines_of(self.addresses)]
            self.assertEqual(lines, expected)
            ids.add(self.cluster_id)
        self.assertEqual(len(ids), 3)

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
            self.assertEqual((run.returncode, run.stdout), (65, b""))
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
        self.assertEqual([words[6] for words in shards], self.addresses)
        self.assertEqual([words[5] for words in shards], ["all"] * 3)  # without --slots

    def test_a_killed_server_concerns_its_keys_alone(self):
        self.start_all()
        self.assertEqual(self.example("ada", "Ada").returncode, 0)
        self.servers[1].kill()
        exit_status, shards, errors = self.status()
        self.assertEqual(exit_status, 69)
        self.assertIn(f"shard 1 ({self.addresses[1]}): ", errors)
        self.assertEqual([words[2] == "-" for words in shards], [False, True, False])
        self.assertEqual([words[5] for words in shards], ["all", "-", "all"])
        self.assertIn("shard 1 (", self.example("ada", "Ada").stderr)
        self.servers[1] = self.start(1)
        self.assertEqual(self.status()[0], 0)
        self.assertEqual(self.example("ada", "Ada").returncode, 0)

    def test_exchanged_addresses_are_rejected(self):
        self.start_all()
        self.assertEqual(self.example("ada", "Ada").returncode, 0)
        exchanged = [self.addresses[1], self.addresses[0], self.addresses[2]]
        for head in (["remora-topology 2", f"cluster {self.cluster_id}"], ["remora-topology 1"]):
            self.write_topology([*head, *self.lines_of(exchanged)])
            run = self.example("ada", "Ada")
            self.assertNotEqual(run.returncode, 0)
            self.assertIn(f"shard 0 ({self.addresses[1]}): connect: the server there is shard 1", run.stderr)
            exit_status, shards, errors = self.status()
            self.assertEqual(exit_status, 69)
            self.assertIn(f"shard 0 ({self.addresses[1]}): connect: the server there is shard 1", errors)
            self.assertEqual([words[2] == "-" for words in shards], [True, True, False])
        self.init(self.addresses)  # another cluster
        self.assertIn(f"and shard 0 of cluster {self.cluster_id} is expected", self.example("ada", "Ada").stderr)

    def start_of_shard_1_as(self, shard):
        return subprocess.run(
            [
                harness.program("kvserver"), f"--listen={self.addresses[1]}", f"--data_dir={self.folder}/data1",
                "--memory=64M", f"--shard={shard}",
            ],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip

    def test_a_data_dir_is_of_one_shard(self):
        self.init(self.addresses)
        self.start(1).stop()
        kept = self.folder / "data1/REMORA-SHARD"
        self.assertEqual(kept.read_text(), f"{self.cluster_id}/1\n")
        for wrong in (f"{self.cluster_id}/2", "1234567890abcdef/1"):
            run = self.start_of_shard_1_as(wrong)
            self.assertEqual(run.returncode, 78)
            said = run.stderr.decode()
            self.assertIn(f"has the data of shard {self.cluster_id}/1, and this server is to be shard {wrong}", said)
        self.start(1).stop()
        for wrong in ("1", "x/1", f"{self.cluster_id}/", f"{self.cluster_id}/a b", "0000000000000000/1"):
            run = self.start_of_shard_1_as(wrong)
            self.assertEqual(run.returncode, 64)
            self.assertIn("is no CLUSTER/NAME", run.stderr.decode())

    def test_a_cluster_gets_identities_while_clients_use_it(self):
        """A file of version 1, whose servers have no --shard: each step of the upgrade serves."""
        self.init(self.addresses)
        newer = pathlib.Path(self.topology).read_text()
        self.servers = [self.start(shard, "--quiet") for shard in range(3)]
        rejected = self.example("ada", "Ada").stderr
        self.assertIn(f"does not say which shard it is, and shard 0 of cluster {self.cluster_id}", rejected)
        self.assertIn(f"start it with --shard={self.cluster_id}/0", rejected)
        self.write_topology(["remora-topology 1", *self.lines_of(self.addresses)])
        self.assertEqual(self.example("ada", "Ada").returncode, 0)
        for shard in range(3):
            self.servers[shard].stop()
            self.servers[shard] = self.start(shard)
            self.assertEqual(self.example("ada", "Ada").returncode, 0)
        pathlib.Path(self.topology).write_text(newer)
        self.assertEqual(self.example("ada", "Ada").returncode, 0)
        self.assertEqual(self.status()[0], 0)

    def test_exchanged_addresses_of_servers_without_a_shard_are_seen_by_the_keys(self):
        self.write_topology(["remora-topology 1", *self.lines_of(self.addresses)])
        self.servers = [self.start(shard, "--quiet") for shard in range(3)]
        for number in range(20):
            self.assertEqual(self.example(str(number), "name").returncode, 0)
        exchanged = [self.addresses[1], self.addresses[0], self.addresses[2]]
        self.write_topology(["remora-topology 1", *self.lines_of(exchanged)])
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
