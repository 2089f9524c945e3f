"""kvctl export --to: the records of a server come to a real Redis."""

import os
import unittest

import harness
import redis_copies
import redis_pair
from redis_copies import counts

EX_UNAVAILABLE = 69
EVERY_BYTE = bytes(range(256))


class ExportTest(redis_copies.TestCase):
    def setUp(self):
        super().setUp()
        self.server_process = self.logged_server(memory="192M")

    def fill(self, records):
        """Stores many records, of (key, value)."""
        lines = [b'{"remora_export":1}']
        for key, value in records:
            lines.append(
                b'{"key_base64":"%s","value_base64":"%s"}' % tuple(base64_of(part) for part in (key, value))
            )
        self.kvctl("import", "--without_footer", stdin=b"\n".join(lines) + b"\n")

    def exported(self, redis, *flags, **options):
        return self.kvctl("export", f"--to={redis.address()}", *flags, **options)

    def test_replies_of_another_form_are_rejected(self):
        self.fill([(b"k", b"v")])
        for reply in (b":0\r\n", b"+QUEUED\r\n", b"$5\r\nhello\r\n", b"*0\r\n", b"$-1\r\n"):
            with self.subTest(reply=reply):
                run = self.exported(self.impostor(SET=reply), status=EX_UNAVAILABLE)
                self.assertIn(b"the reply to SET has another form", run.stderr)
        self.assertEqual(counts(self.exported(self.impostor()).stdout)["exported"], "1")

    def test_verifying_against_a_gate_waits_for_nothing(self):
        """The keys of 256 records do not fit into the buffers of a socket, nor do their values into those of a gate."""
        self.fill((b"%03d" % i + b"k" * 4000, b"v" * 16000) for i in range(200))
        path = f"{self.folder}/gate.sock"
        gate = redis_pair.Gate(f"--listen=redis://{path}", f"--server={self.address}")
        self.addCleanup(gate.close)
        self.kvctl("export", f"--to=redis://{path}", "--verify")

    def test_everything_goes_over_and_comes_back(self):
        records = {b"key %d" % i: b"value %d" % i for i in range(3000)}
        records |= {EVERY_BYTE: b"a binary key", b"binary": EVERY_BYTE, b"empty": b"", b"large": os.urandom(3 << 20),
                    b"k" * 4096: b"the longest key", b"\r\n": b"\r\n$-1\r\n"}  # fmt: skip
        self.fill(records.items())
        redis = self.redis()
        run = self.exported(redis, "--verify")
        report = counts(run.stdout)
        self.assertEqual((run.stderr, report["exported"], report["already_there"]), (b"", f"{len(records)}", "0"))
        self.assertEqual((report["source_records"], report["target_records"]), (f"{len(records)}",) * 2)
        self.assertEqual(report["source_hash"], report["target_hash"])
        self.assertEqual(redis.records(), records)
        hash_there = report["source_hash"]
        self.kvctl("delete_all", "--yes")
        report = counts(self.kvctl("import", f"--from={redis.address()}", "--verify").stdout)
        self.assertEqual((report["source_hash"], report["target_hash"]), (hash_there, hash_there))
        self.assertEqual(self.stored(), records)

    def test_expiries_to_the_millisecond(self):
        self.kvctl("import", "--without_footer", stdin=(
            b'{"remora_export":1}\n{"key":"far","value":"x","expires_ms":4102444800123}\n{"key":"never","value":"x"}\n'
        ))  # fmt: skip
        redis = self.redis()
        self.exported(redis)
        self.assertEqual(redis.call("PEXPIRETIME", "far"), b":4102444800123\r\n")
        self.assertEqual(redis.call("PEXPIRETIME", "never"), b":-1\r\n")

    def test_a_prefix_and_a_database(self):
        self.fill([(b"a/1", b"x"), (b"a/2", b"x"), (b"b/1", b"x")])
        redis = self.redis()
        self.kvctl("export", "--prefix=a/", f"--to={redis.address(5)}")
        self.assertEqual(set(redis.records(5)), {b"a/1", b"a/2"})
        self.assertEqual(redis.records(0), {})

    def test_keys_that_are_there(self):
        self.fill([(b"a", b"ours"), (b"b", b"ours"), (b"list", b"ours")])
        redis = self.redis()
        redis.call("SET", "a", "theirs")
        redis.call("LPUSH", "list", "theirs")
        run = self.exported(redis, "--if_absent", "--verify", status=1)
        self.assertEqual(counts(run.stdout)["already_there"], "2")
        self.assertIn(b"different\ta\n", run.stdout)
        self.assertIn(b"missing\tlist\n", run.stdout)
        self.assertEqual(counts(self.exported(redis, "--verify").stdout)["different"], "0")

    def test_a_redis_without_space_and_how_it_goes_on(self):
        value = os.urandom(20_000)
        records = {b"key %04d" % i: value for i in range(1000)}
        self.fill(records.items())
        redis = self.redis("--maxmemory", "10mb", "--maxmemory-policy", "noeviction")
        run = self.exported(redis, status=73)
        self.assertIn(b"OOM", run.stderr)
        token = self.resume_token(run.stderr)
        there = redis.records()
        self.assertTrue(0 < len(there) < len(records))
        redis.call("CONFIG", "SET", "maxmemory", "0")
        # A client of the Redis writes meanwhile: one that is there, and one that is not there yet.
        redis.fill([(b"key 0000", b"newer"), (b"key 0999", b"newer")])
        run = self.exported(redis, f"--resume={token}")
        self.assertLess(int(counts(run.stdout)["already_there"]), len(there))
        self.assertEqual(redis.records(), records | {b"key 0000": b"newer", b"key 0999": b"newer"})
        self.exported(redis, f"--resume={token}", "--overwrite")
        self.assertEqual(redis.records()[b"key 0999"], value)
        self.exported(redis, "--resume=x", status=64)

    def test_rejections(self):
        self.fill([(b"a", b"x")])
        master = self.redis("--repl-diskless-sync-delay", "0")  # by itself it waits 5 s for more replicas
        replica = self.redis("--replicaof", f"127.0.0.1 {master.port}")
        harness.wait_until(lambda: b"master_link_status:up" in replica.call("INFO", "replication"), "it replicates")
        run = self.exported(replica, status=69)
        self.assertIn(b"READONLY", run.stderr)
        with_password = self.redis(password="secret")
        run = self.kvctl("export", f"--to=redis://127.0.0.1:{with_password.port}", status=77)
        self.assertIn(b"NOAUTH", run.stderr)
        user = f"redis://reader:pw@127.0.0.1:{master.port}"
        master.call("ACL", "SETUSER", "reader", "on", ">pw", "~*", "+@read", "+ping", "+select")
        run = self.kvctl("export", f"--to={user}", status=77)
        self.assertIn(b"NOPERM", run.stderr)
        self.assertEqual(counts(run.stdout), {"exported": "0", "already_there": "0"})

    def test_useless_flags(self):
        for flags in (["--verify"], ["--if_absent"], ["--resume=x"], ["--to=redis://h", "--overwrite"], ["--to=x"]):
            self.kvctl("export", *flags, status=64)

    def test_a_redis_that_was_started_anew(self):
        self.fill((b"key %05d" % i, b"v" * 100) for i in range(5000))
        redis = self.redis()
        relay = self.relay(redis, 5_000, holds=True)
        _, _, errors = self.interrupted(relay, "export", f"--to={relay.address}")
        token = self.resume_token(errors)
        redis.close()
        redis.start()
        run = self.exported(redis, f"--resume={token}", status=EX_UNAVAILABLE)
        self.assertRegex(run.stderr, rb"the Redis was started anew since, as its run_id is not [0-9a-f]{40}, and may have lost")
        self.assertIn(b"start over without --resume", run.stderr)
        self.assertEqual(redis.records(), {})

    def test_a_gate_whose_server_was_started_anew(self):
        self.fill((b"key %05d" % i, b"v" * 100) for i in range(5000))
        target = f"local://{self.folder}/other"
        server = self.memory_server(address=target)
        port = harness.free_port()
        gate = redis_pair.Gate(f"--listen=redis://127.0.0.1:{port}", f"--server={target}")
        self.addCleanup(gate.close)
        relay = redis_copies.Relay(port, 5_000, holds=True)
        self.addCleanup(relay.close)

        def restart():
            server.kill()
            self.memory_server(address=target)

        status, output, errors = self.interrupted(relay, "export", f"--to={relay.address}", meanwhile=restart)
        self.assertEqual(status, EX_UNAVAILABLE, errors)
        self.assertEqual(counts(output)["exported"], "0")
        self.assertNotIn(b"--resume=", errors)

    def test_to_a_gate(self):
        """A kvgate is a Redis for this, too: one server's records go to another one."""
        self.fill([(b"key %d" % i, b"v") for i in range(600)])
        target = f"local://{self.folder}/other"
        self.memory_server(address=target)
        path = f"{self.folder}/gate.sock"
        gate = redis_pair.Gate(f"--listen=redis://{path}", f"--server={target}")
        self.addCleanup(gate.close)
        run = self.kvctl("export", f"--to=redis://{path}", "--verify")
        self.assertEqual(counts(run.stdout)["target_records"], "600")
        self.assertEqual(harness.kvctl(target, "count").stdout, b"600\n")


def base64_of(part):
    import base64

    return base64.b64encode(part)


if __name__ == "__main__":
    unittest.main()
