"""A headless Chromium, driven by chromedriver over HTTP (W3C WebDriver, and its commands for DevTools)."""

import base64
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request

import harness


def main():
    """Runs the tests of the program. Without a browser, says so and ends with 77."""
    if missing := [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]:
        print(f"skipped: {' and '.join(missing)} is missing: run tools/install-deps browser")
        sys.exit(77)
    unittest.main(module="__main__")


class Browser:
    """One window. `close` ends all of its processes."""

    def __init__(self):
        self.folder = tempfile.mkdtemp(prefix="remora-browser-")
        self.log = open(f"{self.folder}/chromedriver.log", "wb")
        port = harness.free_port()
        self.url = f"http://127.0.0.1:{port}"
        # A session of its own: the browser's many processes end with it.
        self.driver = subprocess.Popen(
            ["chromedriver", f"--port={port}"], stdin=subprocess.DEVNULL, stdout=self.log, stderr=self.log,
            start_new_session=True, env={**os.environ, "HOME": self.folder},
        )  # fmt: skip
        try:
            harness.wait_until(self.is_ready, "chromedriver listens")
            self.session = self.begin()
        except BaseException:
            self.close()
            raise

    def is_ready(self):
        if self.driver.poll() is not None:
            raise AssertionError(f"chromedriver ended: {open(self.log.name, encoding='utf-8').read()}")
        try:
            return self.ask("GET", "/status")["ready"]
        except OSError:
            return False

    def begin(self):
        # No sandbox: that of Chromium takes no root, as which tests may run.
        arguments = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--hide-scrollbars",
                     f"--user-data-dir={self.folder}/profile", "--no-first-run", "--disable-background-networking"]  # fmt: skip
        wanted = {
            "browserName": "chrome",
            "goog:loggingPrefs": {"browser": "ALL"},
            "goog:chromeOptions": {"binary": shutil.which("chromium"), "args": arguments},
        }
        return self.ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})["sessionId"]

    def ask(self, method, path, body=None):
        request = urllib.request.Request(
            self.url + path, method=method, headers={"Content-Type": "application/json"},
            data=None if body is None else json.dumps(body).encode(),
        )  # fmt: skip
        try:
            with urllib.request.urlopen(request, timeout=harness.PATIENCE) as answer:
                return json.load(answer)["value"]
        except urllib.error.HTTPError as error:
            with error:
                raise AssertionError(f"{method} {path}: {error.read().decode()}") from None

    def command(self, name, **body):
        return self.ask("POST", f"/session/{self.session}/{name}", body)

    def devtools(self, command, **parameters):
        return self.command("goog/cdp/execute", cmd=command, params=parameters)

    def open(self, url):
        self.command("url", url=url)

    def evaluate(self, expression):
        """The value of an expression of JavaScript in the page."""
        return self.command("execute/sync", script=f"return {expression};", args=[])

    def text(self, selector):
        """The text of an element, as a reader sees it."""
        return self.evaluate(f"document.querySelector({json.dumps(selector)}).innerText")

    def complaints(self):
        """The lines of the page's console since the last call: errors, and what a policy has rejected."""
        return [entry["message"] for entry in self.command("se/log", type="browser")]

    def look(self, width, height=900, dark=False):
        """Gives the page this size, and the light or dark scheme."""
        self.devtools("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)
        scheme = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        self.devtools("Emulation.setEmulatedMedia", features=scheme)

    def screenshot(self, path):
        """The whole page, as a PNG."""
        shot = self.devtools("Page.captureScreenshot", format="png", captureBeyondViewport=True)
        with open(path, "wb") as file:
            file.write(base64.b64decode(shot["data"]))

    def close(self):
        try:
            os.killpg(self.driver.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        self.driver.wait()
        self.log.close()
        shutil.rmtree(self.folder, ignore_errors=True)
