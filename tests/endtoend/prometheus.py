"""A Prometheus that scrapes servers each second, with the alerts of docs/operating, for the tests."""

import json
import pathlib
import shutil
import subprocess
import urllib.error
import urllib.parse
import urllib.request

import harness

ALERTS = pathlib.Path(__file__).parents[2] / "docs/operating/alerts.yml"


class Prometheus:
    """`targets`: HOST:PORT of each server's --http. It ends with the test case."""

    def __init__(self, case, targets):
        self.url = f"http://127.0.0.1:{harness.free_port()}"
        config = case.write("prometheus.yml", f"""
            global: {{scrape_interval: 1s, evaluation_interval: 1s}}
            rule_files: [{ALERTS}]
            scrape_configs: [{{job_name: remora, static_configs: [{{targets: {json.dumps(targets)}}}]}}]
        """)  # fmt: skip
        with open(case.folder / "prometheus.log", "wb") as log:
            process = subprocess.Popen(
                ["prometheus", f"--config.file={config}", f"--storage.tsdb.path={case.folder}/tsdb",
                 f"--web.listen-address={self.url.removeprefix('http://')}"],
                stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        case.addCleanup(process.wait)
        case.addCleanup(process.kill)

    def ask(self, path):
        try:
            with urllib.request.urlopen(f"{self.url}/api/v1/{path}", timeout=harness.PATIENCE) as answer:
                return json.load(answer)["data"]
        except OSError:  # it is starting
            return {}

    def query(self, expression):
        """The value of the first series, or None."""
        found = self.ask(f"query?query={urllib.parse.quote(expression)}").get("result")
        return float(found[0]["value"][1]) if found else None

    def error_of(self, expression):
        """Prometheus' words about an expression that it cannot evaluate."""
        try:
            url = f"{self.url}/api/v1/query?query={urllib.parse.quote(expression)}"
            with urllib.request.urlopen(url, timeout=harness.PATIENCE) as answer:
                answer.read()
                return ""
        except urllib.error.HTTPError as error:
            with error:
                return error.read().decode()

    def rules(self):
        return [rule for group in self.ask("rules").get("groups", []) for rule in group["rules"]]

    def await_rules(self):
        harness.wait_until(
            lambda: self.rules() and all(rule["health"] == "ok" for rule in self.rules()), "each alert was evaluated"
        )

    def await_value(self, expression, value):
        harness.wait_until(lambda: self.query(expression) == value, f"{expression} is {value}")

    def await_no_alert(self, who):
        """A scrape that a busy machine delays for a second fails, and causes an alert until the next one."""
        self.await_rules()
        harness.wait_until(lambda: not self.alerts(), f"{who} causes no alert")

    def alerts(self):
        """Pairs of an alert and the instance that causes it, also for less time than its `for` says."""
        return {(one["labels"]["alertname"], one["labels"]["instance"]) for rule in self.rules() for one in rule["alerts"]}


def check_programs():
    for tool in ("prometheus", "promtool"):
        if shutil.which(tool) is None:
            raise SystemExit(f"{tool} is missing: run tools/install-deps test")
