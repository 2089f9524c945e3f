"""Two shards that fail over, whose division of the slots is in etcd: real processes, and a real etcd.

REMORA_ROUNDS: how often a primary is killed under load (1 by default).
"""

import itertools
import os
import pathlib
import re
import sys
import unittest

import harness
from cluster_load import LOST, Load
from failover_test import PATIENT, SILENCE, Etcd

PACKAGE = pathlib.Path(os.environ.get("REMORA_PYTHON") or harness.BIN.parent / "python")
sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402
from remora._remora import Topology  # noqa: E402

ROUNDS = int(os.environ.get("REMORA_ROUNDS", "1"))
SHARDS = ("0", "1")
MEMBERS = ("a", "b")
EX_USAGE, EX_DATAERR, EX_UNAVAILABLE, EX_TEMPFAIL, EX_CONFIG = 64, 65, 69, 75, 78
HALF = 8192  # the first slot of shard 1


def key_of(shard, number=0):
    """Returns one of the keys of a shard."""
    fits = (f"key{i}" for i in range(1 << 20) if (Topology.slot_of(f"key{i}") >= HALF) == (shard == "1"))
    for _ in range(number):
        next(fits)
    return next(fits)


class EtcdSlotsCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.etcd = Etcd(self.folder)
        self.addCleanup(self.etcd.close)
        self.addresses = {shard + member: self.new_address(shard + member) for shard in SHARDS for member in MEMBERS}
        self.servers = {}
        self.last_starts = {}  # by name: starts it as it was started last
        self.file = self.folder / "topology"
        run = harness.kvctl(None, "cluster", "init", *[self.list_of(shard) for shard in SHARDS])
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        self.file.write_bytes(run.stdout)
        self.cluster = re.search(rb"^cluster ([0-9a-f]{16})$", run.stdout, re.MULTILINE).group(1).decode()
        self.source = "cluster://" + ",".join(self.addresses.values()).replace("tcp://", "")

    def list_of(self, shard):
        return ",".join(self.addresses[shard + member] for member in MEMBERS)

    def publish(self, *flags, file=None):
        run = harness.kvctl(None, "cluster", "publish", f"--etcd={self.etcd.url}", f"--topology={file or self.file}", *flags)
        return run.returncode, run.stdout.decode(), run.stderr.decode()

    def start(self, name, *flags, slots="etcd", address=None):
        server = harness.Server(
            f"--listen={address or self.addresses[name]}", f"--data_dir={self.folder}/{name}.data", "--memory=32M",
            f"--shard={self.cluster}/{name[0]}", f"--member={name}", f"--etcd={self.etcd.url}", SILENCE,
            *[f"--initial_member={name[0]}{one}={self.addresses[name[0] + one]}" for one in MEMBERS],
            *([f"--slots={slots}"] if slots else []), *(flags or ["--insecure_open"]),
        )  # fmt: skip
        self.addCleanup(server.close)
        self.servers[name] = server
        self.last_starts[name] = lambda: self.start(name, *flags, slots=slots, address=address)
        return server

    def restart_ended(self):
        """The service manager's part: a server that ends with 75 is started again. One that was killed as a primary
        does so if it had a write that its successor has not: it gets a copy."""
        for name, server in list(self.servers.items()):
            if server.process.poll() == EX_TEMPFAIL:
                self.last_starts[name]()

    def start_all(self, *flags):
        code, said, error = self.publish()
        self.assertEqual((code, error), (0, ""), said)
        for name in self.addresses:
            self.start(name, *flags)
        for shard in SHARDS:
            self.await_in_sync(shard, 2)

    def configuration(self, shard):
        return self.etcd.run("get", f"/remora/shards/{self.cluster}/{shard}", "--print-value-only").stdout.decode()

    def members_in_sync(self, shard):
        return self.configuration(shard).partition('"in_sync":')[2].partition("]")[0].count('"id"')

    def await_in_sync(self, shard, count):
        def are_in_sync():
            self.restart_ended()
            return self.members_in_sync(shard) == count

        harness.wait_until(are_in_sync, f"{count} members of shard {shard} are in sync")

    def start_again(self, name, *flags):
        """Starts a member that was killed, and returns once its shard has two members in sync."""
        self.start(name, *flags)
        self.await_in_sync(name[0], 2)

    def stat(self, name, metric):
        try:
            return harness.stats(self.addresses[name])[metric]
        except AssertionError:
            return None

    def primary(self, shard):
        """The member of a shard that serves, once there is one."""
        found = []

        def serves():
            self.restart_ended()
            found[:] = [name for name, server in self.servers.items()
                        if name[0] == shard and server.process.poll() is None and self.stat(name, "replication_role") == 3]  # fmt: skip
            return len(found) == 1

        harness.wait_until(serves, f"one member of shard {shard} serves")
        return found[0]

    def connect(self, source=None):
        store = remora.ClusterClient(source or self.source, timeout=30)
        self.addCleanup(store.close)
        return store

    def kvctl(self, *arguments, source=None):
        run = harness.kvctl(None, f"--topology={source or self.source}", *arguments)
        return run.returncode, run.stdout.decode(), run.stderr.decode()


class ServeTest(EtcdSlotsCase):
    def test_clients_find_the_shards_and_each_serves_its_slots(self):
        self.start_all()
        store = self.connect()
        keys = {b"key %d" % i: b"value %d" % i for i in range(500)}
        store.put_many(list(keys.items()))
        self.assertEqual({key: store[key] for key in keys}, keys)
        self.assertEqual(dict(store.scan()), keys)
        self.assertEqual(store.count(), 500)
        counts = [int(harness.kvctl(self.list_of(shard), PATIENT, "count").stdout) for shard in SHARDS]
        self.assertEqual(sum(counts), 500)
        self.assertTrue(all(count > 100 for count in counts), counts)
        # A server does nothing for a slot of the other shard, for reads and writes.
        for shard, other in (("0", "1"), ("1", "0")):
            for command in (["put", key_of(other), "1"], ["get", key_of(other)]):
                run = harness.kvctl(self.list_of(shard), *command)
                self.assertEqual(run.returncode, EX_CONFIG, run.stderr)
                self.assertIn(b"another server's", run.stderr)
        code, said, error = self.kvctl("cluster", "status")
        self.assertEqual(code, 0, error)
        self.assertEqual(len(re.findall(r"^[01] +8192 .* same ", said, re.MULTILINE)), 2, said)
        # Each server tells the topology, also one that follows, and a file of it is as good.
        for name in self.addresses:
            code, said, error = self.kvctl("cluster", "topology", source=f"cluster://{self.addresses[name]}")
            self.assertEqual((code, said), (0, self.file.read_text().partition("remora-topology")[1:][0] +
                                            self.file.read_text().partition("remora-topology")[2]), error)  # fmt: skip
        self.assertEqual(self.connect(str(self.file))[b"key 7"], b"value 7")

    def test_no_acknowledged_write_is_lost_when_primaries_are_killed_under_load(self):
        self.start_all()
        load = Load(self.source)
        self.addCleanup(load.end)
        for number in range(ROUNDS):
            shard = SHARDS[number % 2]
            load.await_more()
            killed = self.primary(shard)
            self.servers[killed].kill()
            successor = self.primary(shard)
            self.assertNotEqual(successor, killed)
            # Its slots are those of the division, though it followed with all of them.
            self.assertEqual(self.stat(successor, "slots"), HALF)
            load.await_more()
            self.start_again(killed)
        load.end()
        load.check(self.connect())
        self.assertEqual(load.faults, [])

    def test_clients_go_on_with_members_that_came_later(self):
        self.start_all()
        store = self.connect()
        key = key_of("0")
        store[key] = "1"
        # All addresses of the connect go.
        self.addresses["0c"] = self.new_address("0c")
        run = harness.kvctl(None, "cluster", "add", f"--etcd={self.etcd.url}", f"--shard={self.cluster}/0", "--member=0c",
                            f"--address={self.addresses['0c']}")  # fmt: skip
        self.assertEqual(run.returncode, 0, run.stderr)
        self.start("0c")
        self.await_in_sync("0", 3)
        harness.wait_until(lambda: self.addresses["0c"] in self.kvctl("cluster", "topology", source=f"cluster://{self.addresses['1a']}")[1],
                           "the servers of the other shard tell of the member")  # fmt: skip
        for gone in MEMBERS:
            self.servers["0" + gone].kill()
        self.assertEqual(self.primary("0"), "0c")
        # The call that finds nobody asks for the topology; a later one has it.
        short = remora.ClusterClient(self.source, timeout=2)
        self.addCleanup(short.close)

        def reads(client):
            try:
                return client[key] == b"1"
            except LOST:
                return False

        harness.wait_until(lambda: reads(short), "a new client reads")
        harness.wait_until(lambda: reads(store), "the client reads")


class ScanTest(EtcdSlotsCase):
    """One-sided scans while a primary is killed: they go on at its successor, or end with an error."""

    FLAGS = ("--insecure_open", "--ordered=memory")
    LASTING = {b"lasting %05d" % i: b"value %d" % i for i in range(3000)}

    def check(self, pairs, before, load, is_whole):
        """Checks what a scan has shown. `before`: the acknowledged writes of the load when it began."""
        keys = [key for key, _ in pairs]
        self.assertEqual(keys, sorted(set(keys)), "in order, and each key once")
        shown = dict(pairs)
        for key, value in pairs:
            if key in self.LASTING:
                self.assertEqual(value, self.LASTING[key])
            else:
                # A write without an answer may have been done, too.
                self.assertIn(int(value), range(before.get(key.decode(), 0), load.tried[key.decode()] + 1), key)
        if is_whole:
            self.assertLessEqual(set(self.LASTING) | {key.encode() for key in before}, set(shown))

    def test_a_primary_is_killed_in_the_middle(self):
        self.start_all(*self.FLAGS)
        store = self.connect()
        store.put_many(self.LASTING)
        load = Load(self.source)
        self.addCleanup(load.end)
        for number in range(ROUNDS):
            shard = SHARDS[number % 2]
            load.await_more()
            before, reconnects = dict(load.acknowledged), store.counters()["reconnects"]
            scan, pairs, is_whole = store.scan(one_sided=True), [], False
            try:
                pairs.extend(itertools.islice(scan, 200))
                killed = self.primary(shard)
                self.servers[killed].kill()
                pairs.extend(scan)
                is_whole = True
                self.assertGreater(store.counters()["reconnects"], reconnects, "it went on at the successor")
            except LOST as lost:
                print(f"round {number}: the scan ended behind {len(pairs)} keys: {lost}")
            self.check(pairs, before, load, is_whole)
            self.assertNotEqual(self.primary(shard), killed)
            load.await_more()
            before = dict(load.acknowledged)
            self.check(list(store.scan(one_sided=True)), before, load, is_whole=True)
            self.start_again(killed, *self.FLAGS)
        load.end()
        self.assertEqual(load.faults, [])


class MisuseTest(EtcdSlotsCase):
    def test_a_division_is_published_once_and_before_its_shards_begin(self):
        code, said, error = self.publish()
        self.assertEqual((code, error), (0, ""))
        self.assertEqual(said, "the division of 2 shards is in etcd; start each of their servers with --slots=etcd\n")
        self.assertEqual(self.publish()[:2], (0, said))
        other = self.folder / "other"
        other.write_text(self.file.read_text().replace("0-8191", "0-8190").replace("8192-16383", "8191-16383"))
        code, _, error = self.publish(file=other)
        self.assertEqual(code, 1)
        self.assertIn("etcd has another division of this cluster already", error)

    def test_a_shard_that_has_begun_gets_no_division(self):
        self.start("0a", slots=None)
        self.start("0b", slots=None)
        self.await_in_sync("0", 2)
        code, _, error = self.publish()
        self.assertEqual(code, 1)
        self.assertIn("shard 0 has begun, with all slots", error)
        self.assertEqual(self.etcd.run("get", "/remora/clusters/", "--prefix").stdout, b"")

    def test_a_server_that_was_not_told_of_the_division_serves_nobody(self):
        self.publish()
        server = self.start("0a", slots=None)
        self.assertEqual(server.process.wait(harness.PATIENCE), EX_TEMPFAIL)
        server.await_said(b"cluster_ended: it cannot lead: etcd has a division of the slots at .*start the server with --slots=etcd")
        self.assertEqual(self.stat("0a", "keys"), None)

    def test_a_server_without_a_division_serves_nobody_until_there_is_one(self):
        server = self.start("0a")
        server.await_said(b"cluster_failed: division: etcd has none at /remora/clusters/[0-9a-f]{16}/slots; write it with `kvctl cluster publish`")
        self.assertEqual(self.stat("0a", "replication_role"), 1)
        code, _, error = self.kvctl("cluster", "topology", "--timeout=500", source=f"cluster://{self.addresses['0a']}")
        self.assertEqual(code, EX_UNAVAILABLE, error)
        self.assertIn("the server has not read it in etcd yet", error)
        self.assertEqual(self.publish()[0], 0)
        self.assertEqual(self.primary("0"), "0a")

    def test_a_server_of_another_shard_or_cluster_serves_nobody(self):
        self.publish()
        text = self.file.read_text()
        key = f"/remora/clusters/{self.cluster}/slots"
        for changed, why in [
            (text.replace("shard 0", "shard x"), b"it has no shard 0"),
            (text.replace(self.cluster, "5f0c0000000000aa"), b"it is that of cluster 5f0c0000000000aa"),
            ("nonsense", b"no file of a topology"),
        ]:
            with self.subTest(why):
                self.assertEqual(self.etcd.run("put", key, changed).returncode, 0)
                server = self.start("0a")
                server.await_said(b"cluster_failed: the division at " + key.encode() + b": .*" + why)
                self.assertEqual(self.stat("0a", "replication_role"), 1)
                server.kill()

    def test_a_primary_whose_slots_change_in_etcd_starts_again(self):
        self.start_all()
        primary = self.primary("0")
        changed = self.file.read_text().replace("0-8191", "0-8190").replace("8192-16383", "8191-16383")
        self.assertEqual(self.etcd.run("put", f"/remora/clusters/{self.cluster}/slots", changed).returncode, 0)
        server = self.servers[primary]
        self.assertEqual(server.process.wait(harness.PATIENCE), EX_TEMPFAIL)
        server.await_said(b"cluster_ended: the division in etcd gives this shard other slots")
        successor = self.primary("0")
        self.assertEqual(self.stat(successor, "slots"), HALF - 1)

    def test_a_primary_goes_on_when_etcd_has_lost_the_division(self):
        self.start_all()
        store = self.connect()
        store[key_of("0")] = "1"
        self.assertEqual(self.etcd.run("del", "/remora/clusters/", "--prefix").returncode, 0)
        self.servers[self.primary("0")].await_said(b"cluster_failed: division: etcd has none")
        self.assertEqual(store[key_of("0")], b"1")
        store[key_of("0")] = "2"

    def test_flags_that_make_no_sense(self):
        self.start_all()
        for arguments, words in [
            (["--etcd=" + self.etcd.url], "name the file with --topology=FILE"),
            ([f"--topology={self.file}"], "name an address of etcd"),
            ([f"--topology={self.source}", "--etcd=" + self.etcd.url], "it writes a file to etcd; name that"),
            ([f"--topology={self.file}", "--etcd=" + self.etcd.url, f"--shard={self.cluster}/0"], "--shard: is for"),
        ]:
            run = harness.kvctl(None, "cluster", "publish", *arguments)
            self.assertEqual(run.returncode, EX_USAGE, run.stderr)
            self.assertIn(words, run.stderr.decode())
        old = self.folder / "old"
        old.write_text(f"remora-topology 1\nshard 0 0-16383 {self.list_of('0')}\n")
        self.assertEqual(self.publish(file=old)[0], EX_DATAERR)
        for source, words in [("cluster://", "cluster://"), ("cluster://host", "host"), ("cluster://x:1,,y:2", "cluster://")]:
            code, _, error = self.kvctl("get", "key", source=source)
            self.assertEqual(code, EX_USAGE, error)
            self.assertIn(words, error)
        code, _, error = self.kvctl("--timeout=500", "get", "key", source=f"cluster://{self.new_address('nobody')}")
        self.assertEqual(code, EX_UNAVAILABLE, error)
        alone = harness.Server(f"--listen={self.address}", "--durability=memory", "--memory=32M", "--insecure_open")
        self.addCleanup(alone.close)
        code, _, error = self.kvctl("get", "key", source=f"cluster://{self.address}")
        self.assertEqual(code, EX_CONFIG, error)
        self.assertIn("etcd has no division of its cluster", error)


if __name__ == "__main__":
    unittest.main()
