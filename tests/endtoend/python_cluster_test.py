"""remora.ClusterClient: the calls of the Python package on several real servers."""

import contextlib
import math
import os
import pathlib
import re
import signal
import subprocess
import sys
import threading
import time
import unittest

import harness

PACKAGE = pathlib.Path(os.environ.get("REMORA_PYTHON") or harness.BIN.parent / "python")
sys.path.insert(0, str(PACKAGE))
import remora  # noqa: E402

SHARDS = 2
OF_ONE_SERVER = {"backup", "register", "ping", "settings", "stats"}


class ClusterTestCase(harness.TestCase):
    def setUp(self):
        super().setUp()
        self.addresses = [self.new_address(str(shard)) for shard in range(SHARDS)]
        self.topology = self.folder / "topology"
        run = harness.kvctl(None, "cluster", "init", *self.addresses)
        self.assertEqual((run.returncode, run.stderr), (0, b""))
        self.topology.write_bytes(run.stdout)
        self.cluster_id = re.search(rb"^cluster ([0-9a-f]{16})$", run.stdout, re.MULTILINE).group(1).decode()
        self.servers = [self.start(shard) for shard in range(SHARDS)]

    def start(self, shard):
        server = harness.Server(
            f"--listen={self.addresses[shard]}", f"--data_dir={self.folder}/data{shard}", "--durability=logged",
            "--memory=64M", f"--shard={self.cluster_id}/{shard}",
        )  # fmt: skip
        self.addCleanup(server.close)
        return server

    def connect(self, topology=None, **options):
        store = remora.ClusterClient(topology or self.topology, **options)
        self.addCleanup(store.close)
        return store

    def keys_of_shards(self, store):
        """One key of each shard."""
        found = {}
        for i in range(1000):
            store[f"of {i}"] = b""
        for shard, address in enumerate(self.addresses):
            with remora.Client(address) as server:
                found[shard] = next(iter(server))
        store.delete_all()
        return found


class ClusterTest(ClusterTestCase):
    def setUp(self):
        super().setUp()
        self.store = self.connect()

    def test_a_mapping(self):
        pairs = {b"key %d" % i: b"value %d" % i for i in range(100)}
        for key, value in pairs.items():
            self.store[key] = value
        self.assertEqual([self.store[key] for key in pairs], list(pairs.values()))
        self.assertEqual(dict(self.store), pairs)
        self.assertEqual(len(self.store), 100)
        self.assertIn("key 5", self.store)
        self.assertNotIn("key", self.store)
        del self.store["key 5"]
        self.assertIsNone(self.store.get("key 5"))
        with self.assertRaises(KeyError):
            self.store["key 5"]
        counts = []
        for address in self.addresses:
            with remora.Client(address) as server:
                counts.append(server.count(prefix="key"))
        self.assertEqual(sum(counts), 99)
        self.assertGreater(min(counts), 0)

    def test_calls_of_a_key(self):
        for key in self.keys_of_shards(self.store).values():
            version = self.store.put(key, b"1", condition=remora.ABSENT, ttl=60)
            self.assertEqual(self.store.get_versioned(key), (b"1", version))
            self.assertRaises(remora.AlreadyExists, self.store.put, key, b"2", condition=remora.ABSENT)
            self.assertLessEqual(self.store.ttl(key), 60)
            self.store.persist(key)
            self.assertEqual(self.store.ttl(key), math.inf)
            self.assertEqual(self.store.increment(key, 41), 42)
            self.assertEqual(self.store.append(key, b"!"), 3)
            self.store.touch(key, 60)
            self.assertEqual(self.store.visit(key, bytes), b"42!")
            self.assertEqual(self.store.visit_versioned(key, len)[0], 3)
            self.store.delete(key)
            self.assertRaises(remora.NotFound, self.store.visit, key, bytes)
        self.assertRaises(remora.InvalidArgument, self.store.get, "")

    def test_many_keys(self):
        pairs = {b"key %d" % i: b"value %d" % i for i in range(100)}
        versions = self.store.put_many(pairs)
        self.assertEqual([self.store.get_versioned(key) for key in pairs], list(zip(pairs.values(), versions)))
        self.assertEqual(self.store.get_many([*pairs, "none"]), [*pairs.values(), None])
        failed = self.store.put_many([(key, b"") for key in pairs], condition=remora.ABSENT)
        self.assertTrue(all(isinstance(error, remora.AlreadyExists) for error in failed))
        self.assertEqual(self.store.count(prefix="key 1"), 11)
        self.assertEqual(self.store.delete_range(prefix="key 1"), 11)
        self.assertEqual(self.store.delete_all(), 89)
        self.assertEqual(self.store.counters()["reconnects"], 0)
        self.assertGreater(self.store.metrics()["requests"], 0)

    def test_batches(self):
        batch = remora.Batch()
        batch.put("user:{42}:name", b"Ada")
        batch.put("user:{42}:changes", b"1")
        self.store.apply(batch)
        self.assertEqual(self.store["user:{42}:changes"], b"1")
        batch.put("user:{43}:name", b"Bob")
        with self.assertRaisesRegex(remora.InvalidArgument, "different slots"):
            self.store.apply(batch)
        self.assertIsNone(self.store.get("user:{43}:name"))

    def test_scans(self):
        pairs = sorted((b"key %d" % i, b"value %d" % i) for i in range(100))
        self.store.put_many(pairs)
        self.assertEqual(list(self.store.scan()), pairs)
        self.assertEqual(list(self.store.scan(reverse=True, limit=5)), pairs[:-6:-1])
        self.assertEqual(list(self.store.scan(prefix="key 1", keys_only=True)), [k for k, _ in pairs if k.startswith(b"key 1")])
        self.assertEqual(sorted(self.store.values()), sorted(value for _, value in pairs))
        scan = self.store.scan(limit=30)
        first = list(scan)
        self.assertEqual(scan.expiry(), math.inf)
        self.assertEqual(first + list(self.store.scan(resume_token=scan.resume_token())), pairs)
        scan, dropped = self.store.scan(), self.store.scan()
        next(scan)
        del dropped
        self.store.close()
        self.assertRaisesRegex(RuntimeError, "closed", next, scan)
        self.assertRaisesRegex(RuntimeError, "closed", self.store.get, "key 1")

    def test_watches(self):
        watch = self.store.watch(prefix="user:", timeout=harness.PATIENCE)
        self.assertIsNone(watch.next(timeout=0))
        names = [b"user:%d" % i for i in range(10)]
        self.store.put_many((name, b"x") for name in [*names, b"other"])
        shown = [next(watch) for _ in names]
        self.assertEqual(sorted(change.key for change in shown), names)
        self.assertEqual({(change.kind, change.value) for change in shown}, {("put", b"x")})
        again = self.store.watch(prefix="user:", resume_token=watch.resume_token())
        del self.store[names[3]]
        for each in (watch, again):
            self.assertEqual((each.next().key, each.next(timeout=0)), (names[3], None))
        self.assertRaisesRegex(ValueError, "of 1 shards", self.store.watch, resume_token=watch.resume_token().split(".")[0])
        self.store.close()
        self.assertRaisesRegex(RuntimeError, "closed", next, watch)

    def test_calls_of_one_server_are_those_of_its_client(self):
        def public(kind):
            return {name for name in dir(kind) if not name.startswith("_")}

        self.assertEqual(public(remora.Client) - public(remora.ClusterClient), OF_ONE_SERVER)
        self.assertEqual(public(remora.ClusterClient) - public(remora.Client), set())
        with self.assertRaises(AttributeError):
            self.store.ping()

    def test_a_shard_that_is_gone_concerns_its_keys_alone(self):
        here, there = self.keys_of_shards(self.store).values()
        self.store.put_many({here: b"a", there: b"b"})
        store = self.connect(timeout=3)  # of which shard 0 needs a part
        self.servers[1].kill()
        self.assertEqual(store[here], b"a")
        for call in (lambda: store[there], lambda: store.get_many([here, there]), lambda: len(store),
                     lambda: store.put_many({here: b"c", there: b"d"})):  # fmt: skip
            with self.assertRaisesRegex(remora.Unavailable, rf"shard 1 \({self.addresses[1]}\)"):
                call()
        self.assertEqual(store[here], b"c")
        other = self.connect(timeout=harness.PATIENCE, connect_timeout=3)
        self.assertEqual(other[here], b"c")
        self.start(1)

        def is_read():
            with contextlib.suppress(remora.Unavailable, remora.DeadlineExceeded):
                return store[there] == b"b"
            return False

        harness.wait_until(is_read, "the shard serves again")
        self.assertEqual(other[there], b"b")

    def test_the_outcome_of_each_key_where_a_shard_is_gone(self):
        pairs = {b"key %d" % i: b"value %d" % i for i in range(100)}
        bad = [(b"", b"no key")]
        # Without a second try, the calls end as soon as the server is found to be gone.
        store, late = (self.connect(reconnect=False, timeout=harness.PATIENCE) for _ in range(2))
        store.put_many(pairs)
        store.get_many(pairs)
        self.servers[1].kill()
        for client in (store, late, self.connect(reconnect=False, timeout=harness.PATIENCE)):
            with self.subTest(client), self.assertRaisesRegex(remora.Unavailable, "shard 1") as raised:
                client.put_many([*((key, b"new " + value) for key, value in pairs.items()), *bad])
            outcomes = dict(zip([*pairs, b""], raised.exception.outcomes, strict=True))
            self.assertIn("101 keys", raised.exception.__notes__[0])
            self.assertIsInstance(outcomes.pop(b""), remora.InvalidArgument)
            done = {key for key, outcome in outcomes.items() if isinstance(outcome, int)}
            self.assertTrue(0 < len(done) < 100)
            for key in pairs:
                if key in done:
                    self.assertEqual(self.store.get_versioned(key), (b"new " + pairs[key], outcomes[key]))
                else:
                    self.assertIsInstance(outcomes[key], remora.Unavailable)
                    self.assertRegex(str(outcomes[key]), rf"shard 1 \({self.addresses[1]}\)")
            with self.assertRaisesRegex(remora.Unavailable, "shard 1") as raised:
                client.get_many([*pairs, b"none of it"])
            for key, outcome in zip(pairs, raised.exception.outcomes):
                if key in done:
                    self.assertEqual(outcome, b"new " + pairs[key])
                else:
                    self.assertIsInstance(outcome, remora.Unavailable)
            # All keys of one shard go another way.
            alone = [key for key in pairs if key not in done]
            with self.assertRaises(remora.Unavailable) as raised:
                client.put_many([*((key, b"") for key in alone), *bad])
            kinds = [type(outcome) for outcome in raised.exception.outcomes]
            self.assertEqual(set(kinds[:-1]), {remora.Unavailable})
        self.start(1)
        for key, value in pairs.items():
            self.assertEqual(self.store[key], b"new " + value if key in done else value)

    def test_one_thread_at_a_time(self):
        store = self.connect(timeout=harness.PATIENCE)
        here, there = self.keys_of_shards(store).values()
        harness.freeze(self.servers[1].process)
        self.addCleanup(self.servers[1].process.send_signal, signal.SIGCONT)
        thread = threading.Thread(target=store.put, args=(there, b"b"))
        thread.start()

        def is_in_use():
            try:
                store.get(here)
            except RuntimeError as error:
                return "another thread" in str(error)
            return False

        harness.wait_until(is_in_use, "the client is in use")
        self.servers[1].process.send_signal(signal.SIGCONT)
        thread.join()
        self.assertEqual(store[there], b"b")

    def test_a_signal_ends_a_call_that_waits_for_a_shard(self):
        store = self.connect(timeout=harness.PATIENCE)
        pairs = dict.fromkeys(self.keys_of_shards(store).values(), b"a")
        there = list(pairs)[1]
        store.put_many(pairs)  # which makes the connections for several shards
        harness.freeze(self.servers[1].process)
        self.addCleanup(self.servers[1].process.send_signal, signal.SIGCONT)
        fresh = self.connect(timeout=harness.PATIENCE, connect_timeout=3)
        calls = {
            "put": lambda: store.put(there, b"b"),
            "put_many": lambda: store.put_many(dict.fromkeys(pairs, b"b")),
            "put_many, of a client that must connect": lambda: fresh.put_many(dict.fromkeys(pairs, b"b")),
            "delete_all": lambda: store.delete_all(),
            "connect": lambda: remora.ClusterClient(self.topology, connect_timeout=2 * harness.PATIENCE),
        }
        if os.environ.get("REMORA_TRANSPORT") == "tcp":
            calls["get_many"] = lambda: store.get_many(pairs)
        for name, call in calls.items():
            with self.subTest(name):
                timer = threading.Timer(0.3, os.kill, (os.getpid(), signal.SIGINT))
                begin = time.monotonic()
                with self.assertRaises(KeyboardInterrupt):
                    timer.start()
                    call()
                self.assertLess(time.monotonic() - begin, harness.PATIENCE / 2)
                timer.join()
        self.servers[1].process.send_signal(signal.SIGCONT)
        store.put_many(dict.fromkeys(pairs, b"c"))
        self.assertEqual(store.get_many(pairs), [b"c"] * SHARDS)
        self.assertEqual(fresh.get_many(pairs), [b"c"] * SHARDS)

    def test_a_forked_child(self):
        child = os.fork()
        if child == 0:
            with contextlib.suppress(RuntimeError):
                self.store.get("key")
                os._exit(1)
            self.store.close()
            os._exit(0)
        self.assertEqual(os.waitpid(child, 0)[1], 0)
        self.assertIsNone(self.store.get("key"))


class ConnectTest(ClusterTestCase):
    def test_options_and_kinds_of_paths(self):
        for topology in (self.topology, str(self.topology), os.fsencode(self.topology)):
            with remora.ClusterClient(topology, timeout=5, location_cache_bytes=1 << 20, metrics=True) as store:
                store["key"] = b"value"
                self.assertEqual(store["key"], b"value")
                self.assertEqual(store.metrics()["put_time_count"], 1)
        with remora.ClusterClient(topology=self.topology, reconnect=False, scan_window_bytes=1 << 20) as store:
            self.assertEqual(list(store), [b"key"])

    def test_a_token(self):
        made = self.make_token("reader", "read-only")
        tokens = self.write("tokens", made)
        for server in self.servers:
            server.stop()
        for shard in range(SHARDS):
            server = harness.Server(
                f"--listen={self.addresses[shard]}", "--durability=memory", "--memory=64M", f"--tokens={tokens}",
                f"--shard={self.cluster_id}/{shard}",
            )  # fmt: skip
            self.addCleanup(server.close)
        with self.assertRaises(remora.PermissionDenied):
            self.connect()
        self.assertIsNone(self.connect(token=made).get("none"))

    def test_what_cannot_be(self):
        none = self.folder / "none"
        with self.assertRaisesRegex(remora.NotFound, str(none)):
            self.connect(none)
        for bad in (5, None, "a\0b"):
            with self.assertRaises((TypeError, ValueError)):
                remora.ClusterClient(bad)
        for bad in ({"timeout": 0}, {"location_cache_bytes": -1}):
            with self.assertRaises((ValueError, OverflowError)):
                self.connect(**bad)
        self.assertRaises(TypeError, remora.ClusterClient)
        self.assertRaises(TypeError, remora.ClusterClient, self.topology, address=self.addresses[0])
        with self.assertRaisesRegex(remora.InvalidArgument, "/bad:1: "):
            self.connect(self.write("bad", "no topology\n"))
        with self.assertRaises(remora.InvalidArgument):
            self.connect(self.folder)
        store = self.connect()
        self.assertRaisesRegex(RuntimeError, "connected already", store.__init__, self.topology)

    def test_the_example(self):
        def run(*arguments):
            return subprocess.run(
                [sys.executable, "-B", pathlib.Path(__file__).parents[2] / "examples/cluster.py", *arguments],
                env={**os.environ, "PYTHONPATH": str(PACKAGE)},
                stdin=subprocess.DEVNULL, capture_output=True, timeout=harness.PATIENCE, check=False, text=True,
            )  # fmt: skip

        self.assertEqual(run().returncode, 1)
        for user, name in (("ada", "Ada"), ("bob", "Bob"), ("ada", "Ada Lovelace")):
            ended = run(self.topology, user, name)
            self.assertEqual((ended.returncode, ended.stderr), (0, ""))
        self.assertEqual(
            ended.stdout.splitlines(),
            ["user:{ada}:changes = ++", "user:{ada}:name = Ada Lovelace", "user:{bob}:changes = +", "user:{bob}:name = Bob"],
        )
        for server in self.servers:
            server.kill()
        self.assertIn("Unavailable", run(self.topology, "ada", "Ada").stderr)

    def test_a_server_of_the_wrong_shard(self):
        text = self.topology.read_text()
        for old, new in zip(self.addresses, reversed(self.addresses)):
            text = text.replace(f" {old}\n", f" <{new}>\n")
        swapped = self.write("swapped", text.replace("<", "").replace(">", ""))
        with self.assertRaisesRegex(remora.FailedPrecondition, "shard 0 .*the server there is shard 1"):
            self.connect(swapped)

    def test_no_server_at_all(self):
        for server in self.servers:
            server.kill()
        with self.assertRaisesRegex(remora.Unavailable, "shard 0"):
            self.connect(connect_timeout=1)


if __name__ == "__main__":
    unittest.main()
