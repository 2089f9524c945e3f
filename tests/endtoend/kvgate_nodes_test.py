"""Gates as the nodes of a Redis Cluster: replies beside those of a real one, and the clients that find nodes by them."""

import binascii
import itertools
import pathlib
import re
import subprocess
import unittest

import harness
import kvgate_cluster_test
import redis_pair

# Each is sent to a node of a Redis Cluster and to a gate, and to both without a cluster.
COMMANDS = """
CLUSTER
CLUSTER NOSUCH
CLUSTER INFO
CLUSTER INFO x
CLUSTER KEYSLOT a
CLUSTER KEYSLOT ""
CLUSTER KEYSLOT {42}:a
CLUSTER KEYSLOT {}a
CLUSTER KEYSLOT
CLUSTER KEYSLOT a b
CLUSTER LINKS
CLUSTER MYID
CLUSTER MYID x
CLUSTER NODES
CLUSTER NODES x
CLUSTER REPLICAS
CLUSTER REPLICAS nobody
CLUSTER REPLICAS @ID
CLUSTER SLAVES nobody
CLUSTER SLAVES @ID
CLUSTER SHARDS
CLUSTER SHARDS x
CLUSTER SLOTS
cluster slots
CLUSTER SLOTS x
CLUSTER HELP x
READONLY
READONLY x
READWRITE
READWRITE x
ASKING
ASKING x
INFO cluster
CONFIG GET cluster-enabled
CONFIG SET cluster-enabled no
SELECT 0
SELECT 1
SELECT x
MULTI
CLUSTER KEYSLOT a
CLUSTER MYID
READONLY
ASKING
SELECT 1
EXEC
MULTI
READONLY x
EXEC
SPUBLISH a b
SSUBSCRIBE a b
SUNSUBSCRIBE a b
SSUBSCRIBE
SET {42}:a 1
MSET {42}:a 1 {42}:b 2
MGET {42}:a {42}:b {42}:c
RENAME {42}:a {42}:c
DEL {42}:b {42}:c
"""


def commands(own_id):
    for line in COMMANDS.split("\n")[1:-1]:
        yield ["" if word == '""' else word.replace("@ID", own_id) for word in line.split(" ")]


def own_id(wire):
    return wire.call("CLUSTER", "MYID")[5:-2].decode()


class ReplyTest(redis_pair.TestCase):
    def test_without_a_cluster(self):
        self.memory_server()
        self.gate()
        path = self.redis()
        for protocol in (2, 3):
            theirs, ours = self.wire(path), self.wire()
            for wire in (theirs, ours):
                wire.call("HELLO", protocol)
            for words in [*commands("nobody"), ["CLUSTER", "HELP"]]:
                self.assertEqual(ours.call(*words), theirs.call(*words), words)
        hello = self.wire().call("HELLO")
        self.assertIn(b"$4\r\nmode\r\n$10\r\nstandalone\r\n", hello)
        self.assertIn(b"\r\nredis_mode:standalone\r\n", self.wire().call("INFO", "server"))

    def redis_node(self, port):
        """Starts a Redis Cluster of one node; returns the path of its socket."""
        flags = ("--cluster-enabled", "yes", "--cluster-port", str(harness.free_port()), "--cluster-announce-ip", "127.0.0.1")
        path = self.redis("--port", str(port), "--bind", "127.0.0.1", *flags)
        wire = self.wire(path)
        self.assertEqual(wire.call("CLUSTER", "SET-CONFIG-EPOCH", 1), b"+OK\r\n")
        self.assertEqual(wire.call("CLUSTER", "ADDSLOTSRANGE", 0, 16383), b"+OK\r\n")
        harness.wait_until(lambda: b"cluster_state:ok" in wire.call("CLUSTER", "INFO"), "the Redis Cluster serves")
        return path

    def test_in_a_cluster(self):
        self.memory_server()
        ports = harness.free_port(), harness.free_port()
        self.gate(f"--cluster_nodes=redis://127.0.0.1:{ports[1]}", f"--cluster_announce=redis://127.0.0.1:{ports[1]}")
        path = self.redis_node(ports[0])

        def same(node, reply):
            """The reply without what differs: the ID, the ports, and the size of the text that has the second one."""
            reply = reply.replace(node.encode(), b"ID")
            reply = re.sub(b"%d|%d" % ports, b"PORT", reply)
            return re.sub(rb"[$=]\d+\r\n((txt:)?ID 127.0.0.1:PORT)@\d+", rb"\1", reply)

        for protocol in (2, 3):
            theirs, ours = self.wire(path), self.wire()
            for wire in (theirs, ours):
                wire.call("HELLO", protocol)
            ids = own_id(theirs), own_id(ours)
            for of_theirs, of_ours in zip(*map(commands, ids)):
                expected, got = same(ids[0], theirs.call(*of_theirs)), same(ids[1], ours.call(*of_ours))
                self.assertEqual(got, expected, of_ours)
        self.assertIn(b"$4\r\nmode\r\n$7\r\ncluster\r\n", ours.call("HELLO", 2))
        self.assertIn(b"\r\nredis_mode:cluster\r\n", ours.call("INFO", "server"))
        lines, expected = (wire.call("CLUSTER", "HELP").split(b"\r\n")[1:-1] for wire in (ours, self.wire(path)))
        self.assertEqual((lines[0], lines[-2:]), (expected[0], expected[-2:]))

    def test_names_ipv6_and_tls(self):
        self.memory_server()
        nodes = "rediss://KV-2.example:1,rediss://[2001:DB8::1]:65535"
        self.gate(f"--cluster_nodes={nodes}", "--cluster_announce=rediss://kv-2.example:1")
        wire = self.wire()
        text = wire.call("CLUSTER", "NODES").decode().split("\r\n", 1)[1]
        form = "ID 2001:db8::1:65535@0 master - 0 0 1 connected 0-8191\nID kv-2.example:1@0,kv-2.example myself,master - 0 0 2 connected 8192-16383\n\r\n"
        self.assertEqual(re.sub("[0-9a-f]{40}", "ID", text), form)
        self.assertIn(b"*4\r\n$11\r\n2001:db8::1\r\n:65535\r\n$40\r\n", wire.call("CLUSTER", "SLOTS"))
        self.assertIn(b"*4\r\n$12\r\nkv-2.example\r\n:1\r\n$40\r\n", wire.call("CLUSTER", "SLOTS"))
        shards = wire.call("CLUSTER", "SHARDS")
        self.assertEqual((shards.count(b"$8\r\ntls-port\r\n"), shards.count(b"$4\r\nport\r\n")), (2, 0))
        self.assertEqual(shards.count(b"$8\r\nhostname\r\n$12\r\nkv-2.example\r\n$4\r\nrole\r\n"), 1)
        self.assertEqual(own_id(wire), re.findall("[0-9a-f]{40}", text)[1])


class Gates:
    """Two gates, which are the nodes of a cluster."""

    def start_gates(self, server_flag, *flags):
        self.ports = [harness.free_port() for _ in range(2)]
        addresses = [f"redis://127.0.0.1:{port}" for port in self.ports]
        for address in addresses:
            gate = redis_pair.Gate(f"--listen={address}", server_flag, f"--cluster_nodes={','.join(addresses)}", *flags)
            self.addCleanup(gate.close)

    def node(self, index):
        return self.wire(("127.0.0.1", self.ports[index]))

    def index_of(self, key):
        """Returns the gate of the key's slot."""
        places = sorted(range(2), key=lambda index: self.ports[index])
        return places[slot_of(key) // 8192]

    def run_program(self, *words):
        run = subprocess.run(words, stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False)
        self.assertEqual(run.returncode, 0, (run.stdout, run.stderr))
        return run.stdout.decode()

    def processed(self):
        """Returns how many commands each gate has done."""
        return [int(re.search(rb"total_commands_processed:(\d+)", self.node(i).call("INFO", "stats")).group(1)) for i in range(2)]

    def use(self, *words):
        """Runs a client, which must spread its load. Returns what it says."""
        before = self.processed()
        said = self.run_program(*words)
        for count, now in zip(before, self.processed()):
            self.assertGreater(now - count, 100)
        return said

    def use_python(self, port):
        # By the interpreter that Debian's package is for.
        program = pathlib.Path(__file__).with_name("kvgate_python_nodes.py")
        self.assertEqual(self.use("/usr/bin/python3", "-B", program, str(port)), "done\n")

    def use_redis_programs(self):
        said = self.use("redis-benchmark", "-p", str(self.ports[0]), "--cluster", "-t", "get,set,incr", "-n", "1000", "-c", "10", "-r", "100", "--csv")
        tests = [line.split(",")[0] for line in said.splitlines() if line.startswith('"')]
        self.assertEqual(tests[-3:], ['"SET"', '"GET"', '"INCR"'], said)
        cli = ["redis-cli", "-c", "-p", str(self.ports[1])]
        for i in range(8):
            self.assertEqual(self.run_program(*cli, "set", f"key{i}", "value"), "OK\n")
            self.assertEqual(self.run_program(*cli, "get", f"key{i}"), "value\n")
        said = self.run_program("redis-cli", "--cluster", "check", f"127.0.0.1:{self.ports[0]}")
        self.assertIn("[OK] All 16384 slots covered.", said)
        self.assertIn("[OK] All nodes agree about slots configuration.", said)


def slot_of(key):
    tag = re.search("{([^}]+)}", key)
    return binascii.crc_hqx((tag.group(1) if tag else key).encode(), 0) % 16384


class NodesTest(redis_pair.TestCase, Gates):
    """Two gates of one server."""

    def setUp(self):
        super().setUp()
        self.memory_server("--change_log=8M")
        self.start_gates(f"--server={self.address}")

    def test_clients(self):
        self.use_python(self.ports[0])
        self.use_redis_programs()

    def test_any_node_serves_any_key(self):
        keys = [f"key{i}" for i in range(20)]
        self.assertEqual({self.index_of(key) for key in keys}, {0, 1})
        for i, key in enumerate(keys):
            self.assertEqual(self.node(i % 2).call("SET", key, key), b"+OK\r\n")
            self.assertEqual(self.node((i + 1) % 2).call("GET", key), b"$%d\r\n%b\r\n" % (len(key), key.encode()))
        pairs = list(itertools.chain(*((key, 1) for key in keys)))
        self.assertEqual(self.node(0).call("MSET", *pairs), b"+OK\r\n")
        self.assertEqual(self.node(1).call("DEL", *keys), b":20\r\n")

    def test_what_is_of_all_keys_is_divided(self):
        keys = [f"key{i}" for i in range(101)]
        for key in keys:
            self.node(0).call("SET", key, 1)
        counts = []
        for index in range(2):
            own = sorted(key.encode() for key in keys if self.index_of(key) == index)
            self.assertEqual(sorted(self.node(index).call("KEYS", "*").split(b"\r\n")[2:-1:2]), own)
            self.assertEqual(sorted(self.node(index).call("SCAN", 0, "COUNT", 1000).split(b"\r\n")[5:-1:2]), own)
            counts.append(int(self.node(index).call("DBSIZE")[1:]))
            self.assertIn(b"db0:keys=%d\r\n" % counts[-1], self.node(index).call("INFO", "keyspace"))
        self.assertEqual(sorted(counts), [50, 51])

    def test_notifications_and_invalidations(self):
        wires = [self.node(index) for index in range(2)]
        for wire in wires:
            self.assertEqual(wire.call("CONFIG", "SET", "notify-keyspace-events", "EA"), b"+OK\r\n")
            wire.call("HELLO", 3)
            wire.call("SUBSCRIBE", "__keyevent@0__:set")
        keys = [f"key{i}" for i in range(20)]
        for key in keys:
            self.node(0).call("SET", key, 1)
        for index, wire in enumerate(wires):
            for key in keys:
                if self.index_of(key) == index:
                    self.assertTrue(wire.reply().endswith(b"\r\n%b\r\n" % key.encode()))
            wire.call("UNSUBSCRIBE")
            self.assertEqual(wire.call("CLIENT", "TRACKING", "ON"), b"+OK\r\n")
            for key in keys[:4]:
                wire.call("GET", key)
        for key in keys[:4]:
            self.node(1).call("SET", key, 2)
            for wire in wires:
                self.assertEqual(wire.reply(), b">2\r\n$10\r\ninvalidate\r\n*1\r\n$%d\r\n%b\r\n" % (len(key), key.encode()))

    def test_messages_stay_at_their_gate(self):
        here, there = self.node(0), self.node(1)
        for wire in (here, there):
            wire.call("SUBSCRIBE", "channel")
        self.assertEqual(self.node(0).call("PUBLISH", "channel", "one"), b":1\r\n")
        self.assertIn(b"one", here.reply())
        self.assertEqual(self.node(1).call("PUBLISH", "channel", "two"), b":1\r\n")
        self.assertIn(b"two", there.reply())

    def test_channels_of_shards_meet_at_their_node(self):
        for channel in (f"channel{i}" for i in range(10)):
            own, other = self.index_of(channel), 1 - self.index_of(channel)
            moved = b"-MOVED %d 127.0.0.1:%d\r\n" % (slot_of(channel), self.ports[own])
            wire = self.node(own)
            self.assertIn(b"ssubscribe", wire.call("SSUBSCRIBE", channel))
            for words in (("SSUBSCRIBE", channel), ("SUNSUBSCRIBE", channel), ("SPUBLISH", channel, "text")):
                self.assertEqual(self.node(other).call(*words), moved)
            self.assertEqual(self.node(own).call("SPUBLISH", channel, "text"), b":1\r\n")
            self.assertIn(b"$8\r\nsmessage\r\n", wire.reply())


class Shards(kvgate_cluster_test.Base, Gates):
    """Two gates of two servers, which share the keys by slots of their own."""

    def setUp(self):
        super().setUp()
        self.start_gates(f"--topology={self.topology}")


class ShardsTest(Shards):
    def pairs_of_one_slot(self):
        """Returns two keys of one slot of Redis, and of two shards."""
        wire, by_slot = self.wire(), {}
        for i in itertools.count():
            key = f"key{i}"
            for other in by_slot.setdefault(slot_of(key), []):
                if wire.call("MSET", key, 1, other, 1) == kvgate_cluster_test.CROSS_SLOT:
                    return key, other
            by_slot[slot_of(key)].append(key)

    def test_keys_of_one_slot_of_redis(self):
        one, other = self.pairs_of_one_slot()
        wire = self.node(0)
        self.assertEqual(wire.call("MSET", one, 1, other, 2, one, 3), b"+OK\r\n")
        self.assertEqual(wire.call("MGET", one, other), b"*2\r\n$1\r\n3\r\n$1\r\n2\r\n")
        large = b"v" * (1 << 20)
        self.assertEqual(wire.call("MSET", one, large, other, large), b"+OK\r\n")
        self.assertEqual(wire.call("STRLEN", other), b":%d\r\n" % len(large))
        # In a pipeline, each write comes before the next one.
        wire.send(b"".join(redis_pair.request("MSET", one, i, other, i) + redis_pair.request("INCR", other) for i in range(100)))
        for i in range(100):
            self.assertEqual((wire.reply(), wire.reply()), (b"+OK\r\n", b":%d\r\n" % (i + 1)))
        # Where all of it or nothing has to be done, the keys need one slot.
        for words in (("MSETNX", one, 1, other, 1), ("RENAME", one, other), ("MSET", one, 1, "key of another slot", 1)):
            self.assertEqual(wire.call(*words), kvgate_cluster_test.CROSS_SLOT)
        wire.send(b"".join(redis_pair.request(*words) for words in (("MULTI",), ("MSET", one, 7, other, 7), ("EXEC",))))
        self.assertEqual([wire.reply() for _ in range(2)], [b"+OK\r\n", b"+QUEUED\r\n"])
        self.assertTrue(wire.reply().startswith(b"-EXECABORT"))
        self.assertEqual(wire.call("MGET", one, other), b"*2\r\n$2\r\n99\r\n$3\r\n100\r\n")

        # A part that fails.
        one, other = f"{{{one}}}", f"{{{other}}}"
        self.assertIn(b"key: it has 4097 bytes", wire.call("MSET", one, 1, other + "k" * (4097 - len(other)), 1))
        self.assertEqual(wire.call("GET", one), b"$1\r\n1\r\n")


class ShardsClientsTest(Shards):
    def test_clients(self):
        for port in self.ports:
            self.use_python(port)
        self.use_redis_programs()


class FlagsTest(redis_pair.TestCase):
    def test_bad_flags(self):
        for flags, says in (
            (["--cluster_nodes="], b"--cluster_nodes"),
            (["--cluster_nodes=nothing"], b"--cluster_nodes: 'nothing' is no node; write redis://HOST:PORT"),
            (["--cluster_nodes=redis://127.0.0.1:1"], b"none of them is an address at which this gate listens"),
            (["--cluster_announce=redis://127.0.0.1:1"], b"--cluster_nodes"),
            (["--cluster_nodes=redis://a:1,redis://a:1", "--cluster_announce=redis://a:1"], b"comes twice"),
            (["--cluster_nodes=redis://a:1", "--cluster_announce=redis://b:1"], b"is none of --cluster_nodes"),
        ):
            run = subprocess.run(
                [harness.program("kvgate"), f"--listen=redis://{self.gate_path}", f"--server={self.address}", *flags],
                capture_output=True, timeout=harness.PATIENCE, check=False,
            )  # fmt: skip
            self.assertEqual((run.returncode, run.stdout), (64, b""), flags)
            self.assertTrue(run.stderr.startswith(b"kvgate: "), run.stderr)
            self.assertIn(says, run.stderr)


if __name__ == "__main__":
    unittest.main()
