"""The same commands to a real redis-server and to kvgate: their replies are the same bytes."""

import pathlib
import shlex
import time
import unittest

import harness
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


class Comparison(redis_pair.TestCase):
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


class CompareTest(Comparison):
    def setUp(self):
        super().setUp()
        self.memory_server()
        self.gate()
        self.redis_path = self.redis()

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


class RemoteTest(Comparison):
    """A gate beside the program, and a server that it reaches over the network."""

    def compare_all(self):
        self.redis_path = self.redis()
        for name in ("kvgate_commands.txt", "kvgate_keys.txt", "kvgate_transactions.txt"):
            self.compare(3, name)

    def test_over_tcp(self):
        self.address = f"tcp://127.0.0.1:{harness.free_port()}"
        self.memory_server()
        self.gate()
        self.compare_all()

    def test_over_tls_with_a_token(self):
        token = self.make_token("gate")
        self.address = f"tls://127.0.0.1:{harness.free_port()}"
        self.memory_server(f"--tokens={self.write('tokens', token)}")
        self.gate(f"--token_file={self.write('gate', token)}")
        self.compare_all()


class CostTest(redis_pair.TestCase):
    def test_the_server_thread_sees_no_get(self):
        for address in (self.address, f"tcp://127.0.0.1:{harness.free_port()}"):
            with self.subTest(address=address.split(":")[0]):
                self.address = address
                server = self.memory_server()
                gate = self.gate()
                wire = self.wire()
                keys = [f"key {i}" for i in range(100)]
                for key in keys:
                    self.assertEqual(wire.call("SET", key, f"value of {key}"), b"+OK\r\n")
                before = harness.stats(address)["receive_completions"]
                of_asking = harness.stats(address)["receive_completions"] - before
                for key in keys * 10:
                    value = f"value of {key}".encode()
                    self.assertEqual(wire.call("GET", key), b"$%d\r\n%b\r\n" % (len(value), value))
                for _ in range(10):
                    self.assertTrue(wire.call("MGET", *keys).startswith(b"*100\r\n"))
                # Of 2,000 reads, the gate reports at most some.
                after = harness.stats(address)["receive_completions"]
                self.assertLess(after - before - 2 * of_asking, 20)
                self.assertEqual(gate.stop()[0], 0)
                self.assertEqual(server.stop()[0], 0)


if __name__ == "__main__":
    unittest.main()
