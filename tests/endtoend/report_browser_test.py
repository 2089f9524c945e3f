"""The page of kvbench report as a person sees it, in headless Chromium (Debian's chromium and chromium-driver).

REMORA_SCREENSHOTS names a folder for screenshots; without it none is kept.
"""

import os
import pathlib
import subprocess

import browser
import harness

WIDTHS = (1200, 400)


class ReportTest(harness.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.browser = browser.Browser()
        cls.addClassCleanup(cls.browser.close)

    def kvbench(self, *arguments):
        run = subprocess.run(
            [harness.program("kvbench"), *arguments], stdin=subprocess.DEVNULL, capture_output=True,
            timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual(run.returncode, 0, run.stderr)

    def make_page(self, *runs):
        """The page that compares runs with these flags."""
        files = []
        for number, flags in enumerate(runs):
            files.append(f"{self.folder}/a_run_with_quite_a_long_name_{number}.json")
            self.kvbench(
                "all", "--target=embedded", "--memory=64M", "--records=5000", "--operations=20000", "--interval=0.02",
                f"--json={files[-1]}", *flags,
            )  # fmt: skip
        page = f"{self.folder}/page.html"
        self.kvbench("report", *files, f"--html={page}")
        self.browser.look(WIDTHS[0])
        self.browser.complaints()
        self.browser.open(f"file://{page}")

    def look_at_it(self, name):
        for width in WIDTHS:
            for dark in (False, True):
                self.browser.look(width, dark=dark)
                with self.subTest(width=width, dark=dark):
                    self.assertLessEqual(self.browser.evaluate("document.documentElement.scrollWidth"), width)
                    # A chart is as wide as the text around it.
                    narrowest = self.browser.evaluate(
                        "Math.min(...[...document.querySelectorAll('svg')].map(s => s.getBoundingClientRect().width))"
                    )
                    self.assertGreater(narrowest, 0.75 * width)
                if folder := os.environ.get("REMORA_SCREENSHOTS"):
                    self.browser.screenshot(pathlib.Path(folder) / f"report-{name}-{width}-{'dark' if dark else 'light'}.png")

    def test_one_run(self):
        self.make_page(["--workload=a"])
        self.look_at_it("one")
        self.assertEqual(self.browser.complaints(), [])

    def test_two_runs_that_are_compared(self):
        self.make_page(["--workload=a"], ["--workload=c"])
        self.look_at_it("two")
        self.assertEqual(self.browser.complaints(), [])
        text = self.browser.text("body")
        for name in ("a_run_with_quite_a_long_name_0", "a_run_with_quite_a_long_name_1"):
            self.assertIn(name, text)

    def test_it_loads_nothing(self):
        self.make_page(["--workload=a"])
        self.assertEqual(self.browser.evaluate("performance.getEntriesByType('resource').length"), 0)
        self.assertEqual(self.browser.evaluate("document.querySelectorAll('script[src], link[href], img').length"), 0)

    def test_light_and_dark(self):
        self.make_page(["--workload=a"])
        colours = []
        for dark in (False, True):
            self.browser.look(WIDTHS[0], dark=dark)
            colours.append(
                self.browser.evaluate("[document.body, document.documentElement].map(e => getComputedStyle(e).color).join()")
            )
        self.assertNotEqual(*colours)


if __name__ == "__main__":
    browser.main()
