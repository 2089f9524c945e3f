"""The console page of kvserver --http as a person sees it, in headless Chromium (Debian's chromium and chromium-driver).

REMORA_SCREENSHOTS names a folder for screenshots; without it none is kept.
"""

import json
import os
import pathlib
import subprocess

import browser
import harness
from harness import kvctl


class ConsoleTest(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def setUp(self):
        super().setUp()
        self.http = f"127.0.0.1:{harness.free_port()}"
        self.browser.look(1280)
        self.browser.complaints()

    def open(self):
        self.browser.open(f"http://{self.http}/")
        self.await_text("#state", "ready")

    def await_text(self, selector, text):
        harness.wait_until(lambda: text in self.browser.text(selector), f"{selector} says {text}")

    def put(self, count):
        for i in range(count):
            self.assertEqual(kvctl(self.address, "put", f"secretkey{i}", f"secretvalue{i}").returncode, 0)

    def highest(self, operation):
        """The highest rate in the table below the chart."""
        rows = self.browser.evaluate("[...document.querySelectorAll('#chart_table tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
        value = dict((row[0], row[3]) for row in rows)[operation]
        return 0 if value == "–" else float(value.replace(",", ""))

    def row(self, table, name):
        """The cells of a row behind its name."""
        rows = self.browser.evaluate(f"[...document.querySelectorAll('#{table} tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
        return {cells[0]: cells[1:] for cells in rows}[name]

    def busiest(self):
        """The cells behind the number of the client that asks most."""
        rows = self.browser.evaluate("[...document.querySelectorAll('#busiest_table tbody tr')].map(r => [...r.cells].map(c => c.textContent))")
        return rows[0][1:] if rows else []

    def keep(self, name):
        if folder := os.environ.get("REMORA_SCREENSHOTS"):
            self.browser.screenshot(pathlib.Path(folder) / f"{name}.png")

    def look_at_it(self, name):
        """Wide and narrow, light and dark: nothing is wider than the window."""
        for width in (1280, 400):
            for dark in (False, True):
                self.browser.look(width, dark=dark)
                self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width)
                self.keep(f"console-{name}-{width}-{'dark' if dark else 'light'}")

    def test_an_empty_server(self):
        self.memory_server(f"--http={self.http}")
        self.open()
        self.await_text("#chart_empty", "no operations since this page was opened")
        self.await_text("#map_size", "56 segments")
        self.assertEqual(self.browser.text("#durability"), "memory")
        self.assertEqual(self.row("clients_table", "connected")[0].split()[0], "0")
        self.assertIn("0.", self.browser.text("h1"))
        self.assertEqual(self.browser.complaints(), [])
        self.look_at_it("empty")

    def test_a_busy_server(self):
        self.logged_server(f"--http={self.http}", "--commit_log=16M", memory="1200M")
        self.open()
        self.put(20)
        self.assertEqual(kvctl(self.address, "scan").returncode, 0)
        held = subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.address}", "watch"], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL
        )
        self.addCleanup(held.wait)
        self.addCleanup(held.kill)
        harness.wait_until(lambda: self.busiest()[:1] == ["local"], "the client that stays is in the table")
        harness.wait_until(lambda: self.highest("puts") > 0 and self.highest("scan pages") > 0, "the chart has the writes")
        self.assertTrue(self.browser.evaluate("document.getElementById('chart_empty').hidden"))
        harness.wait_until(lambda: self.row("latency_table", "Commit")[1] != "–", "there is a percentile")
        harness.wait_until(lambda: self.row("latency_table", "Scan page")[4] != "–", "there is a longest time")
        self.assertGreater(int(self.browser.text("#map_size").split(", ")[1].split()[0].replace(",", "")), 1000)
        self.assertEqual(self.row("durability_table", "level"), ["logged"])
        self.await_text("#events", "clients connected")
        page = self.browser.evaluate("document.documentElement.innerHTML")
        self.assertNotIn("secret", page.replace("value or secret", ""))
        self.assertEqual(self.browser.complaints(), [])
        self.look_at_it("busy")

    def test_it_loads_from_its_server_alone_and_keeps_nothing(self):
        self.memory_server(f"--http={self.http}")
        self.open()
        self.await_text("#map_size", "segments")
        loaded = self.browser.evaluate("performance.getEntriesByType('resource').map(entry => entry.name)")
        self.assertGreater(len(loaded), 4)
        self.assertEqual([url for url in loaded if not url.startswith(f"http://{self.http}/")], [])
        self.assertEqual(self.browser.evaluate("document.cookie + Object.keys(localStorage) + Object.keys(sessionStorage)"), "")

    def test_a_lost_connection_is_told_and_the_server_found_again(self):
        server = self.memory_server(f"--http={self.http}")
        self.open()
        server.kill()
        self.await_text("#state", "connection lost")
        self.assertTrue(self.browser.evaluate("document.body.classList.contains('lost')"))
        self.memory_server(f"--http={self.http}")
        self.await_text("#state", "ready")
        self.assertFalse(self.browser.evaluate("document.body.classList.contains('lost')"))
        events = self.browser.text("#events")
        for event in ("connection lost", "connected again", "the server was started anew"):
            self.assertIn(event, events)

    def test_a_primary_and_its_follower(self):
        follower, other = self.new_address("follower"), f"127.0.0.1:{harness.free_port()}"
        data = [f"--data_dir={self.folder / name}" for name in ("a", "b")]
        self.memory_server(f"--http={self.http}")
        self.open()
        self.assertTrue(self.browser.evaluate("document.getElementById('replication').hidden"))
        self.assertTrue(self.browser.evaluate("document.getElementById('replication_section').hidden"))
        away = self.server(f"--http={other}", "--memory=64M", "--follow", data[1], address=follower)
        primary = self.new_address("primary")
        self.http, of_follower = f"127.0.0.1:{harness.free_port()}", other
        self.server(f"--http={self.http}", "--memory=64M", f"--replicate_to={follower}", data[0], address=primary)
        self.open()
        self.await_text("#replication", "replication: primary, epoch 1, followers 1 of 1, groups pending 0")
        self.assertEqual(self.row("replication_table", "role"), ["primary"])
        harness.wait_until(lambda: self.row("followers_table", follower)[1] != "–", "there are two answers")
        self.assertEqual(self.row("followers_table", follower)[::2], ["connected", "0"])
        for i in range(50):
            self.assertEqual(kvctl(primary, "put", f"key{i}", "value").returncode, 0)
        harness.wait_until(lambda: self.row("followers_table", follower)[1] not in "–0", "the follower acknowledges groups")
        self.assertEqual(self.row("replication_table", "memory of these"), ["0 B of 256 MiB"])
        self.look_at_it("primary")
        self.browser.open(f"http://{of_follower}/")
        self.await_text("#state", "not ready: the server follows a primary")
        self.assertEqual(self.row("replication_table", "role"), ["follower"])
        self.assertTrue(self.browser.evaluate("document.getElementById('followers').hidden"))
        self.await_text("#replication", "replication: follower, epoch 1, groups applied ")
        self.look_at_it("follower")
        away.kill()
        self.browser.open(f"http://{self.http}/")
        self.await_text("#state", "not ready: a follower is away")
        self.await_text("#replication", "followers 0 of 1")
        harness.wait_until(lambda: self.row("followers_table", follower)[0] == "away", "the table says so, too")
        self.assertTrue(self.browser.evaluate("document.querySelector('#followers_table tbody tr').classList.contains('alarm')"))
        self.look_at_it("follower-away")
        self.assertEqual(self.browser.complaints(), [])

    def test_keys_and_names(self):
        self.memory_server(f"--http={self.http}")
        self.open()
        self.put(3)
        harness.wait_until(lambda: self.highest("puts") > 0, "the chart has the writes")
        harness.wait_until(lambda: "puts" in self.browser.evaluate("document.getElementById('chart').ariaLabel"), "the chart has a name")
        self.assertIn("free", self.browser.evaluate("document.getElementById('map').ariaLabel"))
        headings = self.browser.evaluate("[...document.querySelectorAll('h1, h2')].map(h => h.tagName)")
        self.assertEqual((headings[0], headings.count("H1")), ("H1", 1))
        unnamed = self.browser.evaluate("[...document.querySelectorAll('thead th')].filter(h => h.scope !== 'col').length")
        unnamed += self.browser.evaluate("[...document.querySelectorAll('tbody th')].filter(h => h.scope !== 'row').length")
        self.assertEqual(unnamed, 0)
        chart = self.browser.command("element", using="css selector", value="#chart")
        element = next(iter(chart.values()))
        harness.wait_until(self.has_samples, "there are three samples")
        self.browser.evaluate("document.getElementById('chart').focus()")
        self.browser.command(f"element/{element}/value", text="\ue012\ue012")  # the key to the left, twice
        self.await_text("#legend_time", "s ago")
        self.browser.command(f"element/{element}/value", text="\ue00c")  # escape
        self.await_text("#legend_time", "now")

    def has_samples(self):
        return len(json.loads(self.browser.evaluate("JSON.stringify(samples.map(sample => sample.time))"))) > 3

    def test_light_and_dark(self):
        self.memory_server(f"--http={self.http}")
        self.open()
        colours = set()
        for dark in (False, True):
            self.browser.look(1280, dark=dark)
            colours.add(self.browser.evaluate("getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(colours), 2)


if __name__ == "__main__":
    browser.main()
