"""kvgate over the servers of a cluster, which share the keys."""

import re
import subprocess
import unittest

import harness
import redis_pair

SHARDS = 2
CROSS_SLOT = b"-CROSSSLOT Keys in request don't hash to the same slot; give them the same {tag}, as in {42}:name\r\n"


class Base(redis_pair.TestCase):
    durability = "logged"

    def setUp(self):
        super().setUp()
        self.addresses = [self.new_address(str(shard)) for shard in range(SHARDS)]
        run = harness.kvctl(None, "cluster", "init", *self.addresses)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        self.topology = self.write("topology", run.stdout.decode())
        self.cluster = re.search(r"(?m)^cluster ([0-9a-f]{16})$", run.stdout.decode()).group(1)
        self.shard_of = {}
        self.servers = [self.start(shard) for shard in range(SHARDS)]
        self.gate_process = redis_pair.Gate(f"--listen=redis://{self.gate_path}", f"--topology={self.topology}", "--timeout=10000")
        self.addCleanup(self.gate_process.close)
        wire = self.wire()
        for i in range(40):
            wire.call("SET", f"key{i}", i)
        for shard, address in enumerate(self.addresses):
            for key in harness.kvctl(address, "scan", "--keys_only", "--any_order").stdout.decode().split():
                self.shard_of[key] = shard
        self.assertEqual({self.shard_of[f"key{i}"] for i in range(40)}, set(range(SHARDS)))
        self.assertEqual(wire.call("FLUSHALL"), b"+OK\r\n")

    def start(self, shard):
        flags = [f"--data_dir={self.folder}/data{shard}", "--memory=64M", f"--shard={self.cluster}/{shard}"]
        server = harness.Server(f"--listen={self.addresses[shard]}", f"--durability={self.durability}", *flags)
        self.addCleanup(server.close)
        return server

    def keys_of(self, shard):
        return sorted(key for key, where in self.shard_of.items() if where == shard)

    def pair(self):
        """Returns a key of each shard."""
        return [self.keys_of(shard)[0] for shard in range(SHARDS)]


class CommandTest(Base):
    def test_keys_of_all_shards(self):
        wire = self.wire()
        keys = [f"key{i}" for i in range(40)]
        for i, key in enumerate(keys):
            self.assertEqual(wire.call("SET", key, i), b"+OK\r\n")
        self.assertEqual(wire.call("DBSIZE"), b":40\r\n")
        self.assertEqual(wire.call("MGET", *keys, "none"), b"*41\r\n" + b"".join(b"$%d\r\n%d\r\n" % (len(str(i)), i) for i in range(40)) + b"$-1\r\n")
        self.assertEqual(wire.call("EXISTS", *keys), b":40\r\n")
        for key in self.pair():
            self.assertEqual(wire.call("GET", key), b"$%d\r\n%b\r\n" % (len(key) - 3, key[3:].encode()))
            self.assertEqual(wire.call("INCRBY", key, 100), b":%d\r\n" % (int(key[3:]) + 100))
            self.assertEqual(wire.call("APPEND", key, "x"), b":4\r\n")
            self.assertEqual(wire.call("PEXPIRE", key, 1_000_000_000), b":1\r\n")
            self.assertIn(wire.call("TTL", key), (b":1000000\r\n", b":999999\r\n"))
        shown, cursor = [], b"0"
        while True:
            words = wire.call("SCAN", cursor, "COUNT", 7).split(b"\r\n")
            cursor, shown = words[2], shown + words[5:-1:2]
            if cursor == b"0":
                break
        self.assertEqual(sorted(shown), sorted(key.encode() for key in keys))
        self.assertEqual(sorted(wire.call("KEYS", "key1*").split(b"\r\n")[2:-1:2]), sorted(k.encode() for k in keys if k.startswith("key1")))
        self.assertIn(wire.call("RANDOMKEY").split(b"\r\n")[1].decode(), keys)
        self.assertEqual(wire.call("DEL", *keys[:10]), b":10\r\n")
        self.assertEqual(wire.call("FLUSHALL"), b"+OK\r\n")
        self.assertEqual(wire.call("DBSIZE"), b":0\r\n")

    def test_pipelined_commands_reply_in_their_order(self):
        wire = self.wire()
        keys = [f"key{i % 40}" for i in range(400)]
        wire.send(b"".join(redis_pair.request("INCR", key) + redis_pair.request("GET", key) for key in keys))
        for i in range(400):
            count = i // 40 + 1
            self.assertEqual(wire.reply(), b":%d\r\n" % count)
            self.assertEqual(wire.reply(), b"$%d\r\n%d\r\n" % (len(str(count)), count))

    def test_several_keys_as_one_need_one_slot(self):
        wire = self.wire()
        here, there = self.pair()
        for words in (("MSET", here, 1, there, 2), ("MSETNX", here, 1, there, 2)):
            self.assertEqual(wire.call(*words), CROSS_SLOT)
        self.assertEqual(wire.call("EXISTS", here, there), b":0\r\n")
        self.assertEqual(wire.call("MSET", "{42}:a", 1, "{42}:b", 2), b"+OK\r\n")
        self.assertEqual(wire.call("MSETNX", "{42}:b", 1, "{42}:c", 2), b":0\r\n")
        self.assertEqual(wire.call("RENAME", "{42}:a", "{42}:d"), b"+OK\r\n")
        wire.call("SET", here, 1)
        self.assertEqual(wire.call("RENAME", here, there), CROSS_SLOT)
        self.assertEqual(wire.call("COPY", here, there), b":1\r\n")
        self.assertEqual(wire.call("MGET", here, there), b"*2\r\n$1\r\n1\r\n$1\r\n1\r\n")

    def test_transactions(self):
        wire, other = self.wire(), self.wire()
        here, there = self.pair()

        def execute(*commands):
            wire.call("MULTI")
            for words in commands:
                self.assertEqual(wire.call(*words), b"+QUEUED\r\n")
            return wire.call("EXEC")

        self.assertEqual(execute(("SET", "{42}:a", 1), ("INCR", "{42}:b")), b"*2\r\n+OK\r\n:1\r\n")
        self.assertEqual(execute(("SET", here, 1), ("GET", here)), b"*2\r\n+OK\r\n$1\r\n1\r\n")
        said = execute(("SET", here, 2), ("SET", there, 2))
        self.assertEqual(said, b"-EXECABORT Transaction discarded because of: " + CROSS_SLOT[1:])
        self.assertEqual(wire.call("MGET", here, there), b"*2\r\n$1\r\n1\r\n$-1\r\n")
        for key in (here, there):
            wire.call("WATCH", key)
            other.call("SET", key, 5)
            self.assertEqual(execute(("SET", key, 6)), b"*-1\r\n")
            wire.call("WATCH", key)
            self.assertEqual(execute(("INCR", key)), b"*1\r\n:6\r\n")

    def test_info(self):
        info = self.wire().call("INFO")
        self.assertIn(f"remora_server:{self.topology}\r\nremora_shards:2\r\n".encode(), info)
        run = info.split(b"run_id:")[1].split(b"\r\n")[0]
        self.assertEqual(self.wire().call("WAIT", 1, 0), b":0\r\n")
        self.servers[1].stop()
        self.start(1)
        self.assertNotEqual(self.wire().call("INFO", "server").split(b"run_id:")[1].split(b"\r\n")[0], run)


class ChangesTest(Base):
    def test_notifications(self):
        wire, writer = self.wire(), self.wire()
        self.assertEqual(writer.call("CONFIG", "SET", "notify-keyspace-events", "KA"), b"+OK\r\n")
        wire.call("PSUBSCRIBE", "__keyspace@0__:*")
        for key in self.pair():
            writer.call("SET", key, 1)
            self.assertIn(b"__keyspace@0__:%b\r\n$3\r\nset\r\n" % key.encode(), wire.reply())

    def test_tracking(self):
        wire, writer = self.wire(), self.wire()
        wire.call("HELLO", 3)
        self.assertEqual(wire.call("CLIENT", "TRACKING", "ON"), b"+OK\r\n")
        for key in self.pair():
            wire.call("GET", key)
            writer.call("SET", key, 1)
            self.assertEqual(wire.reply(), b">2\r\n$10\r\ninvalidate\r\n*1\r\n$%d\r\n%b\r\n" % (len(key), key.encode()))

    def test_changes_of_a_shard_while_another_one_is_away(self):
        wire, writer = self.wire(), self.wire()
        wire.call("HELLO", 3)
        wire.call("CLIENT", "TRACKING", "ON")
        here, there = self.pair()
        self.servers[1].kill()
        wire.call("GET", here)
        writer.call("SET", here, 1)
        self.assertEqual(wire.reply(), b">2\r\n$10\r\ninvalidate\r\n*1\r\n$%d\r\n%b\r\n" % (len(here), here.encode()))
        self.start(1)
        self.assertEqual(writer.call("SET", there, 1), b"+OK\r\n")


class AwayTest(Base):
    def test_a_shard_that_is_away_concerns_its_keys_alone(self):
        self.gate_process.close()
        gate = redis_pair.Gate(f"--listen=redis://{self.folder}/other.sock", f"--topology={self.topology}", "--timeout=500")
        self.addCleanup(gate.close)
        wire = self.wire(f"{self.folder}/other.sock")
        here, there = self.pair()
        for key in (here, there):
            self.assertEqual(wire.call("SET", key, 1), b"+OK\r\n")
        self.servers[1].kill()
        named = f"shard 1 ({self.addresses[1]}): ".encode()
        for words in (("GET", there), ("SET", there, 2), ("MGET", here, there), ("DBSIZE",), ("INFO",)):
            said = wire.call(*words)
            self.assertTrue(said.startswith(b"-ERR " + named), said)
            self.assertEqual(wire.call("INCR", here)[:1], b":")
        self.start(1)
        harness.wait_until(lambda: wire.call("GET", there) in (b"$1\r\n1\r\n", b"$1\r\n2\r\n"), "the shard serves again")
        self.assertEqual(wire.call("DBSIZE"), b":2\r\n")
        self.assertEqual(gate.stop()[0], 0)

    def test_it_ends_while_commands_wait_for_a_shard(self):
        wires = [self.wire() for _ in range(4)]
        here, there = self.pair()
        self.servers[1].kill()
        for wire in wires:
            wire.send(redis_pair.request("GET", there) + redis_pair.request("MSET", "{42}:a", 1, "{42}:b", 2) + redis_pair.request("DBSIZE"))
        self.assertEqual(self.wire().call("SET", here, 1), b"+OK\r\n")
        self.assertEqual(self.gate_process.stop()[0], 0)


class FlagsTest(Base):
    def rejected(self, *flags):
        run = subprocess.run(
            [harness.program("kvgate"), f"--listen=redis://{self.folder}/other.sock", *flags],
            stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        return run.returncode, run.stderr.decode()

    def test_bad_flags(self):
        topology = f"--topology={self.topology}"
        for flags, says in (
            ([], "name the server: --server=ADDRESS"),
            ([topology, f"--server={self.addresses[0]}"], "leave one out"),
            (["--topology=/none"], "/none"),
            ([f"--topology={self.write('bad', 'shard a 0-16383 nowhere')}"], "bad:1: "),
        ):
            code, errors = self.rejected(*flags)
            self.assertEqual(code, 64, errors)
            self.assertIn(says, errors)

    def test_all_shards_have_to_serve_at_the_start(self):
        self.servers[1].kill()
        code, errors = self.rejected(f"--topology={self.topology}", "--timeout=300")
        self.assertEqual(code, 69, errors)
        self.assertIn(f"shard 1 ({self.addresses[1]}): ", errors)

    def test_a_server_of_another_cluster(self):
        run = harness.kvctl(None, "cluster", "init", *self.addresses)
        code, errors = self.rejected(f"--topology={self.write('other', run.stdout.decode())}")
        self.assertEqual(code, 73, errors)
        self.assertIn("shard 0 (", errors)


if __name__ == "__main__":
    unittest.main()
