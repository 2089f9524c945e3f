"""kvgate over servers whose slots move: it reads its topology file anew, and sends commands again."""

import unittest

import harness
import moved_slots
import redis_pair
from moved_slots import HALVES

SWAPPED = HALVES[::-1]


class Base(moved_slots.TestCase):
    def gate(self, *flags, timeout=20_000):
        self.path = f"{self.folder}/gate.sock"
        gate = redis_pair.Gate(f"--listen=redis://{self.path}", f"--timeout={timeout}", "--threads=1", *flags)
        self.addCleanup(gate.close)
        return gate

    def follower(self, *flags, **options):
        return self.gate(f"--topology={self.topology}", *flags, **options)

    def wire(self):
        wire = redis_pair.Wire(self.path)
        self.addCleanup(wire.close)
        return wire

    def value_at(self, shard, key):
        return harness.kvctl(self.addresses[shard], "get", key).stdout

    def pipeline(self, wire, commands):
        wire.send(b"".join(redis_pair.request(*command) for command in commands))


class FollowTest(Base):
    def test_each_command_is_done_once_at_the_owner(self):
        keys = [self.keys_of(shard, 5) for shard in range(2)]
        self.follower()
        wire = self.wire()
        self.give(SWAPPED)
        self.replace_file(SWAPPED)
        commands = [("INCR", f"{{{key}}}new") for _ in range(10) for key in keys[0] + keys[1]]
        self.pipeline(wire, commands)
        for i in range(len(commands)):
            self.assertEqual(wire.reply(), b":%d\r\n" % (i // 10 + 1))
        for shard in range(2):
            for key in keys[1 - shard]:
                self.assertEqual(self.value_at(shard, f"{{{key}}}new"), b"10")

    def test_each_kind_of_command(self):
        key = self.keys_of(0, 1)[0]
        self.follower()
        wire = self.wire()

        def exec_of_two():
            for words in (("MULTI",), ("SET", f"{{{key}}}t", 1), ("INCR", f"{{{key}}}n")):
                wire.call(*words)
            return wire.call("EXEC")

        kinds = [
            (lambda: wire.call("SET", f"{{{key}}}a", 1), b"+OK\r\n"),
            (lambda: wire.call("SET", f"{{{key}}}b", "x" * 300_000), b"+OK\r\n"),
            (lambda: wire.call("SETNX", f"{{{key}}}c", 1), b":1\r\n"),
            (lambda: wire.call("APPEND", f"{{{key}}}d", "abc"), b":3\r\n"),
            (lambda: wire.call("INCRBYFLOAT", f"{{{key}}}e", "1.5"), b"$3\r\n1.5\r\n"),
            (lambda: wire.call("GETSET", f"{{{key}}}f", 1), b"$-1\r\n"),
            (lambda: wire.call("MSET", f"{{{key}}}g", 1, f"{{{key}}}h", 2), b"+OK\r\n"),
            (exec_of_two, b"*2\r\n+OK\r\n:1\r\n"),
        ]
        slots = HALVES
        for i, (command, reply) in enumerate(kinds):
            slots = slots[::-1]
            self.give(slots)
            self.replace_file(slots)
            self.assertEqual(command(), reply, i)

    def test_each_kind_of_read(self):
        key = self.keys_of(0, 1)[0]
        self.follower()
        wire = self.wire()
        kinds = [
            (("GET", key), b"$7\r\nvalue 0\r\n"),
            (("GET", f"{{{key}}}none"), b"$-1\r\n"),
            (("MGET", key, f"{{{key}}}none"), b"*2\r\n$7\r\nvalue 2\r\n$-1\r\n"),
            (("EXISTS", key), b":1\r\n"),
            (("STRLEN", key), b":7\r\n"),
            (("TTL", key), b":-1\r\n"),
        ]
        slots = HALVES
        for i, (words, reply) in enumerate(kinds):
            slots = slots[::-1]
            self.give(slots)
            self.replace_file(slots)
            # The former owner has another value on its disk.
            run = harness.kvctl(self.addresses[1 - i % 2], "put", key, f"value {i}")
            self.assertEqual(run.returncode, 0, run.stderr)
            self.assertEqual(wire.call(*words), reply, words)

    def test_commands_wait_for_the_file_and_other_connections_do_not(self):
        parts = ["0-4095", "4096-16383"]
        keys = self.keys_of(0, 20)
        self.follower()
        waiting, other = self.wire(), self.wire()
        self.give(parts)
        stays = self.keys_of(0, 1)[0]
        moves = next(key for key in keys if harness.kvctl(self.addresses[1], "put", f"{{{key}}}probe", "1").returncode == 0)
        before = self.moved_requests()
        self.pipeline(waiting, [("INCR", f"{{{moves}}}new")] * 10 + [("GET", f"{{{moves}}}new")])
        harness.wait_until(lambda: self.moved_requests() > before + 20, "the gate has tried several times")
        for i in range(100):
            self.assertEqual(other.call("INCR", f"{{{stays}}}new"), b":%d\r\n" % (i + 1))
        self.replace_file(parts)
        for i in range(10):
            self.assertEqual(waiting.reply(), b":%d\r\n" % (i + 1))
        self.assertEqual(waiting.reply(), b"$2\r\n10\r\n")
        self.assertEqual(self.value_at(1, f"{{{moves}}}new"), b"10")

    def test_nodes_of_a_redis_cluster_are_as_before(self):
        key = self.keys_of(0, 1)[0]
        self.follower("--cluster_nodes=redis://127.0.0.1:1,redis://127.0.0.1:2", "--cluster_announce=redis://127.0.0.1:1")
        wire = self.wire()
        nodes = wire.call("CLUSTER", "SLOTS")
        self.give(SWAPPED)
        self.replace_file(SWAPPED)
        self.assertEqual(wire.call("SET", f"{{{key}}}new", 1), b"+OK\r\n")
        self.assertEqual(wire.call("CLUSTER", "SLOTS"), nodes)


class NoOwnerTest(Base):
    def test_commands_end_with_the_timeout(self):
        key = self.keys_of(0, 1)[0]
        self.follower(timeout=300)
        wire = self.wire()
        self.give(SWAPPED)
        for words in (("SET", f"{{{key}}}a", 1), ("INCR", f"{{{key}}}b"), ("INCRBYFLOAT", f"{{{key}}}c", 1)):
            reply = wire.call(*words)
            self.assertRegex(reply, rb"^-ERR shard 0 .*: slot \d+ of the key is another server's, and nothing was done")
        self.replace_file(SWAPPED)
        self.assertEqual(wire.call("INCR", f"{{{key}}}b"), b":1\r\n")

    def test_a_file_with_other_shards_is_not_taken(self):
        key = self.keys_of(0, 1)[0]
        self.follower()
        wire = self.wire()
        self.give(SWAPPED)
        self.topology.write_text(f"remora-topology 2\ncluster {self.cluster}\nshard a 0-16383 {self.addresses[1]}\n")
        self.assertRegex(wire.call("SET", f"{{{key}}}a", 1), rb"^-ERR shard 0 .* is another server's")

    def test_a_gate_ends_while_commands_wait(self):
        key = self.keys_of(0, 1)[0]
        gate = self.follower()
        wire = self.wire()
        self.give(SWAPPED)
        self.pipeline(wire, [("INCR", f"{{{key}}}a")] * 3)
        harness.wait_until(lambda: self.moved_requests() > 3, "the gate tries again")
        self.assertEqual(gate.stop(), (0, b""))

    def test_one_server_is_no_cluster(self):
        foreign = self.keys_of(1, 1)[0]
        self.gate(f"--server={self.addresses[0]}")
        wire = self.wire()
        for operation, *words in (
            (b"write", "SET", foreign, 1), (b"write", "INCR", foreign), (b"get", "INCRBYFLOAT", foreign, 1),
            (b"get", "GETSET", foreign, 1), (b"get", "GET", foreign), (b"get", "EXISTS", foreign),
        ):  # fmt: skip
            self.assertRegex(wire.call(*words), rb"^-ERR %b: slot \d+ of the key is another server's" % operation)


if __name__ == "__main__":
    unittest.main()
