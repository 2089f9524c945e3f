"""SCAN, KEYS, RANDOMKEY and FLUSHALL of kvgate, on both kinds of stores."""

import unittest

import redis_pair


def parts(reply):
    """The bulk strings of a reply, in order."""
    return [line for line in reply.split(b"\r\n") if line and line[:1] not in b"*$~%"]


class ScanTest(redis_pair.TestCase):
    KEYS = 2500

    def serve(self, kind):
        {"memory": self.memory_server, "logged": self.logged_server}[kind]()
        self.gate("--threads=2")
        wire = self.wire()
        for begin in range(0, self.KEYS, 500):
            wire.call("MSET", *[word for i in range(begin, begin + 500) for word in (f"key {i % 7}/{i}", i)])
        self.keys = {f"key {i % 7}/{i}".encode() for i in range(self.KEYS)}
        return wire

    def scan(self, wire, *options, between=lambda: None):
        cursor, keys = b"0", []
        while True:
            cursor, *some = parts(wire.call("SCAN", cursor, *options))
            keys += some
            if cursor == b"0":
                return keys
            between()

    def both(self, test):
        for kind in ("memory", "logged"):
            with self.subTest(kind):
                self.tearDown()
                self.doCleanups()
                self.setUp()
                test(self.serve(kind))

    def test_each_key_comes_once(self):
        def check(wire):
            for options in ((), ("COUNT", 1000), ("COUNT", 100_000), ("TYPE", "string", "COUNT", 333)):
                keys = self.scan(wire, *options)
                self.assertEqual(len(keys), self.KEYS)
                self.assertEqual(set(keys), self.keys)
            wanted = {key for key in self.keys if key.startswith(b"key 3/") and key.endswith(b"1")}
            self.assertEqual(set(self.scan(wire, "MATCH", "key 3/*1")), wanted)
            self.assertEqual(set(parts(wire.call("KEYS", "key 3/*1"))), wanted)
            self.assertEqual(set(parts(wire.call("KEYS", "*"))), self.keys)
            self.assertEqual(self.scan(wire, "TYPE", "list"), [])

        self.both(check)

    def test_keys_that_stay_come_once_while_others_change(self):
        def check(wire):
            other, number = self.wire(), iter(range(10**6))

            def change():
                i = next(number)
                other.call("MSET", f"new {i}", 1, f"also {i}", 2)
                other.call("DEL", f"new {i - 3}", f"also {i - 5}")
                other.call("SET", f"key 0/{i * 7}", "changed", "XX")

            keys = self.scan(wire, "COUNT", 50, between=change)
            self.assertEqual(len(keys), len(set(keys)))
            self.assertLessEqual(self.keys, set(keys))

        self.both(check)

    def test_cursors(self):
        wire, other = self.serve("memory"), self.wire()
        first, *_ = parts(wire.call("SCAN", 0, "COUNT", 100))
        # A step may be taken again, also by another connection, and in another thread of the gate.
        self.assertEqual(parts(wire.call("SCAN", first, "COUNT", 70))[1:], parts(other.call("SCAN", first, "COUNT", 70))[1:])
        for cursor in (1, 2**63, int(first) + 1000, int(first) - 1):
            self.assertIn(b"-ERR the cursor %d is not known" % cursor, wire.call("SCAN", cursor))
        # So many scans that nobody continues, and the gate forgets the first one.
        wire.send(redis_pair.request("SCAN", 0) * 1100)
        cursors = {parts(wire.reply())[0] for _ in range(1100)}
        self.assertEqual(len(cursors), 1100)
        self.assertIn(b"is not known", wire.call("SCAN", first))

    def test_random_key(self):
        def check(wire):
            seen = {parts(wire.call("RANDOMKEY"))[0] for _ in range(200)}
            self.assertLessEqual(seen, self.keys)
            self.assertGreater(len(seen), 20)
            wire.call("FLUSHALL")
            self.assertEqual(wire.call("RANDOMKEY"), b"$-1\r\n")
            wire.call("SET", "one", 1)
            self.assertEqual(wire.call("RANDOMKEY"), b"$3\r\none\r\n")

        self.both(check)

    def test_flush(self):
        def check(wire):
            self.assertEqual(wire.call("FLUSHDB", "ASYNC"), b"+OK\r\n")
            self.assertEqual(wire.call("DBSIZE"), b":0\r\n")
            self.assertEqual(wire.call("KEYS", "*"), b"*0\r\n")

        self.both(check)

    def test_names_that_are_too_much_for_one_reply(self):
        self.memory_server(memory="512M")
        self.gate()
        wire = self.wire()
        for begin in range(0, 18_000, 60):
            wire.call("MSET", *[word for i in range(begin, begin + 60) for word in (f"{i:04096}", "")])
        self.assertIn(b"-ERR keys: the names, with 64 bytes for each, have more than 67108864 bytes; use SCAN",
                      wire.call("KEYS", "*"))  # fmt: skip
        self.assertEqual(wire.call("KEYS", "*none"), b"*0\r\n")


if __name__ == "__main__":
    unittest.main()
