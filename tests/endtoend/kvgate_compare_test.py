"""The same commands to a real redis-server and to kvgate: their replies are the same bytes."""

import pathlib
import shlex
import time
import unittest

import redis_pair

LEAST_COMMANDS = 90


def script(name):
    """The commands, each as words. @NOW+5 is the Unix time in 5 s, @NOWMS+5 in 5 ms; \\n and the like are bytes."""
    now = int(time.time())
    for line in pathlib.Path(__file__).with_name(name).read_text(encoding="utf-8").splitlines():
        if not line or line.startswith("#"):
            continue
        words = []
        for word in shlex.split(line):
            if word.startswith(("@NOW", "@MS")):
                base = now if word.startswith("@NOW") else now * 1000
                word = str(base + int(word[word.index("+" if "+" in word else "-"):]))
            words.append(word.encode().decode("unicode_escape").encode("latin-1"))
        yield words


# Replies of a time that goes on, and how far they may be apart.
ABOUT = {b"PTTL": 10_000, b"TTL": 10}


class CompareTest(redis_pair.TestCase):
    def setUp(self):
        super().setUp()
        self.memory_server()
        self.gate()
        self.redis_path = self.redis()

    def compare(self, protocol, name):
        theirs, ours = self.wire(self.redis_path), self.wire()
        for wire in (theirs, ours):
            wire.call("HELLO", protocol)
            wire.call("FLUSHALL")
        count = 0
        differences = []
        for words in script(name):
            expected, got = theirs.call(*words), ours.call(*words)
            if words[0].upper() in ABOUT and expected[:1] == b":" and int(expected[1:]) > 0:
                self.assertEqual(got[:1], b":", words)
                self.assertLess(abs(int(expected[1:]) - int(got[1:])), ABOUT[words[0].upper()], words)
            else:
                if got != expected:
                    differences.append((words, got, expected))
            count += 1
        self.assertEqual(differences, [])
        self.assertGreaterEqual(count, LEAST_COMMANDS)

    def test_commands(self):
        for protocol in (2, 3):
            self.compare(protocol, "kvgate_commands.txt")

    def test_keys(self):
        for protocol in (2, 3):
            self.compare(protocol, "kvgate_keys.txt")

    def test_transactions(self):
        for protocol in (2, 3):
            self.compare(protocol, "kvgate_transactions.txt")

    def test_what_breaks_the_protocol(self):
        inputs = [
            b"*1\r\n:3\r\n", b"*1\r\n$x\r\n", b"*1\r\n$-1\r\n", b"*1\r\n$536870913\r\n", b"*x\r\n",
            b"*2147483648\r\n", b"*99999999999999999999\r\n", b"*1\r\n*1\r\n$1\r\na\r\n", b"get \"key\r\n", b"get 'a'b\r\n",
            b"a" * 70000, b"*" + b"1" * 70000, b"*1\r\n$" + b"1" * 70000,
        ]  # fmt: skip
        for data in inputs:
            replies = []
            for path in (self.redis_path, self.gate_path):
                wire = self.wire(path)
                wire.send(data)
                replies.append(wire.reply())
                try:
                    self.assertEqual(wire.input.read(), b"", data[:20])
                except ConnectionResetError:
                    pass
            self.assertEqual(replies[1], replies[0], data[:20])

    def test_inline_commands(self):
        theirs, ours = self.wire(self.redis_path), self.wire()
        for line in (b"PING", b"set k \"a b\\x41\\n\"", b"get k", b"", b"  ", b"SET 'a b' 'c\\'d'", b"GET \"a b\"",
                     b"get", b"nothing here"):  # fmt: skip
            for wire in (theirs, ours):
                wire.send(line + b"\r\nECHO end\n")
            while True:
                expected, got = theirs.reply(), ours.reply()
                self.assertEqual(got, expected, line)
                if expected == b"$3\r\nend\r\n":
                    break

    def test_pipelines_keep_the_order(self):
        theirs, ours = self.wire(self.redis_path), self.wire()
        commands = []
        for i in range(200):
            commands += [("SET", f"k{i % 7}", i), ("GET", f"k{i % 7}"), ("INCR", "n"), ("APPEND", f"a{i % 3}", i),
                         ("GET", "n"), ("DEL", f"k{(i + 3) % 7}"), ("MGET", "k1", "n", "k2"), ("PING", i),
                         ("SET", f"k{i % 7}", i + 1), ("SET", f"k{i % 7}", i + 2, "GET"), ("STRLEN", f"a{i % 3}"),
                         ("NOSUCH", i)]  # fmt: skip
        for wire in (theirs, ours):
            wire.send(b"".join(redis_pair.request(*command) for command in commands))
        for command in commands:
            self.assertEqual(ours.reply(), theirs.reply(), command)


if __name__ == "__main__":
    unittest.main()
