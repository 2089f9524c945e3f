"""kvserver --http at addresses that it cannot have, or may not: it does not start, and changes nothing."""

import socket
import subprocess
import unittest

import harness
from http_test import HttpTestCase


class BadStartTest(HttpTestCase):
    def start(self, *flags):
        """Of a store that would leave a trace."""
        run = subprocess.run(
            [harness.program("kvserver"), f"--listen={self.address}", f"--data_dir={self.folder}/data", "--memory=64M",
             *flags], stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertRegex(run.stderr, rb"\Akvserver: [^\n]+\n\Z")
        self.assertFalse((self.folder / "data").exists(), "the store was opened")
        self.assertFalse((self.folder / "socket").exists())
        return run.returncode, run.stderr.decode()

    def test_a_bad_address(self):
        for address in ("", "nonsense", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:99999", "http://127.0.0.1:9180", ":80"):
            status, text = self.start(f"--http={address}")
            self.assertEqual(status, 64, text)
            self.assertIn("--http", text)

    def test_an_address_in_use(self):
        with socket.socket() as other:
            other.bind(("127.0.0.1", self.port))
            other.listen()
            status, text = self.start(f"--http={self.http}")
        self.assertEqual(status, 75, text)
        self.assertIn("in use", text)

    def test_an_address_that_others_reach_needs_to_be_meant(self):
        for address in (f"0.0.0.0:{self.port}", f"[::]:{self.port}"):
            status, text = self.start(f"--http={address}")
            self.assertEqual(status, 64, text)
            self.assertIn("--insecure_http", text)
        self.memory_server(f"--http=0.0.0.0:{self.port}", "--insecure_http")
        self.assertEqual(self.get("/healthz")[0], 200)

    def test_the_flag_that_allows_it_needs_the_other(self):
        self.assertEqual(self.start("--insecure_http")[0], 64)

    def test_a_name_that_is_none(self):
        for name in ("", "http://db1", "db1:9180", "a b", "db1..example", "x" * 254):
            status, text = self.start(f"--http={self.http}", f"--http_host={name}")
            self.assertEqual(status, 64, text)
            self.assertIn("--http_host", text)
        self.assertEqual(self.start("--http_host=db1")[0], 64)

    def test_an_address_of_another_machine(self):
        status, text = self.start("--http=192.0.2.1:9180", "--insecure_http")
        self.assertEqual(status, 69, text)
        self.assertIn("no interface", text)

    def test_the_port_is_free_at_once_for_the_next_server(self):
        for _ in range(2):
            server = self.serve()
            self.assertEqual(self.get("/healthz")[0], 200)
            self.assertEqual(server.stop()[0], 0)


if __name__ == "__main__":
    unittest.main()
