"""kvgate with hostile clients: junk, lengths, half commands, pipelines that nobody reads. Its memory stays bounded."""

import contextlib
import socket
import threading
import time
import unittest

import harness
import redis_pair

MIB = 1 << 20


class HostileTest(redis_pair.TestCase):
    # Growth of the gate, in bytes, whatever clients send or do not read.
    MOST_MEMORY = 32 * MIB

    def setUp(self):
        super().setUp()
        self.memory_server(memory="256M")
        self.served = self.gate()
        self.other = self.wire()
        self.other.call("SET", "k", "v" * 1000)
        self.before = self.served.resident()

    def check(self, most=MOST_MEMORY):
        """Others are served, and the memory is in its bounds."""
        self.assertEqual(self.other.call("PING"), b"+PONG\r\n")
        self.assertTrue(self.other.call("GET", "k").startswith(b"$1000\r\n"))
        self.assertLess(self.served.resident() - self.before, most)

    def test_lengths_that_never_come(self):
        wires = [self.wire() for _ in range(50)]
        for wire in wires:
            wire.send(b"*1048576\r\n$67108000\r\nabc")
        self.check()

    def test_a_value_beyond_the_maximum_is_skipped(self):
        wire = self.wire()
        wire.send(b"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n" % (100 * MIB))
        for _ in range(100):
            wire.send(b"v" * MIB)
        wire.send(b"\r\nPING\r\n")
        self.assertIn(b"-ERR string exceeds maximum allowed size", wire.reply())
        self.assertEqual(wire.reply(), b"+PONG\r\n")
        self.check()

    def test_a_million_arguments(self):
        wire = self.wire()
        wire.send(b"*1048576\r\n$6\r\nEXISTS\r\n" + b"$1\r\nk\r\n" * 1048575)
        self.assertEqual(wire.reply(), b":1048575\r\n")
        self.check()
        wire.send(b"*1048577\r\n")
        self.assertIn(b"invalid multibulk length", wire.reply())

    def test_a_hundred_thousand_commands_in_a_pipeline(self):
        for command in (redis_pair.request("GET", "k"), b"PING\r\n"):
            wire = self.wire()
            data = command * 100_000
            sender = threading.Thread(target=wire.send, args=[data])
            sender.start()
            time.sleep(0.2)  # it does not read yet
            self.check()
            first = wire.reply()
            for _ in range(99_999):
                self.assertEqual(wire.reply(), first)
            sender.join()
            self.check()

    def test_a_reader_that_never_reads(self):
        self.other.call("SET", "large", "v" * (4 * MIB))
        self.before = self.served.resident()
        wires = [self.wire() for _ in range(8)]
        for wire in wires:
            wire.socket.setblocking(False)
            try:
                while True:
                    wire.socket.send(redis_pair.request("GET", "k") * 100)
            except BlockingIOError:
                pass
        self.check()
        # None of its replies is taken; and they begin before the gate knows how large they are.
        for command in (("GET", "large"), ("MGET", "large", "large")):
            wire = self.wire()
            wire.send(redis_pair.request(*command) * 12)
            time.sleep(0.5)
            self.check(64 * MIB)
            for _ in range(12):
                self.assertEqual(wire.reply().count(b"$4194304\r\n"), len(command) - 1)
            self.check(64 * MIB)

    def peak_of_a_reader_that_never_reads(self, data):
        """Sends what the gate takes of the requests, and reads nothing. Returns the growth of its memory at most."""
        peaks = []
        ended = threading.Event()

        def watch():
            while not ended.is_set():
                peaks.append(self.served.resident() - self.before)
                time.sleep(0.002)

        watcher = threading.Thread(target=watch)
        watcher.start()
        wire = self.wire()
        wire.socket.settimeout(0.5)
        rest = memoryview(data)
        with contextlib.suppress(TimeoutError):
            while rest:
                rest = rest[wire.socket.send(rest[: 64 << 10]) :]
        time.sleep(0.5)
        ended.set()
        watcher.join()
        self.check()
        wire.close()
        return max(peaks)

    def test_sixty_megabytes_of_replies_that_nobody_reads(self):
        value = bytes(100_000)
        self.other.call("SET", "middle", value)
        self.other.call("SET", "large", bytes(2 * MIB))
        small, middle, large = (redis_pair.request("GET", key) for key in ("k", "middle", "large"))
        # Those that begin first do not tell how large the others are.
        pipelines = {
            "small": small * 60_000,
            "middle": middle * 600,
            "large behind small": (small * 64 + large * 64) * 2,
            "several": redis_pair.request("MGET", *["middle"] * 6) * 100,
            "no server": redis_pair.request("ECHO", value) * 600,
            "transactions": (b"MULTI\r\n" + middle * 10 + b"EXEC\r\n") * 60,
            "descriptions": redis_pair.request("COMMAND") * 4000,
        }
        for name, data in pipelines.items():
            with self.subTest(name):
                self.assertLess(self.peak_of_a_reader_that_never_reads(data), self.MOST_MEMORY)

    def test_values_that_are_too_much_for_one_reply(self):
        self.other.call("SET", "large", bytes(8 * MIB))
        self.before = self.served.resident()
        reply = self.other.call("MGET", *["large"] * 20)
        self.assertTrue(reply.startswith(b"-ERR mget: the values have more than"), reply[:100])
        self.check()

    def test_large_requests_are_done_one_by_one(self):
        wire = self.wire()
        value = bytes(4 * MIB)
        for command in (("SET", "large", value), ("ECHO", value)):
            sender = threading.Thread(target=wire.send, args=[redis_pair.request(*command) * 16])
            sender.start()
            time.sleep(0.5)
            self.check()
            for _ in range(16):
                self.assertIn(wire.reply()[:4], (b"+OK\r", b"$419"))
            sender.join()

    def test_half_commands_and_junk(self):
        for data in (b"*2\r\n$3\r\nGET\r\n$1\r\n", b"\x00\xff\x16\x03\x01", b"GET", b"*", b"$5\r\nhello\r\n",
                     b"*1\r\n*1\r\n*1\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n"):  # fmt: skip
            for end in (socket.SHUT_WR, socket.SHUT_RDWR):
                wire = self.wire()
                wire.send(data)
                wire.socket.shutdown(end)
        self.check()
        harness.wait_until(
            lambda: self.other.call("CLIENT", "LIST").count(b"id=") == 1, "the connections are over")  # fmt: skip

    def test_a_page_in_a_browser_runs_no_command(self):
        for head in (b"POST / HTTP/1.1\r\nHost: x\r\n\r\n", b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
                     b"put / HTTP/1.1\r\nhost: x\r\n\r\n", b"*2\r\n$4\r\nPOST\r\n$1\r\n/\r\n"):  # fmt: skip
            wire = self.wire()
            wire.send(head + b"SET of_a_page yes\r\nFLUSHALL\r\n")
            with contextlib.suppress(ConnectionResetError):  # It is closed with bytes that nobody read.
                self.assertNotIn(b"OK", wire.input.read())
        self.assertEqual(self.other.call("EXISTS", "of_a_page", "k"), b":1\r\n")
        self.check()

    def test_replies_reach_a_client_that_sends_no_more(self):
        wire = self.wire()
        wire.send(redis_pair.request("SET", "a", "b") + redis_pair.request("GET", "a"))
        wire.socket.shutdown(socket.SHUT_WR)
        self.assertEqual(wire.input.read(), b"+OK\r\n$1\r\nb\r\n")

    def test_too_many_clients(self):
        self.assertEqual(self.other.call("CONFIG", "SET", "maxclients", 2), b"+OK\r\n")
        second = self.wire()
        self.assertEqual(second.call("PING"), b"+PONG\r\n")
        self.assertEqual(self.wire().input.read(), b"-ERR max number of clients reached\r\n")
        second.close()

        def served():
            try:
                return self.wire().call("PING") == b"+PONG\r\n"
            except ConnectionError:  # The gate rejected it, and closed it before the command was sent.
                return False

        harness.wait_until(served, "another one may come")


if __name__ == "__main__":
    unittest.main()
