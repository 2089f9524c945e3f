"""examples/manpages with Debian's packages, in headless Chromium: one command brings it up, and a person looks around.

REMORA_SCREENSHOTS names a folder for screenshots; without it none is kept.
"""

import os
import pathlib
import re
import signal
import subprocess
import unittest

import browser
import harness

ROOT = pathlib.Path(__file__).parents[2]
PYTHON = os.environ.get("REMORA_PYTHON") or str(harness.BIN.parent / "python")
WIDTHS = (1200, 400)


class ManualPagesTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)
        environment = {**os.environ, "REMORA_BIN": str(harness.BIN), "REMORA_PYTHON": PYTHON}
        cls.run_it = subprocess.Popen(
            [ROOT / "examples/manpages/run", "--listen=127.0.0.1:0", f"--folder={harness.BIN.parent}/manpages"],
            env=environment, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, text=True,
        )  # fmt: skip
        cls.addClassCleanup(cls.end)
        cls.url = cls.await_line(r"open http://(\S+)/")
        # The directory is looked at while pages come.
        cls.browser.open(f"http://{cls.url}/")
        harness.wait_until(lambda: not cls.browser.evaluate("document.getElementById('live').hidden"), "pages come live")
        cls.live = cls.browser.evaluate("document.querySelectorAll('#loaded li').length")
        cls.await_line("(all pages are loaded)")

    @classmethod
    def await_line(cls, pattern):
        for line in cls.run_it.stdout:
            if match := re.search(pattern, line):
                return match[1]
        raise AssertionError(f"examples/manpages/run has ended: {cls.run_it.wait()}")

    @classmethod
    def end(cls):
        cls.run_it.send_signal(signal.SIGINT)
        cls.run_it.wait(harness.PATIENCE)
        cls.run_it.stdout.close()

    def setUp(self):
        self.browser.look(WIDTHS[0])
        self.browser.open(f"http://{self.url}/")
        self.browser.complaints()

    def await_path(self, path):
        harness.wait_until(lambda: self.browser.evaluate("location.pathname") == path and self.is_whole(), f"the browser is at {path}")

    def is_whole(self):
        return self.browser.evaluate("document.readyState") == "complete"

    def click(self, selector):
        element = self.browser.command("element", using="css selector", value=selector)
        self.browser.command(f"element/{next(iter(element.values()))}/click")

    def type(self, selector, text):
        element = self.browser.command("element", using="css selector", value=selector)
        self.browser.command(f"element/{next(iter(element.values()))}/value", text=text)

    def look_at_all(self, name):
        """Nothing is wider than the window; screenshots of all widths and schemes."""
        for width in WIDTHS:
            for dark in (False, True):
                self.browser.look(width, dark=dark)
                self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width, name)
                if folder := os.environ.get("REMORA_SCREENSHOTS"):
                    self.browser.screenshot(pathlib.Path(folder) / f"manpages-{name}-{width}-{'dark' if dark else 'light'}.png")
        self.browser.look(WIDTHS[0])
        self.assertEqual(self.browser.complaints(), [])

    def test_the_directory(self):
        self.assertGreater(self.live, 0)
        counts = self.browser.evaluate("[...document.querySelectorAll('[data-count]')].map(b => [b.dataset.count, b.textContent])")
        counts = {system: int(count.replace(",", "")) for system, count in counts}
        self.assertEqual(set(counts), {"freebsd", "linux", "rdma", "remora"})
        self.assertGreater(min(counts["freebsd"], counts["linux"]), 1000)
        self.look_at_all("directory")
        self.click("a[href='/man/linux']")
        self.await_path("/man/linux")
        self.click("a[href='/man/linux/3']")
        self.await_path("/man/linux/3")
        self.look_at_all("section")
        self.click("#more")
        harness.wait_until(lambda: "after=" in self.browser.evaluate("location.search") and self.is_whole(), "the next pages are shown")

    def test_search_follow_a_reference_and_go_back(self):
        self.type("#query", "rdma_post_read")
        harness.wait_until(lambda: not self.browser.evaluate("document.getElementById('completions').hidden"), "names are completed")
        harness.wait_until(lambda: self.browser.text("#completions li").startswith("rdma_post_read(3)"), "the name is the first")
        self.look_at_all("completion")
        self.type("#query", "\ue007")  # enter: no name is chosen, so this searches
        self.await_path("/search")
        self.look_at_all("search")
        self.assertEqual(self.browser.text(".entries li a"), "rdma_post_read(3)")
        self.click(".entries li a")
        self.await_path("/man/rdma/3/rdma_post_read")
        self.assertIn("librdmacm-dev", self.browser.text(".facts"))
        self.look_at_all("page")
        self.click("a[href='/man/rdma/3/rdma_reg_read']")
        self.await_path("/man/rdma/3/rdma_reg_read")
        self.assertEqual(self.browser.text("h1"), "rdma_reg_read(3)")
        self.browser.command("back")
        self.await_path("/man/rdma/3/rdma_post_read")
        self.assertEqual(self.browser.text("h1"), "rdma_post_read(3)")
        for name in ("from_store", "from_disk"):
            self.assertRegex(self.browser.text(f"#{name}"), r"\A[\d.]+ (µs|ms|s)\Z")

    def test_completion_by_keys(self):
        self.type("#query", "rdma_reg_w")
        harness.wait_until(lambda: not self.browser.evaluate("document.getElementById('completions').hidden"), "names are completed")
        harness.wait_until(lambda: self.browser.text("#completions li").startswith("rdma_reg_write(3)"), "the name is the first")
        self.type("#query", "\ue015\ue007")  # down, enter
        self.await_path("/man/rdma/3/rdma_reg_write")

    def test_compare_two_systems(self):
        self.browser.open(f"http://{self.url}/man/linux/7/tcp")
        self.assertIn("The same name on FreeBSD", self.browser.text("aside"))
        self.click("aside a.compare")
        self.await_path("/compare")
        panes = self.browser.evaluate("[...document.querySelectorAll('.pane > h2')].map(h => h.innerText)")
        self.assertEqual(panes, ["Linux: tcp(7)", "FreeBSD: tcp(4)"])
        side = "[...document.querySelectorAll('.pane')].map(p => p.getBoundingClientRect().top)"
        self.assertEqual(len(set(self.browser.evaluate(side))), 1)
        self.look_at_all("compare")
        self.browser.look(WIDTHS[1])
        self.assertEqual(len(set(self.browser.evaluate(side))), 2)

    def test_it_loads_from_its_server_alone(self):
        self.browser.open(f"http://{self.url}/man/linux/3/printf")
        loaded = self.browser.evaluate("performance.getEntriesByType('resource').map(entry => entry.name)")
        self.assertGreaterEqual(len(loaded), 2)
        self.assertEqual([url for url in loaded if not url.startswith(f"http://{self.url}/")], [])
        self.assertEqual(self.browser.evaluate("document.cookie + Object.keys(localStorage) + Object.keys(sessionStorage)"), "")
        self.look_at_all("printf")

    def test_light_and_dark(self):
        colours = set()
        for dark in (False, True):
            self.browser.look(1200, dark=dark)
            colours.add(self.browser.evaluate("getComputedStyle(document.body).backgroundColor"))
        self.assertEqual(len(colours), 2)


if __name__ == "__main__":
    browser.main()
