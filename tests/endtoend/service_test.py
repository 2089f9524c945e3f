"""kvserver as a service: its messages to its manager by sd_notify(3), with a socket of the test's in its place."""

import os
import pathlib
import signal
import socket
import unittest

import harness


class Manager:
    """Takes the messages of a service."""

    def __init__(self, address):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM)
        self.socket.bind(address)
        self.socket.settimeout(harness.PATIENCE)

    def next(self):
        return self.socket.recv(4096).decode().split("\n")

    def until(self, line):
        """Returns the lines of all messages up to the one with this line."""
        lines = []
        while line not in lines:
            lines += self.next()
        return lines


class ServiceTest(harness.TestCase):
    def manager(self, address=None):
        manager = Manager(address or f"{self.folder}/notify")
        self.addCleanup(manager.socket.close)
        return manager

    def start(self, *flags, durability="memory", **environment):
        flags = [f"--listen={self.address}", f"--durability={durability}", "--memory=32M", *flags]
        server = harness.Server(*flags, environment=environment)
        self.addCleanup(server.close)
        return server

    def path(self):
        return f"{self.folder}/notify"

    def test_the_messages_of_a_life(self):
        for name, address in (("path", self.path()), ("abstract", f"\0remora-test-{os.getpid()}")):
            with self.subTest(name):
                manager = self.manager(address)
                server = self.start(NOTIFY_SOCKET=address.replace("\0", "@"))
                begin = manager.until("READY=1")
                self.assertEqual(begin, ["STATUS=opening the store", "STATUS=serving", "READY=1"])
                # At that time it serves.
                self.assertEqual(harness.kvctl(self.address, "put", "key", "value").returncode, 0)
                self.assertEqual(server.stop()[0], 0)
                # Without a watchdog nothing else is told.
                self.assertEqual(manager.until("STOPPING=1"), ["STOPPING=1", "STATUS=stopping"])
                self.assertNotIn(b"NOTIFY_SOCKET", server.said())

    def test_a_load_is_told(self):
        data = f"--data_dir={self.folder}/data"
        server = self.start(data, durability="logged")
        self.assertEqual(harness.kvctl(self.address, "put", "key", "value").returncode, 0)
        server.stop()
        manager = self.manager()
        server = self.start(data, durability="logged", NOTIFY_SOCKET=self.path())
        lines = manager.until("READY=1")
        self.assertEqual((lines[0], lines[-1]), ("STATUS=opening the store", "READY=1"))
        if lines[1] != "STATUS=serving":
            self.assertEqual(lines[1], "STATUS=serving; loading")
            lines = manager.until("STATUS=serving")
            self.assertTrue(all(line.startswith("STATUS=serving") for line in lines), lines)
        self.assertEqual(server.stop()[0], 0)

    def test_the_watchdog_hears_an_idle_server(self):
        manager = self.manager()
        server = self.start(NOTIFY_SOCKET=self.path(), WATCHDOG_USEC="100000")
        manager.until("READY=1")
        for _ in range(3):
            self.assertEqual(manager.next(), ["WATCHDOG=1"])
        # A thread that does not work is not heard: the earlier messages are read, and then nothing comes.
        server.process.send_signal(signal.SIGSTOP)
        stat = pathlib.Path(f"/proc/{server.process.pid}/stat")
        harness.wait_until(lambda: stat.read_text().rsplit(")", 1)[1].split()[0] == "T", "it has stopped")
        manager.socket.setblocking(False)
        with self.assertRaises(BlockingIOError):
            while True:
                manager.next()
        server.process.send_signal(signal.SIGCONT)
        manager.socket.settimeout(harness.PATIENCE)
        self.assertEqual(manager.next(), ["WATCHDOG=1"])
        self.assertEqual(server.stop()[0], 0)
        lines = manager.until("STOPPING=1")
        self.assertEqual(set(lines[:-2]) - {"WATCHDOG=1"}, set())

    def test_a_watchdog_of_another_process_or_of_no_sense(self):
        for environment in ({"WATCHDOG_USEC": "1000", "WATCHDOG_PID": "1"}, {"WATCHDOG_USEC": "soon"},
                            {"WATCHDOG_USEC": "0"}, {"WATCHDOG_USEC": ""}):  # fmt: skip
            with self.subTest(environment=environment):
                manager = self.manager(f"{self.path()}-{environment['WATCHDOG_USEC']}")
                server = self.start(NOTIFY_SOCKET=manager.socket.getsockname(), **environment)
                self.assertEqual(harness.kvctl(self.address, "ping").returncode, 0)
                self.assertEqual(server.stop()[0], 0)
                self.assertNotIn("WATCHDOG=1", manager.until("STOPPING=1"))
                self.assertEqual(b"WATCHDOG_USEC" in server.said(), environment["WATCHDOG_USEC"] in ("soon", "0"))

    def test_bad_sockets_do_not_hurt(self):
        stream = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.addCleanup(stream.close)
        stream.bind(f"{self.folder}/stream")
        for address in ("nonsense", "@", "/", "/none/such", "/" + "x" * 200, "vsock:2:1", "@none-such", f"{self.folder}/stream",
                        self.write("file", ""), str(self.folder), "%n\x1b[2J"):  # fmt: skip
            with self.subTest(address=address):
                server = self.start(NOTIFY_SOCKET=address, WATCHDOG_USEC="2000")
                self.assertEqual(harness.kvctl(self.address, "put", "key", "value").returncode, 0)
                server.await_said(rb"NOTIFY_SOCKET=.* (is|are) n")
                self.assertEqual(server.stop()[0], 0)
                self.assertEqual(server.said().count(b"NOTIFY_SOCKET"), 1)

    def test_nobody_waits_for_a_manager_that_does_not_read(self):
        manager = self.manager()
        with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as filler:
            filler.setblocking(False)
            with self.assertRaises(BlockingIOError):
                while True:
                    filler.sendto(b"X=1", self.path())
        server = self.start(NOTIFY_SOCKET=self.path(), WATCHDOG_USEC="2000")
        self.assertEqual(harness.kvctl(self.address, "put", "key", "value").returncode, 0)
        server.await_said(rb"NOTIFY_SOCKET=.*send: ")
        self.assertEqual(server.stop()[0], 0)
        self.assertEqual(server.said().count(b"NOTIFY_SOCKET"), 1)
        manager.socket.setblocking(False)


if __name__ == "__main__":
    unittest.main()
