"""A primary and its follower as an operator sees them: kvctl doctor and top, alerts, and an upgrade of both."""

import json
import pathlib
import re
import subprocess
import unittest

import harness
import prometheus
import redis_pair
from replication_test import ReplicationCase
from top_test import Terminal

DASHBOARD = pathlib.Path(__file__).parents[2] / "docs/operating/grafana-dashboard.json"


class OperatorCase(ReplicationCase):
    def writes(self, name):
        """The check of writes of kvctl doctor."""
        output = harness.kvctl(self.at(name), "doctor", "--json").stdout
        return {check["name"]: check for check in json.loads(output)["checks"]}["writes"]


class ViewsTest(OperatorCase):
    def terminal(self, name, **size):
        terminal = Terminal(f"--server={self.at(name)}", "--interval=50ms", **size)
        self.addCleanup(terminal.close)
        return terminal

    def await_away(self):
        harness.wait_until(lambda: self.stat("p", "followers_away") == 1, "the follower is away")

    def test_doctor(self):
        follower = self.follower("f")
        primary = self.start("p", to=["f"])
        self.await_serving("p")
        self.assertEqual(self.writes("p")["verdict"], "ok")
        check = self.writes("f")
        self.assertEqual(check["verdict"], "warning")
        self.assertIn("follows a primary", check["found"])
        self.assertIn(f"kvctl --server={self.at('f')} promote", check["remedy"])
        follower.kill()
        self.await_away()
        check = self.writes("p")
        self.assertEqual((check["verdict"], check["value"]), ("problem", 1))
        self.assertIn("a follower is away", check["found"])
        primary.kill()
        self.start("p", to=["f"])
        check = self.writes("p")
        self.assertEqual((check["verdict"], check["value"]), ("problem", 1))
        self.assertIn("waits for its followers", check["found"])
        self.assertIn("--replicate_to", check["remedy"])

    def test_top(self):
        follower = self.follower("f")
        self.start("p", to=["f"])
        self.await_serving("p")
        self.put("p", "key", "value")
        of_follower = self.terminal("f")
        of_follower.await_text(b"NOT READY: the server follows a primary, and serves no clients")
        of_follower.await_text(b"replication: follower, epoch 1, groups applied ")
        of_primary, small = self.terminal("p"), self.terminal("p", rows=10, columns=40)
        of_primary.await_text(b"ready  watched for ")
        of_primary.await_text(b"replication: primary, epoch 1, followers 1 of 1, groups pending 0")
        follower.kill()
        of_primary.await_text(b"NOT READY: a follower is away, for which writes wait; the log has its name")
        of_primary.await_text(b"followers 0 of 1")
        small.await_page(
            lambda page: b" ".join(line.strip() for line in page[1:4]).startswith(
                b"NOT READY: a follower is away, for which writes wait; the log has its name"
            ) and max(map(len, page)) <= 40 and len(page) == 10,
            "the reason, on lines of 40 columns",
        )  # fmt: skip

    def test_redis_clients(self):
        follower = self.follower("f")
        self.start("p", to=["f"])
        self.await_serving("p")
        path = f"{self.folder}/gate.sock"
        gate = redis_pair.Gate(f"--listen=redis://{path}", f"--server={self.at('p')}")
        self.addCleanup(gate.close)
        wire = redis_pair.Wire(path)
        self.addCleanup(wire.close)
        self.assertEqual(wire.call("SET", "key", "value"), b"+OK\r\n")
        self.assertEqual(wire.call("WAIT", 1, 0), b":1\r\n")
        self.assertIn(b"\r\nrole:master\r\nconnected_slaves:1\r\n", wire.call("INFO", "replication"))
        follower.kill()
        harness.wait_until(
            lambda: b"\r\nconnected_slaves:0\r\n" in wire.call("INFO", "replication"), "the follower is away"
        )
        self.assertEqual(wire.call("WAIT", 1, 0), b":1\r\n", "it has what was acknowledged")

    def test_alerts(self):
        ports = {name: harness.free_port() for name in "pf"}
        instances = {name: f"127.0.0.1:{port}" for name, port in ports.items()}
        follower = self.follower("f", f"--http={instances['f']}")
        primary = self.start("p", f"--http={instances['p']}", "--replication_buffer=3M", to=["f"])
        self.await_serving("p")
        watcher = prometheus.Prometheus(self, list(instances.values()))
        harness.wait_until(lambda: watcher.query("sum(remora_replication_role)") == 4, "both are scraped")
        watcher.await_value(f'remora_ready{{instance="{instances["f"]}"}}', 0)
        watcher.await_no_alert("a healthy pair")
        expressions = [
            target["expr"].replace("$__rate_interval", "1m").replace("$instance", ".*")
            for panel in json.loads(DASHBOARD.read_text())["panels"] for target in panel["targets"]
        ]  # fmt: skip
        named = set(re.findall(r"\bremora_(?:replication|followers|groups)\w*", " ".join(expressions)))
        self.assertEqual(len(named), 9)
        for expression in (one for one in expressions if any(name in one for name in named)):
            harness.wait_until(lambda one=expression: watcher.query(one) is not None, f"{expression} has a value")

        limit = 'remora_replication_buffer_bytes{instance="%s"}'
        for name, value in (("p", 3 << 20), ("f", 0)):
            watcher.await_value(limit % instances[name], value)

        follower.kill()
        harness.wait_until(
            lambda: ("RemoraFollowerAway", instances["p"]) in watcher.alerts(), "the follower's absence is an alert"
        )
        self.assertNotIn(("RemoraReplicationWaits", instances["p"]), watcher.alerts())
        primary.kill()
        self.start("p", f"--http={instances['p']}", to=["f"])
        harness.wait_until(
            lambda: ("RemoraReplicationWaits", instances["p"]) in watcher.alerts(), "a primary that waits is an alert"
        )

    def test_when_alerts_fire(self):
        """Over minutes, by promtool's clock."""

        series = {
            'remora_ready{instance="%s",job="remora"}': {"f": "0x30", "loads": "0x30", "p": "0x30"},
            'remora_replication_role{instance="%s",job="remora"}': {"f": "1x30", "loads": "1x30", "p": "3x30"},
            'remora_loading{instance="%s",job="remora"}': {"f": "0x30", "loads": "1x30", "p": "0x30"},
            'remora_followers_away{instance="%s",job="remora"}': {"f": "0x30", "p": "0 1x20 0x9"},
            'remora_cluster_members{instance="%s",job="remora"}': {"f": "0x30", "p": "3x30"},
            'remora_cluster_members_in_sync{instance="%s",job="remora"}': {"f": "0x30", "p": "3 2x13 1x5 3x10"},
            'remora_cluster_min_in_sync{instance="%s",job="remora"}': {"f": "0x30", "p": "2x30"},
            # Of a quarter of the default limit, and of three times the default.
            'remora_replication_pending_bytes{instance="%s",job="remora"}': {
                "f": "0x30", "p": "0 50000000x9 52000000x20", "large": "520000000x30", "alone": "0x30"},
            'remora_replication_buffer_bytes{instance="%s",job="remora"}': {
                "f": "0x30", "p": "67108864x30", "large": "805306368x30", "alone": "0x30"},
        }
        cases = [
            ("RemoraNotReady", 9, set()), ("RemoraNotReady", 20, {"loads", "p"}),
            ("RemoraFollowerAway", 1, set()), ("RemoraFollowerAway", 3, {"p"}), ("RemoraFollowerAway", 25, set()),
            ("RemoraReplicationPending", 9, set()), ("RemoraReplicationPending", 20, {"p"}),
            ("RemoraReplicationWaits", 20, set()),
            ("RemoraMembersNotInSync", 9, set()), ("RemoraMembersNotInSync", 12, {"p"}), ("RemoraMembersNotInSync", 25, set()),
            ("RemoraBelowMinInSync", 14, set()), ("RemoraBelowMinInSync", 18, {"p"}), ("RemoraBelowMinInSync", 25, set()),
        ]  # fmt: skip
        firing = 'ALERTS{alertname="%s",alertstate="firing"}'
        tests = {
            "rule_files": [str(prometheus.ALERTS)],
            "tests": [{
                "interval": "1m",
                "input_series": [
                    {"series": key % name, "values": values} for key, of in series.items() for name, values in of.items()
                ],
                "promql_expr_test": [
                    {"expr": f"sum by (instance) ({firing % name})", "eval_time": f"{minute}m",
                     "exp_samples": [{"labels": f'{{instance="{one}"}}', "value": 1} for one in sorted(instances)]}
                    for name, minute, instances in cases
                ],
            }],
        }  # fmt: skip
        run = subprocess.run(
            ["promtool", "test", "rules", self.write("tests.yml", json.dumps(tests))], capture_output=True, text=True,
            timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)


class UpgradeTest(OperatorCase):
    """The steps of docs/operating/upgrade.md. The same programs stand for the earlier and the later release."""

    def both(self, *arguments):
        return harness.kvctl(f"{self.at('p')},{self.at('f')}", *arguments)

    def upgrade_follower(self, follower):
        """Step 2, while a client writes."""
        follower.stop()
        harness.wait_until(lambda: self.stat("p", "followers_away") == 1, "the follower is away")
        waiting = subprocess.Popen(
            [harness.program("kvctl"), f"--server={self.at('p')}", "--timeout=60000", "put", "meanwhile", "1"],
            stdin=subprocess.DEVNULL,
        )  # fmt: skip
        self.follower("f", to=["p"])
        self.assertEqual(waiting.wait(harness.PATIENCE), 0)

    def test_with_a_promotion(self):
        follower = self.follower("f", f"--backup_dir={self.folder}/backups")
        primary = self.start("p", to=["f"])
        self.await_serving("p")
        self.put("p", "key", "1")
        self.expect(self.kvctl("f", "backup"), 0)
        self.upgrade_follower(follower)
        self.assertEqual(primary.stop()[0], 0)
        self.expect(self.kvctl("f", "promote"), 0, "epoch 2")
        self.expect(self.kvctl("f", "get", "key"), 69, "it waits for its followers")
        self.follow_in_place("p")
        self.assertEqual(self.writes("f")["verdict"], "problem")
        self.follower("p")
        harness.wait_until(lambda: self.writes("f")["verdict"] == "ok", "the promoted server serves")
        self.assertEqual((self.get("f", "key"), self.get("f", "meanwhile")), ("1", "1"))
        self.expect(self.both("put", "key", "2"), 0)
        self.expect(self.kvctl("p", "promote"), 0, "epoch 3")
        self.assertEqual((self.get("p", "key"), self.get("p", "meanwhile")), ("2", "1"))

    def test_without_a_promotion(self):
        follower = self.follower("f")
        primary = self.start("p", to=["f"])
        self.await_serving("p")
        self.put("p", "key", "1")
        self.upgrade_follower(follower)
        self.assertEqual(primary.stop()[0], 0)
        self.start("p", to=["f"])
        self.await_serving("p")
        self.assertEqual((self.get("p", "key"), self.get("p", "meanwhile")), ("1", "1"))
        self.put("p", "key", "2")


if __name__ == "__main__":
    prometheus.check_programs()
    unittest.main()
