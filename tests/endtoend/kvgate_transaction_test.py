"""Transactions of kvgate: all or nothing, as of one moment, and with clients that never come to their end."""

import itertools
import random
import threading
import unittest

import harness
import redis_pair
from transfer_test import Relay

MIB = 1 << 20
ABORTED = b"*-1\r\n"


class HoldingRelay(Relay):
    """A relay that can hold up what the server sends: `held` is set then, until `release` is."""

    def __init__(self, port):
        self.held, self.release = threading.Event(), threading.Event()
        self.left = None
        super().__init__(port)

    def hold_after(self, count):
        """The next bytes of the server, behind so many, are held up."""
        self.held.clear()
        self.release.clear()
        self.left = count

    def pass_on(self, some, to, is_of_server):
        if is_of_server and self.left is not None:
            self.left -= len(some)
            if self.left < 0:
                self.left = None
                self.held.set()
                self.release.wait()
        super().pass_on(some, to, is_of_server)

    def close(self):
        self.release.set()
        super().close()


class Base(redis_pair.TestCase):
    def setUp(self):
        super().setUp()
        self.start()
        self.served = self.gate("--threads=2")

    def start(self):
        self.memory_server(memory="256M")

    def run_together(self, *functions):
        """Runs the functions in threads; fails with what any of them raises."""
        failures = []

        def run(function):
            try:
                function()
            except BaseException as failure:  # pylint: disable=broad-except
                failures.append(failure)

        threads = [threading.Thread(target=run, args=[function]) for function in functions]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]

    def execute(self, wire, *commands):
        """Sends a transaction as one piece; returns the reply to EXEC."""
        wire.send(redis_pair.request("MULTI") + b"".join(redis_pair.request(*command) for command in commands))
        wire.send(redis_pair.request("EXEC"))
        replies = [wire.reply() for _ in range(len(commands) + 2)]
        self.assertEqual(replies[:-1], [b"+OK\r\n"] + [b"+QUEUED\r\n"] * len(commands))
        return replies[-1]


class TransactionTest(Base):
    def test_no_increment_is_lost(self):
        def count():
            wire = redis_pair.Wire(self.gate_path)
            for _ in range(100):
                reply = self.execute(wire, ("INCR", "a"), ("APPEND", "text", "x"), ("INCRBY", "b", -1), ("STRLEN", "text"))
                # The replies of one transaction fit together.
                a, size, b, again = (int(number) for number in reply.replace(b"\r\n", b"").split(b":")[1:])
                self.assertEqual((a, a, a), (size, -b, again))
            wire.close()

        self.run_together(*[count] * 4)
        self.assertEqual(self.wire().call("MGET", "a", "b"), b"*2\r\n$3\r\n400\r\n$4\r\n-400\r\n")

    def test_watching_clients_lose_nothing(self):
        def count():
            wire, done = redis_pair.Wire(self.gate_path), 0
            while done < 50:
                wire.call("WATCH", "n")
                old = wire.call("GET", "n")
                new = 1 if old == b"$-1\r\n" else int(old.split(b"\r\n")[1]) + 1
                reply = self.execute(wire, ("SET", "n", new))
                self.assertIn(reply, (ABORTED, b"*1\r\n+OK\r\n"))
                done += reply != ABORTED
            wire.close()

        self.run_together(*[count] * 3)
        self.assertEqual(self.wire().call("GET", "n"), b"$3\r\n150\r\n")

    def test_reads_are_of_one_moment(self):
        # Two keys, of which exactly one exists: a writer moves the value, and readers never see both or none.
        stop = threading.Event()
        self.wire().call("SET", "left", "v")

        def move():
            wire = redis_pair.Wire(self.gate_path)
            for i in range(300):
                here, there = ("left", "right") if i % 2 == 0 else ("right", "left")
                reply = self.execute(wire, ("GETDEL", here), ("SET", there, "v"))
                self.assertEqual(reply, b"*2\r\n$1\r\nv\r\n+OK\r\n")
            stop.set()
            wire.close()

        def read():
            wire, seen = redis_pair.Wire(self.gate_path), set()
            while not stop.is_set():
                order = random.sample(["left", "right"], 2)
                reply = self.execute(wire, *[("EXISTS", key) for key in order])
                self.assertIn(reply, (b"*2\r\n:0\r\n:1\r\n", b"*2\r\n:1\r\n:0\r\n"))
                seen.add((order[0], reply))
                reply = self.execute(wire, ("MGET", *order), ("SET", "seen", 1))
                self.assertEqual(reply.count(b"$1\r\nv\r\n"), 1, reply)
            wire.close()

        self.run_together(move, read, read)

    def test_reads_far_apart_are_of_one_moment(self):
        # Between its two reads of the keys, a transaction reads a value. The move falls in between: the value is held
        # up until it is over.
        port = harness.free_port()
        address = f"tcp://127.0.0.1:{port}"
        self.memory_server(address=address)
        relay = HoldingRelay(port)
        self.addCleanup(relay.close)
        gate = redis_pair.Gate(
            f"--listen=redis://{self.folder}/far.sock", f"--server=tcp://127.0.0.1:{relay.port}", f"--timeout={harness.PATIENCE * 1000}"
        )
        self.addCleanup(gate.close)
        wire = self.wire(f"{self.folder}/far.sock")
        wire.call("SET", "large", bytes(2 * MIB))
        wire.call("SET", "left", "v")
        for here, there in ("left", "right"), ("right", "left"):
            relay.hold_after(MIB)
            words = [("MULTI",), ("EXISTS", "left"), ("STRLEN", "large"), ("EXISTS", "right"), ("EXEC",)]
            wire.send(b"".join(redis_pair.request(*command) for command in words))
            self.assertTrue(relay.held.wait(harness.PATIENCE))
            for command in ("delete", here), ("put", there, "v"):
                self.assertEqual(harness.kvctl(address, *command).returncode, 0)
            relay.release.set()
            self.assertEqual([wire.reply() for _ in words][-1].count(b":1\r\n"), 1)

    def test_a_missing_key_that_was_read_stays_missing(self):
        # Each client takes the lock if nobody has it. The transactions read it, and write other keys alone.
        taken = []

        def take(name):
            wire = redis_pair.Wire(self.gate_path)
            for i in range(60):
                wire.call("WATCH", f"lock {i}")
                if wire.call("EXISTS", f"lock {i}") == b":0\r\n":
                    if self.execute(wire, ("SET", f"lock {i}", name), ("EXISTS", "none")) != ABORTED:
                        taken.append(i)
            wire.close()

        self.run_together(*[lambda name=name: take(name) for name in range(3)])
        self.assertEqual(sorted(taken), list(range(60)))

    def test_watched_keys(self):
        wire, other = self.wire(), self.wire()
        for change in (("SET", "k", "new"), ("DEL", "k"), ("EXPIRE", "k", 100), ("PERSIST", "k"), ("INCR", "m"),
                       ("MSET", "k", 1, "z", 2)):  # fmt: skip
            other.call("SET", "k", "v", "EX", 1000)
            other.call("DEL", "m")
            self.assertEqual(wire.call("WATCH", "k", "m"), b"+OK\r\n")
            other.call(*change)
            for commands in ([("SET", "x", 1)], [("GET", "k")], [("SET", "k", "mine")], [("PING",)], []):
                if commands != [("SET", "x", 1)]:
                    wire.call("WATCH", "k", "m")
                    other.call(*(("SET", "k", "v") if change[0] != "INCR" else change))
                self.assertEqual(self.execute(wire, *commands), ABORTED, (change, commands))
            self.assertEqual(wire.call("EXISTS", "x"), b":0\r\n")
            # Only once.
            self.assertEqual(self.execute(wire, ("PING",)), b"*1\r\n+PONG\r\n")
        self.watch_before_it_expires(wire, other)
        harness.wait_until(lambda: other.call("EXISTS", "k") == b":0\r\n", "it has expired")
        self.assertEqual(self.execute(wire, ("PING",)), ABORTED)
        wire.call("WATCH", "k")
        other.call("GET", "k")
        self.assertEqual(self.execute(wire, ("SET", "k", 1)), b"*1\r\n+OK\r\n")
        self.assertIn(b"-ERR WATCH: a connection watches up to 1024 keys", wire.call("WATCH", *range(1025)))
        self.assertEqual(wire.call("WATCH", *range(1024)), b"+OK\r\n")
        self.assertEqual(self.execute(wire, ("PING",)), b"*1\r\n+PONG\r\n")

    def watch_before_it_expires(self, wire, other):
        """Watches `k`, which will expire: with more time, until it is there behind WATCH."""
        for i in range(12):
            other.call("SET", "k", "v", "PX", 30 << i)
            self.assertEqual(wire.call("WATCH", "k"), b"+OK\r\n")
            if other.call("EXISTS", "k") == b":1\r\n":
                return
            wire.call("UNWATCH")
        self.fail("no key lives until it is watched")

    def test_what_a_batch_cannot_hold(self):
        wire = self.wire()
        value = b"v" * (200 << 10)
        reply = self.execute(wire, ("SET", "a", value), ("SET", "b", value))
        self.assertIn(b"-EXECABORT Transaction discarded because of: a batch of 409", reply)
        reply = self.execute(wire, *[("SET", f"k{i}", i) for i in range(1025)])
        self.assertIn(b"-EXECABORT Transaction discarded because of: a batch of 1025 writes", reply)
        self.assertEqual(wire.call("DBSIZE"), b":0\r\n")
        # One key may have any size, and reads of it.
        large = b"v" * (3 * MIB)
        reply = self.execute(wire, ("SET", "large", large), ("STRLEN", "large"))
        self.assertEqual(reply, b"*2\r\n+OK\r\n:%d\r\n" % len(large))
        self.assertEqual(self.execute(wire, ("STRLEN", "large"), ("EXPIREAT", "large", 4102444800)), b"*2\r\n:%d\r\n:1\r\n" % len(large))
        self.assertEqual(wire.call("EXPIRETIME", "large"), b":4102444800\r\n")
        reply = self.execute(wire, *[("GET", "large")] * 50)
        self.assertIn(b"-EXECABORT Transaction discarded because of: its replies have more than", reply)
        for command in (("KEYS", "*"), ("SCAN", 0), ("RANDOMKEY",), ("DBSIZE",), ("FLUSHALL",)):
            wire.call("MULTI")
            self.assertEqual(wire.call(*command), b"-ERR Command not allowed inside a transaction\r\n")
            self.assertIn(b"-EXECABORT", wire.call("EXEC"))
        self.assertIn(b"-ERR CLIENT REPLY", self.execute(wire, ("CLIENT", "REPLY", "OFF"), ("PING",)))
        for key in (b"", b"k" * 4097):
            reply = self.execute(wire, ("SET", key, 1), ("GET", key), ("DEL", key), ("SET", "fine", 1))
            self.assertIn(b"-ERR key: it has %d bytes" % len(key), reply)
            self.assertTrue(reply.endswith(b"$-1\r\n:0\r\n+OK\r\n"), reply)

    def test_pipelines_of_transactions(self):
        wire = self.wire()
        data = b""
        for i in range(50):
            data += b"WATCH n\r\nMULTI\r\nINCR n\r\nPING\r\nGET n\r\nEXEC\r\nPING\r\nMULTI\r\nSET n 7\r\nDISCARD\r\nGET n\r\n"
        wire.send(data)
        for i in range(1, 51):
            replies = [wire.reply() for _ in range(11)]
            n = b"%d" % i
            self.assertEqual(replies[5], b"*3\r\n:%b\r\n+PONG\r\n$%d\r\n%b\r\n" % (n, len(n), n))
            self.assertEqual(replies[10], b"$%d\r\n%b\r\n" % (len(n), n))


class LoggedTransactionTest(TransactionTest):
    def start(self):
        self.logged_server(memory="256M")


class HostileTransactionTest(Base):
    """Clients that take memory of the gate alone: the server and its levels have no part in it."""

    def check(self, before):
        self.assertEqual(self.wire().call("PING"), b"+PONG\r\n")
        self.assertLess(self.served.resident() - before, 96 * MIB)

    def test_a_million_commands(self):
        before = self.served.resident()
        wire = self.wire()
        self.assertEqual(wire.call("MULTI"), b"+OK\r\n")
        queued = 0
        for _ in range(1000):
            wire.send(b"SET key value\r\n" * 1000)
            queued += sum(line == b"+QUEUED\r\n" for line in itertools.islice(wire.input, 1000))
        self.assertEqual(queued, 999_999)  # one says that it is too much; nothing is kept behind it
        self.check(before)
        self.assertIn(b"-EXECABORT", wire.call("EXEC"))
        self.assertEqual(wire.call("EXISTS", "key"), b":0\r\n")

    def test_a_million_watched_keys(self):
        before = self.served.resident()
        wire = self.wire()
        wire.send(b"*1000001\r\n$5\r\nWATCH\r\n" + b"".join(b"$7\r\n%07d\r\n" % i for i in range(1_000_000)))
        self.assertIn(b"-ERR WATCH: a connection watches up to 1024 keys", wire.reply())
        self.check(before)

    def test_many_clients_that_never_execute(self):
        before = self.served.resident()
        wires = [self.wire() for _ in range(12)]
        rejected = 0
        for wire in wires:
            wire.call("MULTI")
            for _ in range(30):
                rejected += wire.call("SET", "k", bytes(MIB)).startswith(b"-ERR the transaction is too large")
        self.assertGreater(rejected, 0)
        self.assertLess(self.served.resident() - before, 320 * MIB)
        for wire in wires:
            wire.close()
        fresh = self.wire()

        def has_space():
            fresh.call("MULTI")
            return fresh.call("SET", "k", 1) == b"+QUEUED\r\n" and fresh.call("EXEC") == b"*1\r\n+OK\r\n"

        harness.wait_until(has_space, "the others' queues are gone")


class SyncedTransactionTest(redis_pair.TestCase):
    def test_writes_that_wait_for_the_disk(self):
        self.server("--durability=synced", f"--data_dir={self.folder}/data", "--memory=64M")
        self.gate()

        def count():
            wire = redis_pair.Wire(self.gate_path)
            for _ in range(20):
                wire.send(b"MULTI\r\nINCR n\r\nEXISTS other\r\nEXEC\r\n")
                for _ in range(3):
                    wire.reply()
                self.assertTrue(wire.reply().endswith(b":0\r\n"))
            wire.close()

        threads = [threading.Thread(target=count) for _ in range(3)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        self.assertEqual(self.wire().call("GET", "n"), b"$2\r\n60\r\n")


if __name__ == "__main__":
    unittest.main()
