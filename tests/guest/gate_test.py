"""kvgate that reaches its server over verbs: commands of each group, large values and the server's restart. The server's
thread sees no GET. in_guest.sh runs it beside an RDMA device, whose address is in REMORA_VERBS_HOST.
"""

import os
import pathlib
import sys
import unittest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1] / "endtoend"))
import harness  # noqa: E402
import redis_pair  # noqa: E402

LARGE = 700_000


class GateOverVerbsTest(redis_pair.TestCase):
    def setUp(self):
        super().setUp()
        self.address = f"verbs://{os.environ['REMORA_VERBS_HOST']}:7476"

    def serve(self):
        return self.logged_server("--insecure_open")

    def test_commands(self):
        self.serve()
        self.gate()
        wire = self.wire()
        large = os.urandom(LARGE)
        for words, reply in (
            (("SET", "a", "1"), b"+OK\r\n"), (("GET", "a"), b"$1\r\n1\r\n"), (("GET", "none"), b"$-1\r\n"),
            (("SET", "a", "2", "NX"), b"$-1\r\n"), (("INCRBY", "a", 41), b":42\r\n"), (("APPEND", "a", "x"), b":3\r\n"),
            (("INCR", "a"), b"-ERR value is not an integer or out of range\r\n"), (("STRLEN", "a"), b":3\r\n"),
            (("MSET", "b", "2", "c", "3"), b"+OK\r\n"), (("MGET", "b", "none", "c"), b"*3\r\n$1\r\n2\r\n$-1\r\n$1\r\n3\r\n"),
            (("EXPIRE", "b", 1000), b":1\r\n"), (("PERSIST", "b"), b":1\r\n"), (("EXISTS", "a", "b", "none"), b":2\r\n"),
            (("DEL", "a", "none"), b":1\r\n"), (("DBSIZE",), b":2\r\n"), (("SET", "large", large), b"+OK\r\n"),
            (("GET", "large"), b"$%d\r\n%b\r\n" % (LARGE, large)), (("GETRANGE", "large", 5, 8), b"$4\r\n%b\r\n" % large[5:9]),
            (("MULTI",), b"+OK\r\n"), (("SET", "d", "4"), b"+QUEUED\r\n"), (("INCR", "d"), b"+QUEUED\r\n"),
            (("EXEC",), b"*2\r\n+OK\r\n:5\r\n"),
        ):  # fmt: skip
            self.assertEqual(wire.call(*words), reply, words)

    def test_a_restart_of_the_server(self):
        server = self.serve()
        self.gate()
        wire = self.wire()
        self.assertEqual(wire.call("SET", "key", "value"), b"+OK\r\n")
        self.assertEqual(server.stop()[0], 0)
        self.serve()
        harness.wait_until(lambda: wire.call("GET", "key") == b"$5\r\nvalue\r\n", "the gate has connected again")
        self.assertEqual(wire.call("SET", "key", "other"), b"+OK\r\n")

    def test_the_server_thread_sees_no_get(self):
        self.serve()
        self.gate()
        wire = self.wire()
        self.assertEqual(wire.call("SET", "key", "value"), b"+OK\r\n")
        before = harness.stats(self.address)["receive_completions"]
        of_asking = harness.stats(self.address)["receive_completions"] - before
        for _ in range(200):
            self.assertEqual(wire.call("GET", "key"), b"$5\r\nvalue\r\n")
        # The gate reports some reads, so that the server knows what is used.
        after = harness.stats(self.address)["receive_completions"]
        self.assertLess(after - before - 2 * of_asking, 20)


if __name__ == "__main__":
    unittest.main()
