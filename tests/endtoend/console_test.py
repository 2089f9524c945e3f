"""The console page of kvserver --http, without a browser: its files, its headers, and the numbers that it asks for.

console_browser_test.py has the page as a person sees it.
"""

import http.client
import json
import pathlib
import re
import subprocess
import unittest

import harness
from harness import kvctl

FILES = pathlib.Path(__file__).parents[2] / "server/http/console"
PAGES = {
    "/": ("index.html", "text/html; charset=utf-8"),
    "/console.css": ("console.css", "text/css; charset=utf-8"),
    "/console.js": ("console.js", "text/javascript; charset=utf-8"),
    "/replication.js": ("replication.js", "text/javascript; charset=utf-8"),
    "/chart.js": ("chart.js", "text/javascript; charset=utf-8"),
    "/icon.svg": ("icon.svg", "image/svg+xml"),
}
POLICY = "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
SEGMENT = 1 << 20


class ConsoleTestCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.http = f"127.0.0.1:{harness.free_port()}"

    def ask(self, method, path):
        """Status, headers and body."""
        connection = http.client.HTTPConnection(self.http, timeout=harness.PATIENCE)
        try:
            connection.request(method, path)
            answer = connection.getresponse()
            return answer.status, answer.headers, answer.read()
        finally:
            connection.close()

    def json(self, path):
        status, headers, body = self.ask("GET", path)
        self.assertEqual((status, headers["Content-Type"]), (200, "application/json"))
        return json.loads(body)

    def check_segments(self):
        """Returns the answer, which agrees with itself and, once the server is idle, with the metrics."""
        segments = {}

        def agrees():
            segments.update(self.json("/segments.json"))
            metrics, counts = self.json("/info.json")["metrics"], segments["counts"]
            sizes = metrics["memory_bytes_free"], metrics["index_bytes"]
            return sizes == (counts["free"] * SEGMENT, counts["index"] * SEGMENT)

        harness.wait_until(agrees, "the metrics have the sizes of the map")
        letters, counts = segments["map"], segments["counts"]
        self.assertEqual(segments["segment_bytes"], SEGMENT)
        self.assertEqual((len(letters), sum(counts.values())), (segments["count"], segments["count"]))
        for name, letter in (("superblock", "s"), ("free", "f"), ("index", "i"), ("log_head", "h"), ("retired", "r"),
                             ("large", "l"), ("claimed", "c")):  # fmt: skip
            self.assertEqual(letters.count(letter), counts[name], name)
        self.assertEqual(sum(letters.count(digit) for digit in "0123456789"), counts["log"])
        return segments


class FilesTest(ConsoleTestCase):
    def setUp(self):
        super().setUp()
        self.memory_server(f"--http={self.http}")

    def test_each_is_served_as_it_is_with_its_type(self):
        for path, (name, content_type) in PAGES.items():
            with self.subTest(path):
                status, headers, body = self.ask("GET", path)
                self.assertEqual((status, headers["Content-Type"]), (200, content_type))
                self.assertEqual(body, (FILES / name).read_bytes())
                self.assertEqual(headers["X-Content-Type-Options"], "nosniff")
                self.assertEqual(headers["Cache-Control"], "no-store")
                self.assertIsNone(headers["Set-Cookie"])
                status, head, body = self.ask("HEAD", path)
                self.assertEqual((status, body), (200, b""))
                self.assertEqual(head["Content-Length"], headers["Content-Length"])

    def test_the_page_may_load_from_its_server_alone(self):
        headers = self.ask("GET", "/")[1]
        self.assertEqual((headers["Content-Security-Policy"], headers["Referrer-Policy"]), (POLICY, "no-referrer"))

    def test_the_page_refers_to_nothing_else(self):
        page = (FILES / "index.html").read_text()
        links = re.findall(r"(?:src|href)=\"([^\"]*)\"", page)
        self.assertLessEqual(set(PAGES) - {"/"}, set(links))
        for link in links:
            self.assertEqual(self.ask("GET", link)[0], 200, link)
        for name, _ in PAGES.values():
            text = (FILES / name).read_text().replace("http://www.w3.org/2000/svg", "")
            self.assertNotRegex(text, r"https?:|//[a-z]+\.|@import|url\(", name)
        # The policy rejects these.
        self.assertNotRegex(page, r"<style|\bstyle=|\bon[a-z]+=|<script>|javascript:")

    def test_other_paths_are_not_there(self):
        for path in ("/nothing", "/index.html", "/console", "/consoleXjs", "/console.js/", "/../server.h", "//", "/%2e"):
            self.assertEqual(self.ask("GET", path)[0], 404, path)

    def test_clients_come_and_go(self):
        held = subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.address}", "top"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        self.addCleanup(held.wait)
        self.addCleanup(held.kill)
        harness.wait_until(lambda: len(self.json("/clients.json")["clients"]) == 1, "the client is there")
        answer = self.json("/clients.json")
        (client,) = answer["clients"]
        self.assertEqual((client["transport"], client["number"]), ("local", 1))
        self.assertLessEqual(client["since_unix_ms"], answer["now_unix_ms"])
        held.kill()
        harness.wait_until(lambda: self.json("/clients.json")["clients"] == [], "the client is gone")

    def test_each_number_that_the_page_shows_is_there(self):
        script = (FILES / "console.js").read_text() + (FILES / "replication.js").read_text()
        info = self.json("/info.json")
        operations = re.findall(r"of: \[([^\]]*)\]", script)
        names = set(re.findall(r"'(\w+)'", " ".join(operations))) | set(re.findall(r"metrics\.(\w+)", script))
        names |= set(re.findall(r"rateOf\('(\w+)'\)", script)) | set(re.findall(r"^  \['(\w+)', '(?:bad)?', ", script, re.MULTILINE))
        self.assertGreater(len(names), 25)
        self.assertLessEqual(names, set(info["metrics"]))
        times = re.search(r"const TIMES = \[(.*?)\n\];", script, re.DOTALL)[1]
        self.assertEqual(set(re.findall(r"\['(\w+)'", times)), set(info["histograms"]))
        uses = re.search(r"const USES = \[(.*?)\n\];", script, re.DOTALL)[1]
        counts = set(self.json("/segments.json")["counts"])
        self.assertEqual(set(re.findall(r"\['(\w+)'", uses)), counts | {"log_empty"})


class SegmentsTest(ConsoleTestCase):
    def test_an_empty_server(self):
        self.memory_server(f"--http={self.http}")
        segments = self.check_segments()
        self.assertEqual(set(segments["map"]), {"s", "i", "f"})

    def test_records_large_values_and_dead_ones(self):
        self.memory_server(f"--http={self.http}")
        for i in range(13):
            self.assertEqual(kvctl(self.address, "put", f"key{i}", stdin=b"v" * 250_000).returncode, 0)
        self.assertEqual(kvctl(self.address, "put", "large", stdin=b"v" * (3 << 20)).returncode, 0)
        segments = self.check_segments()
        self.assertEqual(segments["counts"]["log_head"], 1)
        self.assertGreaterEqual(segments["counts"]["log"], 3)
        self.assertEqual(segments["counts"]["large"], 4)
        self.assertIn("9", segments["map"])
        for i in range(5):
            self.assertEqual(kvctl(self.address, "delete", f"key{i}").returncode, 0)
        harness.wait_until(
            lambda: set(self.json("/segments.json")["map"]) & set("012345678"), "the map shows that records are dead"
        )
        self.check_segments()


if __name__ == "__main__":
    unittest.main()
