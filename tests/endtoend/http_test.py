"""kvserver --http: its endpoints, also as Prometheus scrapes them; bad clients take nothing from others."""

import contextlib
import importlib.machinery
import importlib.util
import json
import os
import pathlib
import re
import select
import socket
import subprocess
import time
import unittest
import urllib.error
import urllib.request

import harness
import prometheus
from harness import kvctl

ROOT = pathlib.Path(__file__).parents[2]
DASHBOARD = ROOT / "docs/operating/grafana-dashboard.json"
MOST_CONNECTIONS = 32
# How long half a request is held; the long tier holds it for a minute.
HELD_SECONDS = int(os.environ.get("REMORA_HELD_SECONDS", "0"))
REQUEST = b"GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n"


def registry():
    loader = importlib.machinery.SourceFileLoader("metrics_pages", str(ROOT / "tools/metrics-pages"))
    module = importlib.util.module_from_spec(importlib.util.spec_from_loader(loader.name, loader))
    loader.exec_module(module)
    return module.registry()


METRICS = registry()


class HttpTestCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.port = harness.free_port()
        self.http = f"127.0.0.1:{self.port}"

    def serve(self, *flags):
        self.kvserver = self.memory_server(f"--http={self.http}", *flags)
        return self.kvserver

    def get(self, path):
        """Status, content type and text."""
        try:
            with urllib.request.urlopen(f"http://{self.http}{path}", timeout=harness.PATIENCE) as answer:
                return answer.status, answer.headers["Content-Type"], answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.headers["Content-Type"], error.read().decode()

    def values(self):
        """The samples of /metrics without labels."""
        return {
            name: float(value)
            for name, value in re.findall(r"^([a-z_]+) (\S+)$", self.get("/metrics")[2], re.MULTILINE)
        }

    def connect(self):
        connection = socket.create_connection(("127.0.0.1", self.port), timeout=harness.PATIENCE)
        self.addCleanup(connection.close)
        return connection

    def exchange(self, *pieces):
        """Sends the pieces; returns all bytes up to the end of the connection."""
        with self.connect() as connection:
            for piece in pieces:
                connection.sendall(piece)
            received = []
            while more := connection.recv(1 << 16):
                received.append(more)
            return b"".join(received)


class ServesTest(HttpTestCase):
    def test_each_metric_of_the_registry_is_there_once(self):
        self.serve()
        self.assertEqual(kvctl(self.address, "put", "key", "value").returncode, 0)
        status, content_type, text = self.get("/metrics")
        self.assertEqual((status, content_type), (200, "text/plain; version=0.0.4; charset=utf-8"))
        for metric in METRICS:
            with self.subTest(metric.name):
                family, name = metric.family, re.escape(metric.prometheus_name)
                self.assertEqual(re.findall(rf"^# HELP {family} (.*)$", text, re.MULTILINE), [metric.family_help])
                self.assertEqual(re.findall(rf"^# TYPE {family} (.*)$", text, re.MULTILINE), [metric.kind])
                if metric.kind == "histogram":
                    self.assertEqual(len(re.findall(rf"^{name}_(?:sum|count) \S+$", text, re.MULTILINE)), 2)
                    self.assertEqual(len(re.findall(rf'^{name}_bucket{{le="\S+"}} \d+$', text, re.MULTILINE)), 20)
                else:
                    self.assertEqual(len(re.findall(rf"^{name} \S+$", text, re.MULTILINE)), 1)
        names = re.findall(r"^# TYPE (\S+) ", text, re.MULTILINE)
        own = {"remora_build_info", "process_start_time_seconds", "remora_uptime_seconds", "remora_ready"}
        self.assertEqual(sorted(names), sorted(own | {metric.family for metric in METRICS}))
        (labels,) = re.findall(r"^remora_build_info\{(.*)\} 1$", text, re.MULTILINE)
        labels = dict(re.findall(r'(\w+)="([^"]*)"', labels))
        self.assertEqual(set(labels), {"version", "commit", "format"})
        self.assertRegex(labels["version"], r"^[0-9.]+$")
        self.assertRegex(labels["commit"], r"^([0-9a-f]{12}(-dirty)?|unknown)$")
        for name in own:
            self.assertIn(f"`{name}`", (ROOT / "docs/operating/metrics.md").read_text())

    def test_values_are_those_of_kvctl_and_move(self):
        self.serve()
        for i in range(7):
            self.assertEqual(kvctl(self.address, "put", f"key{i}", "value").returncode, 0)
        counters = harness.stats(self.address)
        values = self.values()
        for metric in METRICS:
            if metric.name in ("puts", "keys", "memory_bytes", "last_version", "connections_broken", "tokens"):
                self.assertEqual(values[metric.prometheus_name], counters[metric.name], metric.name)
        self.assertEqual((values["remora_puts_total"], values["remora_keys"]), (7, 7))
        self.assertEqual(kvctl(self.address, "put", "key", "value").returncode, 0)
        self.assertEqual(self.values()["remora_puts_total"], 8)
        self.assertGreater(values["remora_uptime_seconds"], 0)
        self.assertLess(abs(values["process_start_time_seconds"] - time.time()), 3600)

    def test_health_readiness_and_facts(self):
        self.serve()
        self.assertEqual(self.get("/healthz"), (200, "text/plain; charset=utf-8", "ok\n"))
        self.assertEqual(self.get("/readyz"), (200, "text/plain; charset=utf-8", "ready\n"))
        self.assertEqual(self.get("/nothing")[0], 404)
        status, content_type, text = self.get("/info.json")
        self.assertEqual((status, content_type), (200, "application/json"))
        facts = json.loads(text)
        self.assertEqual((facts["durability"], facts["memory_bytes"], facts["ready"]), ("memory", 64 << 20, True))
        self.assertEqual(list(facts["metrics"]), [m.name for m in METRICS if m.kind != "histogram"])
        self.assertEqual(list(facts["histograms"]), [m.name for m in METRICS if m.kind == "histogram"])
        for histogram in facts["histograms"].values():
            self.assertEqual(len(histogram["buckets"]), len(facts["histogram_bounds_ns"]) + 1)
        self.assertIn(facts["version"], kvctl(None, "--version").stdout.decode())
        self.assertEqual(facts["shard"], "")
        self.assertIn(f'commit="{facts["commit"]}"', self.get("/metrics")[2])

    def test_a_shard_says_which_it_is(self):
        self.serve("--shard=9f86d081884c7d65/north")
        self.assertEqual(json.loads(self.get("/info.json")[2])["shard"], "9f86d081884c7d65/north")

    def test_nothing_shows_a_key_a_value_or_a_secret(self):
        token = self.make_token("importer")
        tokens = self.write("tokens", token)
        self.serve(f"--tokens={tokens}")
        mine = self.write("mine", token)
        run = kvctl(self.address, "put", "abckey", "abcvalue", env={**os.environ, "REMORA_TOKEN_FILE": mine})
        self.assertEqual(run.returncode, 0, run.stderr)
        for path in ("/metrics", "/healthz", "/readyz", "/info.json", "/segments.json", "/clients.json", "/followers.json", "/", "/?abc"):
            text = self.get(path)[2]
            for secret in ("abckey", "abcvalue", token.split()[2], "importer", str(self.folder)):
                self.assertNotIn(secret, text, path)

    def test_a_connection_serves_one_request_after_another(self):
        self.serve()
        with self.connect() as connection:
            for _ in range(3):
                connection.sendall(REQUEST)
                self.assertIn(b"\r\n\r\nok\n", connection.recv(4096))
        both = self.exchange(REQUEST, REQUEST.replace(b"Host: localhost", b"Host: localhost\r\nConnection: close"))
        self.assertEqual(both.count(b"HTTP/1.1 200 OK"), 2)
        self.assertEqual(both.count(b"\r\n\r\nok\n"), 2)

    def test_pages_of_other_sites_are_rejected(self):
        """Their browser resolves the name of the site to this machine, and asks for that name (DNS rebinding)."""
        self.serve("--http_host=db1.example", "--http_host=Monitor")

        def answer(host, version=b"1.1"):
            return self.exchange(b"GET /metrics HTTP/%s\r\nConnection: close\r\n%s\r\n" % (version, host))

        port = b":%d" % self.port
        for host in (b"localhost", b"localhost" + port, b"127.0.0.1" + port, b"[::1]" + port, b"db1.example", b"monitor" + port):
            text = answer(b"Host: " + host + b"\r\n")
            self.assertRegex(text, rb"\AHTTP/1.1 200 OK\r\n", host)
            self.assertIn(b"remora_puts_total", text)
        for host in (b"attacker.example", b"attacker.example" + port, b"127.0.0.1.attacker.example", b"db1", b""):
            text = answer(b"Host: " + host + b"\r\n")
            self.assertRegex(text, rb"\AHTTP/1.1 421 Misdirected Request\r\n", host)
            self.assertIn(b"--http_host=NAME", text)
            self.assertNotIn(b"remora_puts_total", text)
        self.assertRegex(answer(b""), rb"\AHTTP/1.1 400 ")
        self.assertRegex(answer(b"Host: localhost\r\nHost: attacker.example\r\n"), rb"\AHTTP/1.1 400 ")
        self.assertIn(b"remora_puts_total", answer(b"", version=b"1.0"))

    def test_the_host_of_the_address_is_admitted(self):
        request = b"GET /healthz HTTP/1.1\r\nHost: 127.1\r\nConnection: close\r\n\r\n"
        server = self.serve()
        self.assertRegex(self.exchange(request), rb"\AHTTP/1.1 421 ")
        server.stop()
        self.http = f"127.1:{self.port}"  # an address for the resolver, and no IP address in its usual form
        self.serve()
        self.assertRegex(self.exchange(request), rb"\AHTTP/1.1 200 OK\r\n")

    def test_promtool_finds_no_fault(self):
        self.serve()
        run = subprocess.run(
            ["promtool", "check", "metrics"], input=self.get("/metrics")[2], capture_output=True, text=True,
            timeout=harness.PATIENCE, check=False,
        )  # fmt: skip
        self.assertEqual((run.returncode, run.stdout + run.stderr), (0, ""))

    def test_alerts_name_metrics_that_exist(self):
        self.serve()
        run = subprocess.run(
            ["promtool", "check", "rules", prometheus.ALERTS], capture_output=True, text=True, timeout=harness.PATIENCE, check=False
        )  # fmt: skip
        self.assertEqual(run.returncode, 0, run.stdout + run.stderr)
        text = prometheus.ALERTS.read_text()
        expressions = re.findall(r"^ +expr: (.*)$", text, re.MULTILINE)
        alerts = re.findall(r"^ +- alert: (.*)$", text, re.MULTILINE)
        self.assertEqual((len(expressions), len(set(alerts))), (len(alerts), len(alerts)))
        named = set(re.findall(r"\b(?:remora|process)_\w+", " ".join(expressions)))
        self.assertGreater(len(named), 5)
        self.assertLessEqual(named, set(re.findall(r"^# TYPE (\S+) ", self.get("/metrics")[2], re.MULTILINE)))
        page = (ROOT / "docs/operating/metrics.md").read_text()
        self.assertEqual([alert for alert in alerts if f"`{alert}`" not in page], [])

    def dashboard_expressions(self):
        """With a value for each variable of Grafana."""
        text = DASHBOARD.read_text().replace("$__rate_interval", "1m").replace("$instance", ".*")
        return [target["expr"] for panel in json.loads(text)["panels"] for target in panel["targets"]]

    def test_the_dashboard_names_metrics_that_exist(self):
        self.serve()
        dashboard = json.loads(DASHBOARD.read_text())
        expressions = self.dashboard_expressions()
        self.assertGreater(len(expressions), 30)
        named = set(re.findall(r"\b(?:remora|process)_\w+", " ".join(expressions)))
        text = self.get("/metrics")[2]
        self.assertLessEqual(named, set(re.findall(r"^(\w+)[ {]", text, re.MULTILINE)))
        for metric in METRICS:
            if metric.kind == "histogram":
                self.assertIn(f"{metric.family}_bucket", named)
        # Each place of the grid has one panel, and each panel and query a name of its own.
        places = [panel["gridPos"] for panel in dashboard["panels"]]
        cells = [(place["x"] + x, place["y"] + y) for place in places for x in range(place["w"]) for y in range(place["h"])]
        self.assertEqual((len(set(cells)), max(x for x, _ in cells)), (len(cells), 23))
        self.assertEqual(len({panel["id"] for panel in dashboard["panels"]}), len(dashboard["panels"]))
        for panel in dashboard["panels"]:
            self.assertEqual(len({target["refId"] for target in panel["targets"]}), len(panel["targets"]))

    def test_prometheus_scrapes_it(self):
        self.serve()
        for i in range(5):
            self.assertEqual(kvctl(self.address, "put", f"key{i}", "value").returncode, 0)
        watcher = prometheus.Prometheus(self, [self.http])
        watcher.await_value("remora_puts_total", 5)
        watcher.await_value('up{job="remora"}', 1)
        watcher.await_value("remora_ready", 1)
        watcher.await_no_alert("a healthy server")
        self.assertEqual(kvctl(self.address, "put", "key", "value").returncode, 0)
        watcher.await_value("remora_puts_total", 6)
        watcher.await_value("remora_commit_seconds_count", 6)
        # An expression has a value only between scrapes that were made.
        watcher.await_value("histogram_quantile(0.5, remora_commit_seconds_bucket) > bool 0", 1)
        watcher.await_value("histogram_quantile(0.5, remora_commit_seconds_bucket) < bool 17", 1)
        watcher.await_value('remora_transport_connections{transport="local"}', 0)
        for expression in self.dashboard_expressions():
            self.assertEqual(watcher.error_of(expression), "", expression)


class FullDiskTest(HttpTestCase):
    def test_a_server_without_clients_is_ready_again_once_there_is_space(self):
        disk = self.folder / "disk"
        disk.mkdir()
        mounted = subprocess.run(
            ["mount", "-t", "tmpfs", "-o", "size=60m", "tmpfs", str(disk)], capture_output=True, check=False
        )
        if mounted.returncode != 0:
            self.skipTest("mounting a small file system is not permitted here")
        self.addCleanup(subprocess.run, ["umount", str(disk)], check=True)
        (disk / "filler").write_bytes(bytes(30 << 20))
        self.server(f"--http={self.http}", f"--data_dir={disk}/data", "--memory=64M", "--commit_log=8M")
        value = os.urandom(200_000)  # which RocksDB does not compress
        codes = [0]
        while codes[-1] == 0 and len(codes) < 100:
            codes.append(kvctl(self.address, "put", f"key{len(codes)}", stdin=value).returncode)
        self.assertEqual(codes[-1], 74)

        def stays_full():
            """The server may have freed space meanwhile, and take writes again: that is used up, too."""
            with open(disk / "plug", "ab", buffering=0) as plug, contextlib.suppress(OSError):
                while plug.write(bytes(4096)):
                    pass
            run = kvctl(self.address, "put", "more", stdin=value)
            return run.returncode == 74 and self.get("/readyz")[0] == 503

        harness.wait_until(stays_full, "it is not ready")
        # No client asks from here on.
        (disk / "filler").unlink()
        (disk / "plug").unlink()
        harness.wait_until(lambda: self.get("/readyz")[0] == 200, "it is ready again")
        self.assertEqual(self.values()["remora_disk_refuses"], 0)
        self.assertEqual(kvctl(self.address, "put", "after", stdin=value).returncode, 0)


class BadClientsTest(HttpTestCase):
    def setUp(self):
        super().setUp()
        self.serve()
        self.process = pathlib.Path("/proc", str(self.kvserver.process.pid))

    def descriptors(self):
        return len(os.listdir(self.process / "fd"))

    def threads(self):
        return len(os.listdir(self.process / "task"))

    def resident(self):
        return int(re.search(r"^RssAnon:\s+(\d+) kB", (self.process / "status").read_text(), re.MULTILINE).group(1))

    def expect_service(self):
        """Others are served, over HTTP and over the local transport."""
        self.assertEqual(self.get("/healthz")[0], 200)
        self.assertEqual(kvctl(self.address, "put", "key", "value").returncode, 0)

    def test_nonsense(self):
        for request, status in (
            (b"\r\n\r\n", b"400"), (b"\0\0\0\0\r\n\r\n", b"400"), (b"hello\r\n\r\n", b"400"),
            (b"GET\r\n\r\n", b"405"), (b"GET /healthz\r\n\r\n", b"400"), (b"GET /healthz HTTP/9.9\r\n\r\n", b"400"),
            (b"POST /metrics HTTP/1.1\r\n\r\n", b"405"),
            (b"GET /metrics HTTP/1.1\r\nContent-Length: 999999999999\r\n\r\n", b"413"),
            (b"GET /healthz HTTP/1.1\r\nHost: localhost\r\nContent-Length : 9\r\n\r\nGET / HTT", b"400"),
            (b"GET /healthz HTTP/1.1\r\nX: y\nz\r\n\r\n", b"400"), (bytes(range(256)) + b"\r\n\r\n", b"400"),
            (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03\r\n\r\n", b"400"),
        ):  # fmt: skip
            with self.subTest(request=request[:40]), self.connect() as connection:
                connection.sendall(request)
                connection.shutdown(socket.SHUT_WR)
                self.assertRegex(connection.recv(4096), rb"\AHTTP/1.1 " + status)
        self.expect_service()

    def test_a_mebibyte_of_headers_is_rejected_and_not_kept(self):
        before = self.resident()
        line = b"X-Field: " + b"x" * 1000 + b"\r\n"
        for head in (line * 1024, b"X: " + b"y" * (1 << 20)):
            answer = self.exchange(b"GET /metrics HTTP/1.1\r\n" + head)
            self.assertRegex(answer, rb"\AHTTP/1.1 431 ")
        self.assertLess(self.resident() - before, 16 << 10)
        self.expect_service()

    def test_half_a_request_keeps_nobody_waiting(self):
        """It is neither answered nor ended meanwhile, as nobody else needs the place of its connection."""
        held = self.connect()
        held.sendall(REQUEST[:20])
        deadline = time.monotonic() + HELD_SECONDS
        for _ in range(3):
            self.expect_service()
        while time.monotonic() < deadline:
            self.expect_service()
        self.assertEqual(select.select([held], [], [], 0)[0], [])
        held.sendall(REQUEST[20:])
        self.assertRegex(held.recv(4096), rb"\AHTTP/1.1 200 OK\r\n")

    def test_a_thousand_connections(self):
        self.expect_service()
        descriptors, threads, memory = self.descriptors(), self.threads(), self.resident()
        held = []
        for i in range(1000):
            held.append(self.connect())
            try:
                held[-1].sendall(REQUEST[: 1 + i % 20])
            except OSError:  # others have pushed it out already
                pass
            if i % 250 == 249:
                self.expect_service()
        # Beside, the server makes memory for local connections ahead, which has some descriptors.
        self.assertLessEqual(self.descriptors(), descriptors + MOST_CONNECTIONS + 32)
        self.assertLessEqual(self.threads(), threads)
        self.assertLess(self.resident() - memory, 16 << 10)
        # Those that were idle for longest have ended, and the latest are served.
        self.assertIn(self.end_of(held[0]), (b"", "reset"))
        held[-1].sendall(REQUEST[1 + 999 % 20 :])
        self.assertRegex(held[-1].recv(4096), rb"\AHTTP/1.1 200 OK\r\n")
        self.expect_service()

    def end_of(self, connection):
        try:
            return connection.recv(1)
        except ConnectionResetError:
            return "reset"

    def test_a_client_that_is_rejected_may_go_on_sending(self):
        with self.connect() as connection:
            connection.sendall(b"GET /metrics HTTP/1.1\r\nX: " + b"y" * 9000)
            select.select([connection], [], [], harness.PATIENCE)
            for _ in range(100):
                connection.sendall(b"y" * 1000)
                time.sleep(0.001)
            connection.shutdown(socket.SHUT_WR)
            self.assertRegex(connection.recv(4096), rb"\AHTTP/1.1 431 ")

    def test_clients_that_read_nothing_are_given_one_response_each(self):
        before = self.resident()
        connections = [self.connect() for _ in range(16)]
        for connection in connections:
            connection.settimeout(0.5)
            try:
                connection.sendall(REQUEST.replace(b"healthz", b"metrics") * 20000)
            except TimeoutError:
                pass  # the server takes no more
        self.expect_service()
        self.assertLess(self.resident() - before, 16 << 10)

    def test_a_flood_of_requests_gets_a_twentieth_of_a_cpu(self):
        self.expect_service()  # the thread has begun, and has its name
        (thread,) = (task for task in (self.process / "task").iterdir() if (task / "comm").read_text() == "remora-http\n")

        def used():
            return int((thread / "schedstat").read_text().split()[0]) / 1e9

        begun, before = time.monotonic(), used()
        answered = 0
        with self.connect() as connection:
            while time.monotonic() < begun + 2 or (answered <= 10 and time.monotonic() < begun + harness.PATIENCE):
                connection.sendall(REQUEST.replace(b"healthz", b"metrics") * 4)
                answered += connection.recv(1 << 20).count(b"HTTP/1.1 200 OK")
        # The burst of 100 ms, its share, and what one answer takes, on any machine and with sanitizers.
        self.assertLess(used() - before, 0.1 + (time.monotonic() - begun) / 20 + 0.1)
        self.assertGreater(answered, 10)
        self.expect_service()

    def test_a_server_that_nobody_asks_does_not_wake(self):
        held = self.connect()
        held.sendall(REQUEST[:20])
        idle = self.connect()
        idle.sendall(REQUEST)
        self.assertTrue(idle.recv(4096))

        def switches():
            return {
                task.name: re.search(r"^voluntary_ctxt_switches:\s+(\d+)", (task / "status").read_text(), re.MULTILINE)[1]
                for task in (self.process / "task").iterdir()
            }

        names = [(task / "comm").read_text() for task in (self.process / "task").iterdir()]
        self.assertIn("remora-http\n", names)

        def quiet():
            before = switches()
            time.sleep(0.5)
            return switches() == before

        # Any timer that goes on would show in each of these.
        harness.wait_until(quiet, "all threads sleep for half a second")


if __name__ == "__main__":
    prometheus.check_programs()
    unittest.main()
